//! What orders memory and the pipeline: store queue, atomics, fences, CSRs.

use doorbell_core::CoreKind;
use doorbell_machine::MachineConfig;
use doorbell_platform::sbi::assembler::{Assembler, csr, *};

use super::program::DATA;
use super::{CORES, Program, Row, machine, measure};

const TIMES: u64 = 8;

struct Order {
    what: &'static str,
    emit: fn(&mut Assembler),
    /// The loop's jump waits for its turn as any of them.
    serial: bool,
    /// The closed form of the out-of-order core, and its value.
    wide: (&'static str, fn(&MachineConfig) -> u32),
    /// Of the in-order core.
    narrow: (&'static str, fn(&MachineConfig) -> u32),
}

fn l1(c: &MachineConfig) -> u32 {
    c.memory.l1d.latency
}

fn address(c: &MachineConfig) -> u32 {
    c.pipeline.address_cycles
}

const ORDERS: &[Order] = &[
    Order {
        what: "a store, and a load of it whose value the next store stores",
        emit: |a| {
            a.sd(A0, S0, 0);
            a.ld(A0, S0, 0);
        },
        serial: false,
        wide: ("forward", |c| c.pipeline.forward_cycles),
        narrow: ("address + forward: a store issues with its data", |c| {
            address(c) + c.pipeline.forward_cycles
        }),
    },
    Order {
        what: "a store of four bytes, and a load of eight there whose value the next store stores",
        emit: |a| {
            a.sw(A0, S0, 0);
            a.ld(A0, S0, 0);
        },
        serial: false,
        wide: ("commit + drain + L1 (store) + L1 (load)", |c| 1 + 1 + 2 * l1(c)),
        narrow: ("address + commit + drain + L1 (store) + L1 (load)", |c| address(c) + 1 + 1 + 2 * l1(c)),
    },
    Order {
        what: "atomics to one line",
        emit: |a| a.amoadd(A1, A2, S0),
        serial: false,
        wide: ("head of the window + address + L1 + commit", |c| 1 + address(c) + l1(c) + 1),
        narrow: ("address + L1", |c| address(c) + l1(c)),
    },
    Order {
        what: "a store, fence rw,rw, a load elsewhere",
        emit: |a| {
            a.sd(A0, S0, 0);
            a.fence();
            a.ld(A1, S0, 256);
        },
        serial: false,
        wide: ("drain + L1 + address + L1 + commit", |c| 1 + l1(c) + address(c) + l1(c) + 1),
        narrow: ("address + commit + drain + L1", |c| address(c) + 1 + 1 + l1(c)),
    },
    Order {
        what: "CSR reads",
        emit: |a| a.csrr(A1, csr::MSCRATCH),
        serial: true,
        wide: ("dispatch + issue + serialising + commit; a ninth for the loop's jump", |c| {
            3 + c.pipeline.serialising_cycles
        }),
        narrow: ("serialising; a ninth for the loop's jump", |c| c.pipeline.serialising_cycles),
    },
];

/// Store forwarding, atomics, fences and CSR reads, each some times in a row.
pub fn ordering() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        let config = machine(core, &[]);
        for of in ORDERS {
            let body = |a: &mut Assembler| (0..TIMES).for_each(|_| (of.emit)(a));
            let program = Program::new(|a| a.li(S0, DATA), body);
            let measured = measure(&config, &program, 200, 200);
            let (form, value) = if core == CoreKind::OutOfOrder { of.wide } else { of.narrow };
            let turns = if of.serial { TIMES + 1 } else { TIMES };
            let expected = f64::from(value(&config)) * turns as f64 / TIMES as f64;
            rows.push(Row {
                what: of.what.to_owned(),
                core,
                unit: "cycles each",
                form: form.to_owned(),
                expected: (expected, expected),
                measured: measured.each(TIMES),
            });
        }
    }
    rows
}
