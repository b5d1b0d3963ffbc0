//! Ramp-up of a load between a client and a server: starts it and runs it to a steady rate before the
//! checkpoint is saved, so that all measurements of this load share one ramp-up. Like a boot it runs
//! functionally in the boot network. The checkpoint therefore depends on the guests only, and serves any
//! microarchitecture, link and seed.

use doorbell_machine::{Carried, Network, NetworkOutcome};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::plan::length::Length;
use crate::testbed::control::{Control, LINES_SHOWN, run_network_watched};
use crate::testbed::steady::{Pace, Watch};
use crate::testbed::system::{System, why_ended};

/// Maximum simulated time for a load to start, and for a whole test to end.
pub(crate) const PATIENCE: Ps = Ps(600 * Ps::PER_SECOND);
/// Interval between checks whether the load has started.
const STEP: Ps = Ps::from_us(100);
/// Minimum ramp-up after the start, since connections start one after the other.
const RAMP_MIN: Ps = Ps::from_ms(20);
/// Maximum further time until the rate is steady.
const STEADY_MAX: Ps = Ps::from_ms(100);
/// Maximum number of segments of the setup before a test, which has about five per connection.
const TALK_SEGMENTS_MAX: u64 = 200;

/// Version of the ramp-up procedure, part of the checkpoint's file name.
const VERSION: u32 = 1;

/// How a load is started, and how its start is detected.
#[derive(Clone, Debug)]
pub struct Ramp {
    /// The client's node: 1, or 0 in tests that measure a sending client ([`crate::scenarios::netperf`]).
    pub client: usize,
    /// The line typed at the client's console.
    pub command: String,
    /// The node whose sent traffic is counted to detect the start.
    pub sender: usize,
    /// Whether that traffic is more than connection setup.
    pub detects_start: fn(&Carried) -> bool,
    /// Text on the client's console when all parts of the load have started, if it has several.
    pub all_started: Option<&'static str>,
}

/// Whether there are more segments than connection setup has, for any number of connections.
fn is_more_than_talk(carried: &Carried) -> bool {
    carried.tcp_segments + carried.udp_datagrams > TALK_SEGMENTS_MAX
}

impl Ramp {
    /// A client in node 1 whose server, in node 0, sends the counted traffic.
    pub(crate) fn of_server(command: String) -> Ramp {
        Ramp { client: 1, command, sender: 0, detects_start: is_more_than_talk, all_started: None }
    }

    /// Its part of the checkpoint's identity.
    pub(crate) fn identity(&self) -> String {
        format!(" {VERSION} {}", self.command)
    }

    /// Starts the client.
    pub(crate) fn begin(&self, network: &mut Network) {
        type_line(network, self.client, &self.command);
    }

    /// Starts the client and waits for more than connection setup. Returns `false` on timeout. `run_to` runs
    /// the network to a time; flows of its first link must be tracked.
    pub(crate) fn begin_and_wait(
        &self,
        network: &mut Network,
        mut run_to: impl FnMut(&mut Network, Ps) -> Result<(), RunError>,
    ) -> Result<bool, RunError> {
        self.begin(network);
        let patience = network.now() + PATIENCE;
        while !self.has_started(network) {
            if network.now() >= patience {
                return Ok(false);
            }
            run_to(network, network.now() + STEP)?;
        }
        Ok(true)
    }

    fn has_started(&self, network: &Network) -> bool {
        let carried = network.carried(0).expect("flows of link 0 are tracked");
        let shown = |text: &str| network.node(self.client).console.text().contains(text);
        (self.detects_start)(&carried[self.sender]) && self.all_started.is_none_or(shown)
    }

    /// Runs the ramp-up on nodes that are ready.
    pub(crate) fn run(&self, network: &mut Network, control: &mut Control) -> Result<(), RunError> {
        (control.say)("running the load until its rate is steady");
        control.begin("ramping up", network.now(), None);
        network.follow_flows(0);
        if !self.begin_and_wait(network, |network, time| until(network, time, control))? {
            return Err(ramp_failed(network, &NetworkOutcome::Time));
        }
        until(network, network.now() + RAMP_MIN, control)?;
        let watch = Watch::begin(false, Pace::Programs, network.longest_link(), network.sample());
        watch.until_steady(Length::Auto, STEADY_MAX, |time| {
            until(network, time, control)?;
            Ok::<_, RunError>(network.sample())
        })?;
        Ok(())
    }
}

/// Types a line at a node's console.
pub(crate) fn type_line(network: &mut Network, node: usize, line: &str) {
    let typed = format!("{line}\n");
    let taken = network.node_mut(node).type_input(typed.as_bytes());
    assert_eq!(taken, typed.len(), "the console's input buffer has room for a line");
}

fn until(network: &mut Network, time: Ps, control: &mut Control) -> Result<(), RunError> {
    match run_network_watched(network, time, false, control)? {
        NetworkOutcome::Time => Ok(()),
        outcome => Err(ramp_failed(network, &outcome)),
    }
}

fn ramp_failed(network: &Network, outcome: &NetworkOutcome) -> RunError {
    let (node, why) = why_ended(network, outcome, &format!("no traffic within {PATIENCE}"));
    RunError::NotReady {
        why: format!("the load's ramp-up failed: {why}"),
        console: network.node(node).console.last_lines(LINES_SHOWN),
    }
}
