//! Operations that order memory accesses or serialise the pipeline: store queue, atomics, fences, CSRs.

use doorbell_assembler::{Assembler, csr, *};
use doorbell_core::CoreKind;
use doorbell_machine::MachineConfig;

use super::program::DATA;
use super::{CORES, Program, Row, machine, measure};

/// Repetitions of a case per iteration.
const TIMES: u64 = 8;

struct Case {
    what: &'static str,
    emit: fn(&mut Assembler),
    /// Whether the operations serialise the pipeline, so that the loop's jump costs as much as one of them.
    serial: bool,
    /// Closed form of the out-of-order core, and its value.
    wide: (&'static str, fn(&MachineConfig) -> u32),
    /// Closed form of the in-order core, and its value.
    narrow: (&'static str, fn(&MachineConfig) -> u32),
}

fn l1(c: &MachineConfig) -> u32 {
    c.memory.l1d.latency
}

fn address(c: &MachineConfig) -> u32 {
    c.pipeline.address_cycles
}

const CASES: &[Case] = &[
    Case {
        what: "store and load of eight bytes; the next store writes the loaded value",
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
    Case {
        what: "store of four bytes and load of eight; the next store writes the loaded value",
        emit: |a| {
            a.sw(A0, S0, 0);
            a.ld(A0, S0, 0);
        },
        serial: false,
        wide: ("commit + drain + L1 (store) + L1 (load)", |c| 1 + 1 + 2 * l1(c)),
        narrow: ("address + commit + drain + L1 (store) + L1 (load)", |c| address(c) + 1 + 1 + 2 * l1(c)),
    },
    Case {
        what: "atomics to one line",
        emit: |a| a.amoadd(A1, A2, S0),
        serial: false,
        wide: ("head of the window + address + L1 + commit", |c| 1 + address(c) + l1(c) + 1),
        narrow: ("address + L1", |c| address(c) + l1(c)),
    },
    Case {
        what: "store, fence rw,rw, load from another line",
        emit: |a| {
            a.sd(A0, S0, 0);
            a.fence();
            a.ld(A1, S0, 256);
        },
        serial: false,
        wide: ("drain + L1 + address + L1 + commit", |c| 1 + l1(c) + address(c) + l1(c) + 1),
        narrow: ("address + commit + drain + L1", |c| address(c) + 1 + 1 + l1(c)),
    },
    Case {
        what: "CSR reads",
        emit: |a| a.csrr(A1, csr::MSCRATCH),
        serial: true,
        wide: ("(dispatch + issue + serialising + commit) × 9/8 for the loop's jump", |c| {
            3 + c.pipeline.serialising_cycles
        }),
        narrow: ("serialising × 9/8 for the loop's jump", |c| c.pipeline.serialising_cycles),
    },
];

/// Store forwarding, atomics, fences and CSR reads, each repeated in a loop.
pub fn ordering() -> Vec<Row> {
    let mut rows = Vec::new();
    for core in CORES {
        let config = machine(core, &[]);
        for of in CASES {
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
