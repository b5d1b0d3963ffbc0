//! A debugger's view of the CSRs: whatever the privilege level, and without an instruction's side effects.
//! The GDB stub, user-mode harnesses and the lockstep check look and reach in here.

use crate::hart::Hart;

impl Hart {
    /// A CSR's value as machine mode would read it; `None` if it does not exist. Counters and time read as they did
    /// for the instruction that was executed last.
    pub fn csr(&self, number: u16) -> Option<u64> {
        self.csr_value(number).ok()
    }

    /// Writes a CSR as machine mode would; what cannot be written stays (WARL). `false` if it does not exist.
    pub fn set_csr(&mut self, number: u16, value: u64) -> bool {
        let exists = self.csr_value(number).is_ok();
        if exists {
            // What a running hart does about the effect is done anew at each `run`.
            let _ = self.write_csr(number, value);
        }
        exists
    }
}
