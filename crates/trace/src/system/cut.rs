//! Cuts a window out of a trace: the window's part of all harts and devices, as a trace of its own.
//!
//! The window is a range of instructions of one hart. A trace has no common time base for the harts, so the
//! same share of every other hart's instructions is taken. An event belongs to the window that holds the
//! instruction after its anchor, so that adjacent windows have each event once. A sleep or a fence between
//! blocks belongs to the following block, a trap to the preceding one. The writer records the address space,
//! the thread and the pages again.

use std::ops::Range;
use std::path::Path;

use doorbell_sim::ports::DmaPurpose;
use doorbell_sim::{Op, Ps};

use super::device::{DeviceEvent, EventKind, StoreOrigin};
use super::hart::Step;
use super::reader::{Counts, TraceFile};
use super::writer::TraceWriter;
use super::{Description, TraceError};

/// The window to cut out.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Hart whose instructions are counted.
    pub hart: u16,
    /// First instruction.
    pub from: u64,
    /// Number of instructions; the rest of the trace if it has fewer.
    pub count: u64,
    /// Leaves out the other harts and the events anchored to them.
    pub single_hart: bool,
}

/// Result of a cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Totals of the new trace.
    pub counts: Counts,
    /// For each of its harts: the old number, the first instruction, and the end.
    pub harts: Vec<(u16, u64, u64)>,
    /// Events dropped because their hart was left out.
    pub events_dropped: u64,
}

/// Instruction range of a hart; if the window reaches the end of the trace, everything after the last
/// instruction is included.
#[derive(Clone, Copy)]
struct Part {
    from: u64,
    to: u64,
    last: bool,
}

impl Part {
    /// Returns whether a block or event after `at` instructions is inside.
    fn has(self, at: u64) -> bool {
        at >= self.from && (self.last || at < self.to)
    }
}

/// Writes the window as a trace of its own.
pub fn cut(file: &TraceFile, to: &Path, window: Window) -> Result<Cut, TraceError> {
    let all = &file.counts().instructions;
    let Window { hart, from, count, single_hart } = window;
    let harts = file.description().harts;
    let total = *all.get(usize::from(hart)).ok_or(TraceError::NoHart { hart, harts })?;
    if from >= total || count == 0 {
        return Err(TraceError::NoInstruction { hart, from, count, has: total });
    }
    let end = from.saturating_add(count).min(total);
    let share = |of: u64, at: u64| (u128::from(of) * u128::from(at) / u128::from(total)) as u64;
    let part = |of: u64| Part { from: share(of, from), to: share(of, end), last: end == total };
    let parts: Vec<Option<Part>> =
        (0..harts).map(|each| (each == hart || !single_hart).then(|| part(all[usize::from(each)]))).collect();
    let kept: Vec<u16> = (0..harts).filter(|each| parts[usize::from(*each)].is_some()).collect();
    let words = format!("instructions {from} to {end} of hart {hart} of: {}", file.description().recorded);
    let beside = remaining_harts(file.description(), &kept);
    let description =
        Description { harts: kept.len() as u16, recorded: words, beside, ..file.description().clone() };
    let mut writer = TraceWriter::create(to, &description)?;
    let mut cut = Cut { counts: Counts::default(), harts: Vec::new(), events_dropped: 0 };
    for (number, hart) in (0..).zip(&kept) {
        let part = parts[usize::from(*hart)].expect("it is kept");
        blocks(file, *hart, part, number, &mut writer)?;
        cut.harts.push((*hart, part.from, part.to));
    }
    cut.events_dropped = events(file, &parts, &mut writer)?;
    cut.counts = writer.finish()?;
    Ok(cut)
}

/// Hart counts of merged traces after a cut; empty if at most one trace has harts left.
fn remaining_harts(of: &Description, kept: &[u16]) -> Vec<u16> {
    let left = |part: Range<u16>| kept.iter().filter(|hart| part.contains(hart)).count() as u16;
    let all: Vec<u16> = of.parts().into_iter().map(left).filter(|left| *left > 0).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

/// Writes a hart's part.
fn blocks(
    file: &TraceFile,
    hart: u16,
    part: Part,
    number: u16,
    writer: &mut TraceWriter,
) -> Result<(), TraceError> {
    // Steps without instructions may be at the end of the preceding chunk.
    let mut reader = file.hart(hart, part.from.saturating_sub(1))?;
    let mut ops = Vec::new();
    while part.last || reader.position() < part.to {
        let begins = reader.position();
        let Some(step) = reader.next(&mut ops)? else { break };
        if let Some((step, inside)) = piece(part, begins, &step, &ops) {
            writer.block(number, &step, inside, &mut |virt| reader.walk(virt))?;
        }
        ops.clear();
    }
    Ok(())
}

/// The ops of a block that are inside the part.
fn piece<'a>(part: Part, begins: u64, step: &Step, ops: &'a [Op]) -> Option<(Step, &'a [Op])> {
    let (mut first, mut end, mut at) = (ops.len(), 0, begins);
    for (index, op) in ops.iter().enumerate() {
        if part.has(at) {
            (first, end) = (first.min(index), index + 1);
        }
        at += u64::from(op.ends_instruction());
    }
    if ops.is_empty() {
        return part.has(begins).then_some((*step, ops));
    }
    let inside = ops.get(first..end)?;
    let mut step = Step { trapped: step.trapped && end == ops.len(), ..*step };
    if first > 0 {
        (step.fence, step.slept) = (None, Ps::ZERO);
    }
    Some((step, inside))
}

/// Writes the events of the parts with their new anchors; returns how many were dropped with other harts.
fn events(file: &TraceFile, parts: &[Option<Part>], writer: &mut TraceWriter) -> Result<u64, TraceError> {
    let mut numbers = FrameNumbers::default();
    let mut reader = file.devices()?;
    let mut of_others = 0;
    while let Some(mut event) = reader.next()? {
        let harts = parts.len() as u16;
        if let Some((hart, _)) = event.anchors().find(|(hart, _)| *hart >= harts) {
            return Err(TraceError::NoHart { hart, harts });
        }
        match &parts[usize::from(event.hart)] {
            Some(part) if part.has(event.after) => {
                event.after -= part.from;
                match &mut event.what {
                    EventKind::Dma(dma) if dma.is_write() => {
                        dma.visible = dma.visible.saturating_sub(part.from);
                    }
                    EventKind::Register { stored, .. } => {
                        *stored = stored.and_then(|stored| inside(stored, parts))
                    }
                    _ => {}
                }
                numbers.inside(&mut event);
                event.hart = number(event.hart, parts);
                writer.event(&event)?;
            }
            Some(_) => numbers.outside(&event),
            None => {
                of_others += 1;
                numbers.outside(&event);
            }
        }
    }
    Ok(of_others)
}

/// Number of a hart among those kept.
fn number(hart: u16, parts: &[Option<Part>]) -> u16 {
    parts[..usize::from(hart)].iter().flatten().count() as u16
}

/// The store's instruction relative to the window; `None` if it is outside.
fn inside(stored: StoreOrigin, parts: &[Option<Part>]) -> Option<StoreOrigin> {
    let part = parts[usize::from(stored.hart)]?;
    let is_inside = stored.after.checked_sub(1).is_some_and(|number| part.has(number));
    is_inside.then(|| StoreOrigin { hart: number(stored.hart, parts), after: stored.after - part.from })
}

/// Number of the window's first frame, per device and direction: frames are renumbered from 0.
#[derive(Clone, Copy, Default)]
struct FrameNumber {
    left_out: bool,
    first: Option<u64>,
}

struct FrameNumbers(Vec<[FrameNumber; 2]>);

impl Default for FrameNumbers {
    fn default() -> FrameNumbers {
        FrameNumbers(vec![Default::default(); 256])
    }
}

impl FrameNumbers {
    fn of(&mut self, event: &DeviceEvent) -> Option<&mut FrameNumber> {
        let EventKind::Dma(dma) = event.what else { return None };
        let direction = match dma.purpose {
            DmaPurpose::RxData => 0,
            DmaPurpose::TxData => 1,
            _ => return None,
        };
        Some(&mut self.0[usize::from(event.device)][direction])
    }

    fn outside(&mut self, event: &DeviceEvent) {
        if let Some(number) = self.of(event) {
            number.left_out = true;
        }
    }

    fn inside(&mut self, event: &mut DeviceEvent) {
        let Some(number) = self.of(event) else { return };
        let EventKind::Dma(dma) = &mut event.what else { return };
        let left_out = number.left_out;
        let first = *number.first.get_or_insert(if left_out { dma.frame } else { 0 });
        dma.frame = dma.frame.saturating_sub(first);
    }
}
