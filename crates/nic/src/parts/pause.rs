//! MAC control frames and PAUSE (IEEE 802.3, annexes 31A and 31B).

use doorbell_sim::{BitsPerSec, Frame, Ps};
use serde::{Deserialize, Serialize};

use super::timer::{Timer, Wake};

/// The opcode of PAUSE.
pub const OPCODE: u16 = 0x0001;
/// Unit of pause times: the duration of 512 bits.
const QUANTUM_BITS: u64 = 512;
/// Destination address of PAUSE frames.
const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

/// Returns opcode and first parameter if the frame is a MAC control frame: it has this EtherType, which is
/// not zero, and one of these destination addresses.
pub fn control_frame(bytes: &[u8], of_type: u32, addresses: [[u8; 6]; 2]) -> Option<(u16, u16)> {
    let [type_high, type_low, op_high, op_low, time_high, time_low] = *bytes.get(12..18)?.first_chunk()?;
    if of_type == 0 || u32::from(u16::from_be_bytes([type_high, type_low])) != of_type {
        return None;
    }
    let to_us = addresses.iter().any(|address| bytes[..6] == *address);
    to_us.then(|| (u16::from_be_bytes([op_high, op_low]), u16::from_be_bytes([time_high, time_low])))
}

/// Flow control state of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    /// Pause requested by the partner; armed while transmission is paused.
    silence: Timer,
    /// XOFF was sent and no XON since.
    xoff_sent: bool,
}

/// Effect of a received PAUSE frame.
pub(crate) enum PauseEffect {
    /// The pause is over: transmission resumes.
    Resume,
    /// Schedule a wake-up at this time.
    WakeAt(Ps),
    /// A wake-up is already scheduled.
    WakePending,
}

/// Watermark that the level of the receive FIFO has reached.
pub(crate) enum Watermark {
    High,
    Low,
}

impl Pause {
    pub fn reset(&mut self) {
        self.silence.cancel();
        self.xoff_sent = false;
    }

    /// Whether transmission is paused.
    pub fn is_paused(&self) -> bool {
        self.silence.is_armed()
    }

    /// Handles a received PAUSE frame. A duration of zero (XON) ends the pause.
    pub fn receive(&mut self, now: Ps, duration: Ps) -> PauseEffect {
        if duration == Ps::ZERO {
            self.silence.cancel();
            return PauseEffect::Resume;
        }
        self.silence.arm(now.saturating_add(duration)).map_or(PauseEffect::WakePending, PauseEffect::WakeAt)
    }

    pub fn wake(&mut self, now: Ps) -> Wake {
        self.silence.wake(now)
    }

    /// Handles a new FIFO level. Returns the watermark reached: the high and the low one alternate. A high
    /// watermark of zero disables both.
    pub fn level(&mut self, used: u64, high: u64, low: u64) -> Option<Watermark> {
        let mark = match self.xoff_sent {
            false if high != 0 && used >= high => Watermark::High,
            true if used <= low => Watermark::Low,
            _ => return None,
        };
        self.xoff_sent = !self.xoff_sent;
        Some(mark)
    }
}

/// Duration of a pause.
pub fn duration(time: u16, rate: BitsPerSec) -> Ps {
    rate.time_for_bits(u64::from(time) * QUANTUM_BITS)
}

/// Creates a PAUSE frame with this EtherType, sent by this station: XOFF, or XON if the time is zero.
pub fn frame(station: [u8; 6], of_type: u16, time: u16) -> Frame {
    let mut bytes = vec![0u8; Frame::MIN_BYTES_WITH_FCS - Frame::FCS_BYTES];
    bytes[..6].copy_from_slice(&DESTINATION);
    bytes[6..12].copy_from_slice(&station);
    bytes[12..14].copy_from_slice(&of_type.to_be_bytes());
    bytes[14..16].copy_from_slice(&OPCODE.to_be_bytes());
    bytes[16..18].copy_from_slice(&time.to_be_bytes());
    Frame::new(bytes)
}

/// Returns the address in a pair of registers, first byte lowest.
pub fn address(low: u32, high: u32) -> [u8; 6] {
    let ([a, b, c, d], [e, f, ..]) = (low.to_le_bytes(), high.to_le_bytes());
    [a, b, c, d, e, f]
}
