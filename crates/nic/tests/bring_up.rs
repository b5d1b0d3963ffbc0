//! Bring-up as in DPDK's em and Linux's e1000 drivers, and the steps of `ethtool -t eth0 offline`.

use crate::common::*;
use doorbell_nic::NicConfig;
use doorbell_pcie::NetworkFunction as _;
use doorbell_pcie::network::WaitedDrops;
use doorbell_sim::{AccessSize, Bytes, Frame, Ps};

fn mdio_read(bench: &mut Bench, register: u32) -> u16 {
    bench.write(MDIC, register << 16 | 1 << 21 | 0x0800_0000);
    for _ in 0..20 {
        bench.run_for(Ps::from_us(50));
        let value = bench.read(MDIC);
        if value & 0x1000_0000 != 0 {
            assert_eq!(value & 0x4000_0000, 0);
            return value as u16;
        }
    }
    panic!("the PHY access does not complete");
}

fn mdio_write(bench: &mut Bench, register: u32, value: u16) {
    bench.write(MDIC, u32::from(value) | register << 16 | 1 << 21 | 0x0400_0000);
    bench.run_for(Ps::from_us(50));
    assert_ne!(bench.read(MDIC) & 0x1000_0000, 0);
}

/// Reads an EEPROM word through the pins of EECD, clocked as drivers do.
fn eeprom_read(bench: &mut Bench, address: u32) -> u16 {
    bench.write(EECD, 0x40);
    while bench.read(EECD) & 0x80 == 0 {}
    let mut eecd = bench.read(EECD) & !0x7;
    bench.write(EECD, eecd);
    eecd |= 2;
    bench.write(EECD, eecd);
    for i in (0..9).rev() {
        let bit = (0b110 << 6 | address) >> i & 1;
        eecd = eecd & !4 | bit << 2;
        bench.write(EECD, eecd);
        bench.write(EECD, eecd | 1);
        bench.write(EECD, eecd);
    }
    eecd &= !4;
    let mut word = 0;
    for _ in 0..16 {
        bench.write(EECD, eecd | 1);
        word = word << 1 | (bench.read(EECD) >> 3 & 1) as u16;
        bench.write(EECD, eecd);
    }
    bench.write(EECD, 0);
    word
}

#[test]
fn status_reports_the_negotiated_or_forced_speed_and_duplex() {
    const SPEEDS_AND_DUPLEX: u32 = 0x3c1;
    let mut bench = Bench::new(NicConfig::default());
    bench.write(CTRL, 0x41);
    bench.run_for(Ps::from_ms(100));
    assert_eq!(bench.read(STATUS) & SPEEDS_AND_DUPLEX, 0x281, "1000 Mb/s, full duplex");
    mdio_write(&mut bench, 0, 0x2100);
    bench.run_for(Ps::from_ms(100));
    assert_eq!(
        bench.read(STATUS) & (SPEEDS_AND_DUPLEX | 2),
        0x143,
        "the PHY is forced to 100, and the link is up"
    );
    mdio_write(&mut bench, 0, 0x2000);
    assert_eq!(bench.read(STATUS) & SPEEDS_AND_DUPLEX, 0x140, "half duplex");
    bench.write(CTRL, 0x1a41);
    assert_eq!(
        bench.read(STATUS) & SPEEDS_AND_DUPLEX,
        0x181,
        "the MAC is forced to 1000, full; 100 is detected"
    );
}

#[test]
fn eeprom_pins_and_eerd_read_the_same_words_with_a_correct_checksum() {
    let mut bench = Bench::new(NicConfig::default());
    assert_ne!(bench.read(EECD) & 0x100, 0, "the EEPROM is present");
    assert_eq!(bench.read(EECD) & 0x200, 0, "it is the small EEPROM");
    let mut sum = 0u16;
    for address in 0..64 {
        let word = eeprom_read(&mut bench, address);
        bench.write(EERD, address << 8 | 1);
        assert_eq!(bench.read(EERD) & 0x10, 0, "must not be done immediately");
        bench.run_for(Ps::from_us(30));
        let eerd = bench.read(EERD);
        assert_eq!((eerd >> 16, eerd & 0x10), (word.into(), 0x10), "word {address}");
        sum = sum.wrapping_add(word);
    }
    assert_eq!(sum, 0xbaba);
}

#[test]
fn reset_by_memory_or_io_loads_the_address_and_clears_itself() {
    let mut bench = Bench::new(NicConfig::default());
    for io in [false, true] {
        bench.write(RAL, 0xdead_beef);
        bench.write(RCTL, 0x8002);
        bench.write(IMS, 0xff);
        let ctrl = bench.read(CTRL) | 1 << 26;
        if io {
            let now = bench.world.now();
            bench.nic.io_write(now, 0, AccessSize::B4, CTRL, &mut bench.world);
            bench.nic.io_write(now, 4, AccessSize::B4, ctrl.into(), &mut bench.world);
            assert_eq!(bench.nic.io_read(now, 0, AccessSize::B4, &mut bench.world), CTRL);
        } else {
            bench.write(CTRL, ctrl);
        }
        bench.run_for(Ps::from_ms(1));
        assert_eq!(bench.read(CTRL) & 1 << 26, 0);
        assert_eq!((bench.read(RAL), bench.read(RAH)), (0x1200_5452, 0x8000_5634));
        assert_eq!((bench.read(RCTL), bench.read(IMS), bench.read(PBA)), (0, 0, 0x0010_0030));
    }
    assert_eq!(bench.nic.stats().resets, 2);
}

#[test]
fn the_phy_has_its_identity_and_link_up_raises_an_interrupt() {
    let mut bench = Bench::new(NicConfig::default());
    assert_eq!((mdio_read(&mut bench, 2), mdio_read(&mut bench, 3) & 0xfff0), (0x0141, 0x0c20));
    assert_eq!(bench.read(STATUS) & 2, 0, "CTRL.SLU is not set");
    bench.write(IMS, 4);
    bench.write(CTRL, bench.nic.peek("CTRL").unwrap() | 0x40);
    assert!(bench.world.irq, "link-up must raise an interrupt");
    assert_eq!(bench.read(ICR), 4);
    assert!(!bench.world.irq);
    assert_eq!(bench.read(STATUS) & 0xc3, 0x83, "full duplex, up, 1000 Mb/s");
    mdio_write(&mut bench, 0, 0x9140);
    assert_eq!(bench.read(STATUS) & 2, 2, "the link is up again 50 us later");
    assert_eq!(bench.read(ICR), 4);
    assert_eq!(mdio_read(&mut bench, 1) & 0x24, 0x20, "the link bit is latched");
    assert_eq!(mdio_read(&mut bench, 1) & 0x24, 0x24);
    mdio_write(&mut bench, 0, 0x1940);
    assert_eq!(bench.read(STATUS) & 2, 0, "powered down");
    bench.run_for(Ps::from_ms(1));
    assert_eq!(bench.read(STATUS) & 2, 0);
    mdio_write(&mut bench, 0, 0x1140);
    assert_eq!(bench.read(STATUS) & 2, 2);
}

#[test]
fn autonegotiation_takes_exactly_the_configured_time() {
    let mut bench = Bench::new(NicConfig { autonegotiation: Ps::from_us(20), ..NicConfig::default() });
    bench.write(CTRL, 0x41);
    bench.run_until(Ps(20_000_000 - 1));
    assert_eq!(bench.read(STATUS) & 2, 0);
    bench.run_until(Ps(20_000_000));
    assert_eq!(bench.read(STATUS) & 2, 2);
}

#[test]
fn a_wrong_phy_address_sets_error_and_mdic_can_raise_an_interrupt() {
    let mut bench = Bench::new(NicConfig::default());
    bench.write(MDIC, 0x0800_0000 | 2 << 21 | 2 << 16 | 1 << 29);
    assert_eq!(bench.read(MDIC) & 0x1000_0000, 0);
    bench.run_until(Ps(25_600_000 - 1));
    assert_eq!(bench.read(MDIC) & 0x1000_0000, 0);
    bench.run_until(Ps(25_600_000));
    assert_eq!(bench.read(MDIC) & 0x5000_0000, 0x5000_0000);
    assert_eq!(bench.read(ICR) & 0x200, 0x200);
}

/// Offset, bits that read back, written bits.
const PATTERN_TESTS: &[(u64, u32, u32)] = &[
    (FCAL, 0xffff_ffff, 0xffff_ffff),
    (FCAH, 0x0000_ffff, 0xffff_ffff),
    (FCT, 0x0000_ffff, 0xffff_ffff),
    (VET, 0x0000_ffff, 0xffff_ffff),
    (RDTR, 0x0000_ffff, 0xffff_ffff),
    (RDBAH, 0xffff_ffff, 0xffff_ffff),
    (RDLEN, 0x000f_ff80, 0x000f_ffff),
    (RDH, 0x0000_ffff, 0x0000_ffff),
    (RDT, 0x0000_ffff, 0x0000_ffff),
    (FCRTH, 0x0000_fff8, 0x0000_fff8),
    (FCTTV, 0x0000_ffff, 0x0000_ffff),
    (TIPG, 0x3fff_ffff, 0x3fff_ffff),
    (TDBAH, 0xffff_ffff, 0xffff_ffff),
    (TDLEN, 0x000f_ff80, 0x000f_ffff),
    (RDBAL, 0xffff_fff0, 0xffff_ffff),
    (TXCW, 0xc000_ffff, 0x0000_ffff),
    (TDBAL, 0xffff_fff0, 0xffff_ffff),
    (TIDV, 0x0000_ffff, 0x0000_ffff),
];

fn pattern_test(bench: &mut Bench, offset: u64, mask: u32, write: u32) {
    for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, 0xffff_ffff] {
        bench.write(offset, write & pattern);
        assert_eq!(bench.read(offset), write & pattern & mask, "offset {offset:#x}, pattern {pattern:#x}");
    }
}

#[test]
fn ethtool_register_test_passes() {
    let mut bench = Bench::new(NicConfig::default());
    bench.write(CTRL, 0x41);
    bench.run_for(Ps::from_ms(1));
    let before = bench.read(STATUS);
    bench.write(STATUS, 0xffff_f833);
    assert_eq!(bench.read(STATUS), before);
    for (offset, mask, write) in PATTERN_TESTS {
        pattern_test(&mut bench, *offset, *mask, *write);
    }
    let mut set_and_check = |offset: u64, mask: u32, write: u32| {
        bench.write(offset, write & mask);
        assert_eq!(bench.read(offset) & mask, write & mask, "offset {offset:#x}");
    };
    set_and_check(RCTL, 0xffff_ffff, 0);
    set_and_check(RCTL, 0x06df_b3fe, 0x003f_fffb);
    set_and_check(TCTL, 0xffff_ffff, 0);
    set_and_check(RCTL, 0x06df_b3fe, 0xffff_ffff);
    for entry in 0..15 {
        pattern_test(&mut bench, RAL + 8 * entry + 4, 0x8003_ffff, 0xffff_ffff);
    }
    for entry in 0..128 {
        pattern_test(&mut bench, MTA + 4 * entry, 0xffff_ffff, 0xffff_ffff);
    }
    bench.run_for(Ps::from_ms(1));
    assert!(bench.world.dma.is_empty(), "test patterns in ring registers must not start DMA");
}

#[test]
fn ethtool_interrupt_test_passes() {
    let mut bench = Bench::new(NicConfig::default());
    bench.write(IMC, 0xffff_ffff);
    for i in 0..10 {
        let mask = 1u32 << i;
        let posted = |bench: &mut Bench| {
            let asserted = bench.world.irq;
            if asserted { bench.read(ICR) } else { 0 }
        };
        bench.write(IMC, mask);
        bench.write(ICS, mask);
        assert_eq!(posted(&mut bench), 0, "masked");
        bench.write(IMS, mask);
        assert_ne!(posted(&mut bench) & mask, 0, "unmasked with the cause pending");
        bench.write(ICS, mask);
        assert_ne!(posted(&mut bench) & mask, 0, "unmasked");
        bench.write(IMC, !mask & 0x7fff);
        bench.write(ICS, !mask & 0x7fff);
        assert_eq!(posted(&mut bench), 0, "others masked");
    }
}

/// Sends 64 broadcast frames of 1024 bytes and checks that all come back.
fn loop_64_frames(bench: &mut Bench) {
    let mut payload = vec![0xffu8; 1024];
    payload[512..1023].fill(0xaa);
    (payload[522], payload[524]) = (0xbe, 0xaf);
    for _ in 0..64 {
        bench.send_legacy(&payload, 0x03);
    }
    bench.run_for(Ps::from_ms(200));
    let frames = bench.poll();
    assert_eq!(frames.len(), 64);
    assert!(frames.iter().all(|frame| frame[..1024] == payload[..]));
    assert!(bench.world.sent.is_empty());
    bench.check();
}

#[test]
fn ethtool_loopback_test_in_the_phy_passes() {
    let mut bench = Bench::running(NicConfig::default(), 256, 256);
    bench.write(RCTL, 0x8002);
    for (register, value) in [(16, 0x0808), (0, 0x9140), (0, 0x8140), (0, 0x4140)] {
        mdio_write(&mut bench, register, value);
    }
    bench.write(CTRL, 0x1a41 | 0x80);
    for (register, value) in [(29, 0x1f), (30, 0x8ffc), (29, 0x1a), (30, 0x8ff0)] {
        mdio_write(&mut bench, register, value);
    }
    for _ in 0..9 {
        loop_64_frames(&mut bench);
    }
    let control = mdio_read(&mut bench, 0);
    assert_eq!(control & 0x4000, 0x4000);
    mdio_write(&mut bench, 0, control & !0x4000);
    mdio_write(&mut bench, 0, control & !0x4000 | 0x8000);
    assert_eq!(bench.read(STATUS) & 2, 2, "ethtool link test");
}

#[test]
fn mac_loopback_drops_frames_from_the_wire() {
    let mut bench = Bench::running(NicConfig::default(), 256, 256);
    bench.write(RCTL, 0x8042);
    loop_64_frames(&mut bench);
    bench.arrive(frame(64, 1));
    assert_eq!(bench.nic.stats().rx_drop_loopback, 1);
    bench.check();
}

/// Counters of frames from the link must not include looped-back frames.
#[test]
fn dropped_looped_back_frames_have_separate_counters() {
    // The FIFO has room for one frame in addition to the seven descriptors.
    let mut bench = Bench::running(NicConfig { rx_fifo: Some(Bytes(2048)), ..NicConfig::default() }, 8, 256);
    bench.write(RCTL, 0x8042);
    for number in 0..12 {
        bench.send_legacy(&frame(1518, number).bytes, 0x0b);
        bench.send_legacy(&frame(3000, number).bytes, 0x0b);
    }
    bench.run_for(Ps::from_ms(2));
    let s = bench.nic.stats().clone();
    assert_eq!((s.rx_looped, s.rx_delivered, s.rx_looped_drop_full, s.rx_looped_drop_other), (24, 7, 4, 12));
    let link_drops = s.rx_drop_dma + s.rx_drop_core + s.rx_drop_tx + s.rx_drop_oversize + s.rx_fifo_full;
    assert_eq!((link_drops, bench.nic.waited_drops()), (0, WaitedDrops::default()), "{s:?}");
    bench.check();
}

/// The link is free while frames are looped back, but frames sent after them must not count as departed
/// before them.
#[test]
fn frames_sent_after_looped_back_frames_leave_after_them() {
    let mut bench = Bench::running(NicConfig::default(), 256, 256);
    bench.write(RCTL, 0x8042);
    for number in 0..6 {
        bench.send_legacy(&frame(1518, number).bytes, 0x0b);
    }
    bench.run_for(Ps::from_us(8));
    bench.write(RCTL, 0x8002);
    for number in 0..40 {
        bench.send_legacy(&frame(64, number).bytes, 0x0b);
    }
    bench.run_for(Ps::from_ms(1));
    assert_eq!(bench.world.sent.len(), 40);
    bench.check();
}

#[test]
fn odd_widths_and_unknown_offsets_have_defined_results_and_are_counted() {
    let mut bench = Bench::new(NicConfig::default());
    let Bench { nic, world, .. } = &mut bench;
    nic.mmio_write(Ps::ZERO, MTA, AccessSize::B8, 0x1122_3344_5566_7788, world);
    assert_eq!(nic.mmio_read(Ps::ZERO, MTA + 4, AccessSize::B4, world), 0x1122_3344);
    assert_eq!(nic.mmio_read(Ps::ZERO, MTA, AccessSize::B8, world), 0x1122_3344_5566_7788);
    nic.mmio_write(Ps::ZERO, MTA + 1, AccessSize::B1, 0xaa, world);
    nic.mmio_write(Ps::ZERO, MTA + 2, AccessSize::B2, 0xbbcc, world);
    assert_eq!(nic.mmio_read(Ps::ZERO, MTA, AccessSize::B4, world), 0xbbcc_aa88);
    assert_eq!(nic.mmio_read(Ps::ZERO, MTA + 2, AccessSize::B2, world), 0xbbcc);
    assert_eq!(nic.mmio_read(Ps::ZERO, MTA + 3, AccessSize::B1, world), 0xbb);
    assert_eq!(nic.stats().odd_accesses, 6);
    assert_eq!(nic.mmio_read(Ps::ZERO, 0x5008, AccessSize::B4, world), 0);
    nic.mmio_write(Ps::ZERO, 0x1_fff8, AccessSize::B4, 7, world);
    nic.mmio_write(Ps::ZERO, 0xfff0, AccessSize::B4, 7, world);
    assert_eq!((nic.stats().unknown_reads, nic.stats().unknown_writes), (1, 1));
    assert_eq!(nic.io_read(Ps::ZERO, 8, AccessSize::B4, world), 0);
    nic.io_write(Ps::ZERO, 0, AccessSize::B2, 7, world);
    assert_eq!(nic.stats().odd_accesses, 8);
}

#[test]
fn frames_before_bring_up_are_dropped_and_counted() {
    let mut bench = Bench::new(NicConfig::default());
    bench.arrive(frame(64, 0));
    bench.write(CTRL, 0x41);
    bench.run_for(Ps::from_ms(1));
    bench.arrive(frame(64, 1));
    assert_eq!((bench.nic.stats().rx_drop_link_down, bench.nic.stats().rx_drop_disabled), (1, 1));
    bench.check();
}

#[test]
fn frames_wait_in_the_fifo_while_the_link_is_down() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    mdio_write(&mut bench, 0, 0x1940);
    bench.send_legacy(&frame(64, 0).bytes, 0x0b);
    bench.run_for(Ps::from_us(100));
    assert!(bench.world.sent.is_empty());
    assert_eq!(bench.nic.in_flight().tx, 1);
    mdio_write(&mut bench, 0, 0x1340);
    bench.run_for(Ps::from_us(100));
    assert_eq!(bench.world.sent[0].1, frame(64, 0));
    bench.check();
}

#[test]
fn received_pause_frames_stop_the_transmitter_for_the_pause_time() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    for (offset, value) in [(FCAL, 0x00c2_8001), (FCAH, 0x0100), (FCT, 0x8808), (CTRL, 0x0800_0041)] {
        bench.write(offset, value);
    }
    let mut pause = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, 1, 0, 100];
    pause.resize(60, 0);
    bench.arrive(Frame::new(pause.clone()));
    let start = bench.world.now();
    assert_ne!(bench.read(STATUS) & 0x10, 0);
    bench.send_legacy(&frame(64, 0).bytes, 0x0b);
    let over = start + Ps::from_ns(512 * 100);
    bench.run_until(over + Ps::from_us(5));
    assert_eq!(bench.world.sent[0].0, over);
    bench.arrive(Frame::new(pause.clone()));
    pause[17] = 0;
    bench.arrive(Frame::new(pause));
    assert_eq!(bench.read(STATUS) & 0x10, 0, "XON ends the pause");
    assert_eq!((bench.read(0x4050), bench.read(0x4048)), (2, 1));
    assert!(bench.poll().is_empty());
    assert_eq!(bench.nic.stats().rx_control, 3);
    bench.check();
}

#[test]
fn a_filling_fifo_sends_xoff_and_xon() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    for (offset, value) in
        [(FCT, 0x8808), (FCRTH, 0x400), (FCRTL, 0x8000_0100), (FCTTV, 0x680), (CTRL, 0x1000_0041)]
    {
        bench.write(offset, value);
    }
    bench.world.write_latency = Ps::from_us(3);
    for i in 0..20 {
        bench.arrive(frame(64, i));
    }
    bench.run_for(Ps::from_us(50));
    let times: Vec<u16> =
        bench.world.sent.iter().map(|(_, f)| u16::from_be_bytes([f.bytes[16], f.bytes[17]])).collect();
    assert_eq!(times, [0x680, 0]);
    assert_eq!(
        bench.world.sent[0].1.bytes[..16],
        [1, 0x80, 0xc2, 0, 0, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0x88, 8, 0, 1]
    );
    assert_eq!((bench.read(0x4054), bench.read(0x404c)), (1, 1));
    assert_eq!(bench.poll().len(), 20);
    bench.check();
}

#[test]
fn swxoff_sends_xoff_and_a_disabled_transmitter_keeps_frames_in_the_fifo() {
    let mut bench = Bench::running(NicConfig::default(), 64, 64);
    bench.write(FCT, 0x8808);
    bench.write(FCTTV, 0x1234);
    bench.write(TCTL, 0x0040_000a);
    assert_eq!(bench.read(TCTL), 0x0a, "the bit clears itself");
    assert_eq!(bench.world.sent[0].1.bytes[12..18], [0x88, 0x08, 0, 1, 0x12, 0x34]);
    assert_eq!((bench.read(GPTC), bench.read(0x40d4)), (0, 1), "PAUSE frames only count in the totals");
    bench.world.sent.clear();
    for i in 0..40 {
        bench.send_legacy(&frame(1518, i).bytes, 0x0b);
    }
    bench.run_for(Ps::from_us(3));
    bench.write(TCTL, 0);
    bench.run_for(Ps::from_us(50));
    let (sent, queued) = (bench.world.sent.len() as u64, bench.nic.in_flight().tx);
    bench.run_for(Ps::from_us(50));
    assert_eq!((bench.world.sent.len() as u64, bench.nic.in_flight().tx), (sent, queued));
    assert!(sent < 40);
    bench.write(TCTL, 0x0a);
    bench.run_for(Ps::from_us(100));
    assert_eq!(bench.world.sent.len(), 40);
    bench.check();
}
