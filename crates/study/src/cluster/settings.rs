//! Cluster settings: the table `[cluster]` of an experiment's file, overridden by the command's options.

use std::time::Duration;

use serde::Deserialize;

use super::ClusterError;

/// Default maximum number of submissions of a failing point.
const ATTEMPTS: u32 = 3;
/// nfs(5): attributes of a directory are cached for up to a minute (acdirmax).
const SETTLE_SECONDS: u32 = 60;

/// Options of a job array. Unset options use the cluster's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Partition: sbatch's --partition.
    pub partition: Option<String>,
    /// Time limit of a point: sbatch's --time.
    pub time: Option<String>,
    /// Memory limit of a point: sbatch's --mem.
    pub memory: Option<String>,
    /// Account to be charged: sbatch's --account.
    pub account: Option<String>,
    /// Maximum number of points that run at once, 1 to 100000: the number after % in sbatch's --array.
    pub concurrency: Option<u32>,
    /// Maximum number of submissions of a failing point, 1 to 100.
    pub attempts: Option<u32>,
    /// Time in seconds after a task's end within which its results must become visible, 0 to 3600. Network
    /// file systems may delay them.
    pub settle_seconds: Option<u32>,
    /// Additional options of sbatch, each as `--NAME=VALUE`.
    #[serde(default)]
    pub sbatch: Vec<String>,
}

/// The permitted sbatch options. An experiment file from another person must not be able to run arbitrary
/// commands or write to arbitrary paths.
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
    /// These settings, with `others` as defaults. Additional options are concatenated, those of `others`
    /// first.
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

    /// Maximum number of submissions of a failing point.
    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(ATTEMPTS)
    }

    /// Time after a task's end within which its results must become visible.
    pub fn settle(&self) -> Duration {
        Duration::from_secs(self.settle_seconds.unwrap_or(SETTLE_SECONDS).into())
    }

    /// Validates the settings before they are passed to the cluster.
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
                return wrong(format!("cluster.{key} = {value:?} must be a single word"));
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
                    "cluster.sbatch: {option:?} is not permitted. Permitted options, each as \"--NAME=VALUE\": {}",
                    ALLOWED.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The corresponding sbatch options, without the array.
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

/// Formats of sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes,
/// days-hours:minutes:seconds.
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
    fn settings_become_sbatch_options_and_command_options_override_them() {
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
    fn settings_that_sbatch_would_misinterpret_are_rejected_with_a_remedy() {
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
