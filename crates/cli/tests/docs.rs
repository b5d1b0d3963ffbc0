//! Pages that are generated are as the program would generate them now.

use std::path::Path;
use std::process::Command;

#[test]
fn the_register_page_is_the_register_table() {
    let output = Command::new(env!("CARGO_BIN_EXE_doorbell")).args(["config", "registers"]).output().unwrap();
    assert!(output.status.success());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nic-registers.md");
    let written = std::fs::read(&page).unwrap();
    assert!(output.stdout == written, "make it again: doorbell config registers > docs/nic-registers.md");
}
