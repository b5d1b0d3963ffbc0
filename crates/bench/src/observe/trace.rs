//! A measurement's trace: what its harts execute and its devices do, in a file of our own format.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_machine::{ConfigError, Machine, Recorder};
use doorbell_sim::Op;
use doorbell_sim::memory::Walk;
use doorbell_trace::system::{Counts, Description, DeviceEvent, Step, TraceError, TraceWriter};

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
        let state = Arc::new(Mutex::new(State { writer, failed: None }));
        Ok(Trace { path: path.to_owned(), state })
    }

    /// What the machine is given.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        Box::new(ToFile(Arc::clone(&self.state)))
    }

    /// Ends the file. The machine must have dropped the recorder.
    pub fn finish(self) -> Result<Counts, RunError> {
        let failed = |error| RunError::Trace { path: self.path, error };
        let Ok(state) = Arc::try_unwrap(self.state) else { unreachable!("the machine records no longer") };
        let State { writer, failed: error } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) => Err(failed(error)),
            None => writer.finish().map_err(failed),
        }
    }
}
