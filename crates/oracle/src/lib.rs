//! What tests compare Doorbell with: QEMU and memcached, the same on every host ([`HostPrograms`]); and Slurm, as a cluster on this host.
//!
//! [`fetch`] gets them; the commands get them themselves if nobody has, and panic with what to do if that fails, as only
//! tests use them.

#![forbid(unsafe_code)]

mod slurm;

pub use slurm::Slurm;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use doorbell_image::{HostPrograms, ImageError, cache_folder};

/// QEMU's board, the firmware that it starts by itself, and the key-value store.
const ROOTS: [&str; 4] = ["qemu-system-riscv", "qemu-system-data", "opensbi", "memcached"];

/// Our hart in QEMU's words, without Sstc: a hart that has nothing, and what ours has. QEMU's usual `rv64` has more with every
/// version. Without both Svade and Svadu, QEMU sets the A and D bits of page tables, as we do.
pub const HART: &str = "rv64i,m=on,a=on,f=on,d=on,c=on,s=on,u=on,zicbop=on,zicsr=on,zifencei=on,zicntr=on,zihpm=on,mmu=on,pmp=on,sv48=on";

/// The folder for images, packages and checkpoints, found as the command `doorbell` finds it.
pub fn cache() -> PathBuf {
    cache_folder(|name| std::env::var_os(name)).expect("there is a home folder, or DOORBELL_CACHE names one")
}

fn fetch_programs(progress: &mut dyn FnMut(&str)) -> Result<HostPrograms, ImageError> {
    HostPrograms::fetch("oracle", &ROOTS, &cache(), progress)
}

/// Fetches and unpacks what is not there yet, and gives the folder of it all. `progress` is told what is being done.
pub fn fetch(progress: &mut dyn FnMut(&str)) -> Result<PathBuf, ImageError> {
    fetch_programs(progress).map(|programs| programs.root().to_owned())
}

fn programs() -> &'static HostPrograms {
    static PROGRAMS: OnceLock<HostPrograms> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let fetched = fetch_programs(&mut |step| eprintln!("QEMU and memcached to compare with: {step}"));
        fetched.unwrap_or_else(|error| {
            panic!("QEMU and memcached to compare with are not there, and cannot be fetched: {error}")
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

/// The command as another one's last words: `under(&["timeout", "60"], qemu())`.
pub fn under(words: &[&str], command: &Command) -> Command {
    let mut whole = Command::new(words[0]);
    whole.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    whole.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(mut command: Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn both_programs_start_with_their_own_libraries() {
        let mut asked = qemu();
        asked.arg("--version");
        assert!(says(asked).contains("version 10.0."));
        let mut asked = memcached();
        asked.arg("--version");
        assert!(says(asked).starts_with("memcached 1.6.38"));
    }

    #[test]
    fn qemu_has_the_devices_that_tests_ask_for() {
        let mut asked = qemu();
        let devices = says({
            asked.args(["-M", "virt", "-device", "help"]);
            asked
        });
        for device in ["e1000", "igb", "virtio-blk-device", "loader"] {
            assert!(devices.contains(&format!("name \"{device}\"")), "{device}");
        }
    }

    #[test]
    fn a_command_under_another_keeps_its_words_and_its_variables() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $WORD $0", "b"]).env("WORD", "a");
        assert_eq!(says(under(&["timeout", "60"], &command)), "a b\n");
    }
}
