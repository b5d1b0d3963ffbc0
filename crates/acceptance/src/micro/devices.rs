//! NIC register accesses: reads wait for the completion, writes are posted until the device's credits run
//! out.

use doorbell_assembler::*;
use doorbell_core::{CoreKind, DeviceStores};
use doorbell_machine::MachineConfig;
use doorbell_platform::map::{self, RegionId};

use super::{CORES, Program, Row, closed, machine, measure};

/// Accesses per iteration.
const TIMES: u64 = 16;
/// Base address given to the NIC's registers.
const REGISTERS: u64 = 0x4000_0000;
/// Offsets of STATUS and of IMC; writing zero to IMC has no effect.
const STATUS: i32 = 0x8;
const IMC: i32 = 0xd8;
/// Sizes in bytes of a read request, its completion, and a write: headers, framing and a 32-bit data word.
const REQUEST: f64 = 24.0;
const ANSWER: f64 = 20.0 + 4.0;
const WRITE: f64 = 24.0 + 4.0;

/// Maps the first NIC's registers, then repeats `body`.
fn program(body: impl Fn(&mut Assembler)) -> Program {
    let setup = |a: &mut Assembler| {
        // Device 1: set base address register 0, then enable memory space in the command register.
        a.li(T0, map::get(RegionId::PciEcam).base + (1 << 15));
        a.li(T1, REGISTERS);
        a.sw(T1, T0, 0x10);
        a.li(T1, 2);
        a.sw(T1, T0, 4);
        a.li(S0, REGISTERS);
    };
    Program::new(setup, |a| (0..TIMES).for_each(|_| body(a)))
}

/// Time of a packet on the link, in picoseconds.
fn packet_ps(config: &MachineConfig, bytes: f64) -> f64 {
    8.0 * bytes / config.pcie.packet_rate().0 as f64 * 1e12
}

/// Nanoseconds per read of the first NIC's STATUS register, from one commit to the next.
pub fn register_read_ns(config: &MachineConfig) -> f64 {
    let cycles = measure(config, &program(|a| a.lwu(A0, S0, STATUS)), 4, 50).each(TIMES);
    cycles * 1e9 / config.core.frequency.0 as f64
}

/// Register reads and writes by both kinds of cores.
pub fn registers() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        let config = machine(core, &[]);
        let latencies = config.pcie.latencies();
        let [link, root, register] =
            [latencies.link, latencies.root, latencies.register].map(|latency| latency.0 as f64);
        let address = f64::from(config.pipeline.address_cycles);
        // Cycles between two accesses: commit, issue at the head of the window, address.
        let between = match core {
            CoreKind::OutOfOrder => (2.0 + address, 2.0 + address),
            CoreKind::InOrder => (1.0 + address, 2.0 + address),
        };
        let trip = 2.0 * (root + link) + register + packet_ps(&config, REQUEST) + packet_ps(&config, ANSWER);
        let trip = closed::cycles_of(&config, trip);
        let read = measure(&config, &program(|a| a.lwu(A0, S0, STATUS)), 4, 50);
        rows.push(Row {
            what: "reads of a NIC register".to_owned(),
            core,
            unit: "cycles each",
            form: "commit, issue, address + 2 (root + link) + register + packets".to_owned(),
            // The completion waits for the next core clock edge.
            expected: (trip + between.0, trip + between.1 + 1.0),
            measured: read.each(TIMES),
        });
        let store = |a: &mut Assembler| a.sw(ZERO, S0, IMC);
        let first = measure(&config, &program(store), 1, 1);
        rows.push(Row {
            what: "posted writes, while the device has credits".to_owned(),
            core,
            unit: "cycles each",
            form: "commit, issue, address".to_owned(),
            expected: between,
            measured: first.each(TIMES),
        });
        let credit = root + 2.0 * link + packet_ps(&config, WRITE);
        let pace = closed::cycles_of(&config, credit) / f64::from(config.pcie.register_writes);
        let paced = measure(&config, &program(store), 20, 200);
        rows.push(Row {
            what: "posted writes, limited by credits".to_owned(),
            core,
            unit: "cycles each",
            form: "(root + 2 link + packet) / credits".to_owned(),
            expected: (pace - 0.02, pace + 0.02),
            measured: paced.each(TIMES),
        });
        let mut ordered = config.clone();
        ordered.pipeline.device_stores = DeviceStores::Ordered;
        let acknowledged = closed::cycles_of(&ordered, root) + address;
        let ordered = measure(&ordered, &program(store), 4, 50);
        rows.push(Row {
            what: "writes with `pipeline.device_stores=ordered`".to_owned(),
            core,
            unit: "cycles each",
            form: "address + root".to_owned(),
            // The acknowledgement waits for the next core clock edge.
            expected: (acknowledged, acknowledged + 1.0),
            measured: ordered.each(TIMES),
        });
    }
    rows
}
