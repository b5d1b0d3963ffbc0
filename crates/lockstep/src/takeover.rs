//! Initial state of our harts: at the firmware's first instruction, or copied from a stopped QEMU.

use anyhow::Context;
use doorbell_riscv::Privilege;

use crate::gdb::Gdb;
use crate::side::Side;
use crate::state::{CSRS, State, index};

/// ABI names in register order, as GDB names them.
const INTEGER_NAMES: &str = "zero ra sp gp tp t0 t1 t2 fp s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 \
                             t3 t4 t5 t6";
const FLOAT_NAMES: &str = "ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7 fs2 fs3 fs4 fs5 \
                           fs6 fs7 fs8 fs9 fs10 fs11 ft8 ft9 ft10 ft11";

/// The supervisor's software interrupt in `mip`.
const SSIP: u64 = 2;

impl Side {
    /// Copies integer registers and `pc`: the hand-over from the boot ROM.
    pub fn adopt(&mut self, state: &State) -> Result<(), String> {
        for (number, value) in state.x.iter().enumerate() {
            self.hart.set_reg(number, *value);
        }
        self.hart.set_pc(state.pc);
        match state.differences(&self.hart) {
            text if text.is_empty() => Ok(()),
            text => Err(format!("our hart and QEMU differ at reset:\n{text}")),
        }
    }

    /// Copies the complete state of a hart of a stopped QEMU; returns the common state.
    pub fn take_over(&mut self, gdb: &mut Gdb, hart: usize, floats: bool) -> anyhow::Result<State> {
        let read = |gdb: &mut Gdb, name: &str| -> anyhow::Result<u64> {
            gdb.register(name)?.with_context(|| format!("QEMU does not provide {name}"))
        };
        gdb.select(hart)?;
        let pc = read(gdb, "pc")?;
        let mut state = State { hart, pc, f: floats.then(Box::default), ..State::default() };
        for (number, name) in INTEGER_NAMES.split(' ').enumerate() {
            state.x[number] = read(gdb, name)?;
            self.hart.set_reg(number, state.x[number]);
        }
        for (number, name) in FLOAT_NAMES.split(' ').enumerate() {
            let value = read(gdb, name)?;
            self.hart.set_freg(number, value);
            if let Some(f) = &mut state.f {
                f[number] = value;
            }
        }
        for entry in 0..16 {
            self.set_csr(0x3b0 + entry, read(gdb, &format!("pmpaddr{entry}"))?);
        }
        let others = [("pmpcfg0", 0x3a0), ("pmpcfg2", 0x3a2), ("menvcfg", 0x30a), ("mcounteren", 0x306)];
        let more = [("scounteren", 0x106), ("senvcfg", 0x10a)];
        for (name, number) in others.into_iter().chain(more) {
            self.set_csr(number, read(gdb, name)?);
        }
        for (name, number) in [("fflags", 1), ("frm", 2)] {
            // Not readable while the floating-point unit is off; software sets it before its next use.
            self.set_csr(number, gdb.register(name)?.unwrap_or(0));
        }
        for (position, (name, number)) in CSRS.into_iter().enumerate() {
            state.csr[position] = read(gdb, name)?;
            // In mip only software bits are set; the inputs are injected when they are taken.
            let mask = if position == index::MIP { SSIP } else { u64::MAX };
            self.set_csr(number, state.csr[position] & mask);
        }
        self.hart.set_privilege(match read(gdb, "priv")? {
            0 => Privilege::User,
            1 => Privilege::Supervisor,
            _ => Privilege::Machine,
        });
        self.hart.set_pc(state.pc);
        let differences = state.differences(&self.hart);
        anyhow::ensure!(differences.is_empty(), "QEMU's state could not be taken over:\n{differences}");
        Ok(state)
    }

    fn set_csr(&mut self, number: u16, value: u64) {
        assert!(self.hart.set_csr(number, value), "CSR {number:#x} exists");
    }
}
