//! The machine's interface to a PCI function: DMA through the device's attachment, the caches and DRAM;
//! interrupts by pin and by message; wake-ups; and the wire of its port.

use doorbell_loadgen::StageRecorder;
use doorbell_pcie::{ConfigSpace, Message};
use doorbell_sim::ports::{
    DeliveryPort, DmaPort, DmaPurpose, DmaRequest, IrqPort, IrqSink, Timers, WirePort,
};
use doorbell_sim::{EventQueue, Frame, FrameId, FrameObserver, Phase, PhysAddr, Ps, RxStamps, TxStamps, log};
use doorbell_trace::system::EventKind;

use crate::dma::BusSide;
use crate::events::Event;
use crate::network::Crossing;
use crate::port::{WireSide, transmit};

/// Size of a message signalled interrupt in bytes.
const MESSAGE_BYTES: u32 = 4;

/// The machine's interface to one PCI function, during a call of that function.
pub(crate) struct FunctionSide<'a> {
    pub index: u8,
    pub queue: &'a mut EventQueue<Event>,
    pub irq: &'a mut bool,
    pub config: &'a mut ConfigSpace,
    pub bus: BusSide<'a>,
    pub wire: Option<WireSide<'a>>,
}

impl FunctionSide<'_> {
    /// Sends an interrupt message: a posted write after the function's earlier ones.
    fn send_message(&mut self, now: Ps, Message { address, data }: Message) {
        log!(now, Pcie, Debug, "function {}: message {data:#x} to {address:#x}", self.index);
        self.bus.record(now, EventKind::Interrupt { raised: true });
        let addr = PhysAddr(address);
        let request = DmaRequest::plain(addr, MESSAGE_BYTES, DmaPurpose::Interrupt, 0);
        let at = self.bus.request_message(now, request);
        let event = Event::Message { function: self.index, addr, data };
        self.queue.schedule(at, Phase::Dma, event);
    }

    /// Sends the pending messages that software has just unmasked.
    pub fn send_due(&mut self, now: Ps) {
        while let Some(message) = self.config.due_message() {
            self.send_message(now, message);
        }
    }
}

impl DmaPort for FunctionSide<'_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Ps {
        self.bus.request_read(now, request)
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Ps {
        self.bus.request_write(now, request)
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        self.bus.read(addr, into);
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        self.bus.write(addr, from);
    }

    fn buffer_returned(&mut self, addr: PhysAddr, bytes: u64) {
        self.bus.buffer_returned(addr, bytes);
    }
}

impl IrqPort for FunctionSide<'_> {
    fn set_irq(&mut self, level: bool) {
        *self.irq = level;
    }
}

impl IrqSink for FunctionSide<'_> {
    fn raise(&mut self, now: Ps, vector: u16) {
        if let Some(message) = self.config.raise(vector) {
            self.send_message(now, message);
        }
    }

    fn withdraw(&mut self, vector: u16) {
        self.config.withdraw(vector);
    }
}

impl Timers<u64> for FunctionSide<'_> {
    fn wake_at(&mut self, at: Ps, event: u64) {
        self.queue.schedule(at, Phase::Dma, Event::Function { function: self.index, event });
    }
}

impl DeliveryPort for FunctionSide<'_> {
    /// Copies the frame from guest memory to the load generator, if the generator expects frames there.
    fn frame_in_memory(&mut self, now: Ps, pieces: &[(PhysAddr, u32)], wire_bytes: u32) {
        let Some(WireSide { port, sink: true, .. }) = self.wire else { return };
        let mut bytes = vec![0; pieces.iter().map(|(_, len)| *len as usize).sum()];
        let mut at = 0;
        for (addr, len) in pieces {
            let end = at + *len as usize;
            if !self.bus.ram.copy_out(*addr, &mut bytes[at..end]) {
                return;
            }
            at = end;
        }
        // The receiver may store the FCS as well.
        bytes.truncate((wire_bytes as usize).saturating_sub(Frame::FCS_BYTES));
        let event = Event::FrameAtSink { port, frame: Frame::new(bytes) };
        self.queue.schedule(now, Phase::Wire, event);
    }
}

impl FrameObserver for FunctionSide<'_> {
    fn recognise(&self, frame: &[u8]) -> Option<FrameId> {
        StageRecorder::recognise(self.wire.as_ref()?.stages, frame)
    }

    fn frame_received(&mut self, id: FrameId, stamps: RxStamps) {
        if let Some(wire) = &mut self.wire {
            wire.stages[id.stream as usize].received(id.sequence, stamps);
        }
    }

    fn frame_sent(&mut self, id: FrameId, stamps: TxStamps) {
        if let Some(wire) = &mut self.wire {
            wire.stages[id.stream as usize].sent(id.sequence, stamps);
        }
    }
}

impl WirePort for FunctionSide<'_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        self.bus.record(now, EventKind::FrameOut { bytes: frame.len_with_fcs() as u32 });
        let Some(wire) = &mut self.wire else { return now };
        let port = wire.port;
        // The undamaged frame, in case the link damages or loses it on its way to a generator.
        let whole = (wire.cable.is_none() && !frame.fcs_bad && wire.link.may_fail()).then(|| frame.clone());
        let sent = transmit(wire.link, now, port, &mut frame);
        let arrives_at = sent.arrives_at;
        if let Some(frame) = whole.filter(|_| sent.lost || frame.fcs_bad) {
            self.queue.schedule(arrives_at, Phase::Wire, Event::FrameSpoilt { port, frame });
        }
        match &mut wire.cable {
            _ if sent.lost => {}
            Some(cable) => cable.push(Crossing { arrives_at, frame }),
            None => self.queue.schedule(arrives_at, Phase::Wire, Event::FrameAtLoadGen { port, frame }),
        }
        sent.free_at
    }

    fn free_at(&self) -> Ps {
        self.wire.as_ref().map_or(Ps::ZERO, |wire| wire.link.free_at())
    }
}
