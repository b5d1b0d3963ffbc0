//! Register access for the debugger.

use doorbell_riscv::Privilege;
use gdbstub::common::Tid;
use gdbstub::target::ext::base::single_register_access::SingleRegisterAccess;
use gdbstub::target::{TargetError, TargetResult};
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;

use crate::debuggee::{Debuggee, copy};

impl Debuggee {
    pub(crate) fn read_core_registers(
        &self,
        regs: &mut RiscvCoreRegs<u64>,
        thread: Tid,
    ) -> TargetResult<(), Debuggee> {
        let hart = &self.machine.harts()[self.hart_of(thread)?];
        regs.x = std::array::from_fn(|number| hart.reg(number));
        regs.pc = hart.pc();
        Ok(())
    }

    pub(crate) fn write_core_registers(
        &mut self,
        regs: &RiscvCoreRegs<u64>,
        thread: Tid,
    ) -> TargetResult<(), Debuggee> {
        let hart = self.hart_of(thread)?;
        self.write_pc(hart, regs.pc)?;
        for (number, value) in regs.x.iter().enumerate() {
            self.machine.hart_mut(hart).set_reg(number, *value);
        }
        Ok(())
    }

    /// Writing the current value always succeeds, because debuggers write all registers to change one.
    fn write_pc(&mut self, hart: usize, pc: u64) -> TargetResult<(), Debuggee> {
        if pc == self.machine.harts()[hart].pc() || self.machine.jump(hart, pc) {
            Ok(())
        } else {
            Err(TargetError::NonFatal)
        }
    }
}

impl SingleRegisterAccess<Tid> for Debuggee {
    fn read_register(
        &mut self,
        thread: Tid,
        id: RiscvRegId<u64>,
        buf: &mut [u8],
    ) -> TargetResult<usize, Debuggee> {
        let hart = &self.machine.harts()[self.hart_of(thread)?];
        let value = match id {
            RiscvRegId::Gpr(number) => hart.reg(usize::from(number)),
            RiscvRegId::Fpr(number) => hart.freg(usize::from(number)),
            RiscvRegId::Pc => hart.pc(),
            RiscvRegId::Csr(number) => hart.csr(number).ok_or(TargetError::NonFatal)?,
            RiscvRegId::Priv => return Ok(copy(&[hart.privilege() as u8], buf)),
            _ => return Err(TargetError::NonFatal),
        };
        Ok(copy(&value.to_le_bytes(), buf))
    }

    fn write_register(
        &mut self,
        thread: Tid,
        id: RiscvRegId<u64>,
        bytes: &[u8],
    ) -> TargetResult<(), Debuggee> {
        let hart = self.hart_of(thread)?;
        let mut padded = [0; 8];
        copy(bytes, &mut padded);
        let value = u64::from_le_bytes(padded);
        match id {
            RiscvRegId::Gpr(number) => self.machine.hart_mut(hart).set_reg(usize::from(number), value),
            RiscvRegId::Fpr(number) => self.machine.hart_mut(hart).set_freg(usize::from(number), value),
            RiscvRegId::Pc => self.write_pc(hart, value)?,
            RiscvRegId::Csr(number) if self.machine.set_csr(hart, number, value) => {}
            RiscvRegId::Priv => {
                let level = match value {
                    0 => Privilege::User,
                    1 => Privilege::Supervisor,
                    3 => Privilege::Machine,
                    _ => return Err(TargetError::NonFatal),
                };
                self.machine.hart_mut(hart).set_privilege(level);
            }
            _ => return Err(TargetError::NonFatal),
        }
        Ok(())
    }
}
