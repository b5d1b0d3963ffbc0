//! Receive: from the wire into the FIFO. A frame passes the link, the receiver's switch, the length
//! and FCS checks, flow control and the filters, and then needs room in the FIFO.
//!
//! The FIFO stores a frame with its FCS, rounded up to 16 bytes, plus a configurable overhead; a
//! frame's room is free again when its last byte has been written to memory.

mod engine;
mod offload;

use doorbell_sim::{Frame, FrameId, Observed, PhysAddr, Ps, RxStamps, log};
use serde::{Deserialize, Serialize};

use super::bits::{cause, ctrl, rctl, rxd};
use super::regs::Reg;
use super::{Nic, NicPorts, PACKET_BUFFER, Queue};
use crate::parts::checksum;
use crate::parts::drops::{ArrivalState, DropClass, classify};
use crate::parts::engine::Engine;
use crate::parts::fifo::{Fifo, Stored};
use crate::parts::filter::{Cast, Filter, Verdict, VlanFilter, vlan_tag};
use crate::parts::mac::{FlowWork as _, LinkView as _, Mac as _};
use crate::parts::ring::{DescriptorRing, Used};
use crate::parts::waits::{Waits, WaitsFor};

/// What the descriptor says of a frame beside its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameNotes {
    pub status: u8,
    pub errors: u8,
    pub special: u16,
    pub checksum: u16,
}

/// A frame that somebody watches, and when it passed what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    pub id: Option<FrameId>,
    /// It is of the measurement.
    pub measured: bool,
    pub stamps: RxStamps,
}

/// A frame in the FIFO, as it will lie in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RxFrame {
    pub bytes: Vec<u8>,
    pub notes: FrameNotes,
    /// What it occupies in the FIFO.
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

/// A descriptor that is used and waits for its write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub words: [u64; 2],
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

/// The receive queue: its ring, and what is written back of a frame whose end is not.
#[derive(Debug, Default)]
pub(crate) struct RxQueue {
    /// Of a descriptor that is fetched the buffer's address is kept.
    pub(crate) ring: DescriptorRing<u64, Completed>,
    pub(crate) begun: Vec<(PhysAddr, u32)>,
    /// For reuse; not state.
    frame_sizes: Vec<u32>,
}

impl RxQueue {
    pub fn new(ring: DescriptorRing<u64, Completed>, begun: Vec<(PhysAddr, u32)>) -> RxQueue {
        RxQueue { ring, begun, frame_sizes: Vec::new() }
    }
}

/// The receive side's state.
#[derive(Debug, Default)]
pub(crate) struct Rx {
    /// Frames, oldest first. The first `dispatched` ones are in DMA.
    pub(crate) fifo: Fifo<RxFrame>,
    pub(crate) dispatched: usize,
    /// Bytes of the frame after those that are in DMA already.
    pub(crate) cursor: usize,
    pub(crate) queue: RxQueue,
    /// Data writes in flight, and their bytes.
    pub(crate) writes_in_flight: u32,
    pub(crate) write_bytes_in_flight: u64,
    pub(crate) engine: Engine,
    /// The facts at the arrival before.
    pub(crate) previous: ArrivalState,
    pub(crate) waits: Waits,
}

impl Rx {
    /// Frames accepted and not delivered.
    pub fn frames(&self) -> u64 {
        let waiting = self.queue.ring.used().filter(|descriptor| descriptor.frame_bytes != 0).count();
        (self.fifo.len() - self.dispatched + waiting) as u64
    }

    /// Those of them that are of the measurement.
    pub fn measured_frames(&self) -> u64 {
        let waiting = self.queue.ring.used().filter(|descriptor| descriptor.frame_bytes != 0);
        let stored = self.fifo.iter().skip(self.dispatched).map(|frame| frame.watched.0);
        let all = stored.chain(waiting.map(|descriptor| descriptor.watched.0));
        all.filter(|watched| watched.measured).count() as u64
    }
}

impl Nic {
    /// The receive FIFO's size now.
    pub fn rx_fifo_capacity(&self) -> u64 {
        self.config.rx_fifo.map_or_else(|| u64::from(self.regs.get(Reg::Pba) & 0xffff) << 10, |bytes| bytes.0)
    }

    /// The transmit FIFO's size now.
    pub fn tx_fifo_capacity(&self) -> u64 {
        let left = || PACKET_BUFFER.0.saturating_sub(u64::from(self.regs.get(Reg::Pba) & 0xffff) << 10);
        self.config.tx_fifo.map_or_else(left, |bytes| bytes.0)
    }

    /// A frame's last bit is here, from the wire or looped back.
    pub(crate) fn arrive(&mut self, now: Ps, frame: Frame, looped: bool, ports: &mut impl NicPorts) {
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
        match self.filter().verdict(&frame.bytes) {
            Verdict::Address => {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_address);
                self.log_drop(now, bytes, "it is for another address");
            }
            Verdict::Vlan => {
                self.stats.refused(looped, |stats| &mut stats.rx_drop_vlan);
                self.log_drop(now, bytes, "it is of another VLAN");
            }
            Verdict::Exact => self.admit(now, (frame, looped), 0, ports),
            Verdict::Inexact => self.admit(now, (frame, looped), rxd::PIF, ports),
        }
    }

    fn log_drop(&self, now: Ps, bytes: usize, cause: &str) {
        log!(now, Nic, Debug, "{}: frame of {bytes} bytes dropped: {cause}", self.name);
    }

    /// Length and FCS (§3.2.2). RCTL.SBP lets bad frames pass, but not runts and giants: the model keeps those out.
    fn is_well_formed(&mut self, frame: &Frame, looped: bool) -> bool {
        /// Longest frame without RCTL.LPE: 1518 bytes and a VLAN tag.
        const LONGEST: usize = 1522;
        /// Longest frame with it.
        const LONGEST_JUMBO: usize = 16384;
        let bytes = frame.len_with_fcs();
        let longest = if self.regs.has(Reg::Rctl, rctl::LPE) { LONGEST_JUMBO } else { LONGEST };
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

    /// The frame belongs to this station: into the FIFO, if it fits.
    fn admit(&mut self, now: Ps, (frame, looped): (Frame, bool), status: u8, ports: &mut impl NicPorts) {
        let wire_bytes = frame.len_with_fcs();
        let stored = (wire_bytes as u64 + self.config.rx_fifo_frame_overhead.0).next_multiple_of(16);
        let state = self.arrival_state(stored);
        let previous = std::mem::replace(&mut self.rx.previous, state);
        self.stats.rx_fifo_full += u64::from(state.rx_fifo_full && !looped);
        self.stats.rx_ring_full += u64::from(state.rx_ring_full);
        self.stats.tx_ring_full += u64::from(state.tx_ring_full);
        if self.regs.ring(Queue::Receive).is_none_or(|ring| ring.head == ring.tail) {
            self.regs.count(Reg::Rnbc);
        }
        if state.rx_fifo_full {
            let class = classify(previous, state);
            self.rx_note_wait(now);
            self.count_full(class, looped);
            log!(
                now,
                Nic,
                Debug,
                "{}: frame of {wire_bytes} bytes dropped: the FIFO is full ({class:?})",
                self.name
            );
            self.regs.count(Reg::Mpc);
            return self.set_cause(now, cause::RXO, ports);
        }
        if frame.fcs_bad {
            self.regs.count(Reg::Rxerrc);
        } else {
            self.count_received(Cast::of(&frame.bytes), wire_bytes);
        }
        log!(now, Nic, Debug, "{}: frame of {wire_bytes} bytes received", self.name);
        let stamps = RxStamps { arrived: now, ..RxStamps::default() };
        let measured = !looped && self.measured.has(now);
        let watched = Watched { id: ports.recognise(&frame.bytes), measured, stamps };
        let mut frame = self.prepare(frame, status, stored as u32);
        frame.watched = Observed(watched);
        self.rx.fifo.push(frame);
        self.stats.rx_fifo_peak_bytes = self.stats.rx_fifo_peak_bytes.max(self.rx.fifo.used());
        self.watch_fifo_level(now, ports);
        self.rx_advance(now, ports);
    }

    fn count_full(&mut self, class: DropClass, looped: bool) {
        if looped {
            self.rx.waits.dropped_looped();
            self.stats.rx_looped_drop_full += 1;
            return;
        }
        self.rx.waits.dropped();
        match class {
            DropClass::Dma => self.stats.rx_drop_dma += 1,
            DropClass::Core => self.stats.rx_drop_core += 1,
            DropClass::Tx => self.stats.rx_drop_tx += 1,
        }
    }

    /// Tells the account of waits what is waited for now.
    fn rx_note_wait(&mut self, now: Ps) {
        let Rx { fifo, dispatched, queue, engine, waits, .. } = &mut self.rx;
        let has_all = self.regs.ring(Queue::Receive).is_none_or(|ring| queue.ring.has_reached(&ring));
        let softwares = waits.asked_for_all(self.stats.rx_fetches, has_all);
        let what = if fifo.is_empty() {
            None
        } else if *dispatched == fifo.len() || queue.ring.front().is_some() {
            Some(WaitsFor::Data)
        } else if !softwares {
            Some(WaitsFor::Fetch)
        } else if self.regs.ring(Queue::Transmit).is_some_and(|ring| ring.is_full()) {
            Some(WaitsFor::Tx)
        } else {
            Some(WaitsFor::Core)
        };
        waits.set(now, what, engine.free_at());
    }

    /// The three facts that a drop's class depends on.
    fn arrival_state(&self, stored: u64) -> ArrivalState {
        ArrivalState {
            rx_fifo_full: self.rx.fifo.used() + stored > self.rx_fifo_capacity(),
            rx_ring_full: self.rx.queue.ring.is_exhausted(self.regs.ring(Queue::Receive).as_ref()),
            tx_ring_full: self.regs.ring(Queue::Transmit).is_some_and(|ring| ring.is_full()),
        }
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
            more_stations: [&[], &[]],
            hashes: self.regs.array(Reg::Mta),
            vlans: on(rctl::VFE).then(|| VlanFilter {
                cfi: on(rctl::CFIEN).then(|| on(rctl::CFI)),
                members: self.regs.array(Reg::Vfta),
            }),
            vlan_type: self.regs.get(Reg::Vet),
        }
    }

    /// What the FIFO keeps of a frame: tag stripped (CTRL.VME), FCS kept (without RCTL.SECRC), checksums taken.
    fn prepare(&mut self, frame: Frame, mut status: u8, stored: u32) -> RxFrame {
        let wire_bytes = frame.len_with_fcs() as u32;
        let Frame { mut bytes, fcs_bad } = frame;
        let mut special = 0;
        let keeps_fcs = !self.regs.has(Reg::Rctl, rctl::SECRC);
        let fcs = if keeps_fcs { checksum::fcs(&bytes) ^ if fcs_bad { !0 } else { 0 } } else { 0 };
        if self.regs.has(Reg::Ctrl, ctrl::VME)
            && let Some(tag) = vlan_tag(&bytes, self.regs.get(Reg::Vet))
        {
            bytes.copy_within(16.., 12);
            bytes.truncate(bytes.len() - 4);
            status |= rxd::VP;
            special = tag;
        }
        let mut notes = offload::receive(&bytes, self.regs.get(Reg::Rxcsum), self.regs.get(Reg::Vet));
        notes.status |= status;
        notes.special = special;
        if fcs_bad {
            notes.errors |= rxd::ERROR_CE;
        }
        if keeps_fcs {
            bytes.extend_from_slice(&fcs.to_le_bytes());
        }
        // The packet checksum covers what is stored, from RXCSUM.PCSS on.
        let start = (self.regs.get(Reg::Rxcsum) & 0xff) as usize;
        notes.checksum = !checksum::sum(bytes.get(start..).unwrap_or(&[]));
        RxFrame { bytes, notes, stored, wire_bytes, watched: Observed::default() }
    }
}
