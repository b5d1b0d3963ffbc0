//! A disk: registers, ring and medium together, and when requests are done.
//!
//! Time: the medium moves one request's data after another at the configured bandwidth, and each answer comes the latency
//! after its data. A request is read off the ring when the driver notifies; its data move, and its answer appears,
//! at the moment when it is done, which is an event of the machine's.

use std::collections::VecDeque;

use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{AccessSize, Ps};
use serde::{Deserialize, Serialize};

use super::block::{CONFIG_BYTES, Request, config_space};
use super::medium::{DiskFile, DiskIdentity, Medium};
use super::mmio::{Effect, Registers};
use super::queue::{Broken, QUEUE_SIZE_MAX};
use super::{DiskConfig, GuestMemory};

doorbell_sim::stats! {
    /// What a disk counts.
    pub struct VirtioDiskStats {
        /// Reads done.
        reads,
        /// Bytes that they read.
        read_bytes,
        /// Writes done.
        writes,
        /// Bytes that they wrote.
        written_bytes,
        /// Flushes done.
        flushes,
        /// Discards done.
        discards,
        /// Write-zeroes requests done.
        zeroings,
        /// Requests that failed: outside the disk, of no whole sectors, too long, or with one of the causes below.
        failed_requests,
        /// Requests with a buffer that is not RAM.
        outside_ram,
        /// Writes refused because disk.written_max was reached.
        refused_writes,
        /// Requests that failed because the host did not give the file's contents.
        host_failures,
        /// Requests of a kind that the device does not know.
        unsupported_requests,
        /// Times the driver broke the rules of the ring, after which the device needs a reset.
        broken_rings,
        /// Resets by the driver.
        resets,
        /// Accesses to no register, of a width that is not defined, against the register's direction, or at the wrong time.
        undefined_accesses,
    }
}

/// A request whose time has not come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InFlight {
    due: Ps,
    request: Request,
}

/// The live device.
#[derive(Clone, Debug)]
pub struct VirtioDisk {
    slot: u8,
    config: DiskConfig,
    config_space: [u8; CONFIG_BYTES],
    medium: Medium,
    registers: Registers,
    in_flight: VecDeque<InFlight>,
    /// When the medium is free for another request's data.
    busy_until: Ps,
    /// When the event that was asked for last comes.
    wake_at: Option<Ps>,
    stats: VirtioDiskStats,
}

/// What a snapshot keeps. The contents of the written blocks stand beside it; their hash is here.
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

    /// Which disk the state belongs to.
    pub fn identity(&self) -> DiskIdentity {
        self.identity
    }
}

impl VirtioDisk {
    /// A disk in a slot, of which nothing was written yet.
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

    /// Which disk it is.
    pub fn identity(&self) -> DiskIdentity {
        self.medium.base().identity()
    }

    /// What it holds.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Its counters.
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

    /// Writes a register at `now`. When it asks for a call of [`wake`](VirtioDisk::wake), the answer says for when.
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
                // The medium stays as busy as it is, and the event that was asked for still comes: so no driver makes
                // more and more events by resetting.
                self.stats.resets += 1;
                self.in_flight.clear();
            }
        }
        self.next_wake()
    }

    /// The moment that was asked for has come: requests that are due are done. Answers as [`write`](VirtioDisk::write).
    #[must_use]
    pub fn wake(&mut self, now: Ps, memory: &mut dyn GuestMemory) -> Option<Ps> {
        self.wake_at = self.wake_at.filter(|at| *at > now);
        let was_full = self.is_full();
        while self.in_flight.front().is_some_and(|first| first.due <= now) {
            let first = self.in_flight.pop_front().expect("it was just looked at");
            if self.complete(&first.request, memory).is_err() {
                self.give_up();
                return None;
            }
        }
        // What was left on the ring for want of room; everything else is notified.
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

    /// Reads requests off the ring until it is empty, and prices them.
    fn take_requests(&mut self, now: Ps, memory: &mut dyn GuestMemory) {
        let features = self.registers.ring_features();
        while !self.is_full() {
            let request = match self.registers.queue.pop(memory, features) {
                Ok(None) => break,
                Ok(Some(chain)) => Request::read(chain, memory),
                Err(Broken) => None,
            };
            let Some(request) = request else { return self.give_up() };
            let moving = self.config.bandwidth.time_for_bits(8 * request.medium_bytes());
            self.busy_until = self.busy_until.max(now).saturating_add(moving);
            let due = self.busy_until.saturating_add(self.config.latency);
            self.in_flight.push_back(InFlight { due, request });
        }
        if features.event_index && self.registers.queue.ask_for_notification(memory).is_err() {
            self.give_up();
        }
    }

    fn complete(&mut self, request: &Request, memory: &mut dyn GuestMemory) -> Result<(), Broken> {
        // The driver may have taken the queue away meanwhile.
        if !self.registers.is_running() {
            return Ok(());
        }
        let written = request.perform(self.slot, &mut self.medium, memory, &mut self.stats).ok_or(Broken)?;
        let features = self.registers.ring_features();
        if self.registers.queue.push(memory, request.head(), written, features)? {
            self.registers.interrupt();
        }
        Ok(())
    }

    fn give_up(&mut self) {
        self.stats.broken_rings += 1;
        self.in_flight.clear();
        self.registers.need_reset();
    }

    /// The state to keep, besides the written blocks' contents.
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

    /// Takes a saved state over; `read` gives the written blocks' contents, one after the other. `name` is the section's.
    pub fn restore(
        &mut self,
        name: &str,
        state: VirtioDiskState,
        read: impl FnMut(&mut [u8]) -> bool,
    ) -> Result<(), SnapshotError> {
        let wrong =
            |problem: &str| SnapshotError::Inconsistent { name: name.into(), problem: problem.into() };
        if state.identity != self.identity() {
            return Err(wrong("it is another disk"));
        }
        self.medium.put_back(&state.written_blocks, read).map_err(wrong)?;
        if self.medium.written_hash() != state.written_hash {
            return Err(wrong("its written blocks are damaged"));
        }
        let in_order = state.in_flight.is_sorted_by_key(|in_flight| in_flight.due);
        let sound = state.in_flight.iter().all(|in_flight| in_flight.request.is_sound());
        // Whoever is under way is waited for.
        let waited =
            state.in_flight.first().is_none_or(|first| state.wake_at.is_some_and(|at| at <= first.due));
        if !in_order || !sound || !waited || state.in_flight.len() > usize::from(QUEUE_SIZE_MAX) {
            return Err(wrong("its requests are impossible"));
        }
        if !state.registers.is_sound() || state.registers.undefined_accesses > u64::MAX / 4 {
            return Err(wrong("its registers are impossible"));
        }
        self.registers = state.registers;
        self.in_flight = state.in_flight.into();
        (self.busy_until, self.wake_at, self.stats) = (state.busy_until, state.wake_at, state.stats);
        Ok(())
    }

    /// How many requests were taken and not answered yet.
    pub fn requests_under_way(&self) -> usize {
        self.in_flight.len()
    }

    /// When the event that was asked for comes.
    pub fn wake_at(&self) -> Option<Ps> {
        self.wake_at
    }
}
