//! Manual pages and completions.

use std::process::Command;

fn doorbell(words: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_doorbell")).args(words).output().unwrap()
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let output = doorbell(&["man", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let page = |name: &str| {
        std::fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for name in ["doorbell.1", "doorbell-run.1", "doorbell-trace-record.1", "doorbell-config-explain.1"] {
        assert!(page(name).contains(".TH doorbell"), "{}", page(name));
    }
    assert!(page("doorbell-run.1").contains("rate") && page("doorbell.1").contains("compare"));
    assert!(!pages.join("doorbell-log.1").exists(), "it is hidden");
    let refused = doorbell(&["man", "/proc/nobody/writes/here"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn completions_are_valid_and_unknown_shells_are_rejected() {
    let script = doorbell(&["completions", "bash"]).stdout;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("doorbell.bash");
    std::fs::write(&file, script).unwrap();
    let asks = "source \"$0\"; COMP_WORDS=(doorbell comp); COMP_CWORD=1; _doorbell doorbell comp doorbell; echo ${COMPREPLY[@]}";
    let answer = Command::new("bash").args(["-c", asks]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "compare completions\n", "{answer:?}");
    assert_eq!(doorbell(&["completions", "csh"]).status.code(), Some(2));
}
