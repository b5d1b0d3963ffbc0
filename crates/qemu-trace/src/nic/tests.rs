//! What a NIC does, event by event.

use doorbell_sim::Op;

use super::*;

#[derive(Default)]
struct Kept(Vec<Nic>);

impl Recorder for Kept {
    fn op(&mut self, _: Op) {}

    fn event(&mut self, event: Event) {
        let Event::Nic(nic) = event else { panic!("{event:?}") };
        self.0.push(nic);
    }
}

fn told(model: &'static NicModel, devices: &[Device]) -> Vec<Nic> {
    let (mut follower, mut kept) = (Follower::new(model), Kept::default());
    devices.iter().for_each(|device| follower.device(*device, &mut kept));
    follower.flush(&mut kept);
    kept.0
}

fn dma(is_write: bool, addr: u64, bytes: u64) -> Device {
    Device::Dma { is_write, addr, bytes }
}

#[test]
fn rings_are_found_at_either_address_of_their_registers() {
    let descriptor = |is_transmit, ring, place, addr| Nic::Dma {
        is_write: false,
        addr,
        bytes: 16,
        of: Of::Descriptor(is_transmit, ring, place),
    };
    for (low, length) in [(0xc080, 0xc088), (0x2a00, 0x2a08)] {
        let devices =
            [Device::Register(low, 0x8000), Device::Register(length, 0x1000), dma(false, 0x8030, 16)];
        assert_eq!(told(&IGB, &devices), [descriptor(false, 2, 3, 0x8030)], "{low:x}");
    }
    // Of the fourth transmit queue, and of one that older NICs had no place for.
    for (low, length, ring) in [(0x3b00, 0x3b08, 3), (0xe240, 0xe248, 9)] {
        let devices =
            [Device::Register(low, 0x8000), Device::Register(length, 0x1000), dma(false, 0x8010, 16)];
        assert_eq!(told(&IGB, &devices), [descriptor(true, ring, 1, 0x8010)], "{low:x}");
    }
}

#[test]
fn a_transmitted_frame_is_what_its_descriptors_name() {
    // 82576, 7.2.2: a context descriptor (DTYP 2), then data (DTYP 3), with a time stamp's bit above their length, and the last one.
    let (context, data, end) = (0x2020_0000, 0x2034_0000, 0x0100_0000);
    let devices = [
        Device::TxDescriptor(0, context, 0),
        Device::TxDescriptor(0x8000, data | 66, 0),
        Device::TxDescriptor(0x9000, data | end | 1448, 0),
        Device::TxDescriptor(0xa000, data | end | 60, 0),
    ];
    let read = |addr, bytes, frame, from| Nic::Dma {
        is_write: false,
        addr,
        bytes,
        of: Of::Frame(true, frame, from),
    };
    let expected = [
        read(0x8000, 66, 0, 0),
        read(0x9000, 1448, 0, 66),
        Nic::Sent(0),
        read(0xa000, 60, 1, 0),
        Nic::Sent(1),
    ];
    assert_eq!(told(&IGB, &devices), expected);
}

#[test]
fn a_frame_that_arrives_is_one_write_for_each_piece_of_memory() {
    let ring = [Device::Register(0xc000, 0x8000), Device::Register(0xc008, 0x1000)];
    let frame = [
        Device::RxFrame,
        dma(false, 0x8000, 16),
        dma(true, 0x2_0000, 2048),
        dma(true, 0x2_0800, 100),
        dma(true, 0x8000, 16),
        Device::RxDone,
        Device::Interrupt(1),
    ];
    let events = told(&IGB, &[&ring[..], &frame].concat());
    let of = Of::Frame(false, 0, 0);
    assert_eq!(events[0], Nic::Arrives(0));
    assert_eq!(events[2], Nic::Dma { is_write: true, addr: 0x2_0000, bytes: 2148, of });
    assert_eq!(
        events[3],
        Nic::Dma { is_write: true, addr: 0x8000, bytes: 16, of: Of::Descriptor(false, 0, 0) }
    );
    assert_eq!(events[4..], [Nic::Delivered(0), Nic::Interrupt(1)]);
}
