//! What is asked of the cluster: the table `[cluster]` of an experiment's file, over which the command's options count.

use std::time::Duration;

use serde::Deserialize;

use super::ClusterError;

/// How often a point is submitted that fails, before it is given up, if nothing else is said.
const ATTEMPTS: u32 = 3;
/// nfs(5): what is known of a folder is kept for up to a minute (acdirmax).
const SETTLE_SECONDS: u32 = 60;

/// What a job array is submitted with. What is not said is as the cluster has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where jobs go: sbatch's --partition.
    pub partition: Option<String>,
    /// How long a point may take: sbatch's --time.
    pub time: Option<String>,
    /// How much memory a point may take: sbatch's --mem.
    pub memory: Option<String>,
    /// Who pays: sbatch's --account.
    pub account: Option<String>,
    /// How many points run at once, 1 to 100000; what stands behind the % of sbatch's --array.
    pub concurrency: Option<u32>,
    /// How often a point that fails is submitted, 1 to 100.
    pub attempts: Option<u32>,
    /// How many seconds after a task's end its results may take to be seen here, 0 to 3600: network file systems are late.
    pub settle_seconds: Option<u32>,
    /// Further options of sbatch's, each as `--NAME=VALUE`.
    #[serde(default)]
    pub sbatch: Vec<String>,
}

/// What of sbatch's may be asked for. An experiment's file of somebody else's must not run what it likes, or write where it likes.
const ALLOWED: [&str; 22] = [
    "begin",
    "comment",
    "constraint",
    "cpus-per-task",
    "deadline",
    "exclude",
    "exclusive",
    "gres",
    "hint",
    "licenses",
    "mail-type",
    "mail-user",
    "mem-per-cpu",
    "nice",
    "nodelist",
    "prefer",
    "priority",
    "qos",
    "reservation",
    "threads-per-core",
    "tmp",
    "wckey",
];

impl Settings {
    /// These, and where they say nothing, `others`. Further options of both are passed on, these last.
    pub fn over(&self, others: &Settings) -> Settings {
        let or = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Settings {
            partition: or(&self.partition, &others.partition),
            time: or(&self.time, &others.time),
            memory: or(&self.memory, &others.memory),
            account: or(&self.account, &others.account),
            concurrency: self.concurrency.or(others.concurrency),
            attempts: self.attempts.or(others.attempts),
            settle_seconds: self.settle_seconds.or(others.settle_seconds),
            sbatch: [&others.sbatch[..], &self.sbatch].concat(),
        }
    }

    /// How often a point that fails is submitted.
    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(ATTEMPTS)
    }

    /// How long after a task's end its results may take to be seen.
    pub fn settle(&self) -> Duration {
        Duration::from_secs(self.settle_seconds.unwrap_or(SETTLE_SECONDS).into())
    }

    /// Refuses what cannot be, before anything is asked of the cluster.
    pub fn check(&self) -> Result<(), ClusterError> {
        let wrong = |problem: String| Err(ClusterError::Settings(problem));
        let words = [
            ("partition", &self.partition),
            ("time", &self.time),
            ("memory", &self.memory),
            ("account", &self.account),
        ];
        for (key, value) in words {
            if let Some(value) = value
                && !is_word(value)
            {
                return wrong(format!("cluster.{key} = {value:?} is not one word"));
            }
        }
        if let Some(time) = self.time.as_deref().filter(|time| !is_time(time)) {
            return wrong(format!(
                "cluster.time = {time:?}: write minutes, hours:minutes:seconds or days-hours:minutes, as sbatch's --time \
                 takes it: 90, 1:30:00, 2-0:00"
            ));
        }
        if let Some(memory) = self.memory.as_deref().filter(|memory| !is_memory(memory)) {
            return wrong(format!(
                "cluster.memory = {memory:?}: write a number with K, M, G or T, as sbatch's --mem takes it: 4G"
            ));
        }
        if self.concurrency.is_some_and(|count| !(1..=100_000).contains(&count)) {
            return wrong("cluster.concurrency must be from 1 to 100000".to_owned());
        }
        if !(1..=100).contains(&self.attempts()) {
            return wrong("cluster.attempts must be from 1 to 100".to_owned());
        }
        if self.settle_seconds.is_some_and(|seconds| seconds > 3600) {
            return wrong("cluster.settle_seconds must be from 0 to 3600".to_owned());
        }
        for option in &self.sbatch {
            let name = option.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or(rest));
            if !name.is_some_and(|name| ALLOWED.contains(&name)) || option.contains(char::is_control) {
                return wrong(format!(
                    "cluster.sbatch: {option:?} is none of the options that are passed on, each as \"--NAME=VALUE\": {}",
                    ALLOWED.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The options of sbatch's that say this, without the array.
    pub(super) fn options(&self) -> Vec<String> {
        let named = [
            ("partition", &self.partition),
            ("time", &self.time),
            ("mem", &self.memory),
            ("account", &self.account),
        ];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("--{name}={value}")));
        named.chain(self.sbatch.iter().cloned()).collect()
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds; sbatch(1).
fn is_time(text: &str) -> bool {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Vec<&str> = rest.split(':').chain(days).collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.iter().all(is_number) && rest.split(':').count() <= 3
}

fn is_memory(text: &str) -> bool {
    let digits = text.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn a_table_becomes_options_of_sbatch_and_those_of_the_command_count_more() {
        let table =
            settings("partition = \"long\"\ntime = \"2-0:00\"\nmemory = \"4G\"\nsbatch = [\"--qos=low\"]\n")
                .unwrap();
        let given = settings("partition = \"short\"\naccount = \"net\"\nsbatch = [\"--qos=high\"]").unwrap();
        let expected =
            ["--partition=short", "--time=2-0:00", "--mem=4G", "--account=net", "--qos=low", "--qos=high"];
        assert_eq!(given.over(&table).options(), expected);
        assert_eq!((table.attempts(), table.concurrency), (3, None));
    }

    #[test]
    fn what_sbatch_would_take_for_another_thing_is_refused_with_what_to_write() {
        for (text, part) in [
            ("partition = \"\"", "partition"),
            ("partition = \"--wrap=ls\"", "partition"),
            ("time = \"2h\"", "1:30:00"),
            ("time = \"1:2:3:4\"", "1:30:00"),
            ("memory = \"4GiB\"", "4G"),
            ("concurrency = 0", "1 to 100000"),
            ("attempts = 0", "1 to 100"),
            ("sbatch = [\"--wrap=ls\"]", "qos"),
            ("sbatch = [\"--output=/etc/x\"]", "qos"),
            ("sbatch = [\"qos=x\"]", "--NAME=VALUE"),
            ("nodes = 3", "nodes"),
        ] {
            let problem = settings(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        for time in ["90", "1:30", "1:30:00", "2-0", "2-0:00", "2-0:00:00"] {
            settings(&format!("time = {time:?}")).unwrap();
        }
    }
}
