//! Resolves a network's tables into the configuration of each node, the traffic of each generator and the ends of each
//! cable. Invalid settings are rejected here, with the path of the key, before anything is built or booted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use doorbell_loadgen::{LoadGenConfig, Returned};
use doorbell_machine::overlay::{nearest, with_overrides};
use doorbell_machine::{
    ConfigError, End, LinkConfig, LinkPlan, MachineConfig, NetworkConfig, PortNumber, SwitchConfig,
    node_config,
};
use doorbell_sim::Ps;
use toml::{Table, Value};

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::plan::config::RunConfig;
use crate::plan::kernel;
use crate::plan::members::{CableTable, NodeTable};
use crate::plan::options;
use crate::plan::workload::READY_MARKER;
use crate::registry::benchmark;
use crate::request::network::config::{in_member, keys_of_the_run};
use crate::request::reference::with_hint;
use crate::testbed::nodes::NodeGuest;

/// Last byte of the first generator's IPv4 address, in the network of the node that it sends requests to.
const GENERATOR_IP_FROM: u32 = 201;

/// A network with the software of its nodes.
#[derive(Clone, Debug)]
pub struct NetworkPlan {
    /// Members and links.
    pub network: NetworkConfig,
    /// The software of each node.
    pub guests: Vec<NodeGuest>,
    /// Console input of each node when all nodes are ready.
    pub starts: Vec<Option<String>>,
    /// The complete configuration of each node.
    pub nodes: Vec<RunConfig>,
    /// Maximum time for which each node's program keeps a frame before it sends one back.
    pub pauses: Vec<Ps>,
    /// For each generator, the benchmark of the node that it sends to.
    pub served: Vec<Option<&'static Benchmark>>,
}

impl RunConfig {
    /// Returns the network that this configuration describes.
    pub fn topology(&self) -> Result<NetworkPlan, ConfigError> {
        check_names(self)?;
        self.refuse_single_machine_keys()?;
        let common = self.common_to_nodes();
        let mut nodes: Vec<RunConfig> = Vec::new();
        let of_the_run = keys_of_the_run();
        for (name, node) in &self.node {
            if let Some(key) = node.keys.keys().find(|key| of_the_run.contains(&key.as_str())) {
                let problem = format!("it applies to the whole run and not to one node; set {key}");
                return Err(ConfigError::new(format!("node.{name}.{key}"), problem));
            }
            let node = common.with_node_keys(&node.keys).map_err(|error| with_hint(error, &node.keys));
            nodes.push(node.map_err(|error| in_member(&format!("node.{name}"), error))?);
        }
        let members = Members { nodes: self.node.keys().collect(), config: self };
        let links = self.cable.iter().map(|(name, cable)| self.link(&members, &mut nodes, name, cable));
        let mut links: Vec<LinkPlan> = links.collect::<Result<_, _>>()?;
        let machines: Vec<(String, MachineConfig)> = self
            .node
            .keys()
            .zip(&nodes)
            .enumerate()
            .map(|(index, (name, node))| (name.clone(), machine(node, index)))
            .collect();
        for link in &mut links {
            for (end, direction) in link.ends.iter().zip(&mut link.directions) {
                if let End::Node { node, port } = end
                    && u32::from(*port) < machines[*node].1.platform.nics
                {
                    *direction = machines[*node].1.ports().port(usize::from(*port))?.link;
                }
            }
        }
        let switch = |(name, keys): (&String, &Table)| {
            Ok((name.clone(), with_overrides(&SwitchConfig::default(), keys, &format!("switch.{name}"))?))
        };
        let mut served = Vec::new();
        let mut generators = Vec::new();
        for (index, name) in self.generator.keys().enumerate() {
            let (generator, of) = self.generator(&members, &machines, &nodes, index as u32, name)?;
            generators.push((name.clone(), generator));
            served.push(of);
        }
        let network = NetworkConfig {
            nodes: machines,
            switches: self.switch.iter().map(switch).collect::<Result<_, ConfigError>>()?,
            generators,
            links,
        };
        for (name, node) in self.node.keys().zip(&nodes) {
            node.validate().map_err(|error| in_member(&format!("node.{name}"), error))?;
        }
        network.validate().map_err(with_cable_key)?;
        let guests = self.node.iter().zip(&nodes).map(|((name, node), config)| guest(name, node, config));
        let guests = guests.collect::<Result<_, _>>()?;
        let starts = self.node.values().map(|node| node.start.clone()).collect();
        let pauses = self.node.values().zip(&nodes).map(|(node, config)| {
            let named = node.benchmark.as_deref().map(benchmark).transpose()?;
            Ok(named.map_or(kernel::PAUSE, |known| known.workload(config).pause))
        });
        let pauses = pauses.collect::<Result<_, ConfigError>>()?;
        self.refuse_uncabled(&network.links)?;
        Ok(NetworkPlan { network, guests, starts, nodes, pauses, served })
    }

    /// Rejects a node without a cable if others have cables: perhaps its name is misspelt.
    fn refuse_uncabled(&self, links: &[LinkPlan]) -> Result<(), ConfigError> {
        let ends = || links.iter().flat_map(|link| link.ends);
        let has_cable = |number| ends().any(|end| matches!(end, End::Node { node, .. } if node == number));
        let uncabled = self.node.keys().zip(0..).find(|(_, number)| !has_cable(*number));
        let Some((name, _)) = uncabled.filter(|_| !links.is_empty()) else { return Ok(()) };
        let near = nearest(name, self.node.keys().filter(|other| *other != name));
        let hint = near.map_or(String::new(), |near| format!("; did you mean node {near}?"));
        let problem =
            format!("no cable is connected to it: add one ([cable.NAME], between = [\"{name}\", …]){hint}");
        Err(ConfigError::new(format!("node.{name}"), problem))
    }

    /// Rejects keys of single-machine runs, which a network sets per node.
    fn refuse_single_machine_keys(&self) -> Result<(), ConfigError> {
        let wrong = [
            ("run.frames", self.run.frames.is_some(), "a network is measured for a run.duration"),
            ("run.image", self.run.image.is_some(), "each node has its own: set node.NAME.image"),
            ("run.disks", !self.run.disks.is_empty(), "each node has its own: set node.NAME.disks"),
            (
                "beside.traces",
                self.trace_cores() > 0,
                "nodes of a network cannot have co-running traces; use a benchmark with two nodes, such as iperf, whose tested node can",
            ),
        ];
        match wrong.iter().find(|(_, is_set, _)| *is_set) {
            Some((key, _, problem)) => Err(ConfigError::new(*key, *problem)),
            None => Ok(()),
        }
    }

    /// Resolves a cable. Its own keys override the link settings of the node ports at which it ends.
    fn link(
        &self,
        members: &Members<'_>,
        nodes: &mut [RunConfig],
        name: &str,
        cable: &CableTable,
    ) -> Result<LinkPlan, ConfigError> {
        let key = format!("cable.{name}.between");
        let [one, other] = &cable.between[..] else {
            let problem =
                format!("{} ends; a cable has two, such as [\"server\", \"tor\"]", cable.between.len());
            return Err(ConfigError::new(key, problem));
        };
        let ends = [members.find(one, &key)?, members.find(other, &key)?];
        let own: LinkConfig = with_overrides(&self.link, &cable.keys, &format!("cable.{name}"))?;
        for end in ends {
            if let End::Node { node, port } = end {
                let nics = nodes[node].platform.nics;
                let problem = format!("node {} has {nics} ports, and no port {port}", members.nodes[node]);
                options::reject_if(u32::from(port) >= nics, &key, problem)?;
                let port = nodes[node].port.entry(PortNumber(usize::from(port))).or_default();
                port.link.extend(cable.keys.clone());
            }
        }
        Ok(LinkPlan { name: name.to_owned(), ends, directions: [own.clone(), own] })
    }

    /// Resolves a generator, and returns the benchmark of the node that it sends to.
    fn generator(
        &self,
        members: &Members<'_>,
        machines: &[(String, MachineConfig)],
        nodes: &[RunConfig],
        index: u32,
        name: &str,
    ) -> Result<(LoadGenConfig, Option<&'static Benchmark>), ConfigError> {
        let table = &self.generator[name];
        let mut own: LoadGenConfig =
            with_overrides(&self.loadgen, &table.keys, &format!("generator.{name}"))?;
        let own_traffic = table.keys.get("traffic").and_then(Value::as_table);
        let sets = |key: &str| own_traffic.is_some_and(|traffic| traffic.contains_key(key));
        if !sets("source") {
            own.traffic.source = own.traffic.for_port(index).source;
        }
        let Some(to) = &table.to else { return Ok((own, None)) };
        let key = format!("generator.{name}.to");
        let End::Node { node, port } = members.find(to, &key)? else {
            return Err(ConfigError::new(
                key,
                format!("\"{to}\" is not a node; generators send to nodes only"),
            ));
        };
        let problem = format!("node {to} has no such port");
        options::reject_if(u32::from(port) >= machines[node].1.platform.nics, &key, problem)?;
        own.traffic.destination = machines[node].1.mac_of(usize::from(port));
        let server = &self.node[members.nodes[node]];
        let ip = server.ip.as_deref().and_then(|ip| ip.split('/').next()?.parse().ok());
        if let Some(ip) = ip.filter(|_| !sets("destination_ip")) {
            own.traffic.destination_ip = ip;
        }
        if own.traffic.kind.sends_requests() && !sets("source_ip") {
            let network = own.traffic.destination_ip.to_bits() & !0xff;
            own.traffic.source_ip = Ipv4Addr::from_bits(network | (GENERATOR_IP_FROM + index % 50));
        }
        let served = server.benchmark.as_deref().map(benchmark).transpose()?;
        own.traffic.returned = served.map_or(own.traffic.returned, |served| (served.returned)(&nodes[node]));
        let problem = "its program sends nothing back, and only the generator of a single machine can observe frames in its memory; \
                           choose another benchmark, such as touchfwd";
        options::reject_if(own.traffic.returned == Returned::Sink, &key, problem)?;
        Ok((own, served))
    }
}

/// Renames the key of a link error to the cable's key in the file.
fn with_cable_key(error: ConfigError) -> ConfigError {
    let key = error.key.strip_prefix("link.").map(|rest| format!("cable.{rest}"));
    ConfigError { key: key.unwrap_or(error.key.clone()), ..error }
}

/// A node's machine, with its own random numbers, and with its own MAC addresses unless `nic.mac` is set.
fn machine(node: &RunConfig, index: usize) -> MachineConfig {
    let machine = node.machine();
    match machine.nic.mac {
        Some(_) => MachineConfig { platform: node_config(&machine, index).platform, ..machine },
        None => node_config(&machine, index),
    }
}

fn guest(name: &str, node: &NodeTable, config: &RunConfig) -> Result<NodeGuest, ConfigError> {
    let wrong = |key: &str, problem: &str| ConfigError::new(format!("node.{name}.{key}"), problem);
    if let Some(ip) = node.ip.as_ref().filter(|ip| !is_address_of_network(ip)) {
        let problem = format!("\"{ip}\" is not an address with a prefix length, such as \"10.0.0.2/24\"");
        return Err(wrong("ip", &problem));
    }
    let ip = node.ip.iter().map(|ip| format!(" doorbell.ip={ip}")).collect::<String>();
    let further = if node.words.is_empty() { String::new() } else { format!(" {}", node.words) };
    let Some(named) = &node.benchmark else {
        let app = if node.script.is_some() { format!("doorbell.app={name}") } else { String::new() };
        return Ok(NodeGuest {
            image: node.image.clone().unwrap_or_else(|| "net".to_owned()),
            instead: None,
            disks: node.disks.clone(),
            words: format!("{app}{ip}{further}").trim_start().to_owned(),
            script: node.script.as_ref().map(|lines| (name.to_owned(), lines.clone())),
            ready_marker: node.ready.clone().unwrap_or_else(|| READY_MARKER.to_owned()),
        });
    };
    let known = benchmark(named).map_err(|error| wrong("benchmark", &error.problem))?;
    if !matches!(known.nodes, Nodes::One) {
        return Err(wrong(
            "benchmark",
            &format!("{named} itself has two nodes; describe each as a node with a script"),
        ));
    }
    if node.script.is_some() {
        return Err(wrong("script", &format!("the node runs {named} already; leave out one of the two")));
    }
    (known.check)(config).map_err(|error| wrong(&error.key, &error.problem))?;
    Ok(NodeGuest {
        image: known.image.to_owned(),
        instead: node.image.clone(),
        disks: node.disks.clone(),
        words: format!("{}{ip}{further}", (known.guest_words)(config)),
        script: None,
        ready_marker: node.ready.clone().unwrap_or_else(|| known.ready_marker.to_owned()),
    })
}

/// Whether a text has the form "10.0.0.2/24" or "fd00::2/64", or is "none" for a port without an address.
fn is_address_of_network(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return text == "none" };
    if prefix.starts_with('+') {
        return false;
    }
    match (address.parse(), prefix.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(prefix)) => prefix <= 32,
        (Ok(IpAddr::V6(_)), Ok(prefix)) => prefix <= 128,
        _ => false,
    }
}

/// Checks that every member has a unique name, which is valid in a key path and in a file name.
fn check_names(tables: &RunConfig) -> Result<(), ConfigError> {
    let kinds: [(&str, Vec<&String>); 4] = [
        ("node", tables.node.keys().collect()),
        ("switch", tables.switch.keys().collect()),
        ("generator", tables.generator.keys().collect()),
        ("cable", tables.cable.keys().collect()),
    ];
    let mut taken: BTreeMap<&String, &str> = BTreeMap::new();
    for (kind, names) in kinds {
        for name in names {
            let key = || format!("{kind}.{name}");
            let is_valid = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            if !is_valid || name.is_empty() || name.len() > 32 {
                return Err(ConfigError::new(key(), "a name has 1 to 32 letters, digits, - and _"));
            }
            if let Some(other) = taken.insert(name, kind).filter(|_| kind != "cable") {
                return Err(ConfigError::new(
                    key(),
                    format!("a {other} already has this name; choose another"),
                ));
            }
        }
    }
    Ok(())
}

/// The members of a network by name.
struct Members<'a> {
    nodes: Vec<&'a String>,
    config: &'a RunConfig,
}

impl Members<'_> {
    /// Finds the member with this name. `key` is the configuration key that names it, for errors.
    fn find(&self, text: &str, key: &str) -> Result<End, ConfigError> {
        let (name, port) = match text.split_once('.') {
            Some((name, port)) => (name, port.parse::<u8>().ok()),
            None => (text, Some(0)),
        };
        if let Some(node) = self.nodes.iter().position(|known| *known == name) {
            let Some(port) = port else {
                return Err(ConfigError::new(
                    key,
                    format!("\"{text}\" does not name a port; write it as \"{name}.1\""),
                ));
            };
            return Ok(End::Node { node, port });
        }
        let of = |mut names: std::collections::btree_map::Keys<'_, String, Table>| {
            names.position(|known| known == text)
        };
        let generator = self.config.generator.keys().position(|known| known == text);
        if let Some(end) = of(self.config.switch.keys()).map(End::Switch).or(generator.map(End::Generator)) {
            return Ok(end);
        }
        let known: Vec<&String> = self
            .nodes
            .iter()
            .copied()
            .chain(self.config.switch.keys())
            .chain(self.config.generator.keys())
            .collect();
        let hint = nearest(name, known).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        Err(ConfigError::new(key, format!("there is no node, switch or generator \"{text}\"{hint}")))
    }
}
