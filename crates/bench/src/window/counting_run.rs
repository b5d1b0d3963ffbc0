//! Reads a guest program's counts at both edges of a measurement, on copies of the machine
//! ([`counting`](crate::plan::counting)).

use doorbell_machine::{CheckpointFile, Limits, Machine, Mode, Outcome};
use doorbell_sim::Ps;

use crate::error::{RunError, describe};
use crate::figures::nic_totals::nic_totals;
use crate::plan::counting::{Counted, Counting, Reading};
use crate::testbed::control::{Control, LINES_SHOWN, run_watched};
use crate::testbed::ready::Plan as _;
use crate::testbed::session::Session;
use crate::window::phases::{Load, Run};

/// Simulated time within which the program must print its counts.
const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);

/// Frames that the requested counts cover.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Frames processed up to the edge.
    Now,
    /// Also the frames in flight at the edge.
    All,
}

impl Counted {
    /// The program's counts between the two edges of a window; `None` if no program counts.
    pub fn of(
        session: &Session,
        edges: Option<&[CheckpointFile; 2]>,
        control: &mut Control,
    ) -> Result<Option<Counted>, RunError> {
        let (Some(counting), Some([begin, end])) = (session.workload().counting, edges) else {
            return Ok(None);
        };
        let [begin, end] =
            [read_at(session, counting, begin, control)?, read_at(session, counting, end, control)?];
        Ok(Some(counting.between(&begin, &end, session.config().port(0).link.overhead)))
    }
}

/// Reads the counts at an edge from two copies of the machine: one without and one with the frames in flight.
fn read_at(
    session: &Session,
    counting: &Counting,
    edge: &CheckpointFile,
    control: &mut Control,
) -> Result<Reading, RunError> {
    let now = ask(session, counting, edge, Until::Now, control)?;
    let all = ask(session, counting, edge, Until::All, control)?;
    let totals = nic_totals(&all);
    let dropped = totals.dma + totals.core + totals.tx + totals.other + totals.link_in;
    let accepted = totals.sent.saturating_sub(dropped);
    counting.read_by(&now.console.text(), &all.console.text(), accepted).map_err(|why| unfinished(&all, why))
}

/// Restores a copy of the machine and runs it until its program has printed its counts.
fn ask(
    session: &Session,
    counting: &Counting,
    edge: &CheckpointFile,
    until: Until,
    control: &mut Control,
) -> Result<Machine, RunError> {
    let mut machine = session.plan.restored(edge)?;
    machine.set_mode(Mode::Functional);
    machine.stop_traffic();
    let guest = session.guest();
    if until == Until::All {
        let loads = Load::of_ports(session.config(), session.workload());
        let params = &session.config().run;
        if !(Run { system: &mut machine, guest, control, loads: &loads, params }).drain()? {
            return Err(unfinished(
                &machine,
                "frames are still in flight after run.drain; set run.drain longer".to_owned(),
            ));
        }
    }
    counting.request_counts(&mut machine, guest, until, control)?;
    Ok(machine)
}

impl Counting {
    /// Requests the program's counts on its console and runs the machine until they are printed. The machine's
    /// traffic must have stopped.
    pub(crate) fn request_counts(
        &self,
        machine: &mut Machine,
        guest: &str,
        until: Until,
        control: &mut Control,
    ) -> Result<(), RunError> {
        control.begin("counting", machine.now(), None);
        machine.console.watch(Some(&format!("{}: counted", self.program)));
        machine.type_input(match until {
            Until::Now => b"now\n",
            Until::All => b"all\n",
        });
        let end = machine.now().saturating_add(PATIENCE);
        let limits = Limits { on_marker: true, ..Limits::until(end) };
        match run_watched(machine, guest, &limits, control)? {
            Outcome::Marker => Ok(()),
            outcome => {
                let why = format!("{} did not print its counts: {}", self.program, describe(outcome, end));
                Err(unfinished(machine, why))
            }
        }
    }
}

/// An unfinished-run error with the last lines of the machine's console.
pub(crate) fn unfinished(machine: &Machine, why: String) -> RunError {
    RunError::Unfinished { why, console: machine.console.last_lines(LINES_SHOWN) }
}
