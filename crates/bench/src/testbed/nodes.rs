//! Testbed with a network: several nodes, and the software of each.

use std::path::PathBuf;

use doorbell_image::{GuestFile, Image, overlay};
use doorbell_loadgen::LoadGenConfig;
use doorbell_machine::{
    ConfigError, DiskFile, End, Guest, LinkConfig, MachineConfig, Network, NetworkCheckpoint, NetworkConfig,
    NetworkOutcome, Outcome, SwitchConfig,
};
use doorbell_results::PlayedTrace;
use doorbell_sim::Ps;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{RunError, describe};
use crate::plan::resolved::Resolved;
use crate::store::paths::{CachePaths, Images, guest_identity, read_guest, require_ram};
use crate::testbed::boot_length::BootLength;
use crate::testbed::boot_lock::BOOT_VERSION;
use crate::testbed::control::{Control, LINES_SHOWN, Stage, run_network_watched};
use crate::testbed::corunners::{CorunnerConfig, Corunners};
use crate::testbed::disks::{BOOT_SEED, dca_devices, disks_identity, open_disks};
use crate::testbed::init_log;
use crate::testbed::ramp::Ramp;
use crate::testbed::ready::{LINK_STEP, Plan, Source, Testbed};

/// Software of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGuest {
    /// A built-in image, or the path of a recipe.
    pub image: String,
    /// The user's image that replaces it; it must extend `image`.
    pub instead: Option<String>,
    /// Host files used as further disks, after the image's own.
    pub disks: Vec<PathBuf>,
    /// Words added to the kernel's command line.
    pub words: String,
    /// A script added to the image: its name in `/scripts`, and its lines.
    pub script: Option<(String, String)>,
    /// Text on the node's console when it is ready.
    pub ready_marker: String,
}

/// Description of a testbed with a network.
#[derive(Clone, Debug)]
pub struct TestbedPlan {
    /// Prefix of its checkpoint's file name.
    pub name: String,
    /// The nodes and their links.
    pub network: NetworkConfig,
    /// The software of each node.
    pub guests: Vec<NodeGuest>,
    /// A load to start, and run to a steady rate, before the testbed is ready.
    pub ramp: Option<Ramp>,
    /// Seed of a run's random streams.
    pub seed: u64,
    /// Maximum simulated time of a boot.
    pub boot_timeout: Ps,
    /// Host threads that run the nodes.
    pub threads: usize,
    /// Co-runners of the test node.
    pub(crate) corunners: CorunnerConfig,
}

impl TestbedPlan {
    /// Cabled nodes with node 0 as the test node: two on one cable, or a gateway between two others.
    pub fn joined(
        config: &Resolved,
        name: &str,
        mut guests: Vec<NodeGuest>,
    ) -> Result<TestbedPlan, RunError> {
        guests[0].instead.clone_from(&config.run.image);
        guests[0].disks.clone_from(&config.run.disks);
        let network = match guests.len() {
            2 => NetworkConfig::two_nodes(config.nodes())?,
            3 => NetworkConfig::gateway(config.nodes())?,
            other => panic!("no cabling is defined for {other} nodes"),
        };
        Ok(TestbedPlan {
            name: name.to_owned(),
            network,
            guests,
            ramp: None,
            seed: config.run.seed,
            boot_timeout: config.run.boot_timeout,
            threads: 1,
            corunners: config.options::<CorunnerConfig>().clone(),
        })
    }

    /// The images of its guests. Builds missing ones.
    fn images(&self, images: &mut Images, say: &mut dyn FnMut(&str)) -> Result<Vec<Image>, RunError> {
        let guests = self.guests.iter().zip(&self.network.nodes);
        let built = guests.map(|(guest, (_, node))| {
            let image = images.get(&guest.image, guest.instead.as_deref(), say)?;
            require_ram(image.clone(), &node.platform)
        });
        built.collect()
    }

    /// Identity of the software of all nodes. Builds missing images.
    pub(crate) fn identity(
        &self,
        images: &mut Images,
        say: &mut dyn FnMut(&str),
    ) -> Result<String, RunError> {
        let images = self.images(images, say)?;
        let named = images.iter().zip(&self.guests).map(|(image, guest)| identity(image, guest));
        Ok(named.collect::<Vec<_>>().join("\n") + &self.corunners.identity()?)
    }

    /// The network in which the guests boot. Properties that no guest can observe have default values, so
    /// that the state after a boot depends only on the guests and the topology.
    fn for_boot(&self) -> NetworkConfig {
        let mut network = self.network.clone();
        network.nodes.iter_mut().for_each(|(_, node)| *node = node.for_boot());
        network.switches.iter_mut().for_each(|(_, switch)| *switch = SwitchConfig::default());
        network.generators.iter_mut().for_each(|(_, generator)| *generator = LoadGenConfig::default());
        let of_end = |nodes: &[(String, MachineConfig)], end: End| match end {
            End::Node { node, port } => nodes[node].1.port(usize::from(port)).link,
            End::Switch(_) | End::Generator(_) => LinkConfig::default(),
        };
        for link in &mut network.links {
            link.directions = link.ends.map(|end| of_end(&network.nodes, end));
        }
        network
    }

    /// Key of the state after a boot, in the checkpoint cache.
    pub(crate) fn key(&self, identities: &[String]) -> u64 {
        let nodes: Vec<u64> = self.network.nodes.iter().map(|(_, node)| node.guest_hash()).collect();
        let links: Vec<[End; 2]> = self.network.links.iter().map(|link| link.ends).collect();
        let others = (self.network.switches.len(), self.network.generators.len());
        // A boot ends when all nodes have printed these.
        let markers: Vec<&String> = self.guests.iter().map(|guest| &guest.ready_marker).collect();
        xxh3_64(format!("{:?}", (BOOT_VERSION, nodes, links, others, identities, markers)).as_bytes())
    }
}

/// A network and the files its nodes boot from.
pub struct NodesPlan {
    plan: TestbedPlan,
    /// Cache paths and source of the booted nodes from which a ramp-up starts.
    from: (CachePaths, Source),
    /// Identity of each node's software.
    identities: Vec<String>,
    images: Vec<Image>,
    /// The disks of each node.
    disks: Vec<Vec<DiskFile>>,
    /// Co-runners of the test node.
    corunners: Corunners,
}

impl NodesPlan {
    pub(crate) fn new(
        plan: TestbedPlan,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<NodesPlan, RunError> {
        // Rejects invalid networks before the boot.
        Network::new(plan.network.clone(), plan.seed)?;
        let images = plan.images(&mut Images::new(places), control.say)?;
        let disks =
            images.iter().zip(&plan.guests).map(|(image, guest)| open_disks(Some(image), &guest.disks));
        let disks = disks.collect::<Result<Vec<_>, _>>()?;
        let machines = plan.network.nodes.iter().zip(&disks);
        let all: Vec<_> = machines.map(|((_, node), disks)| dca_devices(node, disks.len())).collect();
        plan.network.nodes.iter().try_for_each(|(_, node)| node.check_dca_devices(&all))?;
        let named = images.iter().zip(&plan.guests).zip(&disks);
        let ramp = plan.ramp.as_ref().map_or(String::new(), Ramp::identity);
        let identities = named
            .map(|((image, guest), disks)| identity(image, guest) + &disks_identity(disks) + &ramp)
            .collect();
        let corunners = Corunners::open(&plan.corunners, control.say)?;
        let from = (places.clone(), source.clone());
        Ok(NodesPlan { plan, from, identities, images, disks, corunners })
    }

    fn network(&self, config: NetworkConfig, seed: u64) -> Result<Network, ConfigError> {
        let mut network = Network::new(config, seed)?;
        network.set_threads(self.plan.threads);
        for (node, disks) in self.disks.iter().enumerate() {
            disks.iter().try_for_each(|disk| network.node_mut(node).attach_disk(disk.clone()))?;
        }
        Ok(network)
    }

    /// Number of links of the network.
    pub(crate) fn links(&self) -> usize {
        self.plan.network.links.len()
    }

    fn guests(&self) -> Vec<&str> {
        self.identities.iter().map(String::as_str).collect()
    }

    /// The boot network after the load's ramp-up, and the instructions executed for it.
    fn with_load(&self, ramp: &Ramp, control: &mut Control) -> Result<(Network, u64), RunError> {
        let (places, source) = &self.from;
        let without = TestbedPlan { ramp: None, ..self.plan.clone() };
        let ready = without.prepare(places, source, control)?;
        let mut network = self.network(self.plan.for_boot(), BOOT_SEED)?;
        network.restore(ready.checkpoint(), &ready.plan.guests())?;
        let before = network.instructions() - ready.boot.map_or(0, |boot| boot.instructions);
        ramp.run(&mut network, control)?;
        let instructions = network.instructions() - before;
        Ok((network, instructions))
    }

    fn run_until_ready(&self, network: &mut Network, control: &mut Control) -> Result<(), RunError> {
        let patience = self.plan.boot_timeout;
        let mut ready = vec![false; self.images.len()];
        while ready.contains(&false) {
            match run_network_watched(network, patience, true, control)? {
                NetworkOutcome::Nodes(nodes)
                    if nodes.iter().all(|(_, outcome)| *outcome == Outcome::Marker) =>
                {
                    nodes.iter().for_each(|(node, _)| ready[*node] = true);
                }
                outcome => return Err(not_ready(network, &outcome, &ready)),
            }
        }
        // The applications have printed their markers, but their NICs may not be ready yet. Finally all nodes
        // run to the same time, so that the checkpoint serves any link.
        let mut present = network.now();
        loop {
            match run_network_watched(network, present, false, control)? {
                NetworkOutcome::Time | NetworkOutcome::Asleep if present < patience => {}
                outcome => return Err(not_ready(network, &outcome, &ready)),
            }
            if network.nodes().all(|node| (0..node.ports().len()).all(|port| node.nic(port).is_receiving())) {
                break;
            }
            present = network.now() + LINK_STEP;
        }
        Ok(())
    }
}

impl Plan for NodesPlan {
    type System = Network;
    type Checkpoint = NetworkCheckpoint;

    fn file_name(&self) -> String {
        format!("{}-{:016x}.net", self.plan.name, self.plan.key(&self.identities))
    }

    fn boot(&self, length: &BootLength, control: &mut Control) -> Result<(Network, u64), RunError> {
        if let Some(ramp) = &self.plan.ramp {
            return self.with_load(ramp, control);
        }
        let count = self.images.len();
        let nodes = match count {
            1 => "one node".to_owned(),
            2 => "two nodes".to_owned(),
            count => format!("{count} nodes"),
        };
        (control.say)(&format!("booting Debian on {nodes}"));
        let mut network = self.network(self.plan.for_boot(), BOOT_SEED)?;
        for (node, (image, of)) in self.images.iter().zip(&self.plan.guests).enumerate() {
            let machine = network.node_mut(node);
            machine.load(&guest(image, of)?)?;
            machine.console.watch(Some(&of.ready_marker));
        }
        control.stage = Stage::likely("booting", Ps::ZERO, length.last());
        self.run_until_ready(&mut network, control)?;
        length.keep(network.now());
        (0..count).for_each(|node| init_log::note(network.node_mut(node)));
        let instructions = network.instructions();
        Ok((network, instructions))
    }

    fn save(&self, network: &Network) -> NetworkCheckpoint {
        network.checkpoint(&self.guests(), &self.plan.name)
    }

    fn restored(&self, checkpoint: &NetworkCheckpoint) -> Result<Network, RunError> {
        let mut network = self.network(self.plan.network.clone(), self.plan.seed)?;
        self.corunners.join(network.node_mut(0))?;
        // Faults depend only on the run's seed, not on earlier traffic or the seed of the boot.
        let faults = network.fault_streams();
        network.restore(checkpoint, &self.guests())?;
        network.set_fault_streams(faults);
        Ok(network)
    }

    fn images(&self) -> &[Image] {
        &self.images
    }

    fn corunners(&self) -> Vec<PlayedTrace> {
        self.corunners.descriptions()
    }
}

impl TestbedPlan {
    /// Prepares all nodes.
    pub fn prepare(
        self,
        places: &CachePaths,
        source: &Source,
        control: &mut Control,
    ) -> Result<NodesTestbed, RunError> {
        Testbed::ready(NodesPlan::new(self, places, source, control)?, places, source, control)
    }
}

/// Nodes that are ready; they can be measured repeatedly.
pub type NodesTestbed = Testbed<NodesPlan>;

impl NodesTestbed {
    /// The network at the time at which all nodes became ready.
    pub fn network(&self) -> Result<Network, RunError> {
        self.system()
    }
}

fn bootargs(image: &Image, guest: &NodeGuest) -> String {
    format!("{} {}", image.command_line(), guest.words)
}

/// Identity of a node's software. It includes the script, so that a changed script invalidates the
/// checkpoint.
fn identity(image: &Image, guest: &NodeGuest) -> String {
    let name = guest_identity(image, &bootargs(image, guest));
    match &guest.script {
        Some((_, lines)) => format!("{name} {:016x}", xxh3_64(lines.as_bytes())),
        None => name,
    }
}

fn guest(image: &Image, of: &NodeGuest) -> Result<Guest, RunError> {
    let mut guest = read_guest(image, bootargs(image, of))?;
    if let Some((name, lines)) = &of.script {
        let path = format!("scripts/{name}");
        let script = GuestFile { path, executable: false, content: lines.as_bytes().to_vec() };
        guest.initramfs.extend(overlay(&[script])?);
    }
    Ok(guest)
}

/// The error that names the first failed node, or else the first one that is not ready, with the reason.
fn not_ready(network: &Network, outcome: &NetworkOutcome, ready: &[bool]) -> RunError {
    let waiting = ready.iter().position(|ready| !ready).unwrap_or(0);
    let (node, why) = match outcome {
        NetworkOutcome::Nodes(nodes) => {
            let failed = nodes.iter().find(|(_, outcome)| *outcome != Outcome::Marker);
            failed.copied().unwrap_or((waiting, Outcome::Marker))
        }
        NetworkOutcome::Asleep => (waiting, Outcome::Asleep),
        NetworkOutcome::Time => (waiting, Outcome::Time),
    };
    let (name, why) = (&network.config().nodes[node].0, describe(why, network.now()));
    RunError::NotReady {
        why: format!("{name}: {why}"),
        console: network.node(node).console.last_lines(LINES_SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_key_depends_on_the_ready_markers() {
        let key = |marker: &str| {
            let guest = NodeGuest {
                image: "net".to_owned(),
                instead: None,
                disks: Vec::new(),
                words: String::new(),
                script: None,
                ready_marker: marker.to_owned(),
            };
            let config = Resolved::new(crate::registry::defaults()).unwrap();
            let plan = TestbedPlan::joined(&config, "mine", vec![guest.clone(), guest]).unwrap();
            plan.key(&[])
        };
        assert_eq!(key("ready"), key("ready"));
        assert_ne!(key("ready"), key("set go"));
    }
}
