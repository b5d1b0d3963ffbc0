//! Reference programs for tests: QEMU and memcached, the same on every host ([`HostPrograms`]), and a Slurm
//! cluster on this host.
//!
//! [`fetch`] downloads them; otherwise the commands do so at first use. They panic with advice if that fails,
//! because only tests use them.

#![forbid(unsafe_code)]

mod slurm;

pub use slurm::Slurm;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use doorbell_image::{HostPrograms, ImageError, cache_folder};

/// Packages of QEMU's board, the firmware that it starts, and the key-value store.
const ROOTS: [&str; 4] = ["qemu-system-riscv", "qemu-system-data", "opensbi", "memcached"];

/// QEMU's CPU option for our hart, without Sstc: a minimal hart plus our features, because QEMU's usual
/// `rv64` gains features with every version. Without Svade and Svadu, QEMU sets the A and D bits of page
/// tables, as we do.
pub const HART: &str = "rv64i,m=on,a=on,f=on,d=on,c=on,s=on,u=on,zicbop=on,zicsr=on,zifencei=on,zicntr=on,zihpm=on,mmu=on,pmp=on,sv48=on";

/// The cache folder for images, packages and checkpoints, the same as that of the command `doorbell`.
pub fn cache() -> PathBuf {
    cache_folder(|name| std::env::var_os(name)).expect("there is a home folder, or DOORBELL_CACHE names one")
}

fn fetch_programs(progress: &mut dyn FnMut(&str)) -> Result<HostPrograms, ImageError> {
    HostPrograms::fetch("oracle", &ROOTS, &cache(), progress)
}

/// Fetches and unpacks missing programs; returns their folder. `progress` receives messages.
pub fn fetch(progress: &mut dyn FnMut(&str)) -> Result<PathBuf, ImageError> {
    fetch_programs(progress).map(|programs| programs.root().to_owned())
}

fn programs() -> &'static HostPrograms {
    static PROGRAMS: OnceLock<HostPrograms> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let fetched = fetch_programs(&mut |step| eprintln!("reference programs QEMU and memcached: {step}"));
        fetched.unwrap_or_else(|error| {
            panic!("the reference programs QEMU and memcached cannot be fetched: {error}")
        })
    })
}

/// `qemu-system-riscv64`.
pub fn qemu() -> Command {
    let mut command = programs().command("qemu-system-riscv64");
    command.arg("-L").arg(programs().root().join("usr/share/qemu"));
    command
}

/// `memcached`.
pub fn memcached() -> Command {
    programs().command("memcached")
}

/// Runs a command under another: `under(&["timeout", "60"], qemu())`.
pub fn under(words: &[&str], command: &Command) -> Command {
    let mut whole = Command::new(words[0]);
    whole.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    whole.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_of(mut command: Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn programs_start_with_their_own_libraries() {
        let mut command = qemu();
        command.arg("--version");
        assert!(output_of(command).contains("version 10.0."));
        let mut command = memcached();
        command.arg("--version");
        assert!(output_of(command).starts_with("memcached 1.6.38"));
    }

    #[test]
    fn qemu_has_the_devices_used_in_tests() {
        let mut command = qemu();
        let devices = output_of({
            command.args(["-M", "virt", "-device", "help"]);
            command
        });
        for device in ["e1000", "igb", "virtio-blk-device", "loader"] {
            assert!(devices.contains(&format!("name \"{device}\"")), "{device}");
        }
    }

    #[test]
    fn wrapped_command_keeps_arguments_and_environment() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $WORD $0", "b"]).env("WORD", "a");
        assert_eq!(output_of(under(&["timeout", "60"], &command)), "a b\n");
    }
}
