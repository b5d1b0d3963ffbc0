//! Optional observations of a measurement: costs by guest function, a timeline of packets, a pipeline log, a trace.
//! None of them changes the run.

mod by_kind;
mod functions;
mod kinds;
mod konata;
mod names;
mod node;
mod nodes;
mod perfetto;
mod played;
mod trace;

use std::fs;
use std::path::PathBuf;

use doorbell_files::replace;
use doorbell_image::Image;
use doorbell_loadgen::PacketStamps;
use doorbell_machine::{ConfigError, Machine, Profile, WatchReport, WatchRequest};
use doorbell_results::{FunctionCost, KindFigures};
use doorbell_sim::{Op, PhysAddr};
use doorbell_symbols::{Mode, Peek, Symbols};

use crate::error::RunError;
use crate::plan::options;

pub(crate) use by_kind::Delivered;
use by_kind::{harts_csv, kinds_csv};
pub use functions::FunctionTable;
use functions::TABLE_ROWS;
pub use kinds::KindRules;
pub use names::RecordedNames;

pub use konata::{konata, place_of};
pub(crate) use node::NodeTrace;
pub(crate) use nodes::{end_watch_of_nodes, watch_nodes};
pub use perfetto::perfetto;
pub(crate) use played::digest_played;
pub(crate) use trace::{Trace, Written};

/// Default number of packets in a timeline.
pub const TIMELINE_PACKETS: usize = 200;
/// Maximum number of instructions in a pipeline log; viewers cannot open larger ones.
pub const PIPELINE_MAX: u64 = 1_000_000;

/// Observations requested for a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// File for a packet capture of port 0.
    pub capture: Option<PathBuf>,
    /// Costs by guest function and by kind: `functions.folded`, `functions.csv`, `kinds.csv`, and tables in the summary.
    pub profile: bool,
    /// Rules for kinds, in place of the built-in ones.
    pub kinds: Option<KindRules>,
    /// Folders with debug symbol files, by build ID.
    pub symbols: Vec<PathBuf>,
    /// Timeline `timeline.perfetto`: number of packets per port.
    pub timeline: Option<usize>,
    /// Pipeline log `pipeline.konata`: number of instructions.
    pub pipeline: Option<u64>,
    /// File for a trace of executed instructions and device activity.
    pub trace: Option<PathBuf>,
    /// Name of the node to trace; by default the tested node, or the only timed one.
    pub node: Option<String>,
}

impl Observe {
    /// The observations to enable in the machine; an error if it does not support them.
    pub(crate) fn request(&self, machine: &Machine) -> Result<Option<WatchRequest>, RunError> {
        let timed = machine.timing().is_some();
        self.check_machine(timed, machine.config().loadgen.stages)?;
        Ok(self.watched().filter(|_| timed))
    }

    /// Checks that a machine supports the requested observations.
    pub(crate) fn check_machine(&self, timed: bool, stages: bool) -> Result<(), RunError> {
        let requested = [("--profile", self.profile), ("--pipeline", self.pipeline.is_some())];
        if let Some((option, _)) = requested.iter().find(|(_, requested)| *requested && !timed) {
            let problem = "this machine runs functionally and has no cycle counts; use a timed one \
                           (--preset server, or --set core.model=timed)";
            return Err(ConfigError::new(*option, problem).into());
        }
        self.check_pipeline()?;
        let problem = "the timeline needs the packets' stages; set loadgen.stages = true";
        options::reject_if(self.timeline.is_some() && !stages, "--timeline", problem)?;
        Ok(())
    }

    /// The same for the playback of a trace.
    pub(crate) fn request_played(&self) -> Result<Option<WatchRequest>, RunError> {
        self.check_pipeline()?;
        Ok(self.watched())
    }

    /// The rules for kinds, by default the built-in ones.
    fn rules(&self) -> KindRules {
        self.kinds.clone().unwrap_or_default()
    }

    fn watched(&self) -> Option<WatchRequest> {
        let request = WatchRequest {
            profile: self.profile,
            pipeline: self.pipeline.unwrap_or(0),
            activity: self.timeline.is_some(),
        };
        (request != WatchRequest::default()).then_some(request)
    }

    fn check_pipeline(&self) -> Result<(), RunError> {
        let problem = format!("a log has from 1 to {PIPELINE_MAX} instructions; give a number in this range");
        options::reject_if(
            self.pipeline.is_some_and(|count| count == 0 || count > PIPELINE_MAX),
            "--pipeline",
            problem,
        )?;
        Ok(())
    }
}

/// Results of the observations, as files of the result folder.
#[derive(Debug, Default)]
pub struct Observed {
    /// Names and contents of the files.
    pub files: Vec<(&'static str, String)>,
    /// Costs by guest function.
    pub functions: Option<FunctionTable>,
    /// The packets of the timeline, by port.
    pub packets: Vec<Vec<PacketStamps>>,
    /// Raw data from the machine: profile, pipeline log, activity.
    pub watched: WatchReport,
}

impl Observed {
    /// Adds the table of functions and its files.
    fn take_up(&mut self, table: FunctionTable) {
        self.files.push(("functions.folded", table.folded()));
        self.files.push(("functions.csv", table.functions_csv()));
        self.files.extend(table.functions_of_harts_csv().map(|csv| ("functions-by-hart.csv", csv)));
        self.functions = Some(table);
    }

    /// The tables of functions and kinds for the summary; adds the files of the kinds.
    pub(crate) fn profile(
        &mut self,
        delivered: &Delivered<'_>,
    ) -> (Option<Vec<FunctionCost>>, Option<KindFigures>) {
        let Some(table) = &self.functions else { return (None, None) };
        let (functions, kinds) =
            (table.functions.iter().take(TABLE_ROWS), table.kinds.figures(&table.kinds_of_harts, delivered));
        self.files.push(("kinds.csv", kinds_csv(&kinds)));
        if !kinds.harts.is_empty() {
            self.files.push(("kinds-by-hart.csv", harts_csv(&kinds)));
        }
        (Some(functions.cloned().collect()), Some(kinds))
    }
}

/// Virtual and physical addresses of executed user code.
fn user_code<'a>(
    watched: &'a WatchReport,
    trace: Option<&'a Written>,
) -> impl Iterator<Item = (u64, PhysAddr)> + 'a {
    let profiled = watched.profile.iter().flat_map(Profile::user_code);
    let logged = watched.pipeline.iter().map(|logged| &logged.op).filter(|op| op.flags & Op::PRIVILEGED == 0);
    let starts = trace.into_iter().flat_map(|trace| &trace.starts).filter(|(mode, ..)| *mode == Mode::User);
    let recorded = starts.map(|(_, virt, phys)| (*virt, *phys));
    profiled.chain(logged.map(|op| (op.pc, op.fetch))).chain(recorded)
}

/// Converts the raw data into readable files. The guest must be in its state at the end of the run.
pub(crate) fn digest(
    observe: &Observe,
    image: &Image,
    machine: &mut Machine,
    watched: WatchReport,
    trace: Option<Written>,
) -> Result<Observed, RunError> {
    let mut observed = Observed { watched, ..Observed::default() };
    if observe.timeline.is_some() {
        observed.packets = machine.stages.iter_mut().map(|book| book.take_packets()).collect();
        observed.files.push(("timeline.perfetto", perfetto(&observed.packets, &observed.watched.activity)));
    }
    if !observe.profile && observe.pipeline.is_none() && trace.is_none() {
        return Ok(observed);
    }
    let read = |path: PathBuf| fs::read(&path).map_err(RunError::io("read", path));
    let (kernel, initramfs) = (read(image.kernel())?, read(image.initramfs())?);
    // The kernel is mapped in every address space.
    let hart = machine.harts().iter().position(|hart| hart.address_space().is_some()).unwrap_or(0);
    let guest: &Machine = machine;
    let memory = |hart| move |addr: u64, into: &mut [u8]| guest.peek(hart, addr, into) == into.len();
    let mut symbols = Symbols::new(&kernel, &initramfs, machine.ram(), &memory(hart), &observe.symbols);
    // Some names are only in a program's memory. The process that executed the code is now on some hart.
    let memories: Vec<_> = (0..machine.harts().len()).map(memory).collect();
    let code = user_code(&observed.watched, trace.as_ref());
    symbols.name_driver_functions(code, memories.iter().map(|peek| peek as Peek));
    if let Some(trace) = trace {
        let names = RecordedNames::of(trace.starts, &mut symbols);
        let path = RecordedNames::path_for(&trace.path);
        replace(&path, names.to_text().as_bytes()).map_err(RunError::io("write", path))?;
    }
    if let Some(profile) = &observed.watched.profile {
        let table = FunctionTable::new(profile, &mut symbols, &observe.rules());
        observed.take_up(table);
    }
    if observe.pipeline.is_some() {
        observed
            .files
            .push(("pipeline.konata", konata(&observed.watched.pipeline, |op| place_of(op, &mut symbols))));
    }
    Ok(observed)
}
