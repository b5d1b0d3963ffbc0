//! DPDK's testpmd, unmodified: every frame goes back out of the port it came in by, or out of the other of a pair.

use doorbell_loadgen::Returned;

use crate::config::{ForwardMode, RunConfig, Topology};

/// testpmd prints this when it forwards and waits for a key.
pub(crate) const READY_MARKER: &str = "Press enter to exit";

/// What the image's /init is told.
pub(crate) fn guest_words(config: &RunConfig) -> String {
    let t = &config.testpmd;
    let mode = match t.mode {
        ForwardMode::Io => "io",
        ForwardMode::MacSwap => "macswap",
    };
    let topology = match t.topology {
        Topology::Loop => "",
        Topology::Paired => " doorbell.topology=paired",
    };
    format!(
        "doorbell.app=testpmd doorbell.mode={mode} doorbell.rxd={} doorbell.txd={} doorbell.burst={} \
         doorbell.mbufs={} doorbell.mbcache={} doorbell.txrst={}{topology}",
        t.rxd,
        t.txd,
        t.burst,
        t.mbufs * config.platform.nics,
        t.mbcache,
        t.txrst
    )
}

/// What the load generator expects back.
pub(crate) fn returned(config: &RunConfig) -> Returned {
    match config.testpmd.mode {
        ForwardMode::Io => Returned::AsSent,
        ForwardMode::MacSwap => Returned::MacSwap,
    }
}
