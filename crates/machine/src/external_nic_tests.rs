//! Tests of a NIC that is not one of the built-in models: it replaces a port's NIC, uses the wire, and has a
//! vendor capability.

use doorbell_loadgen::TrafficConfig;
use doorbell_pcie::network::{InFlight, NicStats};
use doorbell_pcie::{BarKind, Capability, FunctionPorts, HeaderType};
use doorbell_sim::{AccessSize, Frame};

use super::*;
use crate::config::MachineConfig;
use crate::run::Limits;

const VENDOR_AT: u64 = 0x40;

/// Returns each frame at once with its addresses exchanged. Register reads return the number of frames; the
/// vendor capability's last byte reads back inverted.
#[derive(Default)]
struct EchoNic {
    stats: NicStats,
    written: Vec<(u16, u64)>,
}

impl PciFunction for EchoNic {
    fn identity(&self) -> FunctionIdentity {
        let mut bars = [BarKind::None; 6];
        bars[0] = BarKind::Memory32 { bytes: 64, prefetchable: false };
        FunctionIdentity {
            vendor: 0xd00b,
            device: 0xec40,
            revision: 0,
            class: 0x02_0000,
            subsystem_vendor: 0xd00b,
            subsystem: 0,
            bars,
            interrupt_pin: 0,
            min_grant_max_latency: [0; 2],
            capabilities: vec![Capability::Vendor {
                offset: VENDOR_AT as u8,
                bytes: &[0x11, 0x22, 0x33, 0x44, 0x55],
                writable: &[0, 0xff],
            }],
            extended_space: false,
            header: HeaderType::Function,
        }
    }

    fn read(&mut self, _: Ps, _: u8, _: u64, _: AccessSize, _: &mut dyn FunctionPorts) -> u64 {
        self.stats.rx_arrived
    }

    fn write(&mut self, _: Ps, _: u8, _: u64, _: AccessSize, _: u64, _: &mut dyn FunctionPorts) {}

    fn wake(&mut self, _: Ps, _: u64, _: &mut dyn FunctionPorts) {}

    fn reset(&mut self, _: Ps, _: &mut dyn FunctionPorts) {}

    fn config_read(&mut self, _: Ps, offset: u16, size: AccessSize, value: u64) -> u64 {
        if (offset, size) == (VENDOR_AT as u16 + 4, AccessSize::B4) { value ^ 0xff00_0000 } else { value }
    }

    fn config_written(&mut self, _: Ps, offset: u16, _: AccessSize, value: u64, _: &mut dyn FunctionPorts) {
        self.written.push((offset, value));
    }

    fn save(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.stats).unwrap()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), SnapshotError> {
        self.stats = postcard::from_bytes(state).map_err(|error| SnapshotError::Inconsistent {
            name: "echo".into(),
            problem: error.to_string(),
        })?;
        Ok(())
    }

    fn network(&self) -> Option<&dyn NetworkFunction> {
        Some(self)
    }

    fn network_mut(&mut self) -> Option<&mut dyn NetworkFunction> {
        Some(self)
    }
}

impl NetworkFunction for EchoNic {
    fn frame_arrived(&mut self, now: Ps, mut frame: Frame, ports: &mut dyn FunctionPorts) {
        self.stats.rx_arrived += 1;
        self.stats.rx_delivered += 1;
        let (destination, source) = frame.bytes.split_at_mut(6);
        destination.swap_with_slice(&mut source[..6]);
        self.stats.tx_frames += 1;
        self.stats.tx_sent += 1;
        ports.send(now, frame);
    }

    fn set_cable(&mut self, _: Ps, _: bool, _: &mut dyn FunctionPorts) {}

    fn is_receiving(&self) -> bool {
        true
    }

    fn stats(&self) -> &NicStats {
        &self.stats
    }

    fn in_flight(&self) -> InFlight {
        InFlight { rx: 0, tx: 0 }
    }

    fn check_conservation(&self) {
        self.stats.check_conservation(self.in_flight(), "echo");
    }
}

fn machine() -> Result<Machine, crate::ConfigError> {
    let config = MachineConfig::default();
    let place = config.ports().place(0);
    Machine::with_functions(config, 1, vec![(place, Box::new(EchoNic::default()))])
}

#[test]
fn external_nic_receives_and_sends_on_the_wire_of_its_port() {
    let mut machine = machine().unwrap();
    assert_eq!(machine.functions().len(), 1, "it replaces the configured one");
    // A million frames per second.
    machine.start_traffic(&TrafficConfig::default()).unwrap();
    machine.run(&Limits::until(Ps::from_us(100)));
    machine.stop_traffic();
    machine.run(&Limits::until(Ps::from_us(200)));
    let sent = machine.nic(0).stats().tx_sent;
    assert!((95..=105).contains(&sent), "{sent} frames in 100 us at 1 Mpps");
    assert_eq!(machine.ports()[0].loadgen.stats().returned, sent);
    machine.check_conservation();
    let mut other = self::machine().unwrap();
    other.restore(&machine.checkpoint("guest", ""), "guest").unwrap();
    assert_eq!(other.nic(0).stats(), machine.nic(0).stats());
}

#[test]
fn vendor_capability_is_listed_and_its_accesses_reach_the_function() {
    let mut machine = machine().unwrap();
    let ecam = u64::from(machine.functions()[0].place().device) << 15;
    assert_eq!(machine.vendor_read(Ps::ZERO, ecam + 0x34, AccessSize::B1), VENDOR_AT);
    let mut word = |at: u64| machine.vendor_read(Ps::ZERO, ecam + VENDOR_AT + at, AccessSize::B4);
    assert_eq!((word(0), word(4)), (0x1108_0009, 0xaa44_3322), "header and bytes, the last one inverted");
    machine.config_write(ecam + VENDOR_AT + 4, AccessSize::B4, 0x9988_7766);
    assert_eq!(
        machine.vendor_read(Ps::ZERO, ecam + VENDOR_AT + 4, AccessSize::B2),
        0x3366,
        "one byte is writable"
    );
    machine.config_write(ecam + 4, AccessSize::B2, 6);
    let name = machine.functions()[0].function().identity().device;
    assert_eq!(name, 0xec40);
}

#[test]
fn function_without_a_wire_cannot_replace_a_ports_nic() {
    struct Blank;
    impl PciFunction for Blank {
        fn identity(&self) -> FunctionIdentity {
            FunctionIdentity::gpex_host_bridge()
        }
        fn read(&mut self, _: Ps, _: u8, _: u64, _: AccessSize, _: &mut dyn FunctionPorts) -> u64 {
            0
        }
        fn write(&mut self, _: Ps, _: u8, _: u64, _: AccessSize, _: u64, _: &mut dyn FunctionPorts) {}
        fn wake(&mut self, _: Ps, _: u64, _: &mut dyn FunctionPorts) {}
        fn reset(&mut self, _: Ps, _: &mut dyn FunctionPorts) {}
        fn save(&self) -> Vec<u8> {
            Vec::new()
        }
        fn restore(&mut self, _: &[u8]) -> Result<(), SnapshotError> {
            Ok(())
        }
    }
    let config = MachineConfig::default();
    let place = config.ports().place(0);
    let error = Machine::with_functions(config, 1, vec![(place, Box::new(Blank))]).err().unwrap().to_string();
    assert!(error.contains("no wire"), "{error}");
}
