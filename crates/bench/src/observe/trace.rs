//! A measurement's trace: what its harts execute and its devices do, in a file of our own format.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_machine::{ConfigError, Machine, Recorder};
use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, PhysAddr};
use doorbell_symbols::Mode;
use doorbell_trace::system::{Description, DeviceEvent, Step, TraceError, TraceWriter};

use crate::config::RunConfig;
use crate::error::RunError;

/// A trace that is being written. Its recorder is given to the machine while the measurement lasts.
pub(crate) struct Trace {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    writer: TraceWriter,
    failed: Option<TraceError>,
    begun: Begun,
}

/// Places found last, by their low bits.
const RECENT: usize = 4096;

/// Where blocks began: what functions are named by.
struct Begun {
    all: HashSet<(Mode, u64, PhysAddr)>,
    recent: Box<[PhysAddr; RECENT]>,
}

impl Begun {
    fn new() -> Begun {
        Begun { all: HashSet::new(), recent: Box::new([PhysAddr(u64::MAX); RECENT]) }
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

/// A trace that is written.
pub(crate) struct Written {
    /// Where it is.
    pub path: PathBuf,
    /// Where its blocks began, in order.
    pub begun: Vec<(Mode, u64, PhysAddr)>,
}

struct ToFile(Arc<Mutex<State>>);

impl State {
    /// After a failure nothing more is written; [`Trace::finish`] tells of it.
    fn write(&mut self, write: impl FnOnce(&mut TraceWriter) -> Result<(), TraceError>) {
        if self.failed.is_none() {
            self.failed = write(&mut self.writer).err();
        }
    }
}

impl Recorder for ToFile {
    fn block(&mut self, hart: u16, step: &Step, ops: &[Op], walk: &mut dyn FnMut(u64) -> Walk) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(|writer| writer.block(hart, step, ops, walk));
        if let Some(first) = ops.first() {
            state.begun.note(first, step.space.is_some());
        }
    }

    fn event(&mut self, event: &DeviceEvent) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(|writer| writer.event(event));
    }
}

impl Trace {
    /// Begins the file.
    pub fn create(path: &Path, machine: &Machine, config: &RunConfig, what: &str) -> Result<Trace, RunError> {
        if machine.timing().is_none() {
            let problem = "this machine runs functionally, without the models that tell what is executed; take a timed one \
                           (--preset server, or --set core.model=timed)";
            return Err(ConfigError::new("--trace", problem).into());
        }
        let description = Description {
            recorder: concat!("Doorbell ", env!("CARGO_PKG_VERSION")).to_owned(),
            recorded: what.to_owned(),
            isa: "riscv64".to_owned(),
            harts: machine.harts().len() as u16,
            timed: true,
            physical: true,
            config: config.to_toml(),
        };
        let failed = |error| RunError::Trace { path: path.to_owned(), error };
        let writer = TraceWriter::create(path, &description).map_err(failed)?;
        let state = Arc::new(Mutex::new(State { writer, failed: None, begun: Begun::new() }));
        Ok(Trace { path: path.to_owned(), state })
    }

    /// What the machine is given.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        Box::new(ToFile(Arc::clone(&self.state)))
    }

    /// Ends the file. The machine must have dropped the recorder.
    pub fn finish(self) -> Result<Written, RunError> {
        let failed = |error| RunError::Trace { path: self.path.clone(), error };
        let Ok(state) = Arc::try_unwrap(self.state) else { unreachable!("the machine records no longer") };
        let State { writer, failed: error, begun } =
            state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) => Err(failed(error)),
            None => {
                writer.finish().map_err(failed)?;
                let mut begun: Vec<_> = begun.all.into_iter().collect();
                begun.sort_unstable_by_key(|(_, virt, phys)| (*virt, phys.0));
                Ok(Written { path: self.path, begun })
            }
        }
    }
}
