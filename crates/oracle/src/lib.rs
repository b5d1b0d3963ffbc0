//! What tests compare Doorbell with: QEMU and memcached from one Debian suite, the same on every host. Their packages are
//! fetched, verified and cached as guests' packages are, installed nowhere, and run with their own loader and libraries.
//!
//! [`fetch`] gets them; the commands get them themselves if nobody has, and panic with what to do if that fails, as only
//! tests use them.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use doorbell_image::{BuildOptions, ImageError, Unpacked, fetch_unpacked, user_cache};

/// The guests' packages are of this suite, too.
const SUITE: &str = "trixie";

/// QEMU's board, the firmware that it starts by itself, and the key-value store.
const ROOTS: [&str; 4] = ["qemu-system-riscv", "qemu-system-data", "opensbi", "memcached"];

/// What their libraries and scripts depend on, but programs without a window, sound or a shell do not.
const LEFT_OUT: [&str; 9] = [
    "adduser",
    "debconf*",
    "libsasl2-modules*",
    "lsb-base",
    "media-types",
    "openssl-provider-legacy",
    "perl*",
    "qemu-system-common",
    "sysvinit-utils",
];

/// Our hart in QEMU's words, without Sstc: a hart that has nothing, and what ours has. QEMU's usual `rv64` has more with every
/// version. Without both Svade and Svadu, QEMU sets the A and D bits of page tables, as we do.
pub const HART: &str = "rv64i,m=on,a=on,f=on,d=on,c=on,s=on,u=on,zicbop=on,zicsr=on,zifencei=on,zicntr=on,zihpm=on,mmu=on,pmp=on,sv48=on";

/// A kind of host for which there are packages: Rust's name of it, Debian's, that of its libraries' folder, its loader.
const HOSTS: [[&str; 4]; 2] = [
    ["x86_64", "amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"],
    ["aarch64", "arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"],
];

fn host() -> [&'static str; 4] {
    let here = std::env::consts::ARCH;
    let known = HOSTS.into_iter().find(|host| host[0] == here);
    known.unwrap_or_else(|| {
        panic!("nobody has tried QEMU's packages on {here}: add it to HOSTS in crates/oracle")
    })
}

/// The folder for images, packages and checkpoints, found as the command `doorbell` finds it.
pub fn cache() -> PathBuf {
    let named = std::env::var_os("DOORBELL_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named.or_else(|| user_cache(|name| std::env::var_os(name)));
    cache.expect("there is a home folder, or DOORBELL_CACHE names one")
}

/// Fetches and unpacks what is not there yet, and gives the folder of it all. `progress` is told what is being done.
pub fn fetch(progress: &mut dyn FnMut(&str)) -> Result<PathBuf, ImageError> {
    let [_, architecture, ..] = host();
    let wanted = Unpacked { name: "oracle", suite: SUITE, architecture, roots: &ROOTS, leave_out: &LEFT_OUT };
    let cache = cache();
    let options = BuildOptions {
        cache_dir: cache.join("packages"),
        out_dir: cache.join("oracle"),
        ..BuildOptions::default()
    };
    fetch_unpacked(&wanted, &options, progress)
}

fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let fetched = fetch(&mut |step| eprintln!("QEMU and memcached to compare with: {step}"));
        fetched.unwrap_or_else(|error| {
            panic!("QEMU and memcached to compare with are not there, and cannot be fetched: {error}")
        })
    })
}

fn program(name: &str) -> Command {
    let (root, [_, _, libraries, loader]) = (root(), host());
    let libraries = root.join("usr/lib").join(libraries);
    let mut command = Command::new(libraries.join(loader));
    command.arg("--library-path").arg(&libraries).arg(root.join("usr/bin").join(name));
    // Or it loads modules of the host's QEMU, if there is one.
    command.env("QEMU_MODULE_DIR", &libraries);
    command
}

/// `qemu-system-riscv64`.
pub fn qemu() -> Command {
    let mut command = program("qemu-system-riscv64");
    command.arg("-L").arg(root().join("usr/share/qemu"));
    command
}

/// `memcached`.
pub fn memcached() -> Command {
    program("memcached")
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
