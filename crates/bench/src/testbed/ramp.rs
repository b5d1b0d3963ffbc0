//! What begins a load between a server and its client, and how it is run up to its pace before a checkpoint is kept, so
//! that measurements begin with it: many of one load have one way there. It goes as a boot does: functionally, in the network that guests boot
//! in, so that what it leaves follows from the guests alone, and serves any microarchitecture, link and seed.

use doorbell_machine::{Carried, Network, NetworkOutcome};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::plan::length::Length;
use crate::testbed::control::{Control, LINES_SHOWN, run_network_watched};
use crate::testbed::steady::{Pace, Watch};
use crate::testbed::system::{System, why_ended};

/// Simulated time after which a load that does not begin, or does not end, is given up.
pub(crate) const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
/// How often it is looked whether data flow.
const STEP: Ps = Ps::from_us(100);
/// So long at least it then goes on, for several connections begin one after the other,
const GOES_ON: Ps = Ps::from_ms(20);
/// and so long at most, until its pace is steady.
const LIMIT: Ps = Ps::from_ms(100);
/// Counts changes in how loads are run up: checkpoints of another way have another name.
const VERSION: u32 = 1;

/// What begins a load.
#[derive(Clone, Debug)]
pub struct RunUp {
    /// The node of the client: 1, but of a test in which the client sends and is measured ([`crate::scenarios::netperf`]).
    pub client: usize,
    /// What is typed at the client.
    pub typed: String,
    /// The node that sends what tells that the load has begun.
    pub counted: usize,
    /// Whether it is more than the talk before a test.
    pub begun: fn(&Carried) -> bool,
    /// What the client's console shows when all of it has begun, where it begins part by part.
    pub whole: Option<&'static str>,
}

impl RunUp {
    /// Names what it leaves, beside the guests.
    pub(crate) fn identity(&self) -> String {
        format!(" {VERSION} {}", self.typed)
    }

    /// Lets the client begin.
    pub(crate) fn begin(&self, network: &mut Network) {
        type_line(network, self.client, &self.typed);
    }

    /// Lets the client begin, and waits for more than talk; whether it came. `run_to` runs the network, whose first link's flows are followed.
    pub(crate) fn begin_and_wait(
        &self,
        network: &mut Network,
        mut run_to: impl FnMut(&mut Network, Ps) -> Result<(), RunError>,
    ) -> Result<bool, RunError> {
        self.begin(network);
        let patience = network.now() + PATIENCE;
        while !self.has_begun(network) {
            if network.now() >= patience {
                return Ok(false);
            }
            run_to(network, network.now() + STEP)?;
        }
        Ok(true)
    }

    fn has_begun(&self, network: &Network) -> bool {
        let carried = network.carried(0).expect("its flows are followed");
        let shown = |text: &str| network.node(self.client).console.text().contains(text);
        (self.begun)(&carried[self.counted]) && self.whole.is_none_or(shown)
    }

    /// Runs it up, in nodes that are ready.
    pub(crate) fn run(&self, network: &mut Network, control: &mut Control) -> Result<(), RunError> {
        (control.say)("running the load up to its pace");
        control.begin("running up", network.now(), None);
        network.follow_flows(0);
        if !self.begin_and_wait(network, |network, time| until(network, time, control))? {
            return Err(not_begun(network, &NetworkOutcome::Time));
        }
        until(network, network.now() + GOES_ON, control)?;
        let watch = Watch::begin(false, Pace::Programs, network.longest_link(), network.seen());
        watch.until_steady((Length::Auto, LIMIT), |time| {
            until(network, time, control)?;
            Ok::<_, RunError>(network.seen())
        })?;
        Ok(())
    }
}

/// Types a line at the console of a node.
pub(crate) fn type_line(network: &mut Network, node: usize, line: &str) {
    let typed = format!("{line}\n");
    let taken = network.node_mut(node).type_input(typed.as_bytes());
    assert_eq!(taken, typed.len(), "the keyboard has room for a line");
}

fn until(network: &mut Network, time: Ps, control: &mut Control) -> Result<(), RunError> {
    match run_network_watched(network, time, false, control)? {
        NetworkOutcome::Time => Ok(()),
        outcome => Err(not_begun(network, &outcome)),
    }
}

fn not_begun(network: &Network, outcome: &NetworkOutcome) -> RunError {
    let (node, why) = why_ended(network, outcome, &format!("nothing has moved in {PATIENCE}"));
    RunError::NotReady {
        why: format!("the load did not come to its pace: {why}"),
        console: network.node(node).console.last_lines(LINES_SHOWN),
    }
}
