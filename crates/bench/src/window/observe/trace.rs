//! A measurement's trace: instructions executed by the harts and device activity, in Doorbell's own file format.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_image::SIMULATED;
use doorbell_machine::{Machine, Recorder};
use doorbell_sim::memory::Walk;
use doorbell_sim::{Allowance, Op, PhysAddr};
use doorbell_symbols::Mode;
use doorbell_trace::system::{BlockHint, Description, DeviceEvent, Step, TraceError, TraceWriter};

use crate::error::RunError;
use crate::plan::config::RunConfig;

/// A trace that is being written. The machine owns its recorder during the measurement.
pub(crate) struct Trace {
    path: PathBuf,
    /// Writer state. The recorder takes it, and returns it when dropped.
    state: Arc<Mutex<Option<State>>>,
}

struct State {
    writer: TraceWriter,
    failed: Option<TraceError>,
    starts: BlockStarts,
}

/// Entries of the cache of recent block starts, indexed by low address bits.
const RECENT: usize = 4096;

/// Addresses of block starts, by which functions are looked up.
struct BlockStarts {
    all: HashSet<(Mode, u64, PhysAddr)>,
    recent: Box<[PhysAddr; RECENT]>,
}

impl BlockStarts {
    fn new() -> BlockStarts {
        BlockStarts { all: HashSet::new(), recent: Box::new([PhysAddr(u64::MAX); RECENT]) }
    }

    #[inline]
    fn note(&mut self, op: &Op, translated: bool) {
        let recent = &mut self.recent[(op.fetch.0 >> 1) as usize % RECENT];
        if *recent != op.fetch {
            *recent = op.fetch;
            let mode = match (op.flags & Op::PRIVILEGED != 0, translated) {
                (true, true) => Mode::Kernel,
                (true, false) => Mode::Firmware,
                (false, _) => Mode::User,
            };
            self.all.insert((mode, op.pc, op.fetch));
        }
    }
}

/// A completed trace.
pub(crate) struct Written {
    pub path: PathBuf,
    /// Mode and virtual and physical address of each block start, in order.
    pub starts: Vec<(Mode, u64, PhysAddr)>,
}

/// The recorder. It owns the writer state until it is dropped, so that no block takes the lock.
struct ToFile {
    state: Option<State>,
    home: Arc<Mutex<Option<State>>>,
}

impl ToFile {
    /// Writes unless an earlier write failed; [`Trace::finish`] reports the failure.
    #[inline]
    fn write(&mut self, write: impl FnOnce(&mut TraceWriter) -> Result<(), TraceError>) {
        if let Some(state) = &mut self.state
            && state.failed.is_none()
        {
            state.failed = write(&mut state.writer).err();
        }
    }
}

impl Drop for ToFile {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.state.take();
    }
}

impl Recorder for ToFile {
    fn block(
        &mut self,
        hart: u16,
        step: &Step,
        again: Option<BlockHint>,
        ops: &[Op],
        walk: &mut dyn FnMut(u64) -> Walk,
    ) {
        self.write(|writer| writer.block_with_hint(hart, step, again, ops, walk));
        if let (Some(first), Some(state)) = (ops.first(), &mut self.state) {
            state.starts.note(first, step.space.is_some());
        }
    }

    fn allowance(&self, hart: u16) -> Allowance {
        let state = self.state.as_ref().filter(|state| state.failed.is_none());
        state.map_or(Allowance::default(), |state| state.writer.allowance(hart))
    }

    fn repeat(&mut self, hart: u16, step: &Step, instructions: u64, blocks: &[u64]) -> Allowance {
        self.write(|writer| writer.repeat(hart, step, instructions, blocks));
        self.allowance(hart)
    }

    fn event(&mut self, event: &DeviceEvent) {
        self.write(|writer| writer.event(event));
    }
}

impl Trace {
    /// Creates the file and writes its header.
    pub fn create(path: &Path, machine: &Machine, config: &RunConfig, what: &str) -> Result<Trace, RunError> {
        let description = Description {
            recorder: concat!("Doorbell ", env!("CARGO_PKG_VERSION")).to_owned(),
            recorded: what.to_owned(),
            isa: SIMULATED.name.to_owned(),
            harts: machine.harts().len() as u16,
            timed: machine.timing().is_some(),
            physical: true,
            config: config.to_toml(),
            beside: Vec::new(),
        };
        let failed = |error| RunError::Trace { path: path.to_owned(), error };
        let writer = TraceWriter::create(path, &description).map_err(failed)?;
        let state = Arc::new(Mutex::new(Some(State { writer, failed: None, starts: BlockStarts::new() })));
        Ok(Trace { path: path.to_owned(), state })
    }

    /// The recorder for the machine; there is only one.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        assert!(state.is_some(), "one machine writes to a trace at a time");
        Box::new(ToFile { state, home: Arc::clone(&self.state) })
    }

    /// Completes the file. The machine must have dropped the recorder.
    pub fn finish(self) -> Result<Written, RunError> {
        let failed = |error| RunError::Trace { path: self.path.clone(), error };
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        let State { writer, failed: error, starts } = state.expect("the machine has dropped the recorder");
        match error {
            Some(error) => Err(failed(error)),
            None => {
                writer.finish().map_err(failed)?;
                let mut starts: Vec<_> = starts.all.into_iter().collect();
                starts.sort_unstable_by_key(|(_, virt, phys)| (*virt, phys.0));
                Ok(Written { path: self.path, starts })
            }
        }
    }
}
