//! Events of a machine's event queue.

use doorbell_sim::{AccessSize, Frame, PhysAddr};
use serde::{Deserialize, Serialize};

/// An event. Its phase within a picosecond is given when it is scheduled.
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
    /// A PCI function's own wake-up.
    Function { function: u8, event: u64 },
    /// A load generator's own wake-up.
    LoadGen { port: u8, event: doorbell_loadgen::Event },
    /// A frame's last bit reaches a NIC.
    FrameAtNic { port: u8, frame: Frame },
    /// A frame's last bit reaches a load generator.
    FrameAtLoadGen { port: u8, frame: Frame },
    /// A frame is in guest memory, which is where its generator counts it as delivered.
    FrameAtSink { port: u8, frame: Frame },
    /// A disk request may be complete.
    Disk { slot: u8 },
    /// Entry `index` of the direct cache access schedule takes effect.
    DcaChange { index: u16 },
    /// A function's message signalled interrupt arrives at its address.
    Message { function: u8, addr: PhysAddr, data: u32 },
    /// A hart leaves the reset ROM.
    HartStart { hart: u32 },
    /// A frame was lost or damaged on its way to a load generator. The event holds the frame as sent, and
    /// occurs at its arrival time.
    FrameSpoilt { port: u8, frame: Frame },
}

#[cfg(test)]
mod tests {
    use doorbell_sim::{Phase, Ps};

    use super::*;
    use crate::config::MachineConfig;
    use crate::machine::Machine;

    #[test]
    fn checkpoint_with_events_of_missing_parts_is_rejected() {
        let frame = || Frame::new(vec![0; 60]);
        let events = [
            Event::HartTimer { hart: 1 },
            Event::DeviceAnswer { hart: 1, value: 0 },
            Event::FrameAtNic { port: 1, frame: frame() },
            Event::FrameAtLoadGen { port: 1, frame: frame() },
            Event::FrameAtSink { port: 1, frame: frame() },
            Event::FrameSpoilt { port: 1, frame: frame() },
            Event::Disk { slot: 0 },
            Event::Function { function: 1, event: 0 },
            Event::Message { function: 1, addr: PhysAddr(0x8000_0000), data: 1 },
        ];
        let machine = || Machine::new(MachineConfig::default(), 1).unwrap();
        for event in events {
            let mut saved = machine();
            saved.queue.schedule(Ps(1), Phase::Wire, event.clone());
            let restored = machine().restore(&saved.checkpoint("guest", ""), "guest");
            assert!(restored.is_err(), "{event:?}");
        }
        assert!(machine().restore(&machine().checkpoint("guest", ""), "guest").is_ok());
    }
}
