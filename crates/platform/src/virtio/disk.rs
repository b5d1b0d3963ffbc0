//! A disk: registers, ring and medium, and the timing of requests.
//!
//! Timing: the medium transfers the data of one request at a time at the configured bandwidth, and each
//! completion follows the latency after its transfer. A request is taken from the ring when the driver
//! notifies the device. Its data are copied, and its completion appears, when it is done, by an event of the
//! machine.

use std::collections::VecDeque;

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{AccessSize, Ps};
use serde::{Deserialize, Serialize};

use super::block::{CONFIG_BYTES, Request, config_space};
use super::medium::{DiskFile, DiskIdentity, Medium};
use super::mmio::{Effect, Registers};
use super::queue::{QUEUE_SIZE_MAX, RingViolation};
use super::{DiskConfig, GuestMemory};

doorbell_sim::stats! {
    /// Disk counters.
    pub struct VirtioDiskStats {
        /// Completed reads.
        reads,
        /// Bytes read.
        read_bytes,
        /// Completed writes.
        writes,
        /// Bytes written.
        written_bytes,
        /// Completed flushes.
        flushes,
        /// Completed discards.
        discards,
        /// Completed write-zeroes requests.
        zeroings,
        /// Failed requests: outside the disk, not whole sectors, too long, or one of the causes below.
        failed_requests,
        /// Requests with a buffer outside RAM.
        outside_ram,
        /// Writes refused because disk.written_max was reached.
        refused_writes,
        /// Requests that failed because the host could not read the file.
        host_failures,
        /// Requests of an unknown type.
        unsupported_requests,
        /// Ring rule violations by the driver, after which the device needs a reset.
        broken_rings,
        /// Resets by the driver.
        resets,
        /// Accesses to no register, of an undefined width, against the register's direction, or at the wrong
        /// time.
        undefined_accesses,
    }
}

/// A request that is not due yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InFlight {
    due: Ps,
    request: Request,
}

/// The device.
#[derive(Clone, Debug)]
pub struct VirtioDisk {
    slot: u8,
    config: DiskConfig,
    config_space: [u8; CONFIG_BYTES],
    medium: Medium,
    registers: Registers,
    in_flight: VecDeque<InFlight>,
    /// Time at which the medium can transfer the next request's data.
    busy_until: Ps,
    /// Time of the last requested event.
    wake_at: Option<Ps>,
    stats: VirtioDiskStats,
}

/// The saved state. The contents of written blocks are saved separately; their hash is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtioDiskState {
    identity: DiskIdentity,
    written_blocks: Vec<(u64, bool)>,
    written_hash: u64,
    registers: Registers,
    in_flight: Vec<InFlight>,
    busy_until: Ps,
    wake_at: Option<Ps>,
    stats: VirtioDiskStats,
}

impl VirtioDiskState {
    /// The version of this layout.
    pub const VERSION: u32 = 1;

    /// The disk that the state belongs to.
    pub fn identity(&self) -> DiskIdentity {
        self.identity
    }
}

impl VirtioDisk {
    /// A disk in a slot, without written blocks.
    pub fn new(slot: u8, config: DiskConfig, file: DiskFile) -> VirtioDisk {
        let medium = Medium::new(file, config.written_max.0);
        VirtioDisk {
            slot,
            config_space: config_space(medium.sectors()),
            config,
            medium,
            registers: Registers::default(),
            in_flight: VecDeque::new(),
            busy_until: Ps::ZERO,
            wake_at: None,
            stats: VirtioDiskStats::default(),
        }
    }

    /// The disk's identity.
    pub fn identity(&self) -> DiskIdentity {
        self.medium.base().identity()
    }

    /// The disk's contents.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The counters.
    pub fn stats(&self) -> VirtioDiskStats {
        VirtioDiskStats { undefined_accesses: self.registers.undefined_accesses, ..self.stats.clone() }
    }

    /// The interrupt line.
    pub fn irq(&self) -> bool {
        self.registers.irq()
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        self.registers.read(offset, size, &self.config_space)
    }

    /// Writes a register at `now`. Returns the time at which [`wake`](VirtioDisk::wake) must be called, if it
    /// must.
    #[must_use]
    pub fn write(
        &mut self,
        offset: u64,
        size: AccessSize,
        value: u64,
        now: Ps,
        memory: &mut dyn GuestMemory,
    ) -> Option<Ps> {
        match self.registers.write(offset, size, value) {
            Effect::None => {}
            Effect::Notified => self.take_requests(now, memory),
            Effect::Reset => {
                // The medium stays busy, and the requested event still occurs, so that a driver cannot create
                // more and more events by resetting.
                self.stats.resets += 1;
                self.in_flight.clear();
            }
        }
        self.next_wake()
    }

    /// Completes the requests that are due. Returns as [`write`](VirtioDisk::write).
    #[must_use]
    pub fn wake(&mut self, now: Ps, memory: &mut dyn GuestMemory) -> Option<Ps> {
        self.wake_at = self.wake_at.filter(|at| *at > now);
        let was_full = self.is_full();
        while self.in_flight.front().is_some_and(|first| first.due <= now) {
            let first = self.in_flight.pop_front().expect("there is a first request");
            if self.complete(&first.request, memory).is_err() {
                self.fail_ring();
                return None;
            }
        }
        // Requests left on the ring because the device was full; the driver notifies all others.
        if was_full && self.registers.is_running() {
            self.take_requests(now, memory);
        }
        self.next_wake()
    }

    fn is_full(&self) -> bool {
        self.in_flight.len() >= usize::from(QUEUE_SIZE_MAX)
    }

    fn next_wake(&mut self) -> Option<Ps> {
        let due = self.in_flight.front()?.due;
        if self.wake_at.is_some_and(|at| at <= due) {
            return None;
        }
        self.wake_at = Some(due);
        Some(due)
    }

    /// Takes requests from the ring until it is empty, and computes their completion times.
    fn take_requests(&mut self, now: Ps, memory: &mut dyn GuestMemory) {
        let features = self.registers.ring_features();
        while !self.is_full() {
            let request = match self.registers.queue.pop(memory, features) {
                Ok(None) => break,
                Ok(Some(chain)) => Request::read(chain, memory),
                Err(RingViolation) => None,
            };
            let Some(request) = request else { return self.fail_ring() };
            let moving = self.config.bandwidth.time_for_bits(8 * request.medium_bytes());
            self.busy_until = self.busy_until.max(now).saturating_add(moving);
            let due = self.busy_until.saturating_add(self.config.latency);
            self.in_flight.push_back(InFlight { due, request });
        }
        if features.event_index && self.registers.queue.request_notification(memory).is_err() {
            self.fail_ring();
        }
    }

    fn complete(&mut self, request: &Request, memory: &mut dyn GuestMemory) -> Result<(), RingViolation> {
        // The driver may have disabled the queue in the meantime.
        if !self.registers.is_running() {
            return Ok(());
        }
        let written =
            request.perform(self.slot, &mut self.medium, memory, &mut self.stats).ok_or(RingViolation)?;
        let features = self.registers.ring_features();
        if self.registers.queue.push(memory, request.head(), written, features)? {
            self.registers.interrupt();
        }
        Ok(())
    }

    fn fail_ring(&mut self) {
        self.stats.broken_rings += 1;
        self.in_flight.clear();
        self.registers.need_reset();
    }

    /// Saves the state, without the contents of written blocks.
    pub fn save(&self) -> VirtioDiskState {
        VirtioDiskState {
            identity: self.identity(),
            written_blocks: self.medium.written_blocks(),
            written_hash: self.medium.written_hash(),
            registers: self.registers.clone(),
            in_flight: self.in_flight.iter().cloned().collect(),
            busy_until: self.busy_until,
            wake_at: self.wake_at,
            stats: self.stats.clone(),
        }
    }

    /// Restores a saved state; `read` supplies the contents of written blocks in order. `name` is the
    /// section's.
    pub fn restore(
        &mut self,
        name: &str,
        state: VirtioDiskState,
        read: impl FnMut(&mut [u8]) -> bool,
    ) -> Result<(), SnapshotError> {
        let wrong =
            |problem: &str| SnapshotError::Inconsistent { name: name.into(), problem: problem.into() };
        if state.identity != self.identity() {
            return Err(wrong("it is a different disk"));
        }
        self.medium.restore_blocks(&state.written_blocks, read).map_err(wrong)?;
        if self.medium.written_hash() != state.written_hash {
            return Err(wrong("its written blocks are damaged"));
        }
        let in_order = state.in_flight.is_sorted_by_key(|in_flight| in_flight.due);
        let valid = state.in_flight.iter().all(|in_flight| in_flight.request.is_valid());
        // If requests are in flight, an event must be pending.
        let waited =
            state.in_flight.first().is_none_or(|first| state.wake_at.is_some_and(|at| at <= first.due));
        if !in_order || !valid || !waited || state.in_flight.len() > usize::from(QUEUE_SIZE_MAX) {
            return Err(wrong("its requests are inconsistent"));
        }
        if !state.registers.is_valid() || state.registers.undefined_accesses > u64::MAX / 4 {
            return Err(wrong("its registers are inconsistent"));
        }
        self.registers = state.registers;
        self.in_flight = state.in_flight.into();
        (self.busy_until, self.wake_at, self.stats) = (state.busy_until, state.wake_at, state.stats);
        Ok(())
    }

    /// Number of requests taken and not yet completed.
    pub fn requests_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Time of the last requested event.
    pub fn wake_at(&self) -> Option<Ps> {
        self.wake_at
    }
}
