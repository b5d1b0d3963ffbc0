//! A recording as a trace in Doorbell's format (`docs/trace-format.md`).
//!
//! Hart 0 is the guest's processor, device 0 its NIC. QEMU executes functionally: how long anything took is not known, and all that a device
//! does happens at once behind the instruction after which it was seen. A write is seen from the next instruction on. Only the time
//! that the processor slept is told.

#[cfg(test)]
mod tests;

use std::path::Path;

use doorbell_sim::{Op, Ps};
use doorbell_trace::system::{
    Again, Counts, Description, DeviceEvent, Happening, Step, TraceError, TraceWriter,
};

use crate::event::{Event, Executed, Recorder, Trap};
use crate::executed::is_device;
use crate::pages::Pages;
use crate::target::Target;

/// Writes a trace.
pub struct ToTrace {
    writer: TraceWriter,
    pages: Pages,
    /// The address space, and its number.
    space: (u64, u16),
    /// Before the next block.
    waited: Ps,
    done: u64,
    slept: Ps,
}

impl ToTrace {
    /// Begins a file; it appears under its name when it is whole.
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

    /// Instructions so far.
    pub fn instructions(&self) -> u64 {
        self.done
    }

    /// How long the processor slept, all together.
    pub fn slept(&self) -> Ps {
        self.slept
    }

    /// Ends the file.
    pub fn finish(self) -> Result<Counts, TraceError> {
        self.writer.finish()
    }

    fn block(&mut self, ops: &[Op], again: Option<Again>, trapped: bool) -> Result<(), TraceError> {
        let (root, space) = self.space;
        let slept = std::mem::replace(&mut self.waited, Ps::ZERO);
        let step = Step { trapped, space: Some(space), slept, ..Step::default() };
        let pages = &self.pages;
        self.writer.block_of(0, &step, again, ops, &mut |virt| pages.walk(root, virt))
    }
}

impl Recorder for ToTrace {
    fn executed(&mut self, executed: &Executed<'_>) -> Result<(), TraceError> {
        let Executed { mut ops, instructions, shape, trapped } = *executed;
        self.done += instructions;
        if let Some(shape) = shape {
            return self.block(ops, Some(Again { shape, instructions }), trapped);
        }
        // An access to a device is a block of its own.
        while let Some(at) = ops.iter().position(is_device) {
            let (before, others) = ops.split_at(at);
            let (access, behind) = others.split_at(1);
            if !before.is_empty() {
                self.block(before, None, false)?;
            }
            self.block(access, None, trapped && behind.is_empty())?;
            ops = behind;
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
            Event::Page(space, walk) => self.pages.tell(space, walk),
            Event::Device(what) => return self.device(what),
            // It is told with the block before it.
            Event::Trap(Trap::Interrupt | Trap::Exception | Trap::System) => {}
        }
        Ok(())
    }
}

impl ToTrace {
    fn device(&mut self, mut what: Happening) -> Result<(), TraceError> {
        let after = self.done;
        if let Happening::Dma(dma) = &mut what
            && dma.write
        {
            dma.visible = after;
        }
        self.writer.event(&DeviceEvent { device: 0, hart: 0, after, since: Ps::ZERO, what })
    }
}
