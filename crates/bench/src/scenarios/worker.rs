//! The program of several cores (`guest/programs/cores.c`), which is touchfwd, touchdrop, rxptx and pipeline there.

use crate::plan::config::RunConfig;
use crate::plan::dpdk;

/// What is done with each packet; the program knows it by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    MacSwap = 0,
    TouchFwd = 1,
    TouchDrop = 2,
    Wait = 3,
}

/// Words for the image's /init that run the program on `cores` cores, each of which runs packets to completion.
pub(crate) fn run_to_completion(cores: u32, work: Work, config: &RunConfig) -> String {
    format!("{} doorbell.arg=--work={}", dpdk::words_of_cores("cores", cores, config), work as u32)
}
