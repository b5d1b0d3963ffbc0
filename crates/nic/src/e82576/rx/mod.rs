//! Receive: from the wire into the packet buffer. A frame passes the link, the receiver's switch, the length and FCS checks and the
//! filters, is given to a queue, and then needs room in the packet buffer.
//!
//! The packet buffer stores a frame with its FCS, rounded up to 16 bytes, plus a configurable overhead; a frame's room is free
//! again when its last byte has been written to memory, or when its queue drops it.

mod buffers;
mod engine;
mod offload;
mod steer;

use doorbell_sim::{Frame, FrameId, Observed, PhysAddr, Ps, RxStamps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, ctrl, rctl, rxd};
use super::regs::Reg;
use super::{Igb, IgbPorts, QUEUES, Queue};
use crate::parts::checksum;
use crate::parts::drops::{ArrivalState, DropClass, classify};
use crate::parts::engine::Engine;
use crate::parts::fifo::{Fifo, Stored};
use crate::parts::filter::{Cast, Filter, Verdict, VlanFilter, vlan_tag};
use crate::parts::headers::Headers;
use crate::parts::mac::{FlowWork as _, LinkView as _, Mac as _};
use crate::parts::ring::{DescriptorRing, Used};
use crate::parts::waits::{Waits, WaitsFor};

pub(super) use buffers::DescriptorType;
pub(crate) use steer::{Hash, rss_queues};

/// What the descriptor says of a frame beside its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameNotes {
    /// Status and errors as an advanced descriptor has them, without DD and EOP.
    pub status: u32,
    pub vlan: u16,
    /// RSS type, and packet type from bit 4 on.
    pub packet_info: u16,
    /// The RSS hash, or the packet checksum and IPv4's identification.
    pub hash: u32,
    pub checksum: u16,
    /// Headers that may be split off; zero if there are none.
    pub header: u16,
}

/// A frame that somebody watches, and when it passed what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    pub id: Option<FrameId>,
    /// It is of the measurement.
    pub measured: bool,
    pub stamps: RxStamps,
}

/// A frame in the packet buffer, as it will lie in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RxFrame {
    pub bytes: Vec<u8>,
    pub queue: u8,
    /// It came by loopback.
    pub looped: bool,
    pub notes: FrameNotes,
    /// What it occupies in the packet buffer.
    pub stored: u32,
    /// Its length on the wire, FCS included.
    pub wire_bytes: u32,
    #[serde(skip)]
    pub watched: Observed<Watched>,
}

impl Stored for RxFrame {
    fn room(&self) -> u64 {
        self.stored.into()
    }
}

/// A piece of a frame in memory: address and length.
pub(crate) type Placed = (u64, u32);

/// A descriptor that is used and waits for its write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub words: [u64; 2],
    /// What of its frame lies in its buffers; pieces without bytes are none.
    pub pieces: [Placed; 2],
    /// With the end of a frame: its length on the wire. Otherwise zero.
    pub frame_bytes: u32,
    #[serde(skip)]
    pub watched: Observed<Watched>,
}

impl Used for Completed {
    fn words(&self) -> [u64; 2] {
        self.words
    }

    fn is_reported(&self) -> bool {
        true
    }
}

/// A receive queue: its ring, and what is written back of a frame whose end is not.
#[derive(Debug, Default)]
pub(crate) struct RxQueue {
    /// Of a descriptor that is fetched the addresses of its packet and its header buffer are kept.
    pub(crate) ring: DescriptorRing<[u64; 2], Completed>,
    pub(crate) begun: Vec<(PhysAddr, u32)>,
}

impl RxQueue {
    /// Frames of which all is written but not the last descriptor.
    fn frames(&self) -> usize {
        self.ring.used().filter(|descriptor| descriptor.frame_bytes != 0).count()
    }
}

/// The receive side's state.
#[derive(Debug)]
pub(crate) struct Rx {
    /// Frames, oldest first. The first `dispatched` ones are in DMA.
    pub(crate) fifo: Fifo<RxFrame>,
    pub(crate) dispatched: usize,
    /// Bytes of the frame after those that are in DMA already.
    pub(crate) cursor: usize,
    pub(crate) queues: Vec<RxQueue>,
    /// Data writes in flight, and their bytes.
    pub(crate) writes_in_flight: u32,
    pub(crate) write_bytes_in_flight: u64,
    pub(crate) engine: Engine,
    /// The facts at the arrival before.
    pub(crate) previous: ArrivalState,
    pub(crate) waits: Waits,
    pub(crate) hash: Hash,
    /// For reuse; not state.
    frame_sizes: Vec<u32>,
}

impl Rx {
    pub fn new() -> Rx {
        Rx {
            fifo: Fifo::default(),
            dispatched: 0,
            cursor: 0,
            queues: std::iter::repeat_with(RxQueue::default).take(QUEUES).collect(),
            writes_in_flight: 0,
            write_bytes_in_flight: 0,
            engine: Engine::default(),
            previous: ArrivalState::default(),
            waits: Waits::default(),
            hash: Hash::default(),
            frame_sizes: Vec::new(),
        }
    }

    /// Frames accepted and not delivered.
    pub fn frames(&self) -> u64 {
        let waiting: usize = self.queues.iter().map(RxQueue::frames).sum();
        (self.fifo.len() - self.dispatched + waiting) as u64
    }

    /// Those of a queue that are of the measurement.
    pub fn measured_of(&self, queue: usize) -> u64 {
        let stored = self.fifo.iter().skip(self.dispatched).filter(|frame| usize::from(frame.queue) == queue);
        let waiting = self.queues[queue].ring.used().filter(|descriptor| descriptor.frame_bytes != 0);
        let all = stored.map(|frame| frame.watched.0).chain(waiting.map(|descriptor| descriptor.watched.0));
        all.filter(|watched| watched.measured).count() as u64
    }

    /// The same of one queue.
    pub fn frames_of(&self, queue: usize) -> u64 {
        let waiting = self.queues[queue].frames();
        let stored = self.fifo.iter().skip(self.dispatched).filter(|frame| usize::from(frame.queue) == queue);
        (stored.count() + waiting) as u64
    }
}

impl Igb {
    /// The receive packet buffer's size now.
    pub fn rx_fifo_capacity(&self) -> u64 {
        self.config.rx_fifo.map_or_else(|| u64::from(self.regs.get(Reg::Rxpbs)) << 10, |bytes| bytes.0)
    }

    /// The transmit packet buffer's size now.
    pub fn tx_fifo_capacity(&self) -> u64 {
        self.config.tx_fifo.map_or_else(|| u64::from(self.regs.get(Reg::Txpbs)) << 10, |bytes| bytes.0)
    }

    /// A frame's last bit is here, from the wire or looped back.
    pub(super) fn arrive(&mut self, now: Ps, frame: Frame, looped: bool, ports: &mut impl IgbPorts) {
        let bytes = frame.len_with_fcs();
        self.stats.rx_arrived += 1;
        self.stats.rx_arrived_bytes += bytes as u64;
        self.stats.rx_looped += u64::from(looped);
        if !looped && self.loops_back() {
            self.stats.rx_drop_loopback += 1;
            return self.log_drop(now, bytes, "the device loops back");
        }
        if !looped && !self.link_up() {
            self.stats.rx_drop_link_down += 1;
            return self.log_drop(now, bytes, "the link is down");
        }
        if !self.regs.has(Reg::Rctl, rctl::EN) {
            self.stats.refused(looped, |stats| &mut stats.rx_drop_disabled);
            return self.log_drop(now, bytes, "RCTL.EN is off");
        }
        self.regs.count(Reg::Tpr);
        self.regs.count_bytes(Reg::Torl, Reg::Torh, bytes);
        if !self.is_well_formed(&frame, looped) {
            return self.log_drop(now, bytes, "its length or its FCS is wrong");
        }
        if let Some(control) = self.control_frame(&frame.bytes).filter(|_| !frame.fcs_bad)
            && !self.take_control_frame(now, control, ports)
        {
            self.stats.refused(looped, |stats| &mut stats.rx_control);
            return;
        }
        let status = match self.filter().verdict(&frame.bytes) {
            Verdict::Address => {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_address);
                return self.log_drop(now, bytes, "it is for another address");
            }
            Verdict::Vlan => {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_vlan);
                return self.log_drop(now, bytes, "it is of another VLAN");
            }
            Verdict::Exact => 0,
            Verdict::Inexact => rxd::PIF,
        };
        self.admit(now, (frame, looped), status, ports);
    }

    fn log_drop(&self, now: Ps, bytes: usize, cause: &str) {
        log!(now, Nic, Debug, "{}: frame of {bytes} bytes dropped: {cause}", self.name);
    }

    /// Length and FCS. RCTL.SBP lets bad frames pass, but not runts and giants: the model keeps those out.
    fn is_well_formed(&mut self, frame: &Frame, looped: bool) -> bool {
        /// Longest frame without RCTL.LPE: 1518 bytes and a VLAN tag.
        const LONGEST: usize = 1522;
        let bytes = frame.len_with_fcs();
        let jumbo = self.regs.has(Reg::Rctl, rctl::LPE);
        let longest = if jumbo { self.regs.get(Reg::Rlpml) as usize } else { LONGEST };
        if bytes < Frame::MIN_BYTES_WITH_FCS {
            self.regs.count(if frame.fcs_bad { Reg::Rfc } else { Reg::Ruc });
            self.regs.count(Reg::Rlec);
            self.stats.refused(looped, |stats| &mut stats.rx_drop_undersize);
            false
        } else if bytes > longest {
            self.regs.count(if frame.fcs_bad { Reg::Rjc } else { Reg::Roc });
            self.regs.count(Reg::Rlec);
            self.stats.refused(looped, |stats| &mut stats.rx_drop_oversize);
            false
        } else if frame.fcs_bad {
            self.regs.count(Reg::Crcerrs);
            let stored = self.regs.has(Reg::Rctl, rctl::SBP);
            if !stored {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_fcs);
            }
            stored
        } else {
            true
        }
    }

    /// The frame belongs to this station: to its queue, if there is room for it.
    fn admit(&mut self, now: Ps, (frame, looped): (Frame, bool), status: u32, ports: &mut impl IgbPorts) {
        let wire_bytes = frame.len_with_fcs();
        let (cast, fcs_bad) = (Cast::of(&frame.bytes), frame.fcs_bad);
        let id = ports.recognise(&frame.bytes);
        let mut frame = self.prepare(frame, status);
        let queue = usize::from(frame.queue);
        self.queue_stats[queue].rx_offered += 1;
        if !self.on.has(Queue::receive(queue)) {
            self.stats.refused(looped, |stats| &mut stats.rx_drop_disabled);
            let own = &mut self.queue_stats[queue];
            *if looped { &mut own.rx_looped_drop_disabled } else { &mut own.rx_drop_disabled } += 1;
            self.buffers.recycle(frame.bytes);
            return self.log_drop(now, wire_bytes, "its queue is off");
        }
        let stored = (wire_bytes as u64 + self.config.rx_fifo_frame_overhead.0).next_multiple_of(16);
        frame.stored = stored as u32;
        let state = self.arrival_state(queue, stored);
        let previous = std::mem::replace(&mut self.rx.previous, state);
        self.stats.rx_fifo_full += u64::from(state.rx_fifo_full && !looped);
        self.stats.rx_ring_full += u64::from(state.rx_ring_full);
        self.stats.tx_ring_full += u64::from(state.tx_ring_full);
        if self.regs.ring(Queue::receive(queue)).is_none_or(|ring| ring.head == ring.tail) {
            self.regs.count(Reg::Rnbc);
        }
        if state.rx_fifo_full {
            self.buffers.recycle(frame.bytes);
            let class = Some(classify(previous, state)).filter(|_| !looped);
            return self.drop_for_room(now, wire_bytes, (queue, class), ports);
        }
        if fcs_bad {
            self.regs.count(Reg::Rxerrc);
        } else {
            self.count_received(cast, wire_bytes);
        }
        log!(now, Nic, Debug, "{}: frame of {wire_bytes} bytes received for queue {queue}", self.name);
        frame.looped = looped;
        frame.watched = Observed(Watched {
            id,
            measured: !looped && self.measured.has(now),
            stamps: RxStamps { arrived: now, queue: queue as u8, ..RxStamps::default() },
        });
        self.queue_stats[queue].rx_frames += 1;
        self.rx.fifo.push(frame);
        self.stats.rx_fifo_peak_bytes = self.stats.rx_fifo_peak_bytes.max(self.rx.fifo.used());
        self.watch_fifo_level(now, ports);
        self.rx_advance(now, ports);
    }

    /// A frame does not fit. One that was looped back is of no class.
    fn drop_for_room(
        &mut self,
        now: Ps,
        wire_bytes: usize,
        (queue, class): (usize, Option<DropClass>),
        ports: &mut impl IgbPorts,
    ) {
        self.rx_note_wait(now);
        match class {
            Some(_) => {
                self.rx.waits.dropped();
            }
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
        log!(now, Nic, Debug, "{name}: frame of {wire_bytes} bytes dropped: the FIFO is full ({class:?})");
        self.regs.count(Reg::Mpc);
        self.set_cause(now, cause::RXMISS, ports);
    }

    /// Tells the account of waits what the first frame that has not begun its way to memory waits for.
    fn rx_note_wait(&mut self, now: Ps) {
        let Rx { fifo, dispatched, queues, engine, waits, .. } = &mut self.rx;
        let front = fifo.get(*dispatched).map(|frame| usize::from(frame.queue));
        let queue = front.unwrap_or(0);
        let ring = self.regs.ring(Queue::receive(queue));
        let has_all = ring.is_none_or(|ring| queues[queue].ring.has_reached(&ring));
        let softwares = waits.asked_for_all(self.stats.rx_fetches, has_all);
        let what = if fifo.is_empty() {
            None
        } else if front.is_none() || queues[queue].ring.front().is_some() {
            Some(WaitsFor::Data)
        } else if !softwares {
            Some(WaitsFor::Fetch)
        } else if self.regs.ring(Queue::transmit(queue)).is_some_and(|ring| ring.is_full()) {
            Some(WaitsFor::Tx)
        } else {
            Some(WaitsFor::Core)
        };
        waits.set(now, what, engine.free_at());
    }

    /// The three facts that a drop's class depends on, of the frame's own queue and the transmit queue of the same number.
    fn arrival_state(&self, queue: usize, stored: u64) -> ArrivalState {
        let ring = self.regs.ring(Queue::receive(queue));
        ArrivalState {
            rx_fifo_full: self.rx.fifo.used() + stored > self.rx_fifo_capacity(),
            rx_ring_full: self.rx.queues[queue].ring.is_exhausted(ring.as_ref()),
            tx_ring_full: self.regs.ring(Queue::transmit(queue)).is_some_and(|ring| ring.is_full()),
        }
    }

    /// The type of VLAN tags.
    fn vlan_type(&self) -> u32 {
        self.regs.get(Reg::Vet) & 0xffff
    }

    /// The filters as the registers set them.
    fn filter(&self) -> Filter<'_> {
        let rctl = self.regs.get(Reg::Rctl);
        let on = |bit: u32| rctl & bit != 0;
        Filter {
            broadcast: on(rctl::BAM),
            all_unicast: on(rctl::UPE),
            all_multicast: on(rctl::MPE),
            hash_bits: rctl >> rctl::MO_SHIFT & 0b11,
            stations: [self.regs.array(Reg::Ral), self.regs.array(Reg::Rah)],
            more_stations: [self.regs.array(Reg::Ral2), self.regs.array(Reg::Rah2)],
            hashes: self.regs.array(Reg::Mta),
            vlans: on(rctl::VFE).then(|| VlanFilter {
                cfi: on(rctl::CFIEN).then(|| on(rctl::CFI)),
                members: self.regs.array(Reg::Vfta),
            }),
            vlan_type: self.vlan_type(),
        }
    }

    /// What the packet buffer keeps of a frame: tag stripped (CTRL.VME), FCS kept (without RCTL.SECRC), checksums taken, queue chosen.
    fn prepare(&mut self, frame: Frame, status: u32) -> RxFrame {
        let wire_bytes = frame.len_with_fcs() as u32;
        let Frame { mut bytes, fcs_bad } = frame;
        let mut notes = FrameNotes { status, ..FrameNotes::default() };
        let keeps_fcs = !self.regs.has(Reg::Rctl, rctl::SECRC);
        let fcs = if keeps_fcs { checksum::fcs(&bytes) ^ if fcs_bad { !0 } else { 0 } } else { 0 };
        let mut tags = Some(self.vlan_type() as u16);
        if self.regs.has(Reg::Ctrl, ctrl::VME)
            && let Some(tag) = vlan_tag(&bytes, self.vlan_type())
        {
            tags = None;
            bytes.copy_within(16.., 12);
            bytes.truncate(bytes.len() - 4);
            notes.status |= rxd::VP;
            notes.vlan = tag;
        }
        let headers = Headers::of(&bytes, tags);
        let steered = steer::steer(&bytes, &headers, &self.regs, &mut self.rx.hash);
        notes.packet_info = (steered.hash_type | steered.packet_type << rxd::PACKET_TYPE_SHIFT) as u16;
        if fcs_bad {
            notes.status |= rxd::CE;
        }
        offload::check(&bytes, &headers, &self.regs, &mut notes);
        notes.header = offload::header_to_split(&headers, self.regs.get(Reg::Psrtype));
        if keeps_fcs {
            bytes.extend_from_slice(&fcs.to_le_bytes());
        }
        offload::sum_packet(&bytes, &headers, &self.regs, steered.hash, &mut notes);
        let queue = steered.queue as u8;
        RxFrame { bytes, queue, looped: false, notes, stored: 0, wire_bytes, watched: Observed::default() }
    }
}
