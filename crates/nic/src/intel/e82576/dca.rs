//! Direct cache access (§8.13): the target core of a queue's writes. DCA_CTRL enables it globally. DCA_RXCTRL
//! and DCA_TXCTRL set a queue's core and enable the hint for written-back descriptors, split-off headers and
//! payload. The memory system decides how to use the hint.
//!
//! CPUID has a platform-defined meaning; here it is a hart number. The legacy encoding has three tag bits.
//! DCA 1.0 has eight, and a tag of zero means no target; hart 0 is therefore written with bit 7 set, which is
//! otherwise ignored.

use super::E82576;
use super::bits::{dca_ctrl, dca_queue};
use super::regs::Reg;
use crate::intel::Queue;
use crate::intel::chip::Regs;
use crate::parts::dma::TransferClass;

/// Hart number in the 8 bits of a DCA 1.0 tag.
const TAG_HART: u8 = 0x7f;
/// Hart number in a tag of the legacy encoding.
const LEGACY_HART: u8 = 0x7;

/// Returns the target core of a queue's write of this class, if DCA is enabled for it.
#[inline]
pub(super) fn core(regs: &Regs<E82576>, queue: Queue, class: TransferClass) -> Option<u8> {
    let control = regs.get(Reg::DcaCtrl);
    if control & dca_ctrl::DISABLE != 0 {
        return None;
    }
    let of = if matches!(queue, Queue::Receive(_)) { Reg::DcaRxctrl } else { Reg::DcaTxctrl };
    let own = regs.at(of, queue.index());
    let hint_enable = match class {
        TransferClass::WriteBack => dca_queue::DESCRIPTORS,
        TransferClass::Header => dca_queue::HEADERS,
        TransferClass::Payload => dca_queue::PAYLOAD,
        TransferClass::Read => return None,
    };
    let cpu = (own >> dca_queue::CPU_SHIFT) as u8;
    match (own & hint_enable != 0, control >> dca_ctrl::MODE_SHIFT & 0xf) {
        (true, dca_ctrl::LEGACY) => Some(cpu & LEGACY_HART),
        (true, dca_ctrl::DCA_1_0) if cpu != 0 => Some(cpu & TAG_HART),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores_of_writes(control: u32, own: u32) -> [Option<u8>; 5] {
        let mut regs = Regs::<E82576>::new();
        regs.set(Reg::DcaCtrl, control);
        regs.set_at(Reg::DcaRxctrl, 3, own);
        regs.set_at(Reg::DcaTxctrl, 3, own);
        let receive =
            [TransferClass::WriteBack, TransferClass::Header, TransferClass::Payload, TransferClass::Read];
        let [report, header, payload, read] = receive.map(|class| core(&regs, Queue::Receive(3), class));
        assert_eq!((read, core(&regs, Queue::Receive(2), TransferClass::WriteBack)), (None, None));
        [report, header, payload, core(&regs, Queue::Transmit(3), TransferClass::WriteBack), read]
    }

    #[test]
    fn enabled_kinds_of_writes_target_the_queues_core() {
        let (legacy, dca_1_0) = (0, 2);
        assert_eq!(cores_of_writes(legacy, 5 << 24 | 0xe0), [Some(5), Some(5), Some(5), Some(5), None]);
        assert_eq!(cores_of_writes(legacy, 5 << 24 | 0x20), [Some(5), None, None, Some(5), None]);
        assert_eq!(cores_of_writes(dca_1_0, 11 << 24 | 0xc0), [None, Some(11), Some(11), None, None]);
        assert_eq!(cores_of_writes(legacy, 11 << 24 | 0x20)[0], Some(3), "the legacy tag has three bits");
        assert_eq!(
            (cores_of_writes(dca_1_0, 0x20)[0], cores_of_writes(dca_1_0, 0x80 << 24 | 0x20)[0]),
            (None, Some(0))
        );
        assert_eq!(
            [1, 3, 4].map(|control| cores_of_writes(control, 5 << 24 | 0xe0)),
            [[None; 5]; 3],
            "disabled, or an undefined mode"
        );
    }

    #[test]
    fn dca_is_off_after_reset() {
        let regs = Regs::<E82576>::new();
        let queues = (0..16).flat_map(|queue| [Queue::Receive(queue), Queue::Transmit(queue)]);
        assert!(queues.into_iter().all(|queue| core(&regs, queue, TransferClass::WriteBack).is_none()));
    }
}
