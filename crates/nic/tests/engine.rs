//! The DMA engine's parameters: when it is legal for it to ask, and how long traffic takes by closed forms.

mod common;

use common::*;
use doorbell_nic::NicConfig;
use doorbell_sim::Ps;
use doorbell_sim::ports::DmaKind;

#[test]
fn every_piece_of_a_frame_says_where_in_the_frame_it_begins() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    // Buffers of 256 bytes.
    bench.write(RCTL, 0x0403_8022);
    bench.arrive(frame(604, 1));
    bench.arrive(frame(304, 2));
    bench.run_for(Ps::from_us(5));
    let expected = [(0, 256), (256, 256), (512, 88), (0, 256), (256, 44)];
    assert_eq!(bench.world.pieces(DmaKind::RxData), expected);
    assert!(bench.world.pieces(DmaKind::RxDescriptorWriteback).iter().all(|(offset, _)| *offset == 0));
    // Two packets of two and of one legacy descriptor: without EOP, with it, with it.
    for (len, command) in [(100, 0x02), (200, 0x0b), (80, 0x0b)] {
        bench.put_tx(TX_BUFFERS, len | command << 24);
    }
    bench.ring_tx();
    bench.run_for(Ps::from_us(5));
    assert_eq!(bench.world.pieces(DmaKind::TxData), [(0, 100), (100, 200), (0, 80)]);
    assert!(bench.world.pieces(DmaKind::TxDescriptorFetch).iter().all(|(offset, _)| *offset == 0));
    bench.check();
}
