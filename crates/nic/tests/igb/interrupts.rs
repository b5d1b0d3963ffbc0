//! Interrupt vectors: mapping, moderation, automatic clearing and masking.

use doorbell_sim::Ps;

use crate::igb::driver::*;

/// Queues 1 and 9 interrupt vectors 3 and 4; all other causes interrupt vector 0.
fn with_vectors() -> IgbBench {
    let mut bench = IgbBench::running(10);
    bench.write(GPIE, 1 << 31 | 1 << 30 | 1 << 4 | 1);
    bench.write(IVAR + 4, 0x84 << 16 | 0x8383);
    bench.write(IVAR_MISC, 0x80 << 8);
    bench.write(EIAC, 0x1f);
    bench.write(EIAM, 0x1f);
    bench.write(EIMS, 0x1f);
    bench.write(IMS, LSC);
    bench
}

fn arrive_at(bench: &mut IgbBench, queue: u32) {
    bench.write(MRQC, (queue & 7) << 3);
    bench.arrive(&tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 100));
    bench.run_for(Ps::from_us(10));
}

fn vectors(bench: &mut IgbBench) -> Vec<u16> {
    std::mem::take(&mut bench.world.raised).into_iter().map(|(_, vector)| vector).collect()
}

#[test]
fn each_queue_interrupts_its_vector_and_masks_it() {
    let mut bench = with_vectors();
    arrive_at(&mut bench, 1);
    assert_eq!(vectors(&mut bench), [3]);
    assert_eq!((bench.read(EICR), bench.read(EIMS)), (0, 0x17), "cleared and masked");
    // New causes wait until software enables the vector again.
    arrive_at(&mut bench, 1);
    assert_eq!((vectors(&mut bench), bench.read(EICR)), (vec![], 8));
    bench.write(EIMS, 8);
    assert_eq!((vectors(&mut bench), bench.read(EIMS)), (vec![3], 0x17));
    bench.send(1, &tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 100), 0);
    bench.run_for(Ps::from_us(10));
    bench.write(EIMS, 8);
    assert_eq!(vectors(&mut bench), [3], "transmit causes use the same vector");
    bench.write(ICS, LSC);
    assert_eq!((vectors(&mut bench), bench.read(ICR) & LSC), (vec![0], LSC));
    assert!(!bench.world.irq, "the line stays down");
}

#[test]
fn a_vector_is_delayed_until_its_interval_is_over() {
    let mut bench = with_vectors();
    // 50 microseconds; the bit above the interval belongs to low latency interrupts.
    bench.write(EITR + 12, 1 << 15 | 50 << 2);
    arrive_at(&mut bench, 1);
    let first = bench.world.raised[0].0;
    bench.write(EIMS, 8);
    arrive_at(&mut bench, 1);
    assert_eq!(bench.world.raised.len(), 1);
    bench.run_for(Ps::from_us(100));
    assert_eq!(bench.world.raised[1], (first + Ps::from_us(50), 3));
    // Other vectors are not delayed.
    arrive_at(&mut bench, 1);
    bench.world.raised.clear();
    bench.write(EICS, 1 << 4);
    assert_eq!(vectors(&mut bench), [4]);
}

#[test]
fn without_multiple_vectors_all_causes_share_the_line() {
    let mut bench = IgbBench::running(2);
    bench.write(IMS, 1 << 7);
    arrive_at(&mut bench, 1);
    assert!(bench.world.irq);
    assert_eq!(vectors(&mut bench), [0], "with messages enabled, the line is vector 0");
    assert_eq!(bench.read(ICR) & (1 << 31 | 1 << 7), 1 << 31 | 1 << 7);
    assert!(!bench.world.irq);
}

#[test]
fn without_eiame_accesses_to_eicr_mask_and_writes_to_eics_enable_the_bits_in_eiam() {
    let mut bench = IgbBench::running(2);
    // Only queue 1 receives frames, as cause 5.
    bench.write(IVAR + 4, 0x85);
    bench.write(EIAM, 0x0000_0031);
    bench.write(EIMS, 0x0000_00ff);
    arrive_at(&mut bench, 1);
    assert_eq!(bench.read(EICR), 1 << 5);
    assert_eq!((bench.read(EICR), bench.read(EIMS)), (0, 0xce), "a read masks all bits in EIAM");
    bench.write(EICS, 0x0000_0013);
    assert_eq!(bench.read(EIMS), 0xdf, "EICS enables the set bits that are in EIAM");
    bench.write(EICR, 0x0000_0013);
    assert_eq!(bench.read(EIMS), 0xce, "a write masks the written bits that are in EIAM");
    // With EIAME only messages mask, and there are none in this mode.
    bench.write(GPIE, 1 << 30);
    bench.write(EICS, 0x31);
    assert_eq!((bench.read(EICR), bench.read(EIMS)), (0x31, 0xce));
}

#[test]
fn without_eiame_vectors_are_masked_when_software_clears_their_causes() {
    let mut bench = with_vectors();
    bench.write(GPIE, 1 << 31 | 1 << 4 | 1);
    bench.write(EIAC, 0);
    arrive_at(&mut bench, 1);
    assert_eq!((vectors(&mut bench), bench.read(EIMS)), (vec![3], 0x1f), "a message does not mask");
    bench.write(EICR, 8);
    assert_eq!(bench.read(EIMS), 0x17);
    arrive_at(&mut bench, 1);
    assert!(vectors(&mut bench).is_empty());
    bench.write(EICS, 8);
    assert_eq!((vectors(&mut bench), bench.read(EIMS)), (vec![3], 0x1f), "EICS also enables the vector");
}
