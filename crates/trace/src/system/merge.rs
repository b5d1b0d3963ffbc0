//! Merges traces into one file: harts and devices are renumbered, and each trace's memory becomes a separate
//! region.
//!
//! A trace's memory moves as a whole, by a multiple of [`ALIGNMENT`], so that cache-line, set and DRAM-row
//! sharing is preserved. This applies to physical addresses of instructions, data, DMA and page-table
//! entries. Device registers and virtual addresses are unchanged. Traces have no common time base, so events
//! of different traces are interleaved by their harts' relative progress. Only the order within one trace is
//! meaningful; the description records which harts belong together.

use std::path::Path;

use doorbell_sim::memory::{DEVICES_MAX, PLATFORM_DEVICES, Walk};
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::device::{DeviceEvent, EventKind};
use super::reader::{Counts, DeviceReader, TraceFile};
use super::writer::TraceWriter;
use super::{Description, TraceError};

/// Granularity of moves: addresses keep their offset modulo this.
pub const ALIGNMENT: u64 = 64 << 20;
/// Placement of one of the traces in the merged one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// New numbers of its harts: the first, and the count.
    pub harts: (u16, u16),
    /// Old and new numbers of its devices.
    pub devices: Vec<(u8, u8)>,
    /// Its memory, after the move.
    pub memory: Extent,
    /// Distance of the move.
    pub moved: u64,
}

/// An address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte.
    pub low: u64,
    /// The last byte.
    pub high: u64,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { low: u64::MAX, high: 0 }
    }
}

impl Extent {
    /// Returns whether the range has no address.
    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    /// Extends the range to some bytes.
    pub(super) fn note(&mut self, addr: u64, bytes: u64) {
        self.low = self.low.min(addr);
        self.high = self.high.max(addr.saturating_add(bytes.max(1) - 1));
    }

    /// Extends the range to another.
    pub(super) fn join(&mut self, other: Extent) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }
}

/// Memory and devices that a trace uses.
struct Used {
    memory: Extent,
    devices: Vec<u8>,
}

/// Merges all traces into one; each is read twice.
pub fn merge(files: &[TraceFile], to: &Path) -> Result<(Counts, Vec<Placement>), TraceError> {
    let placed = place(files)?;
    let description = description(files)?;
    let mut writer = TraceWriter::create(to, &description)?;
    for (number, placed) in placed.iter().enumerate() {
        for hart in 0..files[number].description().harts {
            blocks(&files[number], number, hart, placed, &mut writer)?;
        }
    }
    events(files, &placed, &mut writer)?;
    Ok((writer.finish()?, placed))
}

fn description(files: &[TraceFile]) -> Result<Description, TraceError> {
    let all = || files.iter().map(TraceFile::description);
    let together = |of: fn(&Description) -> &str| {
        let mut words: Vec<&str> = all().map(of).collect();
        words.dedup();
        words.join(" | ")
    };
    let harts: u32 = all().map(|each| u32::from(each.harts)).sum();
    let beside = all().flat_map(Description::parts).map(|harts| harts.len() as u16);
    Ok(Description {
        recorder: together(|each| &each.recorder),
        recorded: all().map(|each| &*each.recorded).collect::<Vec<_>>().join(" | "),
        isa: together(|each| &each.isa),
        harts: harts.try_into().map_err(|_| TraceError::TooMany { what: "harts", most: u16::MAX.into() })?,
        timed: all().all(|each| each.timed),
        // Traces with only virtual addresses use them as physical ones from now on, moved.
        physical: true,
        config: all().next().map_or(String::new(), |first| first.config.clone()),
        beside: beside.collect(),
    })
}

/// Assigns hart and device numbers and memory regions.
fn place(files: &[TraceFile]) -> Result<Vec<Placement>, TraceError> {
    let (mut placed, mut harts, mut taken) = (Vec::new(), 0u16, Extent::default());
    let mut next = [0, PLATFORM_DEVICES];
    for (number, file) in files.iter().enumerate() {
        let Used { mut memory, devices } = survey(file).map_err(of_input(number))?;
        let mut moved = 0;
        if !taken.is_empty() && !memory.is_empty() && memory.low <= taken.high {
            let no_room = || TraceError::NoRoom { above: taken.high, from: memory.low, to: memory.high };
            let by = taken.high - memory.low + 1;
            moved = by.checked_next_multiple_of(ALIGNMENT).ok_or_else(no_room)?;
            memory.high = memory.high.checked_add(moved).ok_or_else(no_room)?;
            memory.low += moved;
        }
        let mut numbered = Vec::new();
        for device in devices {
            // Platform devices have a number range of their own.
            let platform = usize::from(device >= PLATFORM_DEVICES);
            let most = [PLATFORM_DEVICES, DEVICES_MAX as u8][platform];
            if next[platform] == most {
                let what = ["PCI devices", "platform devices"][platform];
                return Err(TraceError::TooMany {
                    what,
                    most: u32::from(most - platform as u8 * PLATFORM_DEVICES),
                });
            }
            numbered.push((device, next[platform]));
            next[platform] += 1;
        }
        taken.join(memory);
        let own = file.description().harts;
        placed.push(Placement { harts: (harts, own), devices: numbered, memory, moved });
        harts = harts.saturating_add(own);
    }
    Ok(placed)
}

/// Marks an error as one of an input file.
fn of_input(number: usize) -> impl Fn(TraceError) -> TraceError {
    move |error| TraceError::Input { number, error: Box::new(error) }
}

/// Reads a trace to find the memory and devices that it uses.
fn survey(file: &TraceFile) -> Result<Used, TraceError> {
    let (mut memory, mut used) = (Extent::default(), [false; 256]);
    let mut ops = Vec::new();
    for hart in 0..file.description().harts {
        let mut reader = file.hart(hart, 0)?;
        while reader.next(&mut ops)?.is_some() {
            for op in ops.drain(..) {
                memory.note(op.fetch.0, op.length.into());
                if is_in_memory(&op) {
                    memory.note(op.phys.0, op.size.into());
                }
            }
        }
        memory.join(reader.page_tables());
    }
    let mut events = file.devices()?;
    while let Some(event) = events.next()? {
        used[usize::from(event.device)] = true;
        if let EventKind::Dma(dma) = event.what {
            memory.note(dma.addr.0, dma.len.into());
        }
    }
    Ok(Used { memory, devices: (0..=u8::MAX).filter(|device| used[usize::from(*device)]).collect() })
}

/// Returns whether an op accesses memory and not a device register.
fn is_in_memory(op: &Op) -> bool {
    !op.class.is_branch() && op.class != OpClass::Device && (op.virt, op.phys.0) != (0, 0)
}

fn blocks(
    file: &TraceFile,
    number: usize,
    hart: u16,
    placed: &Placement,
    writer: &mut TraceWriter,
) -> Result<(), TraceError> {
    let (mut reader, mut ops) = (file.hart(hart, 0).map_err(of_input(number))?, Vec::new());
    let moved = |addr: PhysAddr| PhysAddr(addr.0.wrapping_add(placed.moved));
    while let Some(step) = reader.next(&mut ops).map_err(of_input(number))? {
        for op in &mut ops {
            if is_in_memory(op) {
                op.phys = moved(op.phys);
            }
            op.fetch = moved(op.fetch);
        }
        let mut walk = |virt| -> Walk {
            let mut walk = reader.walk(virt);
            let levels = usize::from(walk.levels);
            walk.entries[..levels].iter_mut().for_each(|entry| *entry = moved(*entry));
            walk
        };
        writer.block(placed.harts.0 + hart, &step, &ops, &mut walk)?;
        ops.clear();
    }
    Ok(())
}

/// Events of a trace while they are written.
struct Events<'a> {
    number: usize,
    file: &'a TraceFile,
    placed: &'a Placement,
    reader: DeviceReader,
    next: Option<DeviceEvent>,
    /// Largest relative progress of its harts so far, in units of 2^-32 of their instructions.
    reached: u64,
}

impl Events<'_> {
    fn advance(&mut self) -> Result<(), TraceError> {
        self.next = self.reader.next()?;
        if let Some(event) = self.next {
            let harts = self.file.description().harts;
            if let Some((hart, _)) = event.anchors().find(|(hart, _)| *hart >= harts) {
                return Err(TraceError::NoHart { hart, harts });
            }
            let all = self.file.counts().instructions[usize::from(event.hart)];
            let share = (u128::from(event.after) << 32) / u128::from(all.max(1));
            self.reached = self.reached.max(share.min(u128::from(u64::MAX)) as u64);
        }
        Ok(())
    }

    /// The event with new numbers and addresses.
    fn moved(&self, mut event: DeviceEvent) -> DeviceEvent {
        let devices = &self.placed.devices;
        event.hart += self.placed.harts.0;
        let number = devices.iter().find(|(before, _)| *before == event.device);
        event.device = number.expect("the survey found all devices").1;
        match &mut event.what {
            EventKind::Dma(dma) => dma.addr = PhysAddr(dma.addr.0.wrapping_add(self.placed.moved)),
            EventKind::Register { stored: Some(stored), .. } => stored.hart += self.placed.harts.0,
            _ => {}
        }
        event
    }
}

fn events(files: &[TraceFile], placed: &[Placement], writer: &mut TraceWriter) -> Result<(), TraceError> {
    let mut all = Vec::new();
    for (number, (file, placed)) in files.iter().zip(placed).enumerate() {
        let reader = file.devices().map_err(of_input(number))?;
        let mut events = Events { number, file, placed, reader, next: None, reached: 0 };
        events.advance().map_err(of_input(number))?;
        all.push(events);
    }
    while let Some(first) = all.iter_mut().filter(|each| each.next.is_some()).min_by_key(|each| each.reached)
    {
        let event = first.next.take().expect("events without a next one were filtered out");
        writer.event(&first.moved(event))?;
        first.advance().map_err(of_input(first.number))?;
    }
    Ok(())
}
