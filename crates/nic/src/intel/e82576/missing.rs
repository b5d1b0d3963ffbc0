//! What software asks for by registers that only hold their values, because this model does without what they are for. It goes on as
//! software would on a card on which nothing comes of it; the log says so when it is written, and a run says at its end what is still
//! asked for.

use doorbell_sim::{Ps, log};

use super::Igb;
use super::bits::{ctrl_ext, ivar};
use super::identity::VECTORS;
use super::regs::Reg;

/// MRQC: how queues are chosen (§8.10), and the ways that are there: without a hash, and by RSS.
const MRQC_MODE: u32 = 7;
const MRQC_MODES: [u32; 2] = [0, 2];
/// IMIR: a frame for the filter interrupts at once (§8.11).
const IMMEDIATE: u32 = 1 << 16;
/// IMIREXT: flags of TCP are compared, which of them, and that they are not (§8.11).
const TCP_FLAGS: u32 = 0x3f << 13;
const ANY_TCP_FLAGS: u32 = 1 << 19;
/// VLAPQF: a priority has a queue, a bit each (§8.11).
const PRIORITY_HAS_QUEUE: u32 = 0x8888_8888;
/// TSYNCTXCTL and TSYNCRXCTL: time stamps are taken (§8.16).
const TIME_STAMPS: u32 = 1 << 4;
/// Registers of which [`asked`] knows something.
const LOOKED_AT: [Reg; 13] = [
    Reg::CtrlExt,
    Reg::Fcrtv,
    Reg::Ivar,
    Reg::IvarMisc,
    Reg::Mrqc,
    Reg::VtCtl,
    Reg::Imir,
    Reg::Imirext,
    Reg::Vlapqf,
    Reg::Tcptimer,
    Reg::Wufc,
    Reg::Tsynctxctl,
    Reg::Tsyncrxctl,
];

/// What a register's value asks for in vain.
fn asked(reg: Reg, value: u32) -> Option<&'static str> {
    match reg {
        Reg::CtrlExt if value & ctrl_ext::EXTENDED_VLAN != 0 => Some("an outer VLAN tag in each frame"),
        Reg::Fcrtv if value != 0 => Some("XOFF frames that are repeated"),
        Reg::Ivar | Reg::IvarMisc if names_no_vector(value) => Some("an interrupt by a vector beyond 24"),
        Reg::Mrqc if !MRQC_MODES.contains(&(value & MRQC_MODE)) => Some("pools of queues (VMDq)"),
        Reg::VtCtl if value != 0 => Some("pools of queues (VMDq)"),
        Reg::Imir if value & IMMEDIATE != 0 => Some("low latency interrupts"),
        Reg::Imirext if value & TCP_FLAGS != 0 && value & ANY_TCP_FLAGS == 0 => {
            Some("filters by TCP's flags")
        }
        Reg::Vlapqf if value & PRIORITY_HAS_QUEUE != 0 => Some("queues by VLAN priority"),
        Reg::Tcptimer if value != 0 => Some("the TCP timer"),
        Reg::Wufc if value != 0 => Some("wake-up by frames"),
        Reg::Tsynctxctl | Reg::Tsyncrxctl if value & TIME_STAMPS != 0 => Some("time stamps of frames"),
        _ => None,
    }
}

/// Whether one of four causes is given a vector that the card has not.
fn names_no_vector(entries: u32) -> bool {
    let beyond = |entry: u8| {
        let entry = u32::from(entry);
        entry & ivar::VALID != 0 && entry & ivar::VECTOR >= VECTORS as u32
    };
    entries.to_le_bytes().into_iter().any(beyond)
}

fn said(reg: Reg, index: usize, value: u32, what: &str) -> String {
    let name = reg.info().name;
    let which = if reg.info().count > 1 { format!("[{index}]") } else { String::new() };
    format!("{name}{which} = {value:#x} asks for {what}, which the model has not")
}

impl Igb {
    /// Tells of a register that was written, if it asks for something that is not there.
    pub(super) fn warn_unsupported(&self, now: Ps, reg: Reg, index: usize) {
        let value = self.regs.at(reg, index);
        if let Some(what) = asked(reg, value) {
            log!(now, Nic, Warn, "{}: {}", self.name, said(reg, index, value, what));
        }
    }

    /// What software asks for now that is not there, a line a register.
    pub(super) fn unsupported_requests(&self) -> Vec<String> {
        let all =
            LOOKED_AT.iter().flat_map(|&reg| (0..reg.info().count as usize).map(move |index| (reg, index)));
        let line = |(reg, index)| {
            let value = self.regs.at(reg, index);
            asked(reg, value).map(|what| said(reg, index, value, what))
        };
        all.filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_in_vain_is_named_and_what_is_there_is_not() {
        for (reg, value, what) in [
            (Reg::Fcrtv, 0x800, "XOFF"),
            (Reg::Ivar, 0x0099_0000, "vector"),
            (Reg::IvarMisc, 0x9f00, "vector"),
            (Reg::Mrqc, 3, "VMDq"),
            (Reg::VtCtl, 1 << 30, "VMDq"),
            (Reg::Imir, 0x1_0000, "latency"),
            (Reg::CtrlExt, 1 << 26, "outer VLAN tag"),
            (Reg::Imirext, 1 << 17 | 1 << 12, "TCP's flags"),
            (Reg::Vlapqf, 0xb000, "VLAN priority"),
            (Reg::Tcptimer, 1 << 24, "TCP timer"),
            (Reg::Wufc, 2, "wake-up"),
            (Reg::Tsyncrxctl, 0x10, "time stamps"),
        ] {
            assert!(asked(reg, value).is_some_and(|told| told.contains(what)), "{what}");
            assert!(LOOKED_AT.contains(&reg));
            assert_eq!(asked(reg, 0), None);
        }
        assert_eq!(asked(Reg::Mrqc, 0x33_0002), None, "RSS");
        assert_eq!(asked(Reg::Imir, 0x2_0000 | 11_212), None, "a filter by a port");
        assert_eq!(asked(Reg::Imirext, 1 << 19 | 1 << 17 | 1 << 12), None, "a filter by no flags");
        assert_eq!(asked(Reg::Vlapqf, 0x3000), None, "a queue that is not on");
        assert_eq!(asked(Reg::Ivar, 0x9898_1f98), None, "vector 24, and one that is not valid");
    }
}
