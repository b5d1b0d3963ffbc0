//! The measurement of a network: preload stores, start node programs and generators, warm up the caches, then switch to
//! timed mode and measure an interval.

use std::collections::BTreeSet;

use doorbell_loadgen::{Kind, LoadGenConfig, Measurement, TrafficConfig};
use doorbell_machine::{ConfigError, LinkPlan, Network};
use doorbell_sim::{Frame, Ps};

use crate::error::RunError;
use crate::figures::host_cost::HostCost;
use crate::measure::benchmark::{Benchmark, Measured, NodesLoad};
use crate::measure::nodes_run::NodesRun;
use crate::plan::config::RunConfig;
use crate::plan::resolved::Resolved;
use crate::plan::workload::NO_TRAFFIC;
use crate::ratio::{per, per_frame};
use crate::request::network::figures::{SwitchSnapshot, accepted_bytes, figures};
use crate::request::network::misdelivered::misdelivered;
use crate::request::network::resolve::NetworkPlan;
use crate::testbed::control::Control;
use crate::testbed::corunners::CorunnerConfig;
use crate::testbed::links::time_on;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::nodes::TestbedPlan;
use crate::testbed::steady::add_measured_phase;
use crate::window::interval::{Interval, OpenInterval, between_nodes};
use crate::window::losses::of_window;
use crate::window::observe::{Delivered, NodeTrace, Observe};
use crate::window::phases::{Load, Run};
use doorbell_results::{NetworkFigures, PointSummary, WindowSummary};

impl TestbedPlan {
    /// Plans the network that a configuration describes.
    pub(crate) fn network(
        config: &Resolved,
        name: &str,
        threads: usize,
    ) -> Result<(TestbedPlan, NetworkPlan), ConfigError> {
        let topology = config.topology()?;
        let plan = TestbedPlan {
            ramp: None,
            name: name.to_owned(),
            network: topology.network.clone(),
            guests: topology.guests.clone(),
            seed: config.run.seed,
            boot_timeout: config.run.boot_timeout,
            threads,
            corunners: CorunnerConfig::default(),
        };
        Ok((plan, topology))
    }
}

/// Measures the network of a network file. Each cable is captured into its own file. Nodes support profiles and traces.
pub(crate) fn measure_network(
    testbed: &NodesTestbed,
    load: &NodesLoad,
    control: &mut Control,
) -> Result<Measured, RunError> {
    let NodesLoad { config, observe, folder, .. } = *load;
    let topology = &config.topology()?;
    let file = |link: &LinkPlan| folder.path().join(format!("{}.pcap", link.name));
    let links = topology.network.links.iter().filter(|_| observe.capture.is_some());
    let captures = links.map(file).enumerate();
    let mut nodes =
        NodesRun::begin(testbed, load, captures, None, |node| &topology.nodes[node], "a network")?;
    let loads = loads(topology);
    let mut run = Run { system: &mut nodes.network, guest: "", control, loads: &loads, params: &config.run };
    run.preload()?;
    type_starts(run.system, topology)?;
    let steady = run.approach()?;
    let (mut interval, switches) = run.measure(observe, nodes.trace.as_ref())?;
    let settled = run.drain()?;
    for line in misdelivered(nodes.network.config(), &interval.sent) {
        (control.say)(&line);
    }
    let host = nodes.end()?;
    let own = figures(&nodes.network, &topology.nodes, &interval, &switches);
    let mut summary = summarise(config, &topology.nodes, &nodes.network, &interval, own, settled, host);
    summary.steady = Some(steady);
    add_measured_phase(&mut summary, config);
    let counters = interval.take_counters();
    profile_nodes(&mut nodes, &mut interval, &mut summary)?;
    nodes.write(config.clone(), summary, &counters)
}

/// Adds the profile of each timed node to its figures.
fn profile_nodes(
    nodes: &mut NodesRun,
    interval: &mut Interval,
    summary: &mut PointSummary,
) -> Result<(), RunError> {
    let Some(own) = &mut summary.network else { return Ok(()) };
    let names: Vec<String> = nodes.network.config().nodes.iter().map(|(name, _)| name.clone()).collect();
    for (node, name) in names.iter().enumerate() {
        let Some(figures) = own.nodes.get_mut(name) else { continue };
        let bytes = accepted_bytes(&nodes.network, node, interval);
        let delivered = Delivered { bytes, ports: &figures.ports, seconds: summary.simulated_seconds };
        let watched = interval.watched[node].take();
        (figures.functions, figures.kinds) = nodes.profile(node, watched, &delivered)?;
    }
    Ok(())
}

/// The load of each generator.
fn loads(topology: &NetworkPlan) -> Vec<Load> {
    let all = topology.network.generators.iter().zip(&topology.served);
    let load = |((name, generator), served): (&(String, LoadGenConfig), &Option<&Benchmark>)| Load {
        owner: format!("generator {name}"),
        key: format!("generator.{name}"),
        traffic: generator.traffic.clone(),
        preload: served.and_then(|served| served.preload),
        pause: idle_time_max(topology, generator.traffic.frame_len()),
        keeps_checkpoints: false,
    };
    all.map(load).collect()
}

/// Maximum time for which a frame of this length can be outside all queues: on the links in both directions, and in the
/// program of each node.
fn idle_time_max(topology: &NetworkPlan, frame_len: usize) -> Ps {
    let links = topology.network.links.iter().flat_map(|link| &link.directions);
    let on_links = links.map(|link| time_on(link, frame_len));
    on_links.chain(topology.pauses.iter().copied()).fold(Ps::ZERO, Ps::saturating_add)
}

/// Types the nodes' start commands on their consoles.
fn type_starts(network: &mut Network, topology: &NetworkPlan) -> Result<(), ConfigError> {
    for (node, typed) in topology.starts.iter().enumerate() {
        let Some(typed) = typed else { continue };
        let line = format!("{typed}\n");
        if network.node_mut(node).type_input(line.as_bytes()) < line.len() {
            let key = format!("node.{}.start", topology.network.nodes[node].0);
            return Err(ConfigError::new(
                key,
                "it is longer than the console's input buffer; put it into the script",
            ));
        }
    }
    Ok(())
}

impl Run<'_, '_, Network> {
    /// Measures an interval that begins and ends between two frames of every generator.
    fn measure(
        &mut self,
        observe: &Observe,
        trace: Option<&NodeTrace>,
    ) -> Result<(Interval, SwitchSnapshot), RunError> {
        self.until(self.next_gap())?;
        let open = OpenInterval::begin(self.system, observe, trace);
        let switches = SwitchSnapshot::of(self.system);
        self.control.begin("measuring", self.system.now(), Some(self.params.measured_time()));
        self.run_for(self.params.measured_time())?;
        self.until(self.next_gap())?;
        for generator in self.system.generators_mut() {
            generator.end_window();
            generator.stop();
        }
        Ok((open.end(self.system, trace), switches))
    }

    /// The next time at which no generator is transmitting a frame, if there is a common one.
    fn next_gap(&self) -> Ps {
        let free =
            self.system.generators().map(|generator| generator.link().free_at()).max().unwrap_or(Ps::ZERO);
        Ps(free.0.saturating_sub(1)).max(self.system.complete_until())
    }
}

/// Combined figures of all load generators, or of the traffic between the nodes if there is no generator.
fn summarise(
    config: &RunConfig,
    nodes: &[RunConfig],
    network: &Network,
    interval: &Interval,
    own: NetworkFigures,
    settled: bool,
    cost: HostCost,
) -> PointSummary {
    let figures = measured(network).map(|all| all.summary(network.now()));
    let (frames, bytes) = sent_by_nodes(network, interval);
    let mut drops = interval.lost.all();
    let lost = drops.at_nics() + drops.link;
    let mut late = 0;
    let missing = figures.as_ref().map(|all| all.frames_offered - all.frames_delivered - all.frames_corrupt);
    if let Some(missing) = missing.filter(|_| settled) {
        // Frames still queued in a member were not dropped: the drain was too short for them.
        let queued: u64 = network.holding().iter().map(|(_, frames)| frames).sum();
        drops = of_window(&drops, &interval.lost_behind(network).all(), missing.saturating_sub(queued));
        // Frames that returned after their timeout were not lost by a guest.
        late = interval.late(network).min(drops.guest);
        drops.guest -= late;
    }
    if let Some(missing) = missing {
        drops.unknown = missing.saturating_sub(drops.at_nics() + drops.link + drops.guest + late);
    }
    let instructions: u64 = interval.nodes.iter().map(|window| window.instructions).sum();
    let cycles: f64 = nodes.iter().zip(&interval.nodes).map(|(node, window)| window.core_cycles(node)).sum();
    let sent: Vec<&TrafficConfig> = network.config().generators.iter().map(|(_, own)| &own.traffic).collect();
    let frame_size = match &figures {
        Some(figures) => size_of_all(&sent).unwrap_or_else(|| mean_size(figures)),
        None => per(bytes as f64, frames as f64).round() as u64,
    };
    let figures = figures.unwrap_or_else(|| between_nodes(frames, bytes, lost, interval.seconds));
    PointSummary {
        benchmark: "network".to_owned(),
        config_hash: config.hash(),
        rate: rate(&own),
        drops,
        frames_late: late,
        instructions,
        ipc: per(instructions as f64, cycles),
        instructions_per_frame: per_frame(instructions, figures.frames_delivered),
        host_seconds: cost.seconds,
        host_mips: cost.mips(),
        state_hash: format!("{:016x}", network.state_hash()),
        network: Some(own),
        ..PointSummary::from_window(figures, frame_size)
    }
}

/// Size, with FCS, of the generators' frames, if all frames have the same size.
fn size_of_all(sent: &[&TrafficConfig]) -> Option<u64> {
    let size = |traffic: &&TrafficConfig| {
        let is_one = matches!(traffic.kind, Kind::Frames | Kind::Ping) && traffic.streams.is_empty();
        is_one.then_some((traffic.frame_len() + Frame::FCS_BYTES) as u64)
    };
    let sizes: BTreeSet<Option<u64>> = sent.iter().map(size).collect();
    if sizes.len() == 1 { sizes.first().copied().flatten() } else { None }
}

/// Mean size, with FCS, of the offered frames.
fn mean_size(figures: &WindowSummary) -> u64 {
    per(figures.offered.gbps_l2 * 1e3 / 8.0, figures.offered.mpps).round() as u64
}

/// The merged measurements of all generators, if there are any.
fn measured(network: &Network) -> Option<Measurement> {
    let mut windows = network.generators().filter_map(|generator| generator.loadgen().measurement());
    let mut all = windows.next()?.clone();
    windows.for_each(|other| all.merge(other));
    Some(all)
}

/// The rate of the generators: one rate, "none" or "several".
fn rate(own: &NetworkFigures) -> String {
    let rates: BTreeSet<&String> = own.generators.values().map(|of| &of.rate).collect();
    match (rates.len(), rates.first()) {
        (1, Some(rate)) => (*rate).clone(),
        (0, _) => NO_TRAFFIC.to_owned(),
        _ => "several".to_owned(),
    }
}

/// Frames that the nodes sent, and their bytes with FCS.
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
    fn frame_size_is_that_of_the_generators_and_not_the_common_setting() {
        let of =
            |frame_size: u64| TrafficConfig { frame_size: Bytes(frame_size), ..TrafficConfig::default() };
        assert_eq!(size_of_all(&[&of(512), &of(512)]), Some(512));
        assert_eq!(size_of_all(&[&of(64), &of(512)]), None);
        let requests = TrafficConfig { kind: Kind::MemcachedGet, ..of(64) };
        assert_eq!(size_of_all(&[&requests]), None);
        // 2 Mpps of 100 bytes.
        let mut figures = WindowSummary::default();
        (figures.offered.mpps, figures.offered.gbps_l2) = (2.0, 1.6);
        assert_eq!(mean_size(&figures), 100);
    }
}
