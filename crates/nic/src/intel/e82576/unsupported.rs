//! Features that software requests by registers but that the model does not have; these registers only hold
//! their values. Software continues as on a NIC where the feature has no effect. The log warns when such a
//! register is written, and a run lists the requests that are in effect at its end.

use doorbell_sim::{Ps, log};

use super::Igb;
use super::bits::{ctrl_ext, ivar};
use super::identity::VECTORS;
use super::regs::Reg;

/// MRQC: queue selection mode (§8.10), and the supported modes: one queue, and RSS.
const MRQC_MODE: u32 = 7;
const MRQC_MODES: [u32; 2] = [0, 2];
/// IMIR: frames that match the filter interrupt immediately (§8.11).
const IMMEDIATE: u32 = 1 << 16;
/// IMIREXT: TCP flags to compare, and the bit that disables the comparison (§8.11).
const TCP_FLAGS: u32 = 0x3f << 13;
const ANY_TCP_FLAGS: u32 = 1 << 19;
/// VLAPQF: queue enable bits of the VLAN priorities (§8.11).
const PRIORITY_HAS_QUEUE: u32 = 0x8888_8888;
/// TSYNCTXCTL and TSYNCRXCTL: time stamps are enabled (§8.16).
const TIME_STAMPS: u32 = 1 << 4;
/// Registers that [`unsupported_feature`] checks.
const CHECKED: [Reg; 13] = [
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

/// Returns the unsupported feature that a register value requests.
fn unsupported_feature(reg: Reg, value: u32) -> Option<&'static str> {
    match reg {
        Reg::CtrlExt if value & ctrl_ext::EXTENDED_VLAN != 0 => Some("an outer VLAN tag in each frame"),
        Reg::Fcrtv if value != 0 => Some("repeated XOFF frames"),
        Reg::Ivar | Reg::IvarMisc if has_invalid_vector(value) => Some("an interrupt vector above 24"),
        Reg::Mrqc if !MRQC_MODES.contains(&(value & MRQC_MODE)) => Some("queue pools (VMDq)"),
        Reg::VtCtl if value != 0 => Some("queue pools (VMDq)"),
        Reg::Imir if value & IMMEDIATE != 0 => Some("low latency interrupts"),
        Reg::Imirext if value & TCP_FLAGS != 0 && value & ANY_TCP_FLAGS == 0 => Some("filters by TCP flags"),
        Reg::Vlapqf if value & PRIORITY_HAS_QUEUE != 0 => Some("queues by VLAN priority"),
        Reg::Tcptimer if value != 0 => Some("the TCP timer"),
        Reg::Wufc if value != 0 => Some("wake-up by frames"),
        Reg::Tsynctxctl | Reg::Tsyncrxctl if value & TIME_STAMPS != 0 => Some("frame time stamps"),
        _ => None,
    }
}

/// Whether one of four IVAR entries has a vector that the chip does not have.
fn has_invalid_vector(entries: u32) -> bool {
    let beyond = |entry: u8| {
        let entry = u32::from(entry);
        entry & ivar::VALID != 0 && entry & ivar::VECTOR >= VECTORS as u32
    };
    entries.to_le_bytes().into_iter().any(beyond)
}

fn message(reg: Reg, index: usize, value: u32, feature: &str) -> String {
    let name = reg.info().name;
    let subscript = if reg.info().count > 1 { format!("[{index}]") } else { String::new() };
    format!("{name}{subscript} = {value:#x} requests {feature}, which the model does not support")
}

impl Igb {
    /// Logs a warning if a register that was written requests an unsupported feature.
    pub(super) fn warn_unsupported(&self, now: Ps, reg: Reg, index: usize) {
        let value = self.regs.at(reg, index);
        if let Some(feature) = unsupported_feature(reg, value) {
            log!(now, Nic, Warn, "{}: {}", self.name, message(reg, index, value, feature));
        }
    }

    /// Lists the unsupported features that software currently requests, one line per register.
    pub(super) fn unsupported_requests(&self) -> Vec<String> {
        let all =
            CHECKED.iter().flat_map(|&reg| (0..reg.info().count as usize).map(move |index| (reg, index)));
        let line = |(reg, index)| {
            let value = self.regs.at(reg, index);
            unsupported_feature(reg, value).map(|feature| message(reg, index, value, feature))
        };
        all.filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_features_are_reported_and_supported_ones_are_not() {
        for (reg, value, expected) in [
            (Reg::Fcrtv, 0x800, "XOFF"),
            (Reg::Ivar, 0x0099_0000, "vector"),
            (Reg::IvarMisc, 0x9f00, "vector"),
            (Reg::Mrqc, 3, "VMDq"),
            (Reg::VtCtl, 1 << 30, "VMDq"),
            (Reg::Imir, 0x1_0000, "latency"),
            (Reg::CtrlExt, 1 << 26, "outer VLAN tag"),
            (Reg::Imirext, 1 << 17 | 1 << 12, "TCP flags"),
            (Reg::Vlapqf, 0xb000, "VLAN priority"),
            (Reg::Tcptimer, 1 << 24, "TCP timer"),
            (Reg::Wufc, 2, "wake-up"),
            (Reg::Tsyncrxctl, 0x10, "time stamps"),
        ] {
            assert!(
                unsupported_feature(reg, value).is_some_and(|feature| feature.contains(expected)),
                "{expected}"
            );
            assert!(CHECKED.contains(&reg));
            assert_eq!(unsupported_feature(reg, 0), None);
        }
        assert_eq!(unsupported_feature(Reg::Mrqc, 0x33_0002), None, "RSS");
        assert_eq!(unsupported_feature(Reg::Imir, 0x2_0000 | 11_212), None, "a filter by port");
        assert_eq!(
            unsupported_feature(Reg::Imirext, 1 << 19 | 1 << 17 | 1 << 12),
            None,
            "flags are not compared"
        );
        assert_eq!(unsupported_feature(Reg::Vlapqf, 0x3000), None, "a queue that is not enabled");
        assert_eq!(unsupported_feature(Reg::Ivar, 0x9898_1f98), None, "vector 24, and an invalid entry");
    }
}
