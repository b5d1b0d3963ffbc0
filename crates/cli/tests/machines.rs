//! Machine files and the reference of parameters, tested through the command.

use std::path::Path;
use std::process::{Command, Output};

fn doorbell(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.current_dir(folder).args(words.split_whitespace()).output().unwrap()
}

/// Output and exit status of a command.
fn run(folder: &Path, words: &str) -> (String, i32) {
    let output = doorbell(folder, words);
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (String::from_utf8(text).unwrap(), output.status.code().unwrap())
}

#[test]
fn config_show_output_reproduces_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (shown, _) = run(at, "config show --preset altra --set pipeline.rob=96 --seed 5");
    std::fs::write(at.join("whole.toml"), &shown).unwrap();
    assert_eq!(run(at, "config show --machine whole.toml"), (shown.clone(), 0));
    assert_eq!(run(at, "config show --preset ./whole.toml"), (shown.clone(), 0));
    let (other, _) = run(at, "config show --machine whole.toml --set pipeline.rob=97");
    assert!(other != shown && other.contains("rob = 97"), "options override the file");
}

#[test]
fn a_machine_file_overrides_its_base_and_errors_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("my.toml"), "base = \"server\"\n[pipeline]\n# as measured\nrob = 256\n").unwrap();
    std::fs::write(at.join("wrong.toml"), "base = \"server\"\ncore.rob = 256\n").unwrap();
    assert!(run(at, "config show --machine my.toml").0.contains("rob = 256"));
    for (words, part, status) in [
        ("config show --machine not-there.toml", "not-there.toml", 1),
        ("config show --machine .", "is a directory", 1),
        ("config show --machine wrong.toml", "did you mean \"pipeline.rob\"?", 2),
        ("config show --machine my.toml --preset fast", "cannot be used with", 2),
        ("config show --preset my", "there is no preset \"my\"", 2),
        ("config explain core.rob", "did you mean \"pipeline.rob\"?", 2),
        ("run testpmd --machine wrong.toml", "did you mean", 2),
    ] {
        let (text, code) = run(at, words);
        assert!(text.contains(part) && code == status, "{words}: {code} {text}");
    }
    let (text, _) = run(at, "config explain pipeline.rob --machine my.toml");
    for part in [
        "Reorder buffer entries",
        "range    1 to 4096",
        "default  128",
        "256, from my.toml",
        "remark   as measured",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, _) = run(at, "config explain pipeline.rob --set pipeline.rob=64");
    assert!(text.contains("64, from --set pipeline.rob=64"), "{text}");
    let (text, _) = run(at, "config explain memory.l2");
    assert!(text.contains("size") && text.contains("1MiB") && text.contains("Lines per set"), "{text}");
    let (text, _) = run(at, "config explain hart.1.pipeline.kind --harts 2");
    assert!(text.contains("in-order: Issues in order"), "{text}");
}

#[test]
fn a_hart_or_port_inherits_the_setting_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (words, part) in [
        (
            "hart.1.core.frequency --harts 2 --set core.frequency=2GHz",
            "2GHz, from --set core.frequency=2GHz (core.frequency)",
        ),
        (
            "hart.1.core.frequency --harts 2 --set core.frequency=2GHz --set hart.1.core.frequency=1GHz",
            "1GHz, from --set hart.1.core.frequency=1GHz\n",
        ),
        ("port.0.nic.rx_fifo --set nic.rx_fifo=16KiB", "16KiB, from --set nic.rx_fifo=16KiB (nic.rx_fifo)"),
        ("hart.0.memory.llc_ways --set memory.llc.core_ways=3-3", "3, from --set memory.llc.core_ways=3-3"),
        ("hart.1.core --harts 2 --set core.frequency=2GHz", " 2GHz "),
    ] {
        let (text, code) = run(at, &format!("config explain {words}"));
        assert!(text.contains(part) && code == 0, "{words}: {text}");
    }
    for (path, part) in [("hart.5.core.frequency", "one hart"), ("port.5.nic.rx_fifo", "port.5")] {
        let (text, code) = run(at, &format!("config explain {path}"));
        assert!(text.contains(part) && code == 2, "{path}: {text}");
    }
}

#[test]
fn the_schema_is_json_with_ranges_enumerations_and_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let (text, _) = run(folder.path(), "config schema");
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rob = &schema["properties"]["pipeline"]["properties"]["rob"];
    assert_eq!((&rob["minimum"], &rob["maximum"], &rob["default"]), (&1.into(), &4096.into(), &128.into()));
    let l2 = &schema["properties"]["memory"]["properties"]["l2"]["properties"];
    assert_eq!(l2["size"]["default"], "1MiB", "that of the whole, and not of the type");
    assert_eq!(schema["properties"]["base"]["type"], "string");
}
