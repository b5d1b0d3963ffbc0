//! Simulates a full disk without root rights: `full_disk.c` is preloaded into the program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the compiled library.
#[derive(Debug)]
pub struct FullDisk(PathBuf);

impl FullDisk {
    /// Compiles the library into a folder.
    #[track_caller]
    pub fn build(folder: &Path) -> FullDisk {
        let library = folder.join("full_disk.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/full_disk.c");
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&library)
            .arg(source);
        let output = command.arg("-ldl").output().expect("cc is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        FullDisk(library)
    }

    /// Limits the space below `folder` to `bytes` for a command and its child processes.
    pub fn limit<'a>(&self, command: &'a mut Command, folder: &Path, bytes: u64) -> &'a mut Command {
        let folder = folder.canonicalize().expect("the folder is there");
        command
            .env("LD_PRELOAD", &self.0)
            .env("FULL_DISK_FOLDER", folder)
            .env("FULL_DISK_BYTES", bytes.to_string())
    }
}
