//! Checkpoints: a machine's whole state as bytes, and back.
//!
//! A checkpoint holds a head (guest, and hash of its guest-visible configuration), the snapshot's sections,
//! the non-zero RAM pages and the written disk blocks. All of it is compressed, after magic, version and a
//! hash. A machine restores a checkpoint only if the guest-visible configuration is the same; clocks, links,
//! DMA and FIFOs may differ.

use std::io::{Read, Write};
use std::path::PathBuf;

use doorbell_loadgen::LoadGenState;
use doorbell_pcie::MessagesState;
use doorbell_pcie::host_bridge::HostBridgeState;
use doorbell_platform::{Clint, Rtc, Syscon, Uart};
use doorbell_riscv::HART_STATE_VERSION;
use doorbell_sim::event::QueueState;
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::snapshot::{Snapshot, SnapshotError};
use doorbell_sim::{Clock, EventQueue, PhysAddr, Ps};
use doorbell_wire::Link;
use doorbell_wire::link::LinkState;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::checkpoint_file::{File, Format};
use crate::config::AHEAD_MAX;
use crate::dma::DmaStats;
use crate::events::Event;
use crate::functions::PluggedFunction;
use crate::machine::Machine;
use crate::timed::Mode;
use crate::turns::Turns;

const COMPRESSION_LEVEL: i32 = 1;
pub(crate) const MACHINE_VERSION: u32 = 6;
/// Bound on the saved bytes per frame that a generator tracks: two variable-length integers, rounded up.
const REMEMBERED_FRAME_BYTES_MAX: u64 = 64;
/// Bound on the bytes of all other saved state: devices, FIFOs and frames in flight.
const REST_BYTES_MAX: u64 = 1 << 30;
/// Largest saved time or count that is accepted. As a time it is about fifty days.
pub(crate) const TIME_MAX: u64 = u64::MAX / 4;

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file cannot be read or written.
    #[error("cannot {action} the checkpoint {}: {error}", path.display())]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The host's error.
        error: std::io::Error,
    },
    /// Not a checkpoint.
    #[error("this file is not a Doorbell checkpoint")]
    NotACheckpoint,
    /// Written in another format version.
    #[error("the checkpoint has format {found}, this doorbell reads format {reads}; make a new one")]
    Version {
        /// The file's format.
        found: u32,
        /// The format that this version reads.
        reads: u32,
    },
    /// Truncated or changed.
    #[error("the checkpoint is truncated or damaged; delete it and make a new one")]
    Damaged,
    /// The guest-visible configuration differs.
    #[error(
        "the checkpoint belongs to another machine: {0}; use the configuration it was made with, or make a new one"
    )]
    OtherMachine(String),
    /// Another guest, or the same guest with another command line.
    #[error("the checkpoint is of another guest: {0}")]
    OtherGuest(String),
    /// A section is wrong.
    #[error("the checkpoint cannot be restored: {0}")]
    Snapshot(#[from] SnapshotError),
}

/// Lists the words in which two guests' names and command lines differ: whole command lines are too long to
/// compare by eye.
fn guest_difference(its: &str, this: &str) -> String {
    let extra = |one: &str, other: &str| {
        let other: Vec<&str> = other.split_whitespace().collect();
        let more: Vec<&str> = one.split_whitespace().filter(|word| !other.contains(word)).collect();
        more.join(" ")
    };
    match (extra(its, this), extra(this, its)) {
        (more, less) if more.is_empty() && less.is_empty() => {
            "it was booted with the same words in another order".to_owned()
        }
        (more, less) if less.is_empty() => format!("it was booted with \"{more}\", and this one is not"),
        (more, less) if more.is_empty() => format!("this one is booted with \"{less}\", and it was not"),
        (more, less) => format!("it was booted with \"{more}\", and this one with \"{less}\" instead"),
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    guest_hash: u64,
    guest: String,
    /// First line: why the checkpoint was made. Further lines: the machine's `boot_notes`.
    note: String,
}

#[derive(Serialize, Deserialize)]
struct Body {
    head: Head,
    snapshot: Snapshot,
    /// Numbers of the pages that follow, in ascending order.
    pages: Vec<u64>,
}

/// State that belongs to no single device.
#[derive(Serialize, Deserialize)]
struct MachineState {
    now: Ps,
    /// Slot clock of hart 0. If the harts' clocks differ, a separate section holds all of them.
    slot_hertz: u64,
    reset_rom: Vec<u8>,
    reservations: Vec<u64>,
    turns: Turns,
    irqs: Vec<bool>,
    dma: Vec<DmaStats>,
    stats: crate::machine::MachineStats,
}

/// Format of a machine's checkpoint. The part after the hash is compressed.
pub struct MachineFormat;

impl Format for MachineFormat {
    const MAGIC: &'static [u8; 16] = b"DOORBELL CKPT\r\n\x1a";
    const VERSION: u32 = 1;
    const BYTES_MAX: u64 = doorbell_files::CHECKPOINT_BYTES_MAX;
}

/// A machine's checkpoint in memory.
pub type CheckpointFile = File<MachineFormat>;

impl CheckpointFile {
    /// Decompresses the payload as a stream, which avoids a second copy of the guest's RAM.
    fn decompressed(&self) -> Result<impl Read, CheckpointError> {
        zstd::Decoder::with_buffer(self.payload()).map_err(|_| CheckpointError::Damaged)
    }
}

impl Machine {
    /// Saves the machine without changing it. `guest` names its image and command line.
    pub fn checkpoint(&self, guest: &str, note: &str) -> CheckpointFile {
        let note = match self.boot_notes.as_str() {
            "" => note.to_owned(),
            notes => format!("{note}\n{notes}"),
        };
        let head = Head { guest_hash: self.config.guest_hash(), guest: guest.to_owned(), note };
        let pages: Vec<u64> = self.pages_not_zero().collect();
        let body = Body { head, snapshot: self.snapshot(Snapshot::new()), pages };
        let encoded = postcard::to_stdvec(&body).expect("a state serialises");
        let compress = || -> std::io::Result<Vec<u8>> {
            let mut out = zstd::Encoder::new(CheckpointFile::begin(), COMPRESSION_LEVEL)?;
            out.write_all(&(encoded.len() as u64).to_le_bytes())?;
            out.write_all(&encoded)?;
            for page in &body.pages {
                out.write_all(&self.ram.page(*page))?;
            }
            for block in self.written_blocks() {
                out.write_all(block)?;
            }
            out.finish()
        };
        CheckpointFile::seal(compress().expect("compressing into memory does not fail"))
    }

    /// Restores a checkpoint into a newly built machine.
    pub fn restore(&mut self, file: &CheckpointFile, guest: &str) -> Result<(), CheckpointError> {
        let damaged = |_| CheckpointError::Damaged;
        let mut payload = file.decompressed()?;
        let mut length = [0; 8];
        payload.read_exact(&mut length).map_err(damaged)?;
        let length = u64::from_le_bytes(length);
        let mut body = Vec::new();
        // A few bytes could decompress to more memory than the host has.
        payload.by_ref().take(length.min(self.body_bytes_max())).read_to_end(&mut body).map_err(damaged)?;
        if body.len() as u64 != length {
            return Err(CheckpointError::Damaged);
        }
        let body: Body = postcard::from_bytes(&body).map_err(|_| CheckpointError::Damaged)?;
        if body.head.guest_hash != self.config.guest_hash() {
            let problem =
                "its RAM size, harts, interrupt controller, timebase, NICs or their addresses differ";
            return Err(CheckpointError::OtherMachine(problem.to_owned()));
        }
        self.check_disks(&body.snapshot)?;
        if body.head.guest != guest {
            return Err(CheckpointError::OtherGuest(guest_difference(&body.head.guest, guest)));
        }
        if !body.pages.is_sorted_by(|one, next| one < next) {
            return Err(CheckpointError::Damaged);
        }
        let mut contents = [0; PAGE_BYTES as usize];
        for page in &body.pages {
            payload.read_exact(&mut contents).map_err(damaged)?;
            let offset = page.checked_mul(PAGE_BYTES).ok_or(CheckpointError::Damaged)?;
            if !self.ram.store(PhysAddr(self.ram.base().0.saturating_add(offset)), &contents) {
                return Err(CheckpointError::Damaged);
            }
        }
        self.restore_disks(&body.snapshot, &mut payload)?;
        if payload.read(&mut contents).map_err(damaged)? != 0 {
            return Err(CheckpointError::Damaged);
        }
        let (note, boot_notes) = body.head.note.split_once('\n').unwrap_or((&body.head.note, ""));
        (self.checkpoint_note, self.boot_notes) = (note.to_owned(), boot_notes.to_owned());
        self.restore_snapshot(&body.snapshot)
    }

    /// Bound on the bytes of state, apart from RAM, in a checkpoint of this machine: frames that generators
    /// track, and the rest.
    fn body_bytes_max(&self) -> u64 {
        let remembered = self.ports.len() as u64 * u64::from(self.config.loadgen.tracked_frames);
        remembered * REMEMBERED_FRAME_BYTES_MAX + REST_BYTES_MAX
    }

    /// A hash of the machine's whole state: equal states have equal hashes.
    pub fn state_hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        hasher.update(&self.snapshot(Snapshot::of_hashes()).state_hash().to_le_bytes());
        for page in self.pages_not_zero() {
            hasher.update(&page.to_le_bytes());
            hasher.update(&self.ram.page(page));
        }
        hasher.digest()
    }

    /// Name and hash of each section of the state, except RAM, to find where two runs differ.
    pub fn section_hashes(&self) -> Vec<(String, u64)> {
        self.snapshot(Snapshot::of_hashes())
            .section_hashes()
            .map(|(name, hash)| (name.to_owned(), hash))
            .collect()
    }

    pub(crate) fn pages_not_zero(&self) -> impl Iterator<Item = u64> {
        self.ram.touched_pages().filter(|page| !self.ram.is_zero_page(*page))
    }

    /// Puts all sections into an empty snapshot.
    fn snapshot(&self, mut snapshot: Snapshot) -> Snapshot {
        let state = MachineState {
            now: self.now(),
            slot_hertz: self.slot_clocks().next().expect("a machine has a hart").frequency().0,
            reset_rom: self.reset_rom.clone(),
            reservations: self.ram.reservations().to_vec(),
            turns: self.turns.clone(),
            irqs: self.functions.iter().map(PluggedFunction::irq).collect(),
            dma: self.functions.iter().map(|plugged| plugged.dma_stats().clone()).collect(),
            stats: self.stats.clone(),
        };
        snapshot.put("machine", MACHINE_VERSION, &state);
        self.save_slot_clocks(&mut snapshot);
        for (index, hart) in self.harts.iter().enumerate() {
            let mut state = hart.save(&self.ram);
            if self.mode() == Mode::Detailed {
                state.update_events(&self.guest_events(index));
            }
            snapshot.put(&format!("hart{index}"), HART_STATE_VERSION, &state);
        }
        snapshot.put("clint", Clint::VERSION, &self.clint);
        self.interrupts.save(&self.harts, &mut snapshot);
        snapshot.put("uart", Uart::VERSION, &self.uart);
        snapshot.put("rtc", Rtc::VERSION, &self.rtc);
        snapshot.put("syscon", Syscon::VERSION, &self.syscon);
        snapshot.put("pci", HostBridgeState::VERSION, &self.bridge.save());
        let messages = self.bridge.save_messages();
        if !messages.is_empty() {
            snapshot.put("pci.messages", MessagesState::VERSION, &messages);
        }
        self.functions.iter().for_each(|plugged| plugged.save(self.now(), &self.attachments, &mut snapshot));
        for (index, port) in self.ports.iter().enumerate() {
            snapshot.put(&format!("port{index}.link_in"), LinkState::VERSION, &port.link_in.save());
            snapshot.put(&format!("port{index}.link_out"), LinkState::VERSION, &port.link_out.save());
            snapshot.put(&format!("port{index}.loadgen"), LoadGenState::VERSION, &port.loadgen.save());
        }
        self.save_timing(&mut snapshot);
        self.save_disks(&mut snapshot);
        snapshot.put("queue", MACHINE_VERSION, &self.queue.save());
        snapshot
    }

    fn restore_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), CheckpointError> {
        let state: MachineState = snapshot.get("machine", MACHINE_VERSION)?;
        let inconsistent =
            |problem: &str| SnapshotError::Inconsistent { name: "machine".into(), problem: problem.into() };
        let functions = self.functions.len();
        if state.irqs.len() != functions || state.dma.len() != functions {
            return Err(inconsistent("the number of PCI functions differs").into());
        }
        if !self.ram.set_reservations(&state.reservations) {
            return Err(inconsistent("its LR/SC reservations do not fit this machine").into());
        }
        let saved_clocks = self.saved_clocks(snapshot, state.slot_hertz)?;
        if state.now.0 > TIME_MAX {
            return Err(inconsistent("its time is out of range").into());
        }
        if !state.turns.is_for(self.harts.len()) {
            return Err(inconsistent("the number of harts differs").into());
        }
        self.turns = state.turns;
        self.reached = state.now;
        self.reset_rom = state.reset_rom;
        self.stats = state.stats;
        let queue: QueueState<Event> = snapshot.get("queue", MACHINE_VERSION)?;
        if !queue.is_sound() {
            return Err(inconsistent("its event queue is inconsistent").into());
        }
        self.queue = EventQueue::restore(queue);
        let clocks: Vec<Clock> = self.slot_clocks().collect();
        for (index, hart) in self.harts.iter_mut().enumerate() {
            let saved_clock = saved_clocks[index];
            hart.restore(snapshot.get(&format!("hart{index}"), HART_STATE_VERSION)?, &self.ram)?;
            let stopped = saved_clock.edge(hart.slots());
            let ahead = stopped.saturating_sub(AHEAD_MAX) > self.queue.next_time();
            if ahead || stopped.0 > TIME_MAX || hart.instructions() > TIME_MAX {
                return Err(inconsistent("a hart's time is out of range").into());
            }
            if saved_clock != clocks[index] {
                let slot = hart.slot_at(saved_clock.edge(hart.slots()));
                hart.rebase(slot);
            }
        }
        self.clint.restore(snapshot.get("clint", Clint::VERSION)?)?;
        self.interrupts.restore(&mut self.harts, snapshot)?;
        self.uart.restore(snapshot.get("uart", Uart::VERSION)?)?;
        self.rtc = snapshot.get("rtc", Rtc::VERSION)?;
        self.syscon = snapshot.get("syscon", Syscon::VERSION)?;
        self.bridge.restore(snapshot.get("pci", HostBridgeState::VERSION)?)?;
        let has_messages = snapshot.has("pci.messages");
        let messages: Option<Vec<MessagesState>> =
            has_messages.then(|| snapshot.get("pci.messages", MessagesState::VERSION)).transpose()?;
        self.bridge.restore_messages(messages.unwrap_or_default())?;
        for ((plugged, irq), dma) in self.functions.iter_mut().zip(state.irqs).zip(state.dma) {
            plugged.restore(snapshot, &mut self.attachments, irq, dma)?;
        }
        for (index, port) in self.ports.iter_mut().enumerate() {
            restore_link(
                &mut port.link_in,
                snapshot.get(&format!("port{index}.link_in"), LinkState::VERSION)?,
            )?;
            restore_link(
                &mut port.link_out,
                snapshot.get(&format!("port{index}.link_out"), LinkState::VERSION)?,
            )?;
            port.loadgen.restore(snapshot.get(&format!("port{index}.loadgen"), LoadGenState::VERSION)?)?;
        }
        self.restore_timing(snapshot, &saved_clocks)?;
        self.follow_guest_events();
        self.check_restored_events()
            .and_then(|()| self.check_restored_times())
            .map_err(|problem| inconsistent(problem).into())
    }
}

/// Restores a link. A link that has carried no frame keeps its new fault stream: the seed of the run decides
/// its faults, not the seed of the boot.
fn restore_link(link: &mut Link, state: LinkState) -> Result<(), SnapshotError> {
    let fresh = link.clone();
    link.restore(state)?;
    if link.stats().frames == 0 {
        *link = fresh;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_difference_lists_the_differing_words() {
        let common = "echo 1234 console=hvc0 quiet";
        let with = |words: &str| format!("{common} {words}");
        for (its, this, expected) in [
            (
                with("doorbell.app=host"),
                with(""),
                "it was booted with \"doorbell.app=host\", and this one is not",
            ),
            (with(""), with("a b"), "this one is booted with \"a b\", and it was not"),
            (with("a"), with("b"), "it was booted with \"a\", and this one with \"b\" instead"),
            (with("a b"), with("b a"), "it was booted with the same words in another order"),
        ] {
            assert_eq!(guest_difference(&its, &this), expected);
        }
    }
}
