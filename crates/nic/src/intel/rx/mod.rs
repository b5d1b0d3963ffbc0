//! Receive path, from the wire into the packet buffer. A frame passes link state, receiver enable, length and
//! FCS checks, flow control and filters. Then the chip selects its queue, and the packet buffer must have
//! room.
//!
//! The packet buffer is one FIFO shared by all queues. A front frame without descriptors blocks all frames
//! behind it (head-of-line blocking), unless its queue drops. A frame occupies its length with FCS plus a
//! configurable overhead, rounded up to 16 bytes. The space is freed when the frame's last byte has been
//! written to memory, or when its queue drops it.

mod engine;
mod layout;

use doorbell_pcie::FunctionPorts;
use doorbell_sim::{Frame, FrameId, Observed, PhysAddr, Ps, RxStamps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, ctrl, rctl, rxd};
use super::{Chip, Controller, Queue};
use crate::parts::drops::{ArrivalState, DropClass, classify};
use crate::parts::engine::Engine;
use crate::parts::fifo::{Fifo, Stored};
use crate::parts::filter::{Cast, Filter, Verdict, VlanFilter, vlan_tag};
use crate::parts::ring::{DescriptorRing, Used};
use crate::parts::waits::{WaitCause, Waits};

pub(super) use layout::DescriptorType;

/// Maximum frame length without RCTL.LPE, FCS included: 1518 bytes and a VLAN tag.
const LONGEST: usize = 1522;

/// Descriptor fields of a received frame, apart from its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RxFields {
    /// Status and errors in the advanced format, without DD and EOP.
    pub status: u32,
    pub vlan: u16,
    /// RSS type (3:0) and packet type (from bit 4).
    pub packet_info: u16,
    /// RSS hash, or packet checksum and IPv4 identification.
    pub hash: u32,
    pub checksum: u16,
    /// Length of the headers that may be split off; zero if none.
    pub header: u16,
}

/// Results of the MAC's receive checks, input to [`Chip::examine`].
#[derive(Clone, Copy, Debug)]
pub struct Examined {
    /// Status bits so far.
    pub status: u32,
    /// VLAN tag, if it was stripped.
    pub stripped: Option<u16>,
    /// EtherType of VLAN tags (VET).
    pub vlan_type: u32,
    /// FCS to store after the frame, if any.
    pub fcs: Option<u32>,
}

/// Trace of a frame for observers: its ID and the times at which it passed each stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameTrace {
    pub id: Option<FrameId>,
    /// It belongs to the measurement window.
    pub measured: bool,
    pub stamps: RxStamps,
}

/// A frame in the packet buffer, with the bytes that will be written to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RxFrame {
    pub bytes: Vec<u8>,
    pub queue: u8,
    /// It was looped back.
    pub looped: bool,
    pub notes: RxFields,
    /// Packet buffer space that it occupies, in bytes.
    pub stored: u32,
    /// Its length on the wire, FCS included.
    pub wire_bytes: u32,
    #[serde(skip)]
    pub trace: Observed<FrameTrace>,
}

impl Stored for RxFrame {
    fn room(&self) -> u64 {
        self.stored.into()
    }
}

/// Piece of a frame in memory: address and length.
pub(crate) type PlacedPiece = (u64, u32);

/// A used descriptor that waits for its write-back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub words: [u64; 2],
    /// Pieces of the frame in its buffers; unused entries have length zero.
    pub pieces: [PlacedPiece; 2],
    /// Length of the frame on the wire, if its end is in this descriptor; otherwise zero.
    pub frame_bytes: u32,
    #[serde(skip)]
    pub trace: Observed<FrameTrace>,
}

impl Used for Completed {
    fn words(&self) -> [u64; 2] {
        self.words
    }

    fn is_reported(&self) -> bool {
        true
    }
}

/// A receive queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RxQueue {
    /// Descriptor ring. A fetched descriptor is kept as the addresses of its packet and header buffers.
    pub ring: DescriptorRing<[u64; 2], Completed>,
    /// Pieces of a frame whose first descriptors are written back and whose last one is not.
    pub partial_frame: Vec<(PhysAddr, u32)>,
}

impl RxQueue {
    /// Last descriptors of frames that are not written back yet.
    fn waiting(&self) -> impl Iterator<Item = &Completed> {
        self.ring.used().filter(|descriptor| descriptor.frame_bytes != 0)
    }
}

/// The receive side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rx {
    /// Frames, oldest first. The first `dispatched` frames are completely in DMA.
    pub fifo: Fifo<RxFrame>,
    pub dispatched: usize,
    /// Bytes of the next frame already in DMA.
    pub cursor: usize,
    pub queues: Vec<RxQueue>,
    /// Data writes in flight, and their bytes.
    #[serde(skip)]
    pub writes_in_flight: u32,
    #[serde(skip)]
    pub write_bytes_in_flight: u64,
    pub engine: Engine,
    /// State of FIFO and rings at the previous arrival.
    pub previous: ArrivalState,
    #[serde(skip)]
    pub waits: Waits,
    /// Scratch buffer, kept for reuse.
    #[serde(skip)]
    frame_sizes: Vec<u32>,
}

impl Rx {
    pub fn new(queues: usize) -> Rx {
        Rx { queues: std::iter::repeat_with(RxQueue::default).take(queues).collect(), ..Rx::default() }
    }

    /// Number of frames accepted and not yet delivered.
    pub fn frames(&self) -> u64 {
        let waiting: usize = self.queues.iter().map(|queue| queue.waiting().count()).sum();
        (self.fifo.len() - self.dispatched + waiting) as u64
    }

    /// A queue's frames in the packet buffer that are not completely in DMA.
    fn stored_of(&self, queue: usize) -> impl Iterator<Item = &RxFrame> {
        self.fifo.iter().skip(self.dispatched).filter(move |frame| usize::from(frame.queue) == queue)
    }

    /// Number of a queue's frames accepted and not yet delivered.
    pub fn frames_of(&self, queue: usize) -> u64 {
        (self.stored_of(queue).count() + self.queues[queue].waiting().count()) as u64
    }

    /// Number of a queue's undelivered frames that belong to the measurement window.
    pub fn measured_of(&self, queue: usize) -> u64 {
        let stored = self.stored_of(queue).map(|frame| frame.trace.0);
        let waiting = self.queues[queue].waiting().map(|descriptor| descriptor.trace.0);
        stored.chain(waiting).filter(|trace| trace.measured).count() as u64
    }
}

impl<C: Chip> Controller<C> {
    /// Size of the receive packet buffer in bytes.
    pub fn rx_fifo_capacity(&self) -> u64 {
        self.config.rx_fifo.map_or_else(|| C::packet_buffers(&self.regs)[0], |bytes| bytes.0)
    }

    /// Size of the transmit packet buffer in bytes.
    pub fn tx_fifo_capacity(&self) -> u64 {
        self.config.tx_fifo.map_or_else(|| C::packet_buffers(&self.regs)[1], |bytes| bytes.0)
    }

    /// Handles the arrival of a frame's last bit, from the wire or looped back.
    pub(super) fn arrive(&mut self, now: Ps, frame: Frame, looped: bool, ports: &mut dyn FunctionPorts) {
        let bytes = frame.len_with_fcs();
        self.stats.rx_arrived += 1;
        self.stats.rx_arrived_bytes += bytes as u64;
        self.stats.rx_looped += u64::from(looped);
        if !looped && self.loops_back() {
            self.stats.rx_drop_loopback += 1;
            return self.log_drop(now, bytes, "the device is in loopback");
        }
        if !looped && !self.link_up() {
            self.stats.rx_drop_link_down += 1;
            return self.log_drop(now, bytes, "the link is down");
        }
        if !self.regs.has(C::REG.rctl, rctl::EN) {
            self.stats.refused(looped, |stats| &mut stats.rx_drop_disabled);
            return self.log_drop(now, bytes, "RCTL.EN is off");
        }
        self.regs.count(C::REG.tpr);
        self.regs.count_bytes(C::REG.torl, C::REG.torh, bytes);
        if !self.is_well_formed(&frame, looped) {
            return self.log_drop(now, bytes, "invalid length or FCS");
        }
        if let Some((opcode, time)) = self.control_frame(&frame.bytes).filter(|_| !frame.fcs_bad)
            && !self.receive_control_frame(now, opcode, time, ports)
        {
            self.stats.refused(looped, |stats| &mut stats.rx_control);
            return;
        }
        let status = match self.filter().verdict(&frame.bytes) {
            Verdict::Address => {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_address);
                return self.log_drop(now, bytes, "it does not match the address filters");
            }
            Verdict::Vlan => {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_vlan);
                return self.log_drop(now, bytes, "it does not match the VLAN filter");
            }
            Verdict::Exact => 0,
            Verdict::Inexact => rxd::PIF,
        };
        self.admit(now, frame, looped, status, ports);
    }

    fn log_drop(&self, now: Ps, bytes: usize, cause: &str) {
        log!(now, Nic, Debug, "{}: frame of {bytes} bytes dropped: {cause}", self.name);
    }

    /// Checks length and FCS. RCTL.SBP accepts frames with a bad FCS; the model always drops undersized and
    /// oversized frames.
    fn is_well_formed(&mut self, frame: &Frame, looped: bool) -> bool {
        let bytes = frame.len_with_fcs();
        let jumbo = self.regs.has(C::REG.rctl, rctl::LPE);
        let longest = if jumbo { C::longest_received(&self.regs) } else { LONGEST };
        if bytes < Frame::MIN_BYTES_WITH_FCS {
            self.regs.count(if frame.fcs_bad { C::REG.rfc } else { C::REG.ruc });
            self.regs.count(C::REG.rlec);
            self.stats.refused(looped, |stats| &mut stats.rx_drop_undersize);
            false
        } else if bytes > longest {
            self.regs.count(if frame.fcs_bad { C::REG.rjc } else { C::REG.roc });
            self.regs.count(C::REG.rlec);
            self.stats.refused(looped, |stats| &mut stats.rx_drop_oversize);
            false
        } else if frame.fcs_bad {
            self.regs.count(C::REG.crcerrs);
            let stored = self.regs.has(C::REG.rctl, rctl::SBP);
            if !stored {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_fcs);
            }
            stored
        } else {
            true
        }
    }

    /// Puts an accepted frame into the packet buffer if its queue is enabled and there is room.
    fn admit(&mut self, now: Ps, frame: Frame, looped: bool, status: u32, ports: &mut dyn FunctionPorts) {
        let wire_bytes = frame.len_with_fcs();
        let (cast, fcs_bad) = (Cast::of_frame(&frame.bytes), frame.fcs_bad);
        let id = ports.recognise(&frame.bytes);
        let mut frame = self.prepare(frame, status);
        let queue = usize::from(frame.queue);
        self.queue_stats[queue].rx_offered += 1;
        if !self.on.has(Queue::receive(queue)) {
            self.stats.refused(looped, |stats| &mut stats.rx_drop_disabled);
            let own = &mut self.queue_stats[queue];
            *if looped { &mut own.rx_looped_drop_disabled } else { &mut own.rx_drop_disabled } += 1;
            self.buffers.recycle(frame.bytes);
            return self.log_drop(now, wire_bytes, "its queue is disabled");
        }
        let stored = (wire_bytes as u64 + self.config.rx_fifo_frame_overhead.0).next_multiple_of(16);
        frame.stored = stored as u32;
        let state = self.arrival_state(queue, stored);
        let previous = std::mem::replace(&mut self.rx.previous, state);
        self.stats.rx_fifo_full += u64::from(state.rx_fifo_full && !looped);
        self.stats.rx_ring_full += u64::from(state.rx_ring_full);
        self.stats.tx_ring_full += u64::from(state.tx_ring_full);
        if self.ring(Queue::receive(queue)).is_none_or(|ring| ring.head == ring.tail) {
            self.regs.count(C::REG.rnbc);
        }
        if state.rx_fifo_full {
            self.buffers.recycle(frame.bytes);
            let class = Some(classify(previous, state)).filter(|_| !looped);
            return self.drop_for_lack_of_room(now, wire_bytes, queue, class, ports);
        }
        if fcs_bad {
            self.regs.count(C::REG.rxerrc);
        } else {
            self.count_received(cast, wire_bytes);
        }
        log!(now, Nic, Debug, "{}: frame of {wire_bytes} bytes received for queue {queue}", self.name);
        frame.looped = looped;
        frame.trace = Observed(FrameTrace {
            id,
            measured: !looped && self.measured.contains(now),
            stamps: RxStamps { arrived: now, queue: queue as u8, ..RxStamps::default() },
        });
        self.queue_stats[queue].rx_frames += 1;
        self.rx.fifo.push(frame);
        self.stats.rx_fifo_peak_bytes = self.stats.rx_fifo_peak_bytes.max(self.rx.fifo.used());
        self.watch_fifo_level(now, ports);
        self.rx_advance(now, ports);
    }

    /// Drops a frame because the packet buffer is full. A looped-back frame has no drop class.
    fn drop_for_lack_of_room(
        &mut self,
        now: Ps,
        wire_bytes: usize,
        queue: usize,
        class: Option<DropClass>,
        ports: &mut dyn FunctionPorts,
    ) {
        self.rx_account_wait(now);
        match class {
            Some(_) => _ = self.rx.waits.dropped(),
            None => self.rx.waits.dropped_looped(),
        }
        let (all, own) = (&mut self.stats, &mut self.queue_stats[queue]);
        let counters = match class {
            Some(DropClass::Dma) => [&mut all.rx_drop_dma, &mut own.rx_drop_dma],
            Some(DropClass::Core) => [&mut all.rx_drop_core, &mut own.rx_drop_core],
            Some(DropClass::Tx) => [&mut all.rx_drop_tx, &mut own.rx_drop_tx],
            None => [&mut all.rx_looped_drop_full, &mut own.rx_looped_drop_full],
        };
        counters.into_iter().for_each(|counter| *counter += 1);
        own.rx_fifo_full += u64::from(class.is_some());
        let name = &self.name;
        let cause = || class.map_or("looped back".to_owned(), |class| format!("{class:?}"));
        log!(now, Nic, Debug, "{name}: frame of {wire_bytes} bytes dropped: the FIFO is full ({})", cause());
        self.regs.count(C::REG.mpc);
        C::raise_cause(self, now, cause::RXO, ports);
    }

    /// Updates the wait accounting: the cause for which the first frame not in DMA waits.
    fn rx_account_wait(&mut self, now: Ps) {
        let Rx { fifo, dispatched, queues, engine, waits, .. } = &mut self.rx;
        let front = fifo.get(*dispatched).map(|frame| usize::from(frame.queue));
        let queue = front.unwrap_or(0);
        let ring = self.regs.ring::<C>(Queue::receive(queue));
        let has_all = ring.is_none_or(|ring| queues[queue].ring.has_reached(&ring));
        let waits_for_software = waits.last_fetch_reached_tail(self.stats.rx_fetches, has_all);
        let cause = if fifo.is_empty() {
            None
        } else if front.is_none() || queues[queue].ring.front().is_some() {
            Some(WaitCause::Data)
        } else if !waits_for_software {
            Some(WaitCause::Fetch)
        } else if self.regs.ring::<C>(Queue::transmit(queue)).is_some_and(|ring| ring.is_full()) {
            Some(WaitCause::Tx)
        } else {
            Some(WaitCause::Core)
        };
        waits.set(now, cause, engine.free_at());
    }

    /// Returns the three conditions that determine a drop's class, for the frame's queue and the transmit
    /// queue of the same number.
    fn arrival_state(&self, queue: usize, stored: u64) -> ArrivalState {
        let ring = self.ring(Queue::receive(queue));
        ArrivalState {
            rx_fifo_full: self.rx.fifo.used() + stored > self.rx_fifo_capacity(),
            rx_ring_full: self.rx.queues[queue].ring.is_exhausted(ring.as_ref()),
            tx_ring_full: self.ring(Queue::transmit(queue)).is_some_and(|ring| ring.is_full()),
        }
    }

    /// EtherType of VLAN tags (VET).
    fn vlan_type(&self) -> u32 {
        self.regs.get(C::REG.vet) & 0xffff
    }

    /// Returns the receive filters configured by the registers.
    fn filter(&self) -> Filter<'_> {
        let rctl = self.regs.get(C::REG.rctl);
        let on = |bit: u32| rctl & bit != 0;
        Filter {
            broadcast: on(rctl::BAM),
            all_unicast: on(rctl::UPE),
            all_multicast: on(rctl::MPE),
            hash_bits: rctl >> rctl::MO_SHIFT & 0b11,
            stations: [self.regs.array(C::REG.ral), self.regs.array(C::REG.rah)],
            more_stations: C::more_stations(&self.regs),
            hashes: self.regs.array(C::REG.mta),
            vlans: on(rctl::VFE).then(|| VlanFilter {
                cfi: on(rctl::CFIEN).then(|| on(rctl::CFI)),
                members: self.regs.array(C::REG.vfta),
            }),
            vlan_type: self.vlan_type(),
        }
    }

    /// Prepares a frame for the packet buffer: strips the VLAN tag (CTRL.VME), keeps the FCS (without
    /// RCTL.SECRC), computes checksums and selects the queue.
    fn prepare(&mut self, frame: Frame, mut status: u32) -> RxFrame {
        let wire_bytes = frame.len_with_fcs() as u32;
        let Frame { mut bytes, fcs_bad } = frame;
        let keeps_fcs = !self.regs.has(C::REG.rctl, rctl::SECRC);
        let fcs = keeps_fcs.then(|| crc32fast::hash(&bytes) ^ if fcs_bad { !0 } else { 0 });
        let vlan_type = self.vlan_type();
        let stripped = vlan_tag(&bytes, vlan_type).filter(|_| self.regs.has(C::REG.ctrl, ctrl::VME));
        if stripped.is_some() {
            bytes.copy_within(16.., 12);
            bytes.truncate(bytes.len() - 4);
            status |= rxd::VP;
        }
        if fcs_bad {
            status |= rxd::CE;
        }
        let examined = Examined { status, stripped, vlan_type, fcs };
        let (queue, notes) = self.chip.examine(&self.regs, &mut bytes, examined);
        let queue = queue as u8;
        RxFrame { bytes, queue, looped: false, notes, stored: 0, wire_bytes, trace: Observed::default() }
    }
}
