//! The multi-core program (`guest/programs/cores.c`), which implements touchfwd, touchdrop, rxptx and
//! pipeline on several cores.

use crate::plan::config::RunConfig;
use crate::plan::dpdk;

/// Work per packet. The discriminant is the program's `--work` argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    MacSwap = 0,
    TouchFwd = 1,
    TouchDrop = 2,
    Wait = 3,
}

/// Kernel command-line words with which /init runs the program on `cores` cores in run-to-completion mode.
pub(crate) fn run_to_completion(cores: u32, work: Work, config: &RunConfig) -> String {
    format!("{} doorbell.arg=--work={}", dpdk::words_of_cores("cores", cores, config), work as u32)
}

/// Kernel command-line words of the program `app` on one core, or of the multi-core program with its work.
pub(crate) fn words(app: &str, work: Work, cores: u32, config: &RunConfig) -> String {
    match cores {
        1 => dpdk::words(app, config),
        _ => run_to_completion(cores, work, config),
    }
}
