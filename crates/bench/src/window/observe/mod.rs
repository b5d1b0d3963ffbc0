//! What a measurement can be asked for besides its figures: costs by guest function, a timeline of packets, a log of the
//! pipeline. All of them observe: with or without them a run is the same.

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
use doorbell_machine::{ConfigError, Machine, Profile, WatchRequest, Watched};
use doorbell_results::{FunctionCost, KindFigures};
use doorbell_sim::{Op, PhysAddr};
use doorbell_symbols::{Mode, Peek, Symbols};

use crate::error::RunError;

pub(crate) use by_kind::Delivered;
use by_kind::{harts_csv, kinds_csv};
pub use functions::FunctionTable;
use functions::TABLE_ROWS;
pub use kinds::KindRules;
pub use names::RecordedNames;

pub use konata::{konata, place_of};
pub(crate) use node::NodeTrace;
pub(crate) use nodes::{end_watch_of_nodes, profile_of_node, watch_nodes};
pub use perfetto::perfetto;
pub(crate) use played::digest_played;
pub(crate) use trace::{Trace, Written};

/// Packets of a timeline, unless told otherwise.
pub const TIMELINE_PACKETS: usize = 200;
/// A log of more instructions is too large for any viewer.
pub const PIPELINE_MAX: u64 = 1_000_000;

/// What to observe in a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Capture the wire of port 0 in this file.
    pub capture: Option<PathBuf>,
    /// Costs by guest function and by kind: `functions.folded`, `functions.csv`, `kinds.csv`, and tables in the summary.
    pub profile: bool,
    /// The rules of kinds, if they are not the built-in ones.
    pub kinds: Option<KindRules>,
    /// Folders with files of debugging symbols, by build ID.
    pub symbols: Vec<PathBuf>,
    /// A timeline of the first so many packets of each port: `timeline.perfetto`.
    pub timeline: Option<usize>,
    /// A log of so many instructions: `pipeline.konata`.
    pub pipeline: Option<u64>,
    /// A trace of what harts execute and devices do, in this file.
    pub trace: Option<PathBuf>,
    /// Of several nodes, whose trace it is, if not the tested or the only timed one's.
    pub node: Option<String>,
}

impl Observe {
    /// What the machine has to watch; an error if it cannot.
    pub(crate) fn request(&self, machine: &Machine) -> Result<Option<WatchRequest>, RunError> {
        let timed = machine.timing().is_some();
        self.check_machine(timed, machine.config().loadgen.stages)?;
        Ok(self.watched().filter(|_| timed))
    }

    /// Whether a machine can be watched so.
    pub(crate) fn check_machine(&self, timed: bool, stages: bool) -> Result<(), RunError> {
        let asked = [("--profile", self.profile), ("--pipeline", self.pipeline.is_some())];
        if let Some((option, _)) = asked.iter().find(|(_, asked)| *asked && !timed) {
            let problem = "this machine runs functionally, so that nothing is known of cycles; take a timed one \
                           (--preset server, or --set core.model=timed)";
            return Err(ConfigError::new(*option, problem).into());
        }
        self.check_pipeline()?;
        if self.timeline.is_some() && !stages {
            let problem = "it needs the packets' stages; leave loadgen.stages = true";
            return Err(ConfigError::new("--timeline", problem).into());
        }
        Ok(())
    }

    /// The same of a player of traces.
    pub(crate) fn request_played(&self) -> Result<Option<WatchRequest>, RunError> {
        self.check_pipeline()?;
        Ok(self.watched())
    }

    /// The rules by which functions have kinds.
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
        if self.pipeline.is_some_and(|count| count == 0 || count > PIPELINE_MAX) {
            let problem = format!("a log has from 1 to {PIPELINE_MAX} instructions");
            return Err(ConfigError::new("--pipeline", problem).into());
        }
        Ok(())
    }
}

/// What was observed, as files of the result folder.
#[derive(Debug, Default)]
pub struct Observed {
    /// Names and contents.
    pub files: Vec<(&'static str, String)>,
    /// Costs by guest function.
    pub functions: Option<FunctionTable>,
    /// The packets of the timeline, by port.
    pub packets: Vec<Vec<PacketStamps>>,
    /// The ops of the log.
    pub watched: Watched,
}

impl Observed {
    fn take_up(&mut self, table: FunctionTable) {
        self.files.push(("functions.folded", table.folded()));
        self.files.push(("functions.csv", table.functions_csv()));
        self.files.extend(table.functions_of_harts_csv().map(|csv| ("functions-by-hart.csv", csv)));
        self.functions = Some(table);
    }

    /// What the summary says of functions and kinds, when it is known what was delivered; its file is added.
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

/// Where programs executed, as virtual and physical addresses.
fn code_of_programs<'a>(
    watched: &'a Watched,
    trace: Option<&'a Written>,
) -> impl Iterator<Item = (u64, PhysAddr)> + 'a {
    let profiled = watched.profile.iter().flat_map(Profile::code_of_programs);
    let logged = watched.pipeline.iter().map(|logged| &logged.op).filter(|op| op.flags & Op::PRIVILEGED == 0);
    let begun = trace.into_iter().flat_map(|trace| &trace.begun).filter(|(mode, ..)| *mode == Mode::User);
    let recorded = begun.map(|(_, virt, phys)| (*virt, *phys));
    profiled.chain(logged.map(|op| (op.pc, op.fetch))).chain(recorded)
}

/// Makes of what was watched what people can read. The guest is as it was at the end of the run.
pub(crate) fn digest(
    observe: &Observe,
    image: &Image,
    machine: &mut Machine,
    (watched, trace): (Watched, Option<Written>),
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
    // Every address space has the kernel in it.
    let hart = machine.harts().iter().position(|hart| hart.address_space().is_some()).unwrap_or(0);
    let guest: &Machine = machine;
    let memory = |hart| move |addr: u64, into: &mut [u8]| guest.peek(hart, addr, into) == into.len();
    let mut symbols = Symbols::new(&kernel, &initramfs, machine.ram(), &memory(hart), &observe.symbols);
    // Names that only a program's memory tells. The process whose code was executed is now on some hart.
    let memories: Vec<_> = (0..machine.harts().len()).map(memory).collect();
    let code = code_of_programs(&observed.watched, trace.as_ref());
    symbols.name_driver_functions(code, memories.iter().map(|peek| peek as Peek));
    if let Some(trace) = trace {
        let names = RecordedNames::of(trace.begun, &mut symbols);
        let path = RecordedNames::beside(&trace.path);
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
