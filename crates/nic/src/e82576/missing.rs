//! What software asks for by registers that only hold their values, because this model does without what they are for. It goes on as
//! software would on a card on which nothing comes of it; the log says so.

use doorbell_sim::{Ps, log};

use super::Igb;
use super::regs::Reg;

/// CTRL: receive and transmit flow control (§8.2).
const FLOW_CONTROL: u32 = 3 << 27;
/// FCRTL: XON is enabled (§8.5).
const XON_ENABLE: u32 = 1 << 31;
/// MRQC: how queues are chosen (§8.10), and the ways that are there: without a hash, and by RSS.
const MRQC_MODE: u32 = 7;
const MRQC_MODES: [u32; 2] = [0, 2];
/// IMIR: a frame for the filter interrupts at once (§8.11).
const IMMEDIATE: u32 = 1 << 16;
/// TSYNCTXCTL and TSYNCRXCTL: time stamps are taken (§8.16).
const TIME_STAMPS: u32 = 1 << 4;

/// What a register's value asks for in vain.
fn asked(reg: Reg, value: u32) -> Option<&'static str> {
    match reg {
        Reg::Ctrl | Reg::CtrlDup if value & FLOW_CONTROL != 0 => Some("PAUSE frames"),
        Reg::Fcrtl if value & XON_ENABLE != 0 => Some("PAUSE frames"),
        Reg::Fcrth if value != 0 => Some("PAUSE frames"),
        Reg::Mrqc if !MRQC_MODES.contains(&(value & MRQC_MODE)) => Some("pools of queues (VMDq)"),
        Reg::VtCtl if value != 0 => Some("pools of queues (VMDq)"),
        Reg::Imir if value & IMMEDIATE != 0 => Some("low latency interrupts"),
        Reg::Tsynctxctl | Reg::Tsyncrxctl if value & TIME_STAMPS != 0 => Some("time stamps of frames"),
        _ => None,
    }
}

impl Igb {
    /// Tells of a register that was written, if it asks for something that is not there.
    pub(super) fn tell_missing(&self, now: Ps, reg: Reg, value: u32) {
        if let Some(what) = asked(reg, value) {
            let name = reg.info().name;
            log!(
                now,
                Nic,
                Warn,
                "{}: {name} = {value:#x} asks for {what}, which the model has not",
                self.name
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_in_vain_is_named_and_what_is_there_is_not() {
        for (reg, value, what) in [
            (Reg::Ctrl, 1 << 28, "PAUSE"),
            (Reg::Fcrtl, 0x8000_0000, "PAUSE"),
            (Reg::Fcrth, 0x8000, "PAUSE"),
            (Reg::Mrqc, 3, "VMDq"),
            (Reg::VtCtl, 1 << 30, "VMDq"),
            (Reg::Imir, 0x1_0000, "latency"),
            (Reg::Tsyncrxctl, 0x10, "time stamps"),
        ] {
            assert!(asked(reg, value).is_some_and(|told| told.contains(what)), "{what}");
            assert_eq!(asked(reg, 0), None);
        }
        assert_eq!(asked(Reg::Mrqc, 0x33_0002), None, "RSS");
        assert_eq!(asked(Reg::Imir, 0x2_0000 | 11_212), None, "a filter by a port");
    }
}
