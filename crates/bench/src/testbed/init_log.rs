//! Failed `init` lines of a recipe, extracted from the console of a boot: a warning, and a file in the result
//! folder. Checkpoints contain the log, so that runs from a checkpoint report it too.

use doorbell_image::INIT_FAILED;
use doorbell_machine::{Machine, Network};

use crate::error::RunError;
use crate::store::folder::ResultFolder;

/// Prefix of the marker lines of `init`. The output of an `init` line is between two markers.
const MARKER: &str = "doorbell: ";
/// Maximum size of the log per guest.
const KEPT_BYTES: usize = 64 << 10;

/// Name of the node, if there are several, and the output of its failed lines; each failure report follows
/// its output.
pub(crate) type InitLog = (Option<String>, String);

/// Stores the log of failed lines in the machine.
pub(crate) fn note(machine: &mut Machine) {
    machine.boot_notes = failed(&machine.console.text());
}

fn failed(console: &str) -> String {
    let (mut kept, mut printed) = (String::new(), Vec::new());
    for line in console.lines() {
        let report = line.find(INIT_FAILED);
        if line.starts_with(MARKER) && report.is_none() {
            printed.clear();
            continue;
        }
        printed.push(line);
        if report.is_some() {
            printed.drain(..).for_each(|line| kept.extend([line, "\n"]));
        }
    }
    let mut end = kept.len().min(KEPT_BYTES);
    while !kept.is_char_boundary(end) {
        end -= 1;
    }
    kept.truncate(end);
    kept
}

pub(crate) fn of_machine(machine: &Machine) -> Vec<InitLog> {
    let notes = &machine.boot_notes;
    (!notes.is_empty()).then(|| (None, notes.clone())).into_iter().collect()
}

pub(crate) fn of_network(network: &Network) -> Vec<InitLog> {
    let named = network.config().nodes.iter().map(|(name, _)| name).zip(network.nodes());
    let failed = named.filter(|(_, node)| !node.boot_notes.is_empty());
    failed.map(|(name, node)| (Some(name.clone()), node.boot_notes.clone())).collect()
}

fn file_name(node: Option<&str>) -> String {
    node.map_or_else(|| "init.log".to_owned(), |node| format!("init-{node}.log"))
}

/// Warns about each failed line.
pub(crate) fn warn(logs: &[InitLog], say: &mut dyn FnMut(&str)) {
    for (node, log) in logs {
        let of = node.as_deref().map_or(String::new(), |node| format!("{node}: "));
        for line in log.lines().filter_map(|line| line.split_once(INIT_FAILED)) {
            say(&format!("warning: {of}init line {}", line.1));
        }
        say(&format!(
            "warning: {of}the output of failed init lines is in {} in the result folder",
            file_name(node.as_deref())
        ));
    }
}

/// Writes the logs to the result folder.
pub(crate) fn write(folder: &ResultFolder, logs: &[InitLog]) -> Result<(), RunError> {
    logs.iter().try_for_each(|(node, log)| folder.write(&file_name(node.as_deref()), log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_failed_line_is_kept_with_its_report() {
        let console = "boot\ndoorbell: ports 1\nall well\nno such device\ndoorbell: init line 2 failed with status 1: x\n\
                       quiet\ndoorbell: start script\n";
        assert_eq!(
            failed(console),
            "all well\nno such device\ndoorbell: init line 2 failed with status 1: x\n"
        );
        assert_eq!(failed("doorbell: ports 1\nall well\ndoorbell: ready\n"), "");
        // The output may lack a final newline.
        assert_eq!(failed("a\nno enddoorbell: init line 1 failed with status 2: y\n").lines().count(), 2);
        let long = "é".repeat(KEPT_BYTES) + "\ndoorbell: init line 1 failed with status 1: z\n";
        assert_eq!(failed(&long).len(), KEPT_BYTES);
    }

    #[test]
    fn warning_names_the_node_the_line_and_the_file() {
        let log = "text\ndoorbell: init line 2 failed with status 1: modprobe x\n".to_owned();
        let mut warnings = Vec::new();
        warn(&[(Some("client".to_owned()), log)], &mut |line| warnings.push(line.to_owned()));
        assert_eq!(
            warnings,
            [
                "warning: client: init line 2 failed with status 1: modprobe x",
                "warning: client: the output of failed init lines is in init-client.log in the result folder"
            ]
        );
    }
}
