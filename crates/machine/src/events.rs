//! Everything that can wait in a machine's event queue.

use doorbell_sim::{AccessSize, Frame, PhysAddr};
use serde::{Deserialize, Serialize};

/// An event. Its phase within a picosecond is given where it is scheduled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A store to a device arrives there.
    DeviceWrite { addr: PhysAddr, size: AccessSize, value: u64 },
    /// A hart's read of a device arrives there; the hart waits for the answer.
    DeviceRead { hart: u32 },
    /// The answer to a device read is back at the hart.
    DeviceAnswer { hart: u32, value: u64 },
    /// A hart's access to a device leaves its core.
    DeviceStart { hart: u32 },
    /// A timer compare value may be reached.
    HartTimer { hart: u32 },
    /// The real-time clock's alarm may be due.
    RtcAlarm,
    /// A NIC's own wake-up.
    Nic { port: u8, event: doorbell_nic::Event },
    /// A load generator's own wake-up.
    LoadGen { port: u8, event: doorbell_loadgen::Event },
    /// A frame's last bit reaches a NIC.
    FrameAtNic { port: u8, frame: Frame },
    /// A frame's last bit reaches a load generator.
    FrameAtLoadGen { port: u8, frame: Frame },
    /// A frame is in a guest's memory, which is where its generator wants it.
    FrameAtSink { port: u8, frame: Frame },
    /// A disk's request may be done.
    Disk { slot: u8 },
    /// Another policy of direct cache access comes into force: the schedule's entry.
    DcaChange { index: u16 },
}
