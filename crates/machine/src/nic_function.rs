//! A NIC, of whichever model, as a PCI function: its identity in the host bridge's terms, its registers by base address register, and its side of
//! the machine, which besides what every function has is the wire of the port that it stands behind.

use doorbell_loadgen::StageRecorder;
use doorbell_nic::{Card, NicModel};
use doorbell_pcie::{BarKind, Capability, FunctionIdentity, HeaderType, MsiX};
use doorbell_sim::ports::{DeliveryPort, DmaPort, DmaRequest, IrqPort, IrqSink, Timers, WirePort};
use doorbell_sim::{Done, Frame, FrameId, FrameObserver, Phase, PhysAddr, Ps, RxStamps, TxStamps};
use doorbell_trace::system::EventKind;

use crate::events::Event;
use crate::functions::FunctionSide;
use crate::network::Crossing;
use crate::port::{WireSide, transmit};

/// What a NIC sees of the machine.
pub(crate) struct NicSide<'s, 'a>(pub &'s mut FunctionSide<'a>);

impl<'a> NicSide<'_, 'a> {
    fn wire(&mut self) -> &mut WireSide<'a> {
        self.0.wire.as_mut().expect("a NIC stands behind a port")
    }
}

impl DmaPort for NicSide<'_, '_> {
    fn request_read(&mut self, now: Ps, request: DmaRequest) -> Done {
        self.0.bus.request_read(now, request)
    }

    fn request_write(&mut self, now: Ps, request: DmaRequest) -> Done {
        self.0.bus.request_write(now, request)
    }

    fn read(&mut self, addr: PhysAddr, into: &mut [u8]) {
        self.0.bus.read(addr, into);
    }

    fn write(&mut self, addr: PhysAddr, from: &[u8]) {
        self.0.bus.write(addr, from);
    }

    fn buffer_returned(&mut self, addr: PhysAddr, bytes: u64) {
        self.0.bus.buffer_returned(addr, bytes);
    }
}

impl DeliveryPort for NicSide<'_, '_> {
    fn frame_in_memory(&mut self, now: Ps, pieces: &[(PhysAddr, u32)], wire_bytes: u32) {
        let WireSide { port, sink, .. } = *self.wire();
        if !sink {
            return;
        }
        let mut bytes = vec![0; pieces.iter().map(|(_, len)| *len as usize).sum()];
        let mut at = 0;
        for (addr, len) in pieces {
            let end = at + *len as usize;
            if !self.0.bus.ram.copy_out(*addr, &mut bytes[at..end]) {
                return;
            }
            at = end;
        }
        // A receiver may keep the FCS.
        bytes.truncate((wire_bytes as usize).saturating_sub(Frame::FCS_BYTES));
        let event = Event::FrameAtSink { port, frame: Frame::new(bytes) };
        self.0.queue.schedule(now, Phase::Wire, event);
    }
}

impl FrameObserver for NicSide<'_, '_> {
    fn recognise(&self, frame: &[u8]) -> Option<FrameId> {
        StageRecorder::recognise(self.0.wire.as_ref()?.stages, frame)
    }

    fn frame_received(&mut self, id: FrameId, stamps: RxStamps) {
        self.wire().stages[id.stream as usize].received(id.sequence, stamps);
    }

    fn frame_sent(&mut self, id: FrameId, stamps: TxStamps) {
        self.wire().stages[id.stream as usize].sent(id.sequence, stamps);
    }
}

impl IrqPort for NicSide<'_, '_> {
    fn set_irq(&mut self, level: bool) {
        self.0.set_irq(level);
    }
}

impl IrqSink for NicSide<'_, '_> {
    fn raise(&mut self, now: Ps, vector: u16) {
        self.0.raise(now, vector);
    }

    fn withdraw(&mut self, vector: u16) {
        self.0.withdraw(vector);
    }
}

impl Timers<doorbell_nic::Event> for NicSide<'_, '_> {
    fn wake_at(&mut self, at: Ps, event: doorbell_nic::Event) {
        let function = self.0.index;
        self.0.queue.schedule(at, Phase::Dma, Event::Nic { function, event });
    }
}

impl WirePort for NicSide<'_, '_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        self.0.bus.record(now, EventKind::FrameOut { bytes: frame.len_with_fcs() as u32 });
        let wire = self.wire();
        let port = wire.port;
        // What it was, should the link spoil it on its way to a generator.
        let whole = (wire.cable.is_none() && !frame.fcs_bad && wire.link.may_fail()).then(|| frame.clone());
        let sent = transmit(wire.link, now, port, &mut frame);
        let arrives_at = sent.arrives_at;
        let spoilt = whole.filter(|_| sent.lost || frame.fcs_bad);
        if let Some(frame) = spoilt {
            self.0.queue.schedule(arrives_at, Phase::Wire, Event::FrameSpoilt { port, frame });
        }
        match self.wire().cable {
            _ if sent.lost => {}
            Some(cable) => cable.push(Crossing { arrives_at, frame }),
            None => self.0.queue.schedule(arrives_at, Phase::Wire, Event::FrameAtLoadGen { port, frame }),
        }
        sent.free_at
    }

    fn free_at(&self) -> Ps {
        self.0.wire.as_ref().map_or(Ps::ZERO, |wire| wire.link.free_at())
    }
}

/// A model's own figures in the host bridge's terms.
pub(crate) fn identity(model: NicModel) -> FunctionIdentity {
    let own = Card::identity_of(model);
    let mut bars = [BarKind::None; 6];
    for bar in own.bars {
        bars[usize::from(bar.index)] = match bar.io {
            true => BarKind::Io { bytes: bar.size },
            false => BarKind::Memory32 { bytes: bar.size, prefetchable: false },
        };
    }
    let power = own.power_management;
    let mut capabilities = vec![Capability::PowerManagement {
        offset: power.offset,
        capabilities: power.capabilities,
        no_soft_reset: false,
    }];
    if let Some(messages) = own.messages {
        capabilities.push(Capability::Msi { offset: messages.msi, messages: 1, wide: true, masks: true });
        let (offset, vectors) = (messages.msix, messages.vectors);
        let (table, pending) = ((messages.bar, 0), (messages.bar, messages.pending));
        capabilities.push(Capability::MsiX(MsiX { offset, vectors, table, pending }));
    }
    FunctionIdentity {
        vendor: own.vendor,
        device: own.device,
        revision: own.revision,
        class: own.class,
        subsystem_vendor: own.subsystem_vendor,
        subsystem: own.subsystem,
        bars,
        interrupt_pin: own.interrupt_pin,
        min_grant_max_latency: [own.min_grant, own.max_latency],
        capabilities,
        extended_space: false,
        header: HeaderType::Function,
    }
}
