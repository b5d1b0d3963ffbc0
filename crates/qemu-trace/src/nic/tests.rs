//! Handmade NIC event sequences.

use super::*;

const RX_RING: u64 = 0x1_0000;
const TX_RING: u64 = 0x2_0000;

/// Both rings set up, with stripping of frame check sequences.
fn follower() -> Follower {
    let mut follower = Follower::new(&E1000E);
    for (first, base) in [(E1000E.receive, RX_RING), (E1000E.transmit, TX_RING)] {
        follower.register(first, base);
        follower.register(first + LENGTH, 4096);
    }
    follower.register(RCTL, STRIP_CRC);
    follower
}

fn events_of(follower: &mut Follower, devices: &[Device]) -> Vec<EventKind> {
    let mut all = Vec::new();
    let mut emit = |what| all.push(what);
    for device in devices {
        follower.device(*device, Some(0xfeb0_0000), &mut emit);
    }
    follower.flush(&mut emit);
    all
}

/// Kind of a DMA request.
type Kind = (DmaPurpose, DmaDirection);
const RX_FETCH: Kind = (DmaPurpose::RxDescriptor, DmaDirection::Read);
const RX_WRITE_BACK: Kind = (DmaPurpose::RxDescriptor, DmaDirection::Write);
const RX_DATA: Kind = (DmaPurpose::RxData, DmaDirection::Write);
const TX_FETCH: Kind = (DmaPurpose::TxDescriptor, DmaDirection::Read);
const TX_DATA: Kind = (DmaPurpose::TxData, DmaDirection::Read);

fn dma((purpose, direction): Kind, addr: u64, len: u32, frame: u64, offset: u32) -> EventKind {
    let (addr, took) = (PhysAddr(addr), Ps::ZERO);
    EventKind::Dma(Dma { purpose, direction, addr, len, frame, offset, took, visible: 0 })
}

fn dma_event(is_write: bool, addr: u64, bytes: u64) -> Device {
    Device::Dma { is_write, addr, bytes }
}

#[test]
fn received_frame_precedes_its_requests_and_has_their_length() {
    let mut follower = follower();
    let frame = [
        Device::RxFrame,
        dma_event(false, RX_RING + 16, 16),
        Device::RxBuffer,
        dma_event(true, 0x8000, 1000),
        dma_event(true, 0x8000 + 1000, 500),
        dma_event(true, RX_RING + 16, 16),
        dma_event(true, RX_RING + 24, 4),
        Device::RxDone,
        Device::Interrupt(0),
    ];
    for number in 0..2 {
        assert_eq!(
            events_of(&mut follower, &frame),
            [
                EventKind::FrameIn { bytes: 1504 },
                dma(RX_FETCH, RX_RING + 16, 16, 0, 0),
                dma(RX_DATA, 0x8000, 1500, number, 0),
                // The repeated status write is merged.
                dma(RX_WRITE_BACK, RX_RING + 16, 16, 0, 0),
                EventKind::Interrupt { raised: true },
            ]
        );
    }
}

#[test]
fn frame_in_two_buffers_has_consecutive_offsets() {
    let frame =
        [Device::RxFrame, dma_event(true, 0x8000, 1000), dma_event(true, 0xa000, 500), Device::RxDone];
    let all = events_of(&mut follower(), &frame);
    assert_eq!(all[1..], [dma(RX_DATA, 0x8000, 1000, 0, 0), dma(RX_DATA, 0xa000, 500, 0, 1000)]);
}

#[test]
fn dropped_frames_are_not_recorded() {
    let mut follower = follower();
    assert_eq!(events_of(&mut follower, &[Device::RxFrame, Device::RxDropped]), []);
    let all = events_of(&mut follower, &[Device::RxFrame, dma_event(true, 0x8000, 60), Device::RxDone]);
    assert_eq!(all, [EventKind::FrameIn { bytes: 64 }, dma(RX_DATA, 0x8000, 60, 0, 0)]);
}

#[test]
fn doorbell_is_recorded_and_leaves_the_ring_unchanged() {
    let mut follower = follower();
    let tail = Device::Register { offset: E1000E.transmit + 0x18, size: 4, value: 7 };
    let store = EventKind::Register { addr: PhysAddr(0xfeb0_0000), size: 4, value: 7, stored: None };
    assert_eq!(events_of(&mut follower, &[tail]), [store]);
    assert!(
        E1000E.is_tail(0x2818)
            && E1000E.is_tail(0x3918)
            && !E1000E.is_tail(0x3a18)
            && !E1000E.is_tail(0x2810)
    );
}

#[test]
fn segmented_data_leave_as_several_frames() {
    // A context: 54 bytes of headers, 1,460 bytes of payload per frame. Then 54 + 3,000 bytes in two
    // descriptors.
    let context = Device::TxDescriptor(0, EXTENDED, 1460 << 16 | 54 << 8);
    let data =
        |addr, bytes, more| Device::TxDescriptor(addr, EXTENDED | DATA | E1000E.segments | more | bytes, 0);
    let all = events_of(
        &mut follower(),
        &[dma_event(false, TX_RING, 16), context, data(0x4000, 54, 0), data(0x5000, 3000, END_OF_PACKET)],
    );
    let lengths: Vec<u32> = all
        .iter()
        .filter_map(|what| if let EventKind::FrameOut { bytes } = what { Some(*bytes) } else { None })
        .collect();
    assert_eq!(lengths, [1518, 1518, 138]);
    assert_eq!(all[1..3], [dma(TX_DATA, 0x4000, 54, 0, 0), dma(TX_DATA, 0x5000, 3000, 0, 54)]);
    // The 82576 has separate lengths of the Ethernet, IP and TCP headers.
    let mut igb = Follower::new(&IGB);
    let context = Device::TxDescriptor(14 << 9 | 20, EXTENDED, 1460 << 16 | 20 << 8);
    let whole = Device::TxDescriptor(0x4000, EXTENDED | DATA | IGB.segments | END_OF_PACKET | 2054, 0);
    let all = events_of(&mut igb, &[context, whole]);
    assert_eq!(all[1..], [EventKind::FrameOut { bytes: 1518 }, EventKind::FrameOut { bytes: 598 }]);
    // A checksum that QEMU writes into the buffer, and an unrelated write.
    let mut follower = follower();
    let plain = Device::TxDescriptor(0x9000, END_OF_PACKET | 60, 0);
    let all = events_of(&mut follower, &[plain, dma_event(true, 0x9010, 2), dma_event(true, 0x7000, 8)]);
    assert_eq!(all, [dma(TX_DATA, 0x9000, 60, 0, 0), EventKind::FrameOut { bytes: 64 }]);
    assert_eq!(follower.others(), 1);
}

#[test]
fn rings_are_found_at_both_register_addresses() {
    // The third receive queue, the fourth transmit queue, and one without an alias.
    for (low, is_transmit) in [(0xc080, false), (0x2a00, false), (0x3b00, true), (0xe240, true)] {
        let mut follower = Follower::new(&IGB);
        let register = |offset, value| Device::Register { offset, size: 4, value };
        let devices = [register(low, 0x8000), register(low + 8, 0x1000), dma_event(false, 0x8030, 16)];
        let kind = if is_transmit { TX_FETCH } else { RX_FETCH };
        assert_eq!(events_of(&mut follower, &devices)[2..], [dma(kind, 0x8030, 16, 0, 0)], "{low:x}");
    }
}

#[test]
fn transmitted_frame_consists_of_its_descriptors_buffers() {
    // 82576, 7.2.2: data (DTYP 3) with the time-stamp bit above the length.
    let data = 0x2034_0000;
    let devices = [
        Device::TxDescriptor(0x8000, data | 66, 0),
        Device::TxDescriptor(0x9000, data | END_OF_PACKET | 1448, 0),
        Device::TxDescriptor(0xa000, data | END_OF_PACKET | 60, 0),
    ];
    let all = events_of(&mut Follower::new(&IGB), &devices);
    let expected = [
        dma(TX_DATA, 0x8000, 66, 0, 0),
        dma(TX_DATA, 0x9000, 1448, 0, 66),
        EventKind::FrameOut { bytes: 1518 },
        dma(TX_DATA, 0xa000, 60, 1, 0),
        EventKind::FrameOut { bytes: 64 },
    ];
    assert_eq!(all, expected);
}
