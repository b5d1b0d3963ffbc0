//! What a checkpoint keeps of a NIC: a structure of its own, versioned, apart from the live ones.
//! Restoring checks everything, so that a damaged state is refused and cannot cause a panic later.
//!
//! The wake-ups on their way are not here: they are in the machine's event queue and are saved with
//! it. The configuration is not here either; it is the machine's.

use std::collections::VecDeque;

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{Frame, PhysAddr, Ps, TxStamps};
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::dma::{DESCRIPTOR_BYTES, Dma, Read, Write};
use crate::drops::ArrivalState;
use crate::eeprom::Eeprom;
use crate::interrupts::Interrupts;
use crate::link::Link;
use crate::phy::Phy;
use crate::regs::Reg;
use crate::rx::{Completed, Rx, RxFrame};
use crate::timer::Timer;
use crate::tx::{self, Context, Done, Fetched, Job, Packet, Tx};
use crate::{Nic, NicStats};

/// The version of [`NicState`].
pub const NIC_STATE_VERSION: u32 = 5;

/// No moment in a saved state lies beyond this: some fifty days.
/// The longest frame in the smallest buffers.
const FRAME_PIECES_MAX: usize = (1 << 16) / 256;
const LATEST: Ps = Ps(u64::MAX / 4);

/// A saved NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicState {
    registers: Vec<u32>,
    eeprom: Eeprom,
    phy: Phy,
    link: Link,
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
    cache: VecDeque<u64>,
    fetching: u32,
    fetched: u32,
    completed: VecDeque<Completed>,
    issued: u64,
    begun: Vec<(PhysAddr, u32)>,
    engine_free: Ps,
    engine_wake: Ps,
    write_back: Timer,
    previous: ArrivalState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TransmitState {
    cache: VecDeque<[u64; 2]>,
    fetching: u32,
    fetched: u32,
    jobs: VecDeque<Job>,
    requested: u64,
    done: VecDeque<Done>,
    issued: u64,
    engine_free: Ps,
    engine_wake: Ps,
    write_back: Timer,
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
        if !state.eeprom.is_consistent()
            || !state.dma.reads.is_consistent()
            || !state.dma.writes.is_consistent()
            || state.dma.path_free.iter().any(|free| *free > LATEST)
        {
            return Err(refuse("the EEPROM or the DMA queues are impossible"));
        }
        let rx = load_receive(state.receive, &state.dma).map_err(refuse)?;
        let tx = load_transmit(state.transmit, &state.dma).map_err(refuse)?;
        if regs.get(Reg::Pba) & 0xffff > 64 {
            return Err(refuse("PBA is too large"));
        }
        check_ring(&regs, (Reg::Rdh, Reg::Rdlen), rx.fetched, on_chip_receive(&rx)).map_err(refuse)?;
        check_ring(&regs, (Reg::Tdh, Reg::Tdlen), tx.fetched, on_chip_transmit(&tx)).map_err(refuse)?;
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

fn on_chip_receive(rx: &Rx) -> usize {
    rx.cache.len() + rx.fetching as usize + rx.completed.len()
}

fn on_chip_transmit(tx: &Tx) -> usize {
    tx.cache.len() + tx.fetching as usize + tx.jobs.len() + tx.done.len()
}

/// What is on the chip lies between the head and the next descriptor to fetch.
fn check_ring(
    regs: &crate::regs::Regs,
    (head, length): (Reg, Reg),
    fetched: u32,
    on_chip: usize,
) -> Result<(), &'static str> {
    let count = regs.get(length) / DESCRIPTOR_BYTES;
    let head = regs.get(head);
    let fits = if head < count {
        fetched < count && on_chip < count as usize && (head + on_chip as u32) % count == fetched
    } else {
        on_chip == 0 && fetched == head
    };
    if fits { Ok(()) } else { Err("a descriptor ring and what is fetched of it do not agree") }
}

fn save_receive(rx: &Rx) -> ReceiveState {
    ReceiveState {
        fifo: rx.fifo.clone(),
        dispatched: rx.dispatched as u64,
        cursor: rx.cursor as u64,
        cache: rx.cache.clone(),
        fetching: rx.fetching,
        fetched: rx.fetched,
        completed: rx.completed.clone(),
        issued: rx.issued as u64,
        begun: rx.begun.clone(),
        engine_free: rx.engine_free,
        engine_wake: rx.engine_wake,
        write_back: rx.write_back,
        previous: rx.previous,
    }
}

fn load_receive(state: ReceiveState, dma: &Dma) -> Result<Rx, &'static str> {
    let (dispatched, issued) = (state.dispatched as usize, state.issued as usize);
    let torn = state.fifo.get(dispatched).map_or(0, |frame| frame.bytes.len());
    let sizes = state.fifo.iter().all(|frame| {
        (14..=1 << 16).contains(&frame.bytes.len()) && frame.stored <= 1 << 17 && frame.wire_bytes != 0
    });
    if !sizes || dispatched > state.fifo.len() || state.cursor != 0 && state.cursor as usize >= torn {
        return Err("the receive FIFO is impossible");
    }
    let (mut fetching, mut written_back, mut data, mut data_bytes) = (0u64, 0u64, 0u32, 0u64);
    for read in dma.reads.kinds() {
        if let Read::RxFetch { count, .. } = read {
            fetching += u64::from(*count);
        }
    }
    // The data writes in flight walk through the dispatched frames, front to back.
    let mut walk = 0usize;
    for write in dma.writes.kinds() {
        match write {
            Write::RxData { offset, len, last, .. } => {
                data += 1;
                data_bytes += u64::from(*len);
                let end = u64::from(*offset) + u64::from(*len);
                let bytes = state.fifo.get(walk).map_or(0, |frame| frame.bytes.len() as u64);
                let fits = walk <= dispatched && (*last == (end == bytes)) && end <= bytes;
                if !fits {
                    return Err("a data write does not fit the receive FIFO");
                }
                walk += usize::from(*last);
            }
            Write::RxWriteback { count, .. } => written_back += u64::from(*count),
            Write::Cancelled | Write::TxWriteback { .. } => {}
        }
    }
    let agree = fetching == u64::from(state.fetching) && fetching < 1 << 16 && written_back == issued as u64;
    if !agree || issued > state.completed.len() || walk != dispatched {
        return Err("the receive descriptors and the DMA in flight do not agree");
    }
    if state.begun.len() > FRAME_PIECES_MAX || state.begun.iter().any(|(_, len)| *len > 0xffff) {
        return Err("a frame lies in impossible pieces");
    }
    if state.engine_free > LATEST {
        return Err("the receiver is busy for longer than any run");
    }
    Ok(Rx {
        fifo_used: state.fifo.iter().map(|frame| u64::from(frame.stored)).sum(),
        fifo: state.fifo,
        dispatched,
        cursor: state.cursor as usize,
        cache: state.cache,
        fetching: state.fetching,
        fetched: state.fetched,
        completed: state.completed,
        issued,
        begun: state.begun,
        writes_in_flight: data,
        write_bytes_in_flight: data_bytes,
        engine_free: state.engine_free,
        engine_wake: state.engine_wake,
        write_back: state.write_back,
        previous: state.previous,
    })
}

fn save_transmit(tx: &Tx) -> TransmitState {
    TransmitState {
        cache: tx.cache.iter().map(|fetched| fetched.words).collect(),
        fetching: tx.fetching,
        fetched: tx.fetched,
        jobs: tx.jobs.clone(),
        requested: tx.requested as u64,
        done: tx.done.clone(),
        issued: tx.issued as u64,
        engine_free: tx.engine_free,
        engine_wake: tx.engine_wake,
        write_back: tx.write_back,
        packet: tx.packet.clone(),
        plain_context: tx.plain_context,
        segment_context: tx.segment_context,
        fifo: tx.fifo.iter().map(|(frame, _)| frame.clone()).collect(),
        leaving: tx.leaving.clone(),
        pauses: tx.pauses.clone(),
        wire_free: tx.wire_free,
        wire: tx.wire,
        looped: tx.looped.clone(),
    }
}

/// Whether the data reads in flight are exactly the pieces that the jobs wait for, in order.
fn reads_fit_jobs(state: &TransmitState, dma: &Dma) -> bool {
    let mut jobs = state.jobs.iter();
    let mut waited = 0u32;
    for read in dma.reads.kinds() {
        let Read::TxData { len, .. } = read else { continue };
        while waited == 0 {
            let Some(job) = jobs.next() else { return false };
            waited = job.to_arrive.saturating_sub(job.to_request);
        }
        let Some(rest) = waited.checked_sub(*len) else { return false };
        waited = rest;
    }
    waited == 0 && jobs.all(|job| job.to_arrive == job.to_request)
}

fn load_transmit(state: TransmitState, dma: &Dma) -> Result<Tx, &'static str> {
    let (requested, issued) = (state.requested as usize, state.issued as usize);
    let mut fetching = 0u64;
    let (mut data, mut flying) = (0u32, 0u64);
    for read in dma.reads.kinds() {
        match read {
            Read::TxFetch { count, .. } => fetching += u64::from(*count),
            Read::TxData { len, .. } => (data, flying) = (data + 1, flying + u64::from(*len)),
            Read::Cancelled | Read::RxFetch { .. } => {}
        }
    }
    let jobs = state.jobs.iter().enumerate().all(|(i, job)| {
        job.to_request <= job.to_arrive
            && job.to_arrive <= job.len
            && job.len < 1 << 20
            && (i >= requested || job.to_request == 0)
            && (i <= requested || job.to_request == job.len)
    });
    if !jobs || requested > state.jobs.len() || !reads_fit_jobs(&state, dma) {
        return Err("the transmit descriptors and the data reads in flight do not agree");
    }
    let written_back: u64 = dma
        .writes
        .kinds()
        .map(|write| if let Write::TxWriteback { count, .. } = write { u64::from(*count) } else { 0 })
        .sum();
    let reported = state.done.iter().take(issued).filter(|done| done.report).count() as u64;
    if issued > state.done.len()
        || written_back != reported
        || fetching != u64::from(state.fetching)
        || fetching >= 1 << 16
    {
        return Err("the transmit descriptors and the DMA in flight do not agree");
    }
    let small = |frame: &Frame| frame.bytes.len() <= 1 << 16;
    if state.packet.bytes.len() > 1 << 17
        || !state.fifo.iter().all(small)
        || state.leaving.iter().any(|l| l.1 > 1 << 17)
    {
        return Err("a packet in the transmit FIFO is too long");
    }
    if state.engine_free > LATEST
        || state.wire_free > LATEST
        || state.looped.iter().any(|(at, _)| *at > LATEST)
    {
        return Err("the transmitter is busy for longer than any run");
    }
    Ok(Tx {
        reserved: flying + state.packet.bytes.len() as u64,
        queued: state.fifo.iter().map(tx::room).sum(),
        reads_in_flight: data,
        cache: state.cache.into_iter().map(|words| Fetched { words, stamps: TxStamps::default() }).collect(),
        fetching: state.fetching,
        fetched: state.fetched,
        jobs: state.jobs,
        requested,
        done: state.done,
        issued,
        engine_free: state.engine_free,
        engine_wake: state.engine_wake,
        write_back: state.write_back,
        packet: state.packet,
        plain_context: state.plain_context,
        segment_context: state.segment_context,
        fifo: state.fifo.into_iter().map(|frame| (frame, TxStamps::default())).collect(),
        leaving_room: state.leaving.iter().map(|(_, room)| room).sum(),
        leaving: state.leaving,
        pauses: state.pauses,
        wire_free: state.wire_free,
        wire: state.wire,
        looped: state.looped,
        ..Tx::default()
    })
}
