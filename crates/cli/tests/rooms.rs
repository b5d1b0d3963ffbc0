//! The house's rule: models know `sim` only, neighbours meet through ports, and one room wires them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which rooms each room may know. A room that is not listed here fails the test.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("sim", &[]),
    ("files", &[]),
    ("results", &[]),
    ("wire", &["sim"]),
    ("loadgen", &["sim", "wire", "results"]),
    ("nic", &["sim", "wire"]),
    ("pcie", &["sim"]),
    ("attach", &["sim", "pcie"]),
    ("memory", &["sim"]),
    ("core", &["sim"]),
    ("riscv", &["sim"]),
    ("platform", &["sim"]),
    ("trace", &["sim"]),
    ("image", &["sim", "files", "results"]),
    ("symbols", &["sim"]),
    ("qemu-trace", &["sim", "files", "image", "riscv", "trace"]),
    ("drmemtrace", &["sim", "qemu-trace", "trace"]),
    (
        "machine",
        &[
            "sim", "files", "wire", "loadgen", "nic", "pcie", "attach", "memory", "core", "riscv",
            "platform", "trace",
        ],
    ),
    (
        "bench",
        &[
            "sim",
            "files",
            "wire",
            "loadgen",
            "nic",
            "machine",
            "image",
            "symbols",
            "results",
            "trace",
            "drmemtrace",
        ],
    ),
    ("study", &["sim", "files", "loadgen", "machine", "bench", "results"]),
    ("report", &["results"]),
    ("gdb", &["sim", "riscv", "machine"]),
    (
        "cli",
        &[
            "sim",
            "files",
            "loadgen",
            "nic",
            "machine",
            "image",
            "bench",
            "study",
            "report",
            "gdb",
            "trace",
            "qemu-trace",
            "drmemtrace",
        ],
    ),
    // Tools that only tests use.
    ("example", &["sim", "pcie", "machine"]),
    ("archive", &["files", "image"]),
    ("faults", &["sim", "files", "platform", "image", "bench", "archive"]),
    ("oracle", &["image"]),
    ("qtest", &["sim", "oracle"]),
    ("lockstep", &["sim", "riscv", "platform", "image", "oracle"]),
    (
        "acceptance",
        &[
            "sim", "wire", "loadgen", "nic", "memory", "core", "platform", "trace", "machine", "image",
            "bench", "report", "oracle",
        ],
    ),
    (
        "harness",
        &["sim", "wire", "loadgen", "nic", "pcie", "riscv", "platform", "trace", "machine", "drmemtrace"],
    ),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The rooms that a manifest's `[dependencies]` name; what only tests use is free.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let dependencies = table.get("dependencies").and_then(|value| value.as_table());
    let names = dependencies.into_iter().flat_map(|table| table.keys());
    names.filter_map(|name| name.strip_prefix("doorbell-")).map(str::to_owned).collect()
}

#[test]
fn no_room_knows_one_that_it_may_not() {
    let rules: BTreeMap<&str, &[&str]> = MAY_KNOW.iter().copied().collect();
    let mut seen = 0;
    for entry in std::fs::read_dir(crates()).unwrap() {
        let folder = entry.unwrap().path();
        let room = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let allowed =
            rules.get(room.as_str()).unwrap_or_else(|| panic!("no rule says what crates/{room} may know"));
        for dependency in dependencies(&folder.join("Cargo.toml")) {
            assert!(allowed.contains(&dependency.as_str()), "crates/{room} must not know {dependency}");
        }
        seen += 1;
    }
    assert!(seen >= 12, "only {seen} rooms were found");
}
