//! A file server between two nodes: Linux' own NFS server over a tmpfs, and programs that write files block by block in a mount of it, over
//! the kernel's stack. What is counted is what the client's TCP sends and the server's acknowledges: the blocks, in WRITEs.

use doorbell_machine::ConfigError;
use doorbell_results::Protocol;
use doorbell_sim::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::roles::{Pair, role};
use crate::measure::transfer::Transfers;
use crate::plan::config::RunConfig;
use crate::plan::options::{self, Options};
use crate::testbed::ramp::RunUp;
use crate::window::transfer_counts::{Load, is_more_than_talk};

/// A WRITE of NFS' has whole pages of the client's.
const PAGE: u64 = 4096;
/// The most that Linux' server takes in one (NFSSVC_MAXBLKSIZE).
const WRITE_MAX: u64 = 1 << 20;

/// What the server and its client are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NfsConfig {
    /// The server's threads (rpc.nfsd's own number), 1 to 16: so many requests are served at once.
    pub threads: u32,
    /// Programs that write, each a file of its own, 1 to 16. They share the mount, and with it one connection.
    pub writers: u32,
    /// Bytes of a block, which a program writes by one system call: 512B to 1MiB.
    pub block: Bytes,
    /// Bytes of a file, 1MiB to 1GiB: when all of it is written, it is written again. All files together may have a quarter of `platform.ram`,
    /// as both nodes hold them in memory.
    pub file: Bytes,
    /// The most that the client puts into a WRITE (wsize): 4KiB to 1MiB, a power of two.
    pub wsize: Bytes,
}

impl Default for NfsConfig {
    /// As rpc.nfsd, bonnie++ (`-s SIZE:8k`) and Linux' client have it, but for the file's size.
    fn default() -> Self {
        NfsConfig {
            threads: 8,
            writers: 1,
            block: Bytes(8 << 10),
            file: Bytes(32 << 20),
            wsize: Bytes(WRITE_MAX),
        }
    }
}

impl Options for NfsConfig {
    const SECTION: &'static str = "nfs";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let NfsConfig { block, file, wsize, .. } = self;
        let fail = |key: &str, problem: String| Err(ConfigError::new(format!("nfs.{key}"), problem));
        for (key, value) in [("threads", self.threads), ("writers", self.writers)] {
            if !(1..=16).contains(&value) {
                return fail(key, format!("{value} is not from 1 to 16"));
            }
        }
        if !(1 << 20..=1 << 30).contains(&file.0) {
            return fail("file", format!("\"{file}\" is not from 1MiB to 1GiB"));
        }
        if !(512..=1 << 20).contains(&block.0) {
            return fail("block", format!("\"{block}\" is not from 512B to 1MiB"));
        }
        if !(PAGE..=WRITE_MAX).contains(&wsize.0) || !wsize.0.is_power_of_two() {
            return fail("wsize", format!("\"{wsize}\" is not a power of two from 4KiB to 1MiB"));
        }
        // The defaults stand in every benchmark's configuration, in those of small machines, too.
        if options::is_default(self) {
            return Ok(());
        }
        match options::more_ram(u64::from(self.writers) * file.0 * 4, config) {
            Some(set) => {
                let (writers, ram) = (self.writers, config.platform.ram);
                fail("file", format!("{writers} file(s) of {file} are more than a quarter of {ram}; {set}"))
            }
            None => Ok(()),
        }
    }
}

impl Transfers for NfsConfig {
    fn load(&self) -> Load {
        let NfsConfig { writers, block, file, wsize, .. } = self;
        Load {
            program: "blockwrite",
            name: format!("write blocks of {block}"),
            connections: 1,
            depth: 1,
            start: RunUp {
                client: 1,
                typed: format!("{writers} {} {} {}", block.0, file.0, wsize.0),
                counted: 1,
                begun: is_more_than_talk,
                whole: Some("blockwrite: all files are there"),
            },
            protocol: Protocol::Tcp,
            in_parts: true,
            transaction: None,
            failure: |_| None,
            counting: None,
            servers: Vec::new(),
        }
    }

    /// nfsd in node 0, which the kernel's threads are, and those who write in node 1.
    fn pair(&self) -> Pair {
        let server = role!("nfs-server", "nfs: serving").after(&format!("threads={}", self.threads));
        Pair { image: "nfs", server, client: role!("nfs-client", "nfs: waiting") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;

    fn nfs(set: &[&str]) -> Result<NfsConfig, String> {
        Ok(on_fast(set)?.options::<NfsConfig>().clone())
    }

    #[test]
    fn what_is_typed_is_in_bytes_and_threads_are_the_server_s() {
        assert_eq!(nfs(&[]).unwrap().load().start.typed, "1 8192 33554432 1048576");
        let own = nfs(&["nfs.writers=2", "nfs.block=64KiB", "nfs.file=16MiB", "nfs.wsize=32KiB"]).unwrap();
        assert_eq!(own.load().start.typed, "2 65536 16777216 32768");
        let Pair { server, client, .. } = nfs(&["nfs.threads=4"]).unwrap().pair();
        assert!(server.lines.starts_with("threads=4\n") && !client.lines.contains("threads="));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_small_machines_of_others_are_not() {
        for (set, says) in [
            ("nfs.threads=17", "nfs.threads: 17 is not from 1 to 16"),
            ("nfs.writers=0", "nfs.writers: 0 is not from 1 to 16"),
            (
                "nfs.writers=4",
                "nfs.file: 4 file(s) of 32MiB are more than a quarter of 256MiB; set platform.ram=512MiB",
            ),
            ("nfs.block=100B", "nfs.block: \"100B\" is not from 512B to 1MiB"),
            ("nfs.file=512KiB", "nfs.file: \"512KiB\" is not from 1MiB to 1GiB"),
            ("nfs.wsize=12KiB", "nfs.wsize: \"12KiB\" is not a power of two"),
            ("nfs.wsize=2MiB", "nfs.wsize: \"2MiB\""),
        ] {
            let error = nfs(&[set]).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(nfs(&["platform.ram=64MiB"]).is_ok());
        assert!(
            !on_fast(&[]).unwrap().to_toml().contains("[nfs]"),
            "configurations from before keep their hash"
        );
    }
}
