//! Queue and target core of DMA requests (direct cache access).

use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use std::collections::BTreeSet;

use doorbell_sim::Ps;

use crate::igb::driver::*;

const DCA_ID: u64 = 0x5b70;
const DCA_CTRL: u64 = 0x5b74;
const DCA_RXCTRL: u64 = 0xc014;
const DCA_TXCTRL: u64 = 0xe014;
/// DCA enable bits of descriptors, headers and payload.
const ALL_WRITES: u32 = 0xe0;

type Targets = BTreeSet<(u8, Option<u8>)>;

/// Queues and target cores of all requests of a kind.
fn targets(bench: &IgbBench, kind: Kind) -> Targets {
    let all = bench.world.dma.iter().zip(&bench.world.tags);
    all.filter(|((_, of, _), _)| *of == kind).map(|(_, tag)| (tag.queue, tag.core)).collect()
}

/// Receives a frame in queue 3 with header split, and sends one from queue 3.
fn both_ways(control: u32, rxctrl: u32, txctrl: u32) -> IgbBench {
    let mut bench = IgbBench::running(4);
    bench.write(MRQC, 3 << 3);
    bench.write(SRRCTL + 0x40 * 3, 2 << 25 | 2 << 8 | 2);
    bench.write(PSRTYPE, 1 << 4);
    bench.write(DCA_CTRL, control);
    bench.write(DCA_RXCTRL + 0x40 * 3, rxctrl);
    bench.write(DCA_TXCTRL + 0x40 * 3, txctrl);
    bench.world.dma.clear();
    bench.world.offsets.clear();
    bench.world.tags.clear();
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 600);
    bench.arrive(&bytes);
    bench.send(3, &bytes, 0);
    bench.run_for(Ps::from_us(20));
    assert_eq!((bench.nic.stats().rx_delivered, bench.world.sent.len()), (1, 1));
    bench.check();
    bench
}

#[test]
fn requests_have_their_queue_and_no_target_core_while_dca_is_disabled() {
    let bench = both_ways(1, 5 << 24 | ALL_WRITES, 6 << 24 | ALL_WRITES);
    for kind in [RX_FETCH, RX_WRITE_BACK, RX_DATA, TX_FETCH, TX_WRITE_BACK, TX_DATA] {
        let targets = targets(&bench, kind);
        assert!(targets.iter().all(|(_, core)| core.is_none()), "{kind:?}: {targets:?}");
    }
    let queue: Targets = [(3, None)].into();
    let kinds = [RX_DATA, RX_WRITE_BACK, TX_DATA];
    assert_eq!(kinds.map(|kind| targets(&bench, kind)), [queue.clone(), queue.clone(), queue]);
}

#[test]
fn enable_bits_select_which_writes_target_the_queues_core() {
    let bench = both_ways(0, 5 << 24 | ALL_WRITES, 6 << 24 | 1 << 5);
    assert_eq!(targets(&bench, RX_DATA), [(3, Some(5))].into());
    assert_eq!(targets(&bench, RX_WRITE_BACK), [(3, Some(5))].into());
    assert_eq!(targets(&bench, TX_WRITE_BACK), [(3, Some(6))].into());
    assert_eq!(targets(&bench, TX_DATA), [(3, None)].into(), "reads have no target core");
    let header_only = both_ways(2, 12 << 24 | 1 << 6, 0);
    assert_eq!(targets(&header_only, RX_DATA), [(3, Some(12)), (3, None)].into());
    assert_eq!(header_only.world.pieces(RX_DATA), [(0, 54), (54, 546)]);
    assert_eq!(targets(&header_only, RX_WRITE_BACK), [(3, None)].into());
}

#[test]
fn dca_id_is_the_pci_requester_id() {
    let mut bench = IgbBench::new();
    assert_eq!(bench.read(DCA_ID), 0);
    bench.nic.set_requester(0x0310);
    bench.write(DCA_ID, 0);
    assert_eq!(bench.read(DCA_ID), 0x0310);
}
