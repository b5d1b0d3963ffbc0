//! Asks a program in copies of its machine, at both edges of a measurement, what it has counted ([`counting`](crate::plan::counting)).

use doorbell_machine::{CheckpointFile, Limits, Machine, Mode, Outcome};
use doorbell_sim::Ps;

use crate::error::{RunError, describe};
use crate::figures::nic_totals::nic_totals;
use crate::plan::counting::{Counted, Counting, Reading};
use crate::testbed::control::{Control, LINES_SHOWN, run_watched};
use crate::testbed::ready::Plan as _;
use crate::testbed::session::Session;
use crate::window::phases::{Load, Run};

/// Simulated time after which a program that does not say what it has counted is given up.
const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);

/// Up to when a program is asked for what it has seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Now,
    All,
}

impl Counted {
    /// What the program has counted between the edges of a window.
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

/// What two copies of the machine as it was at an edge say.
fn read_at(
    session: &Session,
    counting: &Counting,
    edge: &CheckpointFile,
    control: &mut Control,
) -> Result<Reading, RunError> {
    let now = ask(session, counting, (edge, Until::Now), control)?;
    let all = ask(session, counting, (edge, Until::All), control)?;
    let totals = nic_totals(&all);
    let dropped = totals.dma + totals.core + totals.tx + totals.other + totals.link_in;
    let accepted = totals.sent.saturating_sub(dropped);
    counting.read_by(&now.console.text(), &all.console.text(), accepted).map_err(|why| unfinished(&all, why))
}

/// A copy of the machine that has said what its program counted.
fn ask(
    session: &Session,
    counting: &Counting,
    (edge, until): (&CheckpointFile, Until),
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
                "frames are still on their way; set run.drain longer".to_owned(),
            ));
        }
    }
    counting.asked(&mut machine, guest, until, control)?;
    Ok(machine)
}

impl Counting {
    /// Asks the program of a machine to which nothing is sent any more, and lets it go on until it has said what it counted.
    pub(crate) fn asked(
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
                let why =
                    format!("{} does not say what it has counted: {}", self.program, describe(outcome, end));
                Err(unfinished(machine, why))
            }
        }
    }
}

pub(crate) fn unfinished(machine: &Machine, why: String) -> RunError {
    RunError::Unfinished { why, console: machine.console.last_lines(LINES_SHOWN) }
}
