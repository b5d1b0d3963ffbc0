//! Direct cache access (§8.13): for which core a queue's writes ask. DCA_CTRL switches it on for all queues; DCA_RXCTRL and DCA_TXCTRL name a
//! queue's core, and which of its writes ask for it: descriptors, received headers in buffers of their own, received payload. What becomes of
//! the wish is the memory system's affair.
//!
//! The core's name is the platform's: here a hart's number. By the older coding the tag of a write has three bits for it; by DCA 1.0 it has
//! eight, and a tag of zero asks for nobody, so hart 0 is named with the highest bit set, which means nothing else.

use super::E82576;
use super::bits::{dca_ctrl, dca_queue};
use super::regs::Reg;
use crate::intel::Queue;
use crate::intel::chip::Regs;
use crate::parts::dma::Moved;

/// The part of the 8 bits of a DCA 1.0 tag that names a hart.
const TAG_HART: u8 = 0x7f;
/// The core's bits in a tag of the older coding.
const LEGACY_HART: u8 = 0x7;

/// The core for which a queue's write of this kind asks.
#[inline]
pub(super) fn core(regs: &Regs<E82576>, queue: Queue, moved: Moved) -> Option<u8> {
    let control = regs.get(Reg::DcaCtrl);
    if control & dca_ctrl::DISABLE != 0 {
        return None;
    }
    let of = if matches!(queue, Queue::Receive(_)) { Reg::DcaRxctrl } else { Reg::DcaTxctrl };
    let own = regs.at(of, queue.index());
    let asks = match moved {
        Moved::Report => dca_queue::DESCRIPTORS,
        Moved::Header => dca_queue::HEADERS,
        Moved::Payload => dca_queue::PAYLOAD,
        Moved::Read => return None,
    };
    let name = (own >> dca_queue::CPU_SHIFT) as u8;
    match (own & asks != 0, control >> dca_ctrl::MODE_SHIFT & 0xf) {
        (true, dca_ctrl::LEGACY) => Some(name & LEGACY_HART),
        (true, dca_ctrl::DCA_1_0) if name != 0 => Some(name & TAG_HART),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(control: u32, own: u32) -> [Option<u8>; 5] {
        let mut regs = Regs::<E82576>::new();
        regs.set(Reg::DcaCtrl, control);
        regs.set_at(Reg::DcaRxctrl, 3, own);
        regs.set_at(Reg::DcaTxctrl, 3, own);
        let receive = [Moved::Report, Moved::Header, Moved::Payload, Moved::Read];
        let [report, header, payload, read] = receive.map(|moved| core(&regs, Queue::Receive(3), moved));
        assert_eq!((read, core(&regs, Queue::Receive(2), Moved::Report)), (None, None));
        [report, header, payload, core(&regs, Queue::Transmit(3), Moved::Report), read]
    }

    #[test]
    fn a_queue_asks_for_its_core_with_the_writes_that_are_switched_on() {
        let (legacy, newer) = (0, 2);
        assert_eq!(asked(legacy, 5 << 24 | 0xe0), [Some(5), Some(5), Some(5), Some(5), None]);
        assert_eq!(asked(legacy, 5 << 24 | 0x20), [Some(5), None, None, Some(5), None]);
        assert_eq!(asked(newer, 11 << 24 | 0xc0), [None, Some(11), Some(11), None, None]);
        assert_eq!(asked(legacy, 11 << 24 | 0x20)[0], Some(3), "three bits");
        assert_eq!((asked(newer, 0x20)[0], asked(newer, 0x80 << 24 | 0x20)[0]), (None, Some(0)));
        assert_eq!(
            [1, 3, 4].map(|off| asked(off, 5 << 24 | 0xe0)),
            [[None; 5]; 3],
            "disabled, or no such mode"
        );
    }

    #[test]
    fn nothing_is_asked_for_after_a_reset() {
        let regs = Regs::<E82576>::new();
        let queues = (0..16).flat_map(|queue| [Queue::Receive(queue), Queue::Transmit(queue)]);
        assert!(queues.into_iter().all(|queue| core(&regs, queue, Moved::Report).is_none()));
    }
}
