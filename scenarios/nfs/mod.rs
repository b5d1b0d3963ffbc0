//! File server benchmark with two nodes: Linux's NFS server on a tmpfs, and programs that write files block
//! by block to its mount, over the kernel's stack. The measured data are the client's TCP bytes that the
//! server acknowledges: blocks in WRITEs.

use doorbell_machine::ConfigError;
use doorbell_sim::{Bytes, config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::measure::kinds::{BETWEEN_NODES, KERNEL, TRANSFER};
use crate::measure::roles::{Pair, role};
use crate::measure::transfer::Transfers;
use crate::plan::config::RunConfig;
use crate::plan::options::{self, Options, Section};
use crate::testbed::ramp::Ramp;
use crate::window::transfer_counts::Load;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "nfs",
    summary: "Linux's NFS server receives files that programs in a second node write block by block",
    nodes: Nodes::transfer::<NfsConfig>(),
    image: "nfs",
    options: &[KERNEL, Section::of::<NfsConfig>(), TRANSFER],
    ..BETWEEN_NODES
};

/// The client's page size; an NFS WRITE contains whole pages.
const PAGE: u64 = 4096;
/// Maximum size of a WRITE to Linux's server (NFSSVC_MAXBLKSIZE).
const WRITE_MAX: u64 = 1 << 20;

config! {
    /// Options of the NFS server and its client.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct NfsConfig {
        /// Server threads (rpc.nfsd's argument), 1 to 16: the number of requests served concurrently.
        pub threads: u32 = 8,
        /// Writing programs, 1 to 16, each with its own file. They share the mount, and therefore one
        /// connection.
        pub writers: u32 = 1,
        /// Block size, 512B to 1MiB; one system call writes one block.
        pub block: Bytes = Bytes(8 << 10),
        /// File size, 1MiB to 1GiB; each file is written repeatedly. All files together take at most a
        /// quarter of `platform.ram`, because both nodes keep them in memory.
        pub file: Bytes = Bytes(32 << 20),
        /// Maximum size of the client's WRITEs (wsize): 4KiB to 1MiB, a power of two.
        pub wsize: Bytes = Bytes(WRITE_MAX),
    }
}

impl Options for NfsConfig {
    const SECTION: &'static str = "nfs";
    const QUIET: bool = true;

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let NfsConfig { threads, writers, block, file, wsize } = *self;
        options::check_range("nfs.threads", threads, 1..=16)?;
        options::check_range("nfs.writers", writers, 1..=16)?;
        options::check_range("nfs.file", file, Bytes(1 << 20)..=Bytes(1 << 30))?;
        options::check_range("nfs.block", block, Bytes(512)..=Bytes(1 << 20))?;
        let shown = |bytes| Bytes(bytes).to_string();
        options::check_power_of_two("nfs.wsize", wsize.0, PAGE..=WRITE_MAX, shown)?;
        // Every benchmark's configuration includes the defaults, on small machines as well.
        if options::is_default(self) {
            return Ok(());
        }
        let problem = format!("{writers} file(s) of {file} exceed a quarter of {}", config.platform.ram);
        options::check_ram("nfs.file", u64::from(writers) * file.0 * 4, problem, config)
    }
}

impl Transfers for NfsConfig {
    fn load(&self) -> Load {
        let NfsConfig { writers, block, file, wsize, .. } = self;
        let command = format!("{writers} {} {} {}", block.0, file.0, wsize.0);
        let all_started = Some("blockwrite: all files are there");
        let start = Ramp { sender: 1, all_started, ..Ramp::of_server(command) };
        Load::tcp("blockwrite", format!("write blocks of {block}"), start)
    }

    /// nfsd (kernel threads) in node 0, the writing programs in node 1.
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
    fn the_typed_line_has_sizes_in_bytes_and_only_the_server_gets_threads() {
        assert_eq!(nfs(&[]).unwrap().load().start.command, "1 8192 33554432 1048576");
        let own = nfs(&["nfs.writers=2", "nfs.block=64KiB", "nfs.file=16MiB", "nfs.wsize=32KiB"]).unwrap();
        assert_eq!(own.load().start.command, "2 65536 16777216 32768");
        let Pair { server, client, .. } = nfs(&["nfs.threads=4"]).unwrap().pair();
        assert!(server.lines.starts_with("threads=4\n") && !client.lines.contains("threads="));
    }

    #[test]
    fn out_of_range_options_are_rejected_and_small_machines_accept_the_defaults() {
        for (set, message) in [
            ("nfs.threads=17", "nfs.threads: 17 is not from 1 to 16"),
            ("nfs.writers=0", "nfs.writers: 0 is not from 1 to 16"),
            (
                "nfs.writers=4",
                "nfs.file: 4 file(s) of 32MiB exceed a quarter of 256MiB; set platform.ram=512MiB",
            ),
            ("nfs.block=100B", "nfs.block: 100B is not from 512B to 1MiB"),
            ("nfs.file=512KiB", "nfs.file: 512KiB is not from 1MiB to 1GiB"),
            ("nfs.wsize=12KiB", "nfs.wsize: 12KiB is not a power of two"),
            ("nfs.wsize=2MiB", "nfs.wsize: 2MiB"),
        ] {
            let error = nfs(&[set]).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert!(nfs(&["platform.ram=64MiB"]).is_ok());
        assert!(
            !on_fast(&[]).unwrap().to_toml().contains("[nfs]"),
            "the default section does not change the hash"
        );
    }
}
