//! PAUSE: a received one stops the transmitter, and a filling packet buffer sends XOFF to the partner.

use doorbell_nic::NicConfig;
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::Ps;

use crate::igb::driver::*;

const FCAL: u64 = 0x28;
const FCAH: u64 = 0x2c;
const FCT: u64 = 0x30;
const FCTTV: u64 = 0x170;
const FCRTL: u64 = 0x2160;
const FCRTH: u64 = 0x2168;
const XONRXC: u64 = 0x4048;
const XONTXC: u64 = 0x404c;
const XOFFRXC: u64 = 0x4050;
const XOFFTXC: u64 = 0x4054;
const FCRUC: u64 = 0x4058;
const RFCE: u32 = 1 << 27;
const TFCE: u32 = 1 << 28;
const PASS_CONTROL: u32 = 1 << 23;

fn with_pause(ctrl: u32) -> IgbBench {
    let mut bench = IgbBench::running(2);
    for (register, value) in [(FCAL, 0x00c2_8001), (FCAH, 0x0100), (FCT, 0x8808), (CTRL, 0x41 | ctrl)] {
        bench.write(register, value);
    }
    bench
}

/// A MAC control frame; it is a PAUSE frame if the opcode is 1.
fn control(opcode: u8, time: u8) -> Vec<u8> {
    let mut bytes = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, opcode, 0, time];
    bytes.resize(60, 0);
    bytes
}

fn datagram() -> Vec<u8> {
    tcp([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 100)
}

#[test]
fn a_received_pause_stops_every_queue_for_the_pause_time() {
    let mut bench = with_pause(RFCE);
    bench.arrive(&control(1, 100));
    let start = bench.world.now();
    assert_ne!(bench.read(STATUS) & 0x10, 0, "STATUS.TXOFF");
    bench.send(0, &datagram(), 0);
    bench.send(1, &datagram(), 0);
    // Units of 512 bits at 1 Gb/s.
    let over = start + Ps::from_ns(512 * 100);
    bench.run_for(over - start + Ps::from_us(5));
    let left: Vec<Ps> = bench.world.sent.iter().map(|(at, _)| *at).collect();
    assert!(left.len() == 2 && left[0] == over && left[1] > over, "{left:?} {over}");
    bench.arrive(&control(1, 100));
    bench.arrive(&control(1, 0));
    assert_eq!(bench.read(STATUS) & 0x10, 0, "XON ends the pause");
    bench.arrive(&control(2, 7));
    assert_eq!([XOFFRXC, XONRXC, FCRUC].map(|register| bench.read(register)), [2, 1, 1]);
    assert!(
        bench.poll(0).is_empty() && bench.poll(1).is_empty(),
        "PAUSE frames must not be passed to software"
    );
    assert_eq!(bench.nic.stats().rx_control, 4);
    bench.nic.check_conservation();
}

#[test]
fn pause_is_ignored_without_rfce_and_is_an_ordinary_frame_without_fct() {
    let mut bench = with_pause(0);
    bench.arrive(&control(1, 100));
    bench.send(0, &datagram(), 0);
    bench.run_for(Ps::from_us(3));
    assert_eq!((bench.world.sent.len(), bench.read(STATUS) & 0x10), (1, 0));
    // RCTL.PMCF passes MAC control frames to software; RCTL.MPE accepts all multicast.
    bench.write(RCTL, 0x0400_8002 | PASS_CONTROL | 1 << 4);
    bench.arrive(&control(1, 100));
    bench.write(FCT, 0);
    bench.arrive(&control(1, 100));
    bench.run_for(Ps::from_us(10));
    assert_eq!((bench.poll(0).len(), bench.nic.stats().rx_control), (2, 1));
    bench.nic.check_conservation();
}

#[test]
fn a_filling_packet_buffer_sends_xoff_and_xon() {
    let mut bench = with_pause(TFCE);
    for (register, value) in [(FCRTH, 0x400), (FCRTL, 0x8000_0100), (FCTTV, 0x680)] {
        bench.write(register, value);
    }
    bench.world.write_latency = Ps::from_us(3);
    for _ in 0..20 {
        bench.arrive(&datagram());
    }
    bench.run_for(Ps::from_us(100));
    let times: Vec<&[u8]> = bench.world.sent.iter().map(|(_, frame)| &frame.bytes[16..18]).collect();
    assert_eq!(times, [[0x06, 0x80], [0, 0]]);
    let first = &bench.world.sent[0].1.bytes;
    assert_eq!(first[..16], [1, 0x80, 0xc2, 0, 0, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0x88, 8, 0, 1]);
    assert_eq!([XOFFTXC, XONTXC].map(|register| bench.read(register)), [1, 1]);
    assert_eq!(bench.poll(0).len(), 20);
    bench.nic.check_conservation();
}

#[test]
fn dropping_frames_without_descriptors_also_triggers_xon() {
    let mut bench = with_pause(TFCE);
    for (register, value) in [(FCRTH, 0x400), (FCRTL, 0x8000_0100), (FCTTV, 0x680)] {
        bench.write(register, value);
    }
    // The queue has no descriptors, and DROP_EN is not set yet.
    bench.set_up_rx(0, 0);
    for _ in 0..20 {
        bench.arrive(&datagram());
    }
    bench.run_for(Ps::from_us(10));
    assert_eq!([XOFFTXC, XONTXC].map(|register| bench.read(register)), [1, 0]);
    bench.write(SRRCTL, 1 << 31 | ONE_BUFFER | 2);
    bench.run_for(Ps::from_us(10));
    assert_eq!([XOFFTXC, XONTXC].map(|register| bench.read(register)), [0, 1]);
    bench.nic.check_conservation();
}

#[test]
fn swxoff_sends_xoff_and_a_reset_ends_pauses() {
    let mut bench = with_pause(RFCE);
    bench.write(FCTTV, 0x1234);
    bench.write(TCTL, 0x0040_000a);
    assert_eq!(bench.read(TCTL), 0x0a);
    assert_eq!(bench.world.sent[0].1.bytes[12..18], [0x88, 0x08, 0, 1, 0x12, 0x34]);
    bench.arrive(&control(1, 255));
    let saved = bench.nic.save();
    bench.nic.restore(&saved).expect("the state was just saved");
    assert_ne!(bench.read(STATUS) & 0x10, 0, "the pause continues after a restore");
    bench.write(CTRL, 1 << 26);
    assert_eq!(bench.read(STATUS) & 0x10, 0);
}

#[test]
fn the_phy_and_nvm_report_whether_the_partner_uses_pause() {
    for (pause_frames, advertised) in [(false, 0), (true, 1 << 10)] {
        let mut bench = IgbBench::running_with(NicConfig { pause_frames, ..config() }, 1);
        bench.write(MDIC, 0x0825_0000);
        bench.run_for(Ps::from_us(100));
        assert_eq!(bench.read(MDIC) & 1 << 10, advertised);
        // Bits 13:12 of the NVM's initialisation control 2.
        bench.write(EERD, 0x0f << 2 | 1);
        bench.run_for(Ps::from_us(31));
        assert_eq!(bench.read(EERD) >> 16 & 0x3000 != 0, pause_frames);
    }
}
