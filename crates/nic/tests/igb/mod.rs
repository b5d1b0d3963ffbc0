//! Tests of the 82576 from a driver's view, with the tests' own constants.

mod dca;
mod driver;
mod filters;
mod interrupts;
mod offloads;
mod pause;
mod properties;
mod qemu;
mod queues;

use doorbell_pcie::NetworkFunction as _;
use doorbell_sim::Ps;

use driver::*;

#[test]
fn nvm_phy_identity_and_link_match_drivers_expectations() {
    let mut bench = IgbBench::new();
    let sum = (0..64).fold(0u16, |sum, address| {
        bench.write(EERD, address << 2 | 1);
        bench.run_for(Ps::from_us(31));
        let read = bench.read(EERD);
        assert_ne!(read & 2, 0);
        sum.wrapping_add((read >> 16) as u16)
    });
    assert_eq!(sum, 0xbaba);
    let mut phy = |register: u32| {
        bench.write(MDIC, 2 << 26 | 1 << 21 | register << 16);
        bench.run_for(Ps::from_us(26));
        let read = bench.read(MDIC);
        assert_eq!(read >> 28 & 0b101, 1, "ready, no error");
        read as u16
    };
    assert_eq!((phy(2), phy(3) & 0xfff0), (0x02a8, 0x0390));
    bench.write(IMS, LSC);
    bench.write(CTRL, 0x41);
    bench.run_for(Ps::from_us(50));
    assert_eq!(bench.read(STATUS) & 0xc3, 0x83, "1000 Mb/s, full duplex, up");
    assert!(bench.world.irq);
    assert_eq!(bench.read(ICR) & (LSC | 1 << 31), LSC | 1 << 31);
    assert!(!bench.world.irq && bench.read(ICR) == 0);
    // Reading the semaphore takes it.
    assert_eq!((bench.read(SWSM) & 1, bench.read(SWSM) & 1), (0, 1));
    // After software disables master requests, none is pending.
    bench.write(CTRL, 0x45);
    assert_eq!(bench.read(STATUS) >> 19 & 1, 0);
    bench.write(CTRL, 1 << 26);
    assert_eq!(bench.read(STATUS) >> 19 & 1, 1);
}

#[test]
fn advanced_descriptors_receive_and_send_a_frame() {
    let mut bench = IgbBench::running(1);
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 100);
    bench.arrive(&bytes);
    bench.run_for(Ps::from_us(10));
    let frames = bench.poll(0);
    let [(received, first, second)] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!((received, *second as u32 & 0x63, *second >> 32), (&bytes, 0x63, bytes.len() as u64));
    assert_eq!(first >> 4 & 0xfff, 0x11, "TCP over IPv4");
    assert!(bench.world.irq_rises.is_empty(), "no interrupt is enabled");
    bench.send(0, &bytes, 0);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.world.sent.len(), 1);
    assert_eq!(bench.world.sent[0].1.bytes, bytes);
    assert_eq!(bench.tx_status(0, 0) & 1, 1);
    bench.check();
}

#[test]
fn legacy_descriptors_work() {
    let mut bench = IgbBench::running(1);
    bench.write(SRRCTL, 2);
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 60);
    bench.arrive(&bytes);
    bench.run_for(Ps::from_us(10));
    let (buffer, second) = (bench.world.word(RX_RING), bench.world.word(RX_RING + 8));
    assert_eq!((buffer, second & 0xffff, second >> 32 & 0x63), (RX_BUFFERS, bytes.len() as u64, 0x63));
    bench.put_bytes(TX_BUFFERS, &bytes);
    bench.put_tx(0, TX_BUFFERS, bytes.len() as u64 | 0x0b << 24);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.world.sent[0].1.bytes, bytes);
    bench.check();
}

#[test]
fn tcp_segmentation_inserts_correct_checksums() {
    let mut bench = IgbBench::running(1);
    let mut bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 14 + 40 + 2500);
    // Software puts the pseudo-header sum, without the length, into the checksum field.
    bytes[24..26].fill(0);
    let pseudo = fold(sum(&bytes[26..34]) + 6);
    bytes[50..52].copy_from_slice(&(pseudo as u16).to_be_bytes());
    bench.put_tx(0, 20 | 14 << 9, 1 << 10 | 1 << 11 | 2 << 20 | 0x20 << 24 | 20 << 40 | 1000 << 48);
    bench.put_bytes(TX_BUFFERS, &bytes);
    // TSE, DEXT, RS, IFCS, EOP; both checksums.
    bench.put_tx(0, TX_BUFFERS, bytes.len() as u64 | 3 << 20 | 0xab << 24 | 3 << 40 | 2500 << 46);
    bench.run_for(Ps::from_us(50));
    let sent: Vec<_> = bench.world.sent.iter().map(|(_, frame)| frame.bytes.clone()).collect();
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1054, 1054, 554]);
    for (at, frame) in sent.iter().enumerate() {
        assert_eq!(fold(sum(&frame[14..34])), 0xffff, "IPv4 checksum");
        let length = frame.len() as u32 - 34;
        assert_eq!(fold(sum(&frame[34..]) + sum(&frame[26..34]) + 6 + length), 0xffff, "TCP checksum");
        assert_eq!(u32::from_be_bytes(frame[38..42].try_into().unwrap()), 1000 * at as u32);
    }
    assert_eq!(bench.nic.stats().tx_malformed, 0);
    bench.check();
}

/// CRC-32C bit by bit, as RFC 9260's appendix A defines it.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[test]
fn sctp_checksums_are_inserted_and_verified() {
    let mut bench = IgbBench::running(1);
    // Linux enables all offloads in RXCSUM.
    bench.write(RXCSUM, 0x2b00);
    let mut bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 100);
    bytes[23] = 132;
    bytes[24..26].fill(0);
    bytes[38..46].copy_from_slice(&[0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 0]);
    let mut expected = bytes.clone();
    let ip = !(fold(sum(&bytes[14..34])) as u16);
    expected[24..26].copy_from_slice(&ip.to_be_bytes());
    let checksum = crc32c(&bytes[34..]);
    expected[42..46].copy_from_slice(&checksum.to_le_bytes());
    // A context for SCTP over IPv4; both checksums are requested.
    bench.put_tx(0, 20 | 14 << 9, 1 << 10 | 2 << 11 | 2 << 20 | 0x20 << 24);
    bench.send(0, &bytes, 3);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.world.sent[0].1.bytes, expected);
    bench.arrive(&expected);
    expected[60] ^= 1;
    bench.arrive(&expected);
    bench.run_for(Ps::from_us(10));
    let verdicts: Vec<_> = bench.poll(0).iter().map(|frame| (frame.2 >> 5 & 1, frame.2 >> 29 & 1)).collect();
    assert_eq!(verdicts, [(1, 0), (1, 1)], "L4CS and L4E of each frame");
    // A packet that is too short for the checksum field is malformed, and sent unchanged.
    bench.put_tx(0, 20 | 90 << 9, 1 << 10 | 2 << 11 | 2 << 20 | 0x20 << 24);
    bench.send(0, &bytes, 2);
    bench.run_for(Ps::from_us(10));
    assert_eq!((&bench.world.sent[1].1.bytes, bench.nic.stats().tx_malformed), (&bytes, 1));
    bench.check();
}

#[test]
fn vlan_tags_are_stripped_and_inserted() {
    let mut bench = IgbBench::running(1);
    bench.write(CTRL, 0x4000_0041);
    let plain = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 100);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0, 0x60, 5]);
    bench.arrive(&tagged);
    bench.run_for(Ps::from_us(10));
    let frames = bench.poll(0);
    assert_eq!((&frames[0].0, frames[0].2 >> 3 & 1, frames[0].2 >> 48), (&plain, 1, 0x6005));
    bench.put_tx(0, 14 << 9 | 0x6005 << 16, 2 << 20 | 0x20 << 24);
    bench.put_bytes(TX_BUFFERS, &plain);
    bench.put_tx(0, TX_BUFFERS, plain.len() as u64 | 3 << 20 | 0x6b << 24);
    bench.run_for(Ps::from_us(10));
    assert_eq!(bench.world.sent[0].1.bytes, tagged);
}

#[test]
fn phy_loopback_returns_sent_frames() {
    let mut bench = IgbBench::running(1);
    bench.write(MDIC, 1 << 26 | 1 << 21 | 0x4140);
    bench.run_for(Ps::from_us(100));
    let bytes = tcp([10, 0, 0, 1], [10, 0, 0, 2], 80, 81, 100);
    bench.send(0, &bytes, 0);
    bench.run_for(Ps::from_us(20));
    assert_eq!((bench.world.sent.len(), bench.poll(0)[0].0.clone()), (0, bytes));
    bench.check();
}
