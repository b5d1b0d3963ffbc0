//! The measurement of a network: what is asked for is stored, nodes begin, generators send; caches warm up; then everything is timed,
//! and an interval is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use doorbell_loadgen::{Kind, LoadGenConfig, Measurement, TrafficConfig};
use doorbell_machine::{ConfigError, Network, Watched};
use doorbell_sim::{Frame, Ps};
use doorbell_wire::pcap::{PcapFile, WHOLE_FRAMES};

use crate::error::RunError;
use crate::figures::counters::MeasuredCounters;
use crate::measure::benchmark::Benchmark;
use crate::plan::config::RunConfig;
use crate::plan::workload::NO_TRAFFIC;
use crate::ratio::{for_each, per};
use crate::request::network::astray::astray;
use crate::request::network::figures::{SwitchMoment, accepted_bytes, figures};
use crate::request::network::resolve::NetworkPlan;
use crate::testbed::control::Control;
use crate::testbed::corunners::BesideConfig;
use crate::testbed::links::time_on;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::nodes::TestbedPlan;
use crate::testbed::steady::judge;
use crate::window::interval::{Interval, OpenInterval, between_nodes, meanings};
use crate::window::losses::of_window;
use crate::window::observe::{NodeTrace, Observe};
use crate::window::phases::{Load, Run};
use doorbell_results::{NetworkFigures, PointSummary, WindowSummary};

/// A network's run.
pub(crate) struct NetworkRun {
    /// Its figures: those of all load generators together, and under `network` those of all members.
    pub summary: PointSummary,
    /// What the figures of ports and timing models mean.
    pub meanings: BTreeMap<String, String>,
    /// The members as they were at the end, for their counters.
    pub network: Network,
    /// By node: what its counters were at both ends of the measurement.
    pub counters: Vec<MeasuredCounters>,
    /// By node: what was watched of it, and the bytes that its NICs accepted.
    pub watched: Vec<(Option<Watched>, u64)>,
}

impl TestbedPlan {
    /// The network that a configuration describes.
    pub(crate) fn network(
        config: &RunConfig,
        name: &str,
        threads: usize,
    ) -> Result<(TestbedPlan, NetworkPlan), ConfigError> {
        let topology = config.topology()?;
        let plan = TestbedPlan {
            run_up: None,
            name: name.to_owned(),
            network: topology.network.clone(),
            guests: topology.guests.clone(),
            seed: config.run.seed,
            boot_timeout: config.run.boot_timeout,
            threads,
            beside: BesideConfig::default(),
        };
        Ok((plan, topology))
    }
}

/// Measures once. With `captures`, writes what crosses each cable to a file there; of what is to be observed, nodes have profiles.
pub(crate) fn run_network(
    testbed: &NodesTestbed,
    (config, topology): (&RunConfig, &NetworkPlan),
    (captures, observe): (Option<&Path>, &Observe),
    control: &mut Control,
) -> Result<NetworkRun, RunError> {
    let started = Instant::now();
    let mut network = testbed.network()?;
    observe.check_nodes(&network)?;
    let cables =
        topology.network.links.iter().enumerate().filter_map(|(index, link)| Some((index, link, captures?)));
    for (index, link, folder) in cables {
        network.capture(index, PcapFile::create(&folder.join(format!("{}.pcap", link.name)), WHOLE_FRAMES)?);
    }
    let trace = NodeTrace::create(observe, &network, None, |node| &topology.nodes[node], "a network")?;
    let before = network.instructions();
    let loads = loads(topology);
    let params = &config.run;
    let mut run = Run { system: &mut network, guest: "", control, loads: &loads, params };
    run.preload()?;
    type_starts(run.system, topology)?;
    let steady = run.approach()?;
    let (mut interval, switches) = run.measure((observe, trace.as_ref()))?;
    let settled = run.drain()?;
    for line in astray(network.config(), &interval.sent) {
        (control.say)(&line);
    }
    network.check_conservation();
    network.finish_captures()?;
    trace.map_or(Ok(()), |trace| trace.finish(testbed, &mut network))?;
    let host = (started.elapsed().as_secs_f64(), network.instructions() - before);
    let own = figures(&network, &topology.nodes, &interval, &switches);
    let mut summary = summarise((config, &topology.nodes), &network, (&interval, own, settled), host);
    summary.steady = Some(steady);
    judge(&mut summary, config);
    let meanings = meanings(&summary, &network);
    let counters = interval.take_counters();
    let watched = std::mem::take(&mut interval.watched).into_iter().enumerate();
    let watched = watched.map(|(node, seen)| (seen, accepted_bytes(&network, node, &interval))).collect();
    Ok(NetworkRun { summary, meanings, network, counters, watched })
}

/// What each generator sends.
fn loads(topology: &NetworkPlan) -> Vec<Load> {
    let all = topology.network.generators.iter().zip(&topology.served);
    let load = |((name, generator), served): (&(String, LoadGenConfig), &Option<&Benchmark>)| Load {
        who: format!("generator {name}"),
        key: format!("generator.{name}"),
        traffic: generator.traffic.clone(),
        preload: served.and_then(|served| served.preload),
        pause: out_of_sight(topology, generator.traffic.frame_len()),
        kept: false,
    };
    all.map(load).collect()
}

/// How long a frame of this length may be where nobody can see it: on all links, there and back, and in the hands of each node's
/// program.
fn out_of_sight(topology: &NetworkPlan, frame_len: usize) -> Ps {
    let links = topology.network.links.iter().flat_map(|link| &link.directions);
    let on_links = links.map(|link| time_on(link, frame_len));
    on_links.chain(topology.pauses.iter().copied()).fold(Ps::ZERO, Ps::saturating_add)
}

/// What is typed when all nodes are ready.
fn type_starts(network: &mut Network, topology: &NetworkPlan) -> Result<(), ConfigError> {
    for (node, typed) in topology.starts.iter().enumerate() {
        let Some(typed) = typed else { continue };
        let line = format!("{typed}\n");
        if network.node_mut(node).type_input(line.as_bytes()) < line.len() {
            let key = format!("node.{}.start", topology.network.nodes[node].0);
            return Err(ConfigError::new(
                key,
                "it is longer than a keyboard's memory; put it into the script",
            ));
        }
    }
    Ok(())
}

impl Run<'_, '_, Network> {
    /// Begins and ends between two frames of every generator's.
    fn measure(
        &mut self,
        (observe, trace): (&Observe, Option<&NodeTrace>),
    ) -> Result<(Interval, SwitchMoment), RunError> {
        self.until(self.next_gap())?;
        let open = OpenInterval::begin(self.system, observe, trace);
        let switches = SwitchMoment::of(self.system);
        self.control.begin("measuring", self.system.now(), Some(self.params.measured_time()));
        self.go_on(self.params.measured_time())?;
        self.until(self.next_gap())?;
        for generator in self.system.generators_mut() {
            generator.end_window();
            generator.stop();
        }
        Ok((open.end(self.system, trace), switches))
    }

    /// The next moment at which no frame is on its way into a link from a generator, as far as that is the same for all.
    fn next_gap(&self) -> Ps {
        let free =
            self.system.generators().map(|generator| generator.link().free_at()).max().unwrap_or(Ps::ZERO);
        Ps(free.0.saturating_sub(1)).max(self.system.complete_until())
    }
}

/// The figures of all load generators together; without any, of what the nodes sent each other.
fn summarise(
    (config, nodes): (&RunConfig, &[RunConfig]),
    network: &Network,
    (interval, own, settled): (&Interval, NetworkFigures, bool),
    (host_seconds, executed): (f64, u64),
) -> PointSummary {
    let figures = measured(network).map(|all| all.summary(network.now()));
    let of_nodes = sent_by_nodes(network, interval);
    let mut drops = interval.lost.all();
    let lost = drops.at_nics() + drops.link;
    let mut late = 0;
    if let Some(figures) = figures.as_ref().filter(|_| settled) {
        let unharmed = figures.frames_offered - figures.frames_delivered - figures.frames_corrupt;
        // What a member still holds was not dropped: the drain was too short for it.
        let held: u64 = network.holding().iter().map(|(_, frames)| frames).sum();
        drops = of_window(&drops, &interval.lost_behind(network).all(), unharmed.saturating_sub(held));
        // What came back when it was given up was not lost by a guest.
        late = interval.late(network).min(drops.guest);
        drops.guest -= late;
    }
    if let Some(figures) = &figures {
        let missing = figures.frames_offered - figures.frames_delivered - figures.frames_corrupt;
        drops.unknown = missing.saturating_sub(drops.at_nics() + drops.link + drops.guest + late);
    }
    let instructions: u64 = interval.instructions.iter().sum();
    let cycles: f64 = nodes.iter().zip(&interval.nodes).map(|(node, window)| window.core_cycles(node)).sum();
    let sent: Vec<&TrafficConfig> = network.config().generators.iter().map(|(_, own)| &own.traffic).collect();
    let frame_size = match &figures {
        Some(figures) => size_of_all(&sent).unwrap_or_else(|| mean_size(figures)),
        None => per(of_nodes.1 as f64, of_nodes.0 as f64).round() as u64,
    };
    let figures = figures.unwrap_or_else(|| between_nodes(of_nodes, lost, interval.seconds));
    PointSummary {
        benchmark: "network".to_owned(),
        config_hash: config.hash(),
        rate: rate(&own),
        drops,
        frames_late: late,
        instructions,
        ipc: per(instructions as f64, cycles),
        instructions_per_frame: for_each(instructions, figures.frames_delivered),
        host_seconds,
        host_mips: per(executed as f64 / 1e6, host_seconds),
        state_hash: format!("{:016x}", network.state_hash()),
        network: Some(own),
        ..PointSummary::from_window(figures, frame_size)
    }
}

/// The size, with FCS, of every frame that the generators send, if that is one.
fn size_of_all(sent: &[&TrafficConfig]) -> Option<u64> {
    let size = |traffic: &&TrafficConfig| {
        let is_one = matches!(traffic.kind, Kind::Frames | Kind::Ping) && traffic.streams.is_empty();
        is_one.then_some((traffic.frame_len() + Frame::FCS_BYTES) as u64)
    };
    let sizes: BTreeSet<Option<u64>> = sent.iter().map(size).collect();
    if sizes.len() == 1 { sizes.first().copied().flatten() } else { None }
}

/// The mean size, with FCS, of the frames that were offered.
fn mean_size(figures: &WindowSummary) -> u64 {
    per(figures.offered.gbps_l2 * 1e3 / 8.0, figures.offered.mpps).round() as u64
}

/// What all generators measured together, if there are any.
fn measured(network: &Network) -> Option<Measurement> {
    let mut windows = network.generators().filter_map(|generator| generator.loadgen().measurement());
    let mut all = windows.next()?.clone();
    windows.for_each(|other| all.merge(other));
    Some(all)
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

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Bytes;

    #[test]
    fn the_size_of_frames_is_what_the_generators_send_and_not_what_all_are_told() {
        let of =
            |frame_size: u64| TrafficConfig { frame_size: Bytes(frame_size), ..TrafficConfig::default() };
        assert_eq!(size_of_all(&[&of(512), &of(512)]), Some(512));
        assert_eq!(size_of_all(&[&of(64), &of(512)]), None);
        let asks = TrafficConfig { kind: Kind::MemcachedGet, ..of(64) };
        assert_eq!(size_of_all(&[&asks]), None);
        // 2 Mpps of 100 bytes.
        let mut figures = WindowSummary::default();
        (figures.offered.mpps, figures.offered.gbps_l2) = (2.0, 1.6);
        assert_eq!(mean_size(&figures), 100);
    }
}
