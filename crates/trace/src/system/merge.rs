//! Puts traces side by side in one file: their harts and devices are numbered on, and each trace's memory becomes a region of its own.
//!
//! Memory moves as a whole, by a multiple of [`ALIGNMENT`], so that what shared a line, a set or a row still does: physical addresses of
//! instructions, data, DMA and page-table entries. Registers of devices stay where they are, and virtual addresses what they are. No trace
//! says when its instructions were executed beside another's, so events of different traces stand in the file by how far their
//! harts have come; only the order of those of one trace means something, and the description says which harts are whose.

use std::path::Path;

use doorbell_sim::memory::{DEVICES_MAX, PLATFORM_DEVICES, Walk};
use doorbell_sim::{Op, OpClass, PhysAddr};

use super::device::{DeviceEvent, Happening};
use super::reader::{Counts, DeviceReader, TraceFile};
use super::writer::TraceWriter;
use super::{Description, TraceError};

/// Memory of a trace begins at such an address as far as it did before, up to this multiple.
pub const ALIGNMENT: u64 = 64 << 20;
/// What became of one of the traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its harts, as they are numbered now: the first one, and how many.
    pub harts: (u16, u16),
    /// Its devices: their numbers before and now.
    pub devices: Vec<(u8, u8)>,
    /// Its memory, as it lies now.
    pub memory: Extent,
    /// How far it was moved.
    pub moved: u64,
}

/// Addresses from one on up to another.
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
    /// It has no address.
    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    /// Extends it by some bytes.
    pub(super) fn note(&mut self, addr: u64, bytes: u64) {
        self.low = self.low.min(addr);
        self.high = self.high.max(addr.saturating_add(bytes.max(1) - 1));
    }

    /// Extends it by another.
    pub(super) fn join(&mut self, other: Extent) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }
}

/// What a trace uses.
struct Used {
    memory: Extent,
    devices: Vec<u8>,
}

/// Writes all traces into one; each is read twice.
pub fn merge(files: &[TraceFile], to: &Path) -> Result<(Counts, Vec<Placed>), TraceError> {
    let placed = place(files)?;
    let description = description(files)?;
    let mut writer = TraceWriter::create(to, &description)?;
    for (number, placed) in placed.iter().enumerate() {
        for hart in 0..files[number].description().harts {
            blocks((&files[number], number), hart, placed, &mut writer)?;
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
        // Where addresses were virtual alone they are physical ones from now on, and moved.
        physical: true,
        config: all().next().map_or(String::new(), |first| first.config.clone()),
        beside: beside.collect(),
    })
}

/// Where everything comes.
fn place(files: &[TraceFile]) -> Result<Vec<Placed>, TraceError> {
    let (mut placed, mut harts, mut taken) = (Vec::new(), 0u16, Extent::default());
    let mut next = [0, PLATFORM_DEVICES];
    for (number, file) in files.iter().enumerate() {
        let Used { mut memory, devices } = survey(file).map_err(of_input(number))?;
        let mut moved = 0;
        if !taken.is_empty() && !memory.is_empty() && memory.low <= taken.high {
            let no_room = || TraceError::NoRoom { behind: taken.high, from: memory.low, to: memory.high };
            let by = taken.high - memory.low + 1;
            moved = by.checked_next_multiple_of(ALIGNMENT).ok_or_else(no_room)?;
            memory.high = memory.high.checked_add(moved).ok_or_else(no_room)?;
            memory.low += moved;
        }
        let mut numbered = Vec::new();
        for device in devices {
            // The platform's own stay among themselves.
            let platform = usize::from(device >= PLATFORM_DEVICES);
            let most = [PLATFORM_DEVICES, DEVICES_MAX as u8][platform];
            if next[platform] == most {
                let what = ["PCI devices", "devices of platforms"][platform];
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
        placed.push(Placed { harts: (harts, own), devices: numbered, memory, moved });
        harts = harts.saturating_add(own);
    }
    Ok(placed)
}

/// An error of reading one of them.
fn of_input(number: usize) -> impl Fn(TraceError) -> TraceError {
    move |error| TraceError::Input { number, error: Box::new(error) }
}

/// Reads a trace for what it uses.
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
        if let Happening::Dma(dma) = event.what {
            memory.note(dma.addr.0, dma.len.into());
        }
    }
    Ok(Used { memory, devices: (0..=u8::MAX).filter(|device| used[usize::from(*device)]).collect() })
}

/// Whether an op has an address in memory, and not of a device's register.
fn is_in_memory(op: &Op) -> bool {
    !op.class.is_branch() && op.class != OpClass::Device && (op.virt, op.phys.0) != (0, 0)
}

fn blocks(
    (file, number): (&TraceFile, usize),
    hart: u16,
    placed: &Placed,
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

/// A trace's events while they are written.
struct Events<'a> {
    number: usize,
    file: &'a TraceFile,
    placed: &'a Placed,
    reader: DeviceReader,
    next: Option<DeviceEvent>,
    /// How far their harts have come: a share of their instructions, in units of 2^-32.
    reached: u64,
}

impl Events<'_> {
    fn advance(&mut self) -> Result<(), TraceError> {
        self.next = self.reader.next()?;
        if let Some(event) = self.next {
            let harts = self.file.description().harts;
            if let Some((hart, _)) = event.moments().find(|(hart, _)| *hart >= harts) {
                return Err(TraceError::NoHart { hart, harts });
            }
            let all = self.file.counts().instructions[usize::from(event.hart)];
            let share = (u128::from(event.after) << 32) / u128::from(all.max(1));
            self.reached = self.reached.max(share.min(u128::from(u64::MAX)) as u64);
        }
        Ok(())
    }

    /// The event as it is now.
    fn moved(&self, mut event: DeviceEvent) -> DeviceEvent {
        let devices = &self.placed.devices;
        event.hart += self.placed.harts.0;
        let number = devices.iter().find(|(before, _)| *before == event.device);
        event.device = number.expect("the survey saw all devices").1;
        match &mut event.what {
            Happening::Dma(dma) => dma.addr = PhysAddr(dma.addr.0.wrapping_add(self.placed.moved)),
            Happening::Register { stored: Some(stored), .. } => stored.hart += self.placed.harts.0,
            _ => {}
        }
        event
    }
}

fn events(files: &[TraceFile], placed: &[Placed], writer: &mut TraceWriter) -> Result<(), TraceError> {
    let mut all = Vec::new();
    for (number, (file, placed)) in files.iter().zip(placed).enumerate() {
        let reader = file.devices().map_err(of_input(number))?;
        let mut events = Events { number, file, placed, reader, next: None, reached: 0 };
        events.advance().map_err(of_input(number))?;
        all.push(events);
    }
    while let Some(first) = all.iter_mut().filter(|each| each.next.is_some()).min_by_key(|each| each.reached)
    {
        let event = first.next.take().expect("it was looked for");
        writer.event(&first.moved(event))?;
        first.advance().map_err(of_input(first.number))?;
    }
    Ok(())
}
