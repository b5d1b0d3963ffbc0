//! What a checkpoint keeps of a NIC: a structure of its own, versioned, apart from the live ones.
//! Restoring checks everything, so that a damaged state is refused and cannot cause a panic later.
//!
//! The wake-ups on their way are not here: they are in the machine's event queue and are saved with
//! it. The configuration is not here either; it is the machine's.

use std::collections::VecDeque;

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Frame, PhysAddr, Ps, TxStamps};
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::dma::{Dma, Read, Write};
use super::interrupts::Interrupts;
use super::regs::Reg;
use super::rx::{Completed, Rx, RxFrame, RxQueue};
use super::tx::{Context, Done, Packet, Tx, TxQueue};
use super::{Nic, Queue};
use crate::parts::drops::ArrivalState;
use crate::parts::eeprom::Eeprom;
use crate::parts::engine::Engine;
use crate::parts::jobs::{self, Fetched, Job};
use crate::parts::mac::LinkStatus;
use crate::parts::outlet::Outlet;
use crate::parts::phy::Phy;
use crate::parts::ring::RingState;
use crate::parts::timer::Timer;
use crate::parts::waits::Waits;
use crate::stats::NicStats;

/// The version of [`NicState`].
pub const NIC_STATE_VERSION: u32 = 8;

/// The longest frame in the smallest buffers.
const FRAME_PIECES_MAX: usize = (1 << 16) / 256;
/// No moment in a saved state lies beyond this: some fifty days.
const LATEST: Ps = Ps(u64::MAX / 4);

/// A saved NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicState {
    registers: Vec<u32>,
    eeprom: Eeprom,
    phy: Phy,
    link: LinkStatus,
    control: Control,
    interrupts: Interrupts,
    dma: Dma,
    receive: ReceiveState,
    transmit: TransmitState,
    stats: NicStats,
    bus_master: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReceiveState {
    fifo: VecDeque<RxFrame>,
    dispatched: u64,
    cursor: u64,
    ring: RingState<u64, Completed>,
    begun: Vec<(PhysAddr, u32)>,
    engine: Engine,
    previous: ArrivalState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TransmitState {
    ring: RingState<[u64; 2], Done>,
    jobs: VecDeque<Job>,
    requested: u64,
    engine: Engine,
    packet: Packet,
    plain_context: Context,
    segment_context: Context,
    fifo: VecDeque<Frame>,
    leaving: VecDeque<(Ps, u64)>,
    pauses: VecDeque<Frame>,
    wire_free: Ps,
    wire: Timer,
    looped: VecDeque<(Ps, Frame)>,
}

impl Nic {
    /// The state as a checkpoint keeps it.
    pub fn save(&self) -> NicState {
        NicState {
            registers: self.regs.words().to_vec(),
            eeprom: self.eeprom.clone(),
            phy: self.phy.clone(),
            link: self.link.clone(),
            control: self.control.clone(),
            interrupts: self.irq.clone(),
            dma: self.dma.clone(),
            receive: save_receive(&self.rx),
            transmit: save_transmit(&self.tx),
            stats: self.stats.clone(),
            bus_master: self.bus_master,
        }
    }

    /// Continues from a saved state. On an error the NIC is as it was.
    pub fn restore(&mut self, state: NicState) -> Result<(), SnapshotError> {
        let refuse =
            |problem: &str| SnapshotError::Inconsistent { name: self.name.clone(), problem: problem.into() };
        let mut regs = self.regs.clone();
        if !regs.restore(&state.registers) {
            return Err(refuse("it has another number of registers"));
        }
        if !state.eeprom.is_consistent() || !state.dma.is_consistent(LATEST) {
            return Err(refuse("the EEPROM or the DMA queues are impossible"));
        }
        let (receive, transmit) = (&state.receive.ring, &state.transmit.ring);
        let in_flight = |queue| state.dma.descriptors(queue);
        if !receive.agrees(in_flight(Queue::Receive)) || !transmit.agrees(in_flight(Queue::Transmit)) {
            return Err(refuse("a ring's descriptors and the DMA in flight do not agree"));
        }
        if !receive.fits(regs.ring_head(Queue::Receive), regs.ring_count(Queue::Receive), 0)
            || !transmit.fits(
                regs.ring_head(Queue::Transmit),
                regs.ring_count(Queue::Transmit),
                state.transmit.jobs.len(),
            )
        {
            return Err(refuse("a descriptor ring and what is fetched of it do not agree"));
        }
        if regs.get(Reg::Pba) & 0xffff > 64 {
            return Err(refuse("PBA is too large"));
        }
        let rx = load_receive(state.receive, &state.dma).map_err(refuse)?;
        let tx = load_transmit(state.transmit, &state.dma).map_err(refuse)?;
        self.regs = regs;
        self.eeprom = state.eeprom;
        self.phy = state.phy;
        self.link = state.link;
        self.control = state.control;
        self.irq = state.interrupts;
        self.dma = state.dma;
        (self.rx, self.tx) = (rx, tx);
        self.stats = state.stats;
        self.bus_master = state.bus_master;
        Ok(())
    }
}

fn save_receive(rx: &Rx) -> ReceiveState {
    ReceiveState {
        fifo: rx.fifo.iter().cloned().collect(),
        dispatched: rx.dispatched as u64,
        cursor: rx.cursor as u64,
        ring: rx.queue.ring.save(|buffer| *buffer),
        begun: rx.queue.begun.clone(),
        engine: rx.engine.clone(),
        previous: rx.previous,
    }
}

fn load_receive(state: ReceiveState, dma: &Dma) -> Result<Rx, &'static str> {
    let dispatched = state.dispatched as usize;
    let torn = state.fifo.get(dispatched).map_or(0, |frame| frame.bytes.len());
    let sizes = state.fifo.iter().all(|frame| {
        (14..=1 << 16).contains(&frame.bytes.len()) && frame.stored <= 1 << 17 && frame.wire_bytes != 0
    });
    if !sizes || dispatched > state.fifo.len() || state.cursor != 0 && state.cursor as usize >= torn {
        return Err("the receive FIFO is impossible");
    }
    // The data writes in flight walk through the dispatched frames, front to back.
    let (mut walk, mut data, mut data_bytes) = (0usize, 0u32, 0u64);
    for write in dma.writes.kinds() {
        let Write::Data { queue, offset, len, last, .. } = write else { continue };
        data += 1;
        data_bytes += u64::from(*len);
        let end = u64::from(*offset) + u64::from(*len);
        let bytes = state.fifo.get(walk).map_or(0, |frame| frame.bytes.len() as u64);
        let fits = walk <= dispatched && (*last == (end == bytes)) && end <= bytes;
        if !fits || *queue != Queue::Receive {
            return Err("a data write does not fit the receive FIFO");
        }
        walk += usize::from(*last);
    }
    if walk != dispatched {
        return Err("the receive FIFO and the DMA in flight do not agree");
    }
    if state.begun.len() > FRAME_PIECES_MAX || state.begun.iter().any(|(_, len)| *len > 0xffff) {
        return Err("a frame lies in impossible pieces");
    }
    if !state.engine.is_consistent(LATEST) {
        return Err("the receiver is busy for longer than any run");
    }
    Ok(Rx {
        fifo: state.fifo.into_iter().collect(),
        dispatched,
        cursor: state.cursor as usize,
        queue: RxQueue::new(state.ring.load(dma.fetches(Queue::Receive), |buffer| buffer), state.begun),
        writes_in_flight: data,
        write_bytes_in_flight: data_bytes,
        engine: state.engine,
        previous: state.previous,
        waits: Waits::default(),
    })
}

fn save_transmit(tx: &Tx) -> TransmitState {
    let (leaving, wire_free, wire, looped) = tx.outlet.save();
    TransmitState {
        ring: tx.queue.ring.save(|fetched| fetched.words),
        jobs: tx.queue.jobs.clone(),
        requested: tx.queue.requested as u64,
        engine: tx.engine.clone(),
        packet: tx.queue.packet.clone(),
        plain_context: tx.queue.plain_context,
        segment_context: tx.queue.segment_context,
        fifo: tx.fifo.iter().map(|(frame, _)| frame.clone()).collect(),
        leaving,
        pauses: tx.pauses.clone(),
        wire_free,
        wire,
        looped,
    }
}

fn load_transmit(state: TransmitState, dma: &Dma) -> Result<Tx, &'static str> {
    let (mut data, mut flying) = (0u32, 0u64);
    for read in dma.reads.kinds() {
        let Read::Data { queue, len, .. } = read else { continue };
        if *queue != Queue::Transmit {
            return Err("a queue that receives reads data");
        }
        (data, flying) = (data + 1, flying + u64::from(*len));
    }
    if !jobs::are_consistent(&state.jobs, state.requested, (Queue::Transmit, dma)) {
        return Err("the transmit descriptors and the data reads in flight do not agree");
    }
    let small = |frame: &Frame| frame.bytes.len() <= 1 << 16;
    if state.packet.bytes.len() > 1 << 17 || !state.fifo.iter().all(small) {
        return Err("a packet in the transmit FIFO is too long");
    }
    let outlet = Outlet::load((state.leaving, state.wire_free, state.wire, state.looped), LATEST);
    let Some(outlet) = outlet.filter(|_| state.engine.is_consistent(LATEST)) else {
        return Err("the transmitter is busy for longer than any run");
    };
    let queue = TxQueue {
        reserved: flying + state.packet.bytes.len() as u64,
        reads_in_flight: data,
        ring: state
            .ring
            .load(dma.fetches(Queue::Transmit), |words| Fetched { words, stamps: TxStamps::default() }),
        jobs: state.jobs,
        requested: state.requested as usize,
        packet: state.packet,
        plain_context: state.plain_context,
        segment_context: state.segment_context,
        ..TxQueue::default()
    };
    Ok(Tx {
        queue,
        engine: state.engine,
        fifo: state.fifo.into_iter().map(|frame| (frame, TxStamps::default())).collect(),
        pauses: state.pauses,
        outlet,
    })
}
