//! The measurement of a network: what is asked for is stored, nodes begin, generators send; caches warm up; then everything is timed,
//! and an interval is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use doorbell_loadgen::{Kind, Measurement, Rate, TrafficConfig};
use doorbell_machine::{ConfigError, Mode, Network, NetworkOutcome, Outcome};
use doorbell_sim::{Frame, Ps};
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};

use crate::config::RunConfig;
use crate::error::{RunError, describe};
use crate::interval::{Interval, OpenInterval, all_dropped, between_nodes, meanings, per};
use crate::network::figures::{SwitchMoment, figures};
use crate::network::resolve::NetworkPlan;
use crate::script::NO_TRAFFIC;
use crate::session::Control;
use crate::testbed::{LINES_SHOWN, Testbed, TestbedPlan, run_watched};
use doorbell_results::{Drops, NetworkFigures, PointSummary};

/// How often it is looked whether frames have come back, or a station was found.
const STEP: Ps = Ps::from_us(100);
/// How long generators ask for their stations.
const ARP_PATIENCE: Ps = Ps::from_ms(500);
/// How many requests are on their way while keys are stored: few, so that none is lost.
const PRELOAD_OUTSTANDING: u32 = 8;

/// A network's run.
pub struct NetworkRun {
    /// Its figures: those of all load generators together, and under `network` those of all members.
    pub summary: PointSummary,
    /// What the figures of ports and timing models mean.
    pub meanings: BTreeMap<String, String>,
    /// The members as they were at the end, for their counters.
    pub network: Network,
}

impl TestbedPlan {
    /// The network that a configuration describes.
    pub fn network(
        config: &RunConfig,
        name: &str,
        threads: usize,
    ) -> Result<(TestbedPlan, NetworkPlan), ConfigError> {
        let topology = config.topology()?;
        let plan = TestbedPlan {
            name: name.to_owned(),
            network: topology.network.clone(),
            guests: topology.guests.clone(),
            seed: config.run.seed,
            boot_timeout: config.run.boot_timeout,
            threads,
        };
        Ok((plan, topology))
    }
}

/// Measures once. With `captures`, writes what crosses each cable to a file there.
pub fn run_network(
    testbed: &Testbed,
    (config, topology): (&RunConfig, &NetworkPlan),
    captures: Option<&Path>,
    control: &mut Control,
) -> Result<NetworkRun, RunError> {
    let started = Instant::now();
    let mut network = testbed.network()?;
    let cables =
        topology.network.links.iter().enumerate().filter_map(|(index, link)| Some((index, link, captures?)));
    for (index, link, folder) in cables {
        network.capture(index, PcapFile::create(&folder.join(format!("{}.pcap", link.name)), WHOLE_FRAMES)?);
    }
    let before = network.instructions();
    let mut run = Run { network: &mut network, config, topology, control };
    run.preload()?;
    run.approach()?;
    let (interval, switches) = run.measure()?;
    run.drain()?;
    network.check_conservation();
    network.finish_captures()?;
    let host = (started.elapsed().as_secs_f64(), network.instructions() - before);
    let own = figures(&network, &topology.nodes, &interval, &switches);
    let summary = summarise((config, &topology.nodes), &network, (&interval, own), host);
    let meanings = meanings(&summary, &network);
    Ok(NetworkRun { summary, meanings, network })
}

struct Run<'a, 'c> {
    network: &'a mut Network,
    config: &'a RunConfig,
    topology: &'a NetworkPlan,
    control: &'a mut Control<'c>,
}

impl Run<'_, '_> {
    /// Runs to a time; a node that ends well before is done, anything else that ends the run is an error.
    fn until(&mut self, time: Ps) -> Result<(), RunError> {
        loop {
            match run_watched(self.network, time, false, self.control)? {
                NetworkOutcome::Time => return Ok(()),
                // Nobody will ever do anything again, however long it is waited for.
                NetworkOutcome::Asleep => return Ok(()),
                NetworkOutcome::Nodes(nodes) => {
                    let failed =
                        nodes.iter().find(|(_, outcome)| !matches!(outcome, Outcome::PowerOff { code: 0 }));
                    if let Some((node, outcome)) = failed {
                        return Err(self.ended(*node, *outcome));
                    }
                }
            }
        }
    }

    fn ended(&self, node: usize, outcome: Outcome) -> RunError {
        let (name, _) = &self.network.config().nodes[node];
        RunError::Ended {
            why: format!("{name}: {}", describe(outcome, self.network.now())),
            console: self.network.node(node).console.last_lines(LINES_SHOWN),
        }
    }

    /// Starts the generators that have something to send: `traffic` makes it of a generator's own.
    fn start(
        &mut self,
        traffic: impl Fn(usize, &TrafficConfig) -> Option<TrafficConfig>,
    ) -> Result<(), RunError> {
        for (index, generator) in self.network.generators_mut().enumerate() {
            let own = &self.topology.network.generators[index].1.traffic;
            if let Some(traffic) = traffic(index, own) {
                generator.start(traffic)?;
            }
        }
        let end = self.network.now() + ARP_PATIENCE;
        let waiting = |network: &Network| {
            let mut all = network.generators();
            let first = all.find(|generator| generator.loadgen().is_resolving())?;
            Some((first.name().to_owned(), first.loadgen().traffic().destination_ip))
        };
        while let Some((name, asked)) = waiting(self.network) {
            if self.network.now() >= end {
                return Err(RunError::NoAnswer(format!(
                    "generator {name}: nobody at {asked} has answered ARP for {ARP_PATIENCE}; \
                     generator.{name}.traffic.destination_ip must be a node's address"
                )));
            }
            self.until(self.network.now() + STEP)?;
        }
        Ok(())
    }

    /// Each generator whose node's benchmark needs it sends requests that store its keys, each once, and waits for the answers.
    fn preload(&mut self) -> Result<(), RunError> {
        let topology = self.topology;
        let kind = |index: usize| topology.served[index].and_then(|served| served.preload);
        let preloading = |index: usize, own: &TrafficConfig| {
            Some(TrafficConfig {
                kind: kind(index)?,
                frames: Some(u64::from(own.memcached.keys)),
                duration: None,
                start_after: Ps::ZERO,
                rate: Rate::Frames(1_000_000),
                outstanding: Some(PRELOAD_OUTSTANDING),
                ..own.clone()
            })
        };
        let plan = &topology.network.generators;
        if !(0..plan.len()).any(|index| kind(index).is_some()) {
            return Ok(());
        }
        (self.control.say)("storing keys");
        self.network.begin_window();
        self.start(preloading)?;
        while self.network.generators().any(|generator| generator.loadgen().is_sending()) {
            self.until(self.network.now() + STEP)?;
        }
        self.drain()?;
        for (index, generator) in
            self.network.generators().enumerate().filter(|(index, _)| kind(*index).is_some())
        {
            let stored = generator.loadgen().measurement().map_or(0, |window| window.volumes().1.frames);
            let keys = u64::from(plan[index].1.traffic.memcached.keys);
            if stored != keys {
                return Err(RunError::NoAnswer(format!(
                    "generator {}: memcached stored only {stored} of its {keys} keys; fewer or shorter values \
                     (traffic.memcached) may fit",
                    generator.name()
                )));
            }
        }
        Ok(())
    }

    fn set_mode(&mut self, mode: Mode) {
        (0..self.topology.nodes.len()).for_each(|node| self.network.node_mut(node).set_mode(mode));
    }

    /// Nodes begin, generators send, until caches are warm and everything is timed.
    fn approach(&mut self) -> Result<(), RunError> {
        for (node, typed) in self.topology.starts.iter().enumerate() {
            let Some(typed) = typed else { continue };
            let line = format!("{typed}\n");
            if self.network.node_mut(node).type_input(line.as_bytes()) < line.len() {
                let key = format!("node.{}.start", self.topology.network.nodes[node].0);
                return Err(ConfigError::new(
                    key,
                    "it is longer than a keyboard's memory; put it into the script",
                )
                .into());
            }
        }
        self.set_mode(Mode::Warming);
        self.start(|_, own| Some(own.clone()))?;
        self.until(self.network.now() + self.config.run.warmup)?;
        if self.network.nodes().any(|node| node.timing().is_some()) {
            self.set_mode(Mode::Detailed);
            self.until(self.network.now() + self.config.run.settle)?;
        }
        Ok(())
    }

    /// Begins and ends between two frames of every generator's.
    fn measure(&mut self) -> Result<(Interval, SwitchMoment), RunError> {
        self.until(self.next_gap())?;
        let open = OpenInterval::begin(self.network);
        let switches = SwitchMoment::of(self.network);
        self.until(self.network.now() + self.config.run.duration)?;
        self.until(self.next_gap())?;
        for generator in self.network.generators_mut() {
            generator.end_window();
            generator.stop();
        }
        Ok((open.end(self.network), switches))
    }

    /// The next moment at which no frame is on its way into a link from a generator, as far as that is the same for all.
    fn next_gap(&self) -> Ps {
        let free =
            self.network.generators().map(|generator| generator.link().free_at()).max().unwrap_or(Ps::ZERO);
        Ps(free.0.saturating_sub(1)).max(self.network.now())
    }

    /// Waits until every frame has come back, or nothing has moved for a while.
    fn drain(&mut self) -> Result<(), RunError> {
        let end = self.network.now() + self.config.run.drain;
        let outstanding = |network: &Network| -> u64 {
            network.generators().map(|generator| generator.loadgen().outstanding()).sum()
        };
        while outstanding(self.network) > 0 && self.network.now() < end {
            self.until((self.network.now() + STEP).min(end))?;
        }
        // What no member holds any more was lost, and is accounted for; what one holds, it has kept for long.
        let held = self.network.holding();
        if outstanding(self.network) > 0 && !held.is_empty() {
            let held: Vec<String> =
                held.iter().map(|(name, frames)| format!("{name} ({frames} frames)")).collect();
            let longest = self.config.run.drain;
            (self.control.say)(&format!("not drained after {longest} (run.drain): {}", held.join(", ")));
        }
        Ok(())
    }
}

/// The figures of all load generators together; without any, of what the nodes sent each other.
fn summarise(
    (config, nodes): (&RunConfig, &[RunConfig]),
    network: &Network,
    (interval, own): (&Interval, NetworkFigures),
    (host_seconds, executed): (f64, u64),
) -> PointSummary {
    let figures = measured(network).map(|all| all.summary(network.now()));
    let of_nodes = sent_by_nodes(network, interval);
    let mut drops = drops(interval, &own);
    let lost = all_dropped(&drops) + drops.link;
    if let Some(figures) = &figures {
        let unharmed = figures.frames_offered - figures.frames_delivered - figures.frames_corrupt;
        // What a member still holds was not dropped: the drain was too short for it.
        let held: u64 = network.holding().iter().map(|(_, frames)| frames).sum();
        drops.guest = unharmed.saturating_sub(lost + held);
    }
    let instructions: u64 = interval.instructions.iter().sum();
    let cycles: f64 = nodes.iter().map(|node| node.core_cycles(interval.seconds)).sum();
    let is_of_frames = matches!(config.loadgen.traffic.kind, Kind::Frames | Kind::Ping);
    let frame_size = match figures.is_some() && is_of_frames {
        true => (config.loadgen.traffic.frame_len() + Frame::FCS_BYTES) as u64,
        false => per(of_nodes.1 as f64, of_nodes.0 as f64).round() as u64,
    };
    let figures = figures.unwrap_or_else(|| between_nodes(of_nodes, lost, interval.seconds));
    PointSummary {
        benchmark: "network".to_owned(),
        config_hash: config.hash(),
        rate: rate(&own),
        drops,
        instructions,
        ipc: per(instructions as f64, cycles),
        instructions_per_frame: per(instructions as f64, figures.frames_delivered as f64),
        host_seconds,
        host_mips: per(executed as f64 / 1e6, host_seconds),
        state_hash: format!("{:016x}", network.state_hash()),
        network: Some(own),
        ..PointSummary::of_window(figures, frame_size)
    }
}

/// What all generators measured together, if there are any.
fn measured(network: &Network) -> Option<Measurement> {
    let mut windows = network.generators().filter_map(|generator| generator.loadgen().measurement());
    let mut all = windows.next()?.clone();
    windows.for_each(|other| all.merge(other));
    Some(all)
}

/// Frames that NICs dropped, and those lost on cables and in switches.
fn drops(interval: &Interval, own: &NetworkFigures) -> Drops {
    let mut drops = Drops::default();
    for dropped in &interval.dropped {
        drops.dma += dropped.dma;
        drops.core += dropped.core;
        drops.tx += dropped.tx;
        drops.nic_other += dropped.nic_other;
    }
    let outputs = own.switches.values().flat_map(|switch| switch.outputs.values());
    let in_switches: u64 = outputs.map(|output| output.dropped).sum();
    drops.link = interval.sent.iter().map(|sent| sent.lost).sum::<u64>() + in_switches;
    drops
}

/// The rate of the generators.
fn rate(own: &NetworkFigures) -> String {
    let rates: BTreeSet<&String> = own.generators.values().map(|of| &of.rate).collect();
    match (rates.len(), rates.first()) {
        (1, Some(rate)) => (*rate).clone(),
        (0, _) => NO_TRAFFIC.to_owned(),
        _ => "several".to_owned(),
    }
}

/// Frames that nodes sent into their cables, and their bytes with FCS.
fn sent_by_nodes(network: &Network, interval: &Interval) -> (u64, u64) {
    let links = &network.config().links;
    let of_nodes =
        interval.sent.iter().enumerate().filter(|(index, _)| {
            matches!(links[index / 2].ends[index % 2], doorbell_machine::End::Node { .. })
        });
    of_nodes.fold((0, 0), |(frames, bytes), (_, sent)| (frames + sent.frames, bytes + sent.bytes))
}
