//! Converts a recording to a trace in Doorbell's format (`docs/trace-format.md`).
//!
//! Hart 0 is the guest's processor, device 0 its NIC. QEMU is a functional simulator, so durations are
//! unknown. All activity of a device is anchored to the instruction after which it was observed. DMA writes
//! are visible from the next instruction on. Only the time that the processor slept is recorded.

#[cfg(test)]
mod tests;

use std::path::Path;

use doorbell_sim::{Op, Ps};
use doorbell_trace::system::{
    BlockHint, Counts, Description, DeviceEvent, EventKind, Step, TraceError, TraceWriter,
};

use crate::event::{Event, ExecutedOps, Recorder, Trap};
use crate::execution::is_device;
use crate::pages::Pages;
use crate::target::Target;

/// Recorder that writes a trace.
pub struct ToTrace {
    writer: TraceWriter,
    pages: Pages,
    /// Address space, and its number.
    space: (u64, u16),
    /// Wait before the next block.
    waited: Ps,
    done: u64,
    slept: Ps,
}

impl ToTrace {
    /// Creates a file; it appears under its name when it is complete.
    pub fn create(
        path: &Path,
        target: &Target,
        recorder: String,
        recorded: String,
    ) -> Result<ToTrace, TraceError> {
        let description = Description {
            recorder,
            recorded,
            isa: target.name.to_owned(),
            harts: 1,
            timed: false,
            physical: true,
            beside: Vec::new(),
            config: String::new(),
        };
        let writer = TraceWriter::create(path, &description)?;
        Ok(ToTrace {
            writer,
            pages: Pages::new(target.root),
            space: (0, 0),
            waited: Ps::ZERO,
            done: 0,
            slept: Ps::ZERO,
        })
    }

    /// Total time that the processor slept.
    pub fn slept(&self) -> Ps {
        self.slept
    }

    /// Completes the file.
    pub fn finish(self) -> Result<Counts, TraceError> {
        self.writer.finish()
    }

    fn block(&mut self, ops: &[Op], hint: Option<BlockHint>, trapped: bool) -> Result<(), TraceError> {
        let (root, space) = self.space;
        let slept = std::mem::replace(&mut self.waited, Ps::ZERO);
        let step = Step { trapped, space: Some(space), slept, ..Step::default() };
        let pages = &self.pages;
        self.writer.block_with_hint(0, &step, hint, ops, &mut |virt| pages.walk(root, virt))
    }
}

impl Recorder for ToTrace {
    fn executed(&mut self, executed: &ExecutedOps<'_>) -> Result<(), TraceError> {
        let ExecutedOps { mut ops, instructions, shape, trapped } = *executed;
        self.done += instructions;
        if let Some(shape) = shape {
            return self.block(ops, Some(BlockHint { shape, instructions }), trapped);
        }
        // Each device access is a separate block.
        while let Some(at) = ops.iter().position(is_device) {
            let (before, others) = ops.split_at(at);
            let (access, rest) = others.split_at(1);
            if !before.is_empty() {
                self.block(before, None, false)?;
            }
            self.block(access, None, trapped && rest.is_empty())?;
            ops = rest;
            if ops.is_empty() {
                return Ok(());
            }
        }
        self.block(ops, None, trapped)
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        match event {
            Event::Space(_, space) => {
                let none = || {
                    std::io::Error::other("the window has more than 65,536 address spaces; make it shorter")
                };
                self.space = (space, self.pages.space(space).ok_or_else(none)?);
            }
            Event::Waited(time) => {
                self.waited = self.waited.saturating_add(time);
                self.slept = self.slept.saturating_add(time);
            }
            Event::Page(space, walk) => self.pages.record(space, walk),
            Event::Device(what) => return self.device(what),
            // Recorded with the preceding block.
            Event::Trap(Trap::Interrupt | Trap::Exception | Trap::System) => {}
        }
        Ok(())
    }
}

impl ToTrace {
    fn device(&mut self, mut what: EventKind) -> Result<(), TraceError> {
        let after = self.done;
        if let EventKind::Dma(dma) = &mut what
            && dma.is_write()
        {
            dma.visible = after;
        }
        self.writer.event(&DeviceEvent { device: 0, hart: 0, after, since: Ps::ZERO, what })
    }
}
