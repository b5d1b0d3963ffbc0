//! Cuts a window out of a trace: a trace of its own, with what of all harts and devices belongs to it.
//!
//! The window is told by the instructions of one hart. A trace does not say when each instruction of the others was executed, so of them
//! it holds the same share. An event belongs to the window that holds the instruction behind the one that it comes after, so that windows
//! side by side have everything once. What stands between blocks (a sleep, a fence) stays with the block behind it, a trap with the
//! block before; the address space, the thread and the pages are told again by the writer.

use std::ops::Range;
use std::path::Path;

use doorbell_sim::ports::DmaKind;
use doorbell_sim::{Op, Ps};

use super::device::{DeviceEvent, Happening, Stored};
use super::hart::Step;
use super::reader::{Counts, TraceFile};
use super::writer::TraceWriter;
use super::{Description, TraceError};

/// What is cut out.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// By whose instructions it is told.
    pub hart: u16,
    /// Its first instruction.
    pub from: u64,
    /// So many, or as many as there are.
    pub count: u64,
    /// Leaves the other harts out, and the events that are told by them.
    pub alone: bool,
}

/// What was cut out.
#[derive(Clone, Debug)]
pub struct Cut {
    /// What the new trace holds.
    pub counts: Counts,
    /// Each of its harts: which it was, and from which instruction up to which.
    pub harts: Vec<(u16, u64, u64)>,
    /// Events that were told by harts which were left out.
    pub events_of_others: u64,
}

/// Instructions of a hart; a window that ends with the trace has all that comes behind the last one too.
#[derive(Clone, Copy)]
struct Part {
    from: u64,
    to: u64,
    last: bool,
}

impl Part {
    /// Whether what begins after so many instructions belongs to it.
    fn has(self, at: u64) -> bool {
        at >= self.from && (self.last || at < self.to)
    }
}

/// Writes the window as a trace of its own.
pub fn cut(file: &TraceFile, to: &Path, window: Window) -> Result<Cut, TraceError> {
    let all = &file.counts().instructions;
    let Window { hart, from, count, alone } = window;
    let harts = file.description().harts;
    let total = *all.get(usize::from(hart)).ok_or(TraceError::NoHart { hart, harts })?;
    if from >= total || count == 0 {
        return Err(TraceError::NoInstruction { hart, from, count, has: total });
    }
    let end = from.saturating_add(count).min(total);
    let share = |of: u64, at: u64| (u128::from(of) * u128::from(at) / u128::from(total)) as u64;
    let part = |of: u64| Part { from: share(of, from), to: share(of, end), last: end == total };
    let parts: Vec<Option<Part>> =
        (0..harts).map(|each| (each == hart || !alone).then(|| part(all[usize::from(each)]))).collect();
    let kept: Vec<u16> = (0..harts).filter(|each| parts[usize::from(*each)].is_some()).collect();
    let words = format!("instructions {from} to {end} of hart {hart} of: {}", file.description().recorded);
    let beside = beside(file.description(), &kept);
    let description =
        Description { harts: kept.len() as u16, recorded: words, beside, ..file.description().clone() };
    let mut writer = TraceWriter::create(to, &description)?;
    let mut cut = Cut { counts: Counts::default(), harts: Vec::new(), events_of_others: 0 };
    for (number, hart) in (0..).zip(&kept) {
        let part = parts[usize::from(*hart)].expect("it is kept");
        blocks(file, *hart, part, number, &mut writer)?;
        cut.harts.push((*hart, part.from, part.to));
    }
    cut.events_of_others = events(file, &parts, &mut writer)?;
    cut.counts = writer.finish()?;
    Ok(cut)
}

/// Of traces that were put side by side: how many harts each has left, if more than one of them has any.
fn beside(of: &Description, kept: &[u16]) -> Vec<u16> {
    let left = |part: Range<u16>| kept.iter().filter(|hart| part.contains(hart)).count() as u16;
    let all: Vec<u16> = of.parts().into_iter().map(left).filter(|left| *left > 0).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

/// A hart's part.
fn blocks(
    file: &TraceFile,
    hart: u16,
    part: Part,
    number: u16,
    writer: &mut TraceWriter,
) -> Result<(), TraceError> {
    // What has no instruction may stand at the end of the chunk before.
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

/// What of a block belongs to the part.
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

/// Events that belong to the parts, anchored in them; how many were told by other harts.
fn events(file: &TraceFile, parts: &[Option<Part>], writer: &mut TraceWriter) -> Result<u64, TraceError> {
    let mut numbers = FrameNumbers::default();
    let mut reader = file.devices()?;
    let mut of_others = 0;
    while let Some(mut event) = reader.next()? {
        let harts = parts.len() as u16;
        if let Some((hart, _)) = event.moments().find(|(hart, _)| *hart >= harts) {
            return Err(TraceError::NoHart { hart, harts });
        }
        match &parts[usize::from(event.hart)] {
            Some(part) if part.has(event.after) => {
                event.after -= part.from;
                match &mut event.what {
                    Happening::Dma(dma) if dma.write => {
                        dma.visible = dma.visible.saturating_sub(part.from);
                    }
                    Happening::Register { stored, .. } => {
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

/// A hart's number among those that are kept.
fn number(hart: u16, parts: &[Option<Part>]) -> u16 {
    parts[..usize::from(hart)].iter().flatten().count() as u16
}

/// Which instruction of the window stored, if it is in there.
fn inside(stored: Stored, parts: &[Option<Part>]) -> Option<Stored> {
    let part = parts[usize::from(stored.hart)]?;
    let is_inside = stored.after.checked_sub(1).is_some_and(|number| part.has(number));
    is_inside.then(|| Stored { hart: number(stored.hart, parts), after: stored.after - part.from })
}

/// Which frames of a device and direction the window begins with: their numbers count from its beginning.
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
        let Happening::Dma(dma) = event.what else { return None };
        let direction = match dma.kind {
            DmaKind::RxData => 0,
            DmaKind::TxData => 1,
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
        let Happening::Dma(dma) = &mut event.what else { return };
        let left_out = number.left_out;
        let first = *number.first.get_or_insert(if left_out { dma.frame } else { 0 });
        dma.frame = dma.frame.saturating_sub(first);
    }
}
