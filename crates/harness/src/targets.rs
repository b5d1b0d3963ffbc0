//! The fuzz targets by name. Each builds a case from arbitrary bytes and checks it.

use crate::operations::Profile;
use crate::{capture, champsim, checkpoint, config, guest, streams};

/// Runs a target on a fuzzer's bytes.
pub type Target = fn(&[u8]);

/// All targets, as listed in `fuzz/README.md`.
pub const TARGETS: [(&str, Target); 9] = [
    ("mmio", |bytes| guest::run(Profile::Mmio, bytes)),
    ("config_space", |bytes| guest::run(Profile::ConfigSpace, bytes)),
    ("disk", |bytes| guest::run(Profile::Disk, bytes)),
    ("guest_program", |bytes| guest::run(Profile::Program, bytes)),
    ("checkpoint", checkpoint::run),
    ("config", config::run),
    ("capture", capture::run),
    ("champsim", champsim::run),
    ("streams", streams::run),
];
