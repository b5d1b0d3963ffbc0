//! From a network's tables to its parts: what each node is told, which frames each generator sends, what each cable joins. Whatever
//! cannot be is refused here, with the path of the key, before anything is built or booted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use doorbell_loadgen::{LoadGenConfig, Returned};
use doorbell_machine::overlay::{laid_over, nearest};
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
use crate::request::network::config::{below, keys_of_the_run};
use crate::request::reference::instead_of;
use crate::scenarios::registry::benchmark;
use crate::testbed::nodes::NodeGuest;

/// The last byte of the first generator's IPv4 address, in the network of the node that it asks.
const GENERATOR_IP_FROM: u32 = 201;

/// A network with what runs in it.
#[derive(Clone, Debug)]
pub struct NetworkPlan {
    /// Its members and links.
    pub network: NetworkConfig,
    /// What runs in each node.
    pub guests: Vec<NodeGuest>,
    /// What is typed in each node when all are ready.
    pub starts: Vec<Option<String>>,
    /// Each node's whole configuration.
    pub nodes: Vec<RunConfig>,
    /// How long each node's program may keep a frame before it sends one back.
    pub pauses: Vec<Ps>,
    /// The benchmarks to whose nodes the generators send.
    pub served: Vec<Option<&'static Benchmark>>,
}

impl RunConfig {
    /// The network that this configuration describes, if it does.
    pub fn topology(&self) -> Result<NetworkPlan, ConfigError> {
        check_names(self)?;
        self.refuse_of_one_machine()?;
        let alone = self.of_each_node();
        let mut nodes: Vec<RunConfig> = Vec::new();
        let of_the_run = keys_of_the_run();
        for (name, node) in &self.node {
            if let Some(key) = node.keys.keys().find(|key| of_the_run.contains(&key.as_str())) {
                let problem = format!("it is the run's and no node's own; set {key}");
                return Err(ConfigError::new(format!("node.{name}.{key}"), problem));
            }
            let node = alone.told(&node.keys).map_err(|error| instead_of(error, &node.keys));
            nodes.push(node.map_err(|error| below(&format!("node.{name}"), error))?);
        }
        let places = Places { names: self.node.keys().collect(), config: self };
        let links = self.cable.iter().map(|(name, cable)| self.link(&places, &mut nodes, name, cable));
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
            Ok((name.clone(), laid_over(&SwitchConfig::default(), keys, &format!("switch.{name}"))?))
        };
        let mut served = Vec::new();
        let mut generators = Vec::new();
        for (index, name) in self.generator.keys().enumerate() {
            let (generator, of) = self.generator(&places, &machines, &nodes, (index as u32, name))?;
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
            node.validate().map_err(|error| below(&format!("node.{name}"), error))?;
        }
        network.validate().map_err(as_written)?;
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

    /// A node without a cable beside others that have some: perhaps its name is not as it was meant.
    fn refuse_uncabled(&self, links: &[LinkPlan]) -> Result<(), ConfigError> {
        let ends = || links.iter().flat_map(|link| link.ends);
        let has_cable = |number| ends().any(|end| matches!(end, End::Node { node, .. } if node == number));
        let alone = self.node.keys().zip(0..).find(|(_, number)| !has_cable(*number));
        let Some((name, _)) = alone.filter(|_| !links.is_empty()) else { return Ok(()) };
        let near = nearest(name, self.node.keys().filter(|other| *other != name));
        let hint = near.map_or(String::new(), |near| format!("; did you mean node {near}?"));
        let problem =
            format!("no cable ends at it: give it one ([cable.NAME], between = [\"{name}\", …]){hint}");
        Err(ConfigError::new(format!("node.{name}"), problem))
    }

    /// What says of one machine's run what a network's members say of their own.
    fn refuse_of_one_machine(&self) -> Result<(), ConfigError> {
        let wrong = [
            ("run.frames", self.run.frames.is_some(), "a network is measured for a run.duration"),
            ("run.image", self.run.image.is_some(), "each node has its own: set node.NAME.image"),
            ("run.disks", !self.run.disks.is_empty(), "each node has its own: set node.NAME.disks"),
            (
                "beside.traces",
                self.trace_cores() > 0,
                "no node of a network has traces beside it; the tested node of two has, such as iperf's",
            ),
        ];
        match wrong.iter().find(|(_, is_set, _)| *is_set) {
            Some((key, _, problem)) => Err(ConfigError::new(*key, *problem)),
            None => Ok(()),
        }
    }

    /// A cable; what it says of its own goes to the nodes' ports at which it ends.
    fn link(
        &self,
        places: &Places<'_>,
        nodes: &mut [RunConfig],
        name: &str,
        cable: &CableTable,
    ) -> Result<LinkPlan, ConfigError> {
        let key = format!("cable.{name}.between");
        let [one, other] = &cable.between[..] else {
            let problem =
                format!("{} ends; a cable joins two, such as [\"server\", \"tor\"]", cable.between.len());
            return Err(ConfigError::new(key, problem));
        };
        let ends = [places.find(one, &key)?, places.find(other, &key)?];
        let own: LinkConfig = laid_over(&self.link, &cable.keys, &format!("cable.{name}"))?;
        for end in ends {
            if let End::Node { node, port } = end {
                let nics = nodes[node].platform.nics;
                if u32::from(port) >= nics {
                    let problem = format!("node {} has {nics} ports, and no port {port}", places.names[node]);
                    return Err(ConfigError::new(key, problem));
                }
                let port = nodes[node].port.entry(PortNumber(usize::from(port))).or_default();
                port.link.extend(cable.keys.clone());
            }
        }
        Ok(LinkPlan { name: name.to_owned(), ends, directions: [own.clone(), own] })
    }

    fn generator(
        &self,
        places: &Places<'_>,
        machines: &[(String, MachineConfig)],
        nodes: &[RunConfig],
        (index, name): (u32, &str),
    ) -> Result<(LoadGenConfig, Option<&'static Benchmark>), ConfigError> {
        let table = &self.generator[name];
        let mut own: LoadGenConfig = laid_over(&self.loadgen, &table.keys, &format!("generator.{name}"))?;
        let own_traffic = table.keys.get("traffic").and_then(Value::as_table);
        let says = |key: &str| own_traffic.is_some_and(|traffic| traffic.contains_key(key));
        if !says("source") {
            own.traffic.source = own.traffic.for_port(index).source;
        }
        let Some(to) = &table.to else { return Ok((own, None)) };
        let key = format!("generator.{name}.to");
        let End::Node { node, port } = places.find(to, &key)? else {
            return Err(ConfigError::new(key, format!("\"{to}\" is no node; test frames go to one")));
        };
        if u32::from(port) >= machines[node].1.platform.nics {
            return Err(ConfigError::new(key, format!("node {to} has no such port")));
        }
        own.traffic.destination.0 = machines[node].1.mac_of(usize::from(port)).0;
        let server = &self.node[places.names[node]];
        let ip = server.ip.as_deref().and_then(|ip| ip.split('/').next()?.parse().ok());
        if let Some(ip) = ip.filter(|_| !says("destination_ip")) {
            own.traffic.destination_ip = ip;
        }
        if own.traffic.kind.sends_requests() && !says("source_ip") {
            let network = own.traffic.destination_ip.to_bits() & !0xff;
            own.traffic.source_ip = Ipv4Addr::from_bits(network | (GENERATOR_IP_FROM + index % 50));
        }
        let served = server.benchmark.as_deref().map(benchmark).transpose()?;
        own.traffic.returned = served.map_or(own.traffic.returned, |served| (served.returned)(&nodes[node]));
        if own.traffic.returned == Returned::Sink {
            let problem = "its program sends nothing back, and only a machine's own generator can see what is in its memory; give \
                           it another benchmark, such as touchfwd";
            return Err(ConfigError::new(key, problem));
        }
        Ok((own, served))
    }
}

/// Links stand as cables in the file.
fn as_written(error: ConfigError) -> ConfigError {
    let key = error.key.strip_prefix("link.").map(|rest| format!("cable.{rest}"));
    ConfigError { key: key.unwrap_or(error.key.clone()), ..error }
}

/// A node's machine: addresses and random numbers are its own, unless it is told which.
fn machine(node: &RunConfig, index: usize) -> MachineConfig {
    let told = node.machine();
    match told.nic.mac {
        Some(_) => MachineConfig { platform: node_config(&told, index).platform, ..told },
        None => node_config(&told, index),
    }
}

fn guest(name: &str, node: &NodeTable, config: &RunConfig) -> Result<NodeGuest, ConfigError> {
    let wrong = |key: &str, problem: &str| ConfigError::new(format!("node.{name}.{key}"), problem);
    if let Some(ip) = node.ip.as_ref().filter(|ip| !is_address_of_network(ip)) {
        let problem = format!(
            "\"{ip}\" is no address with the length of its network's prefix, such as \"10.0.0.2/24\""
        );
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
            ready_marker: node.ready.clone().unwrap_or_else(|| kernel::READY_MARKER.to_owned()),
        });
    };
    let known = benchmark(named).map_err(|error| wrong("benchmark", &error.problem))?;
    if !matches!(known.nodes, Nodes::One) {
        return Err(wrong(
            "benchmark",
            &format!("{named} has two nodes of its own; write each as a node with a script"),
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

/// Whether it is as "10.0.0.2/24" or "fd00::2/64"; with "none" a port has no address.
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

/// Every member has a name of its own, which can stand in a path of keys and in a file's name.
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
            let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            if !fits || name.is_empty() || name.len() > 32 {
                return Err(ConfigError::new(key(), "a name has 1 to 32 letters, digits, - and _"));
            }
            if let Some(other) = taken.insert(name, kind).filter(|_| kind != "cable") {
                return Err(ConfigError::new(key(), format!("a {other} has this name already")));
            }
        }
    }
    Ok(())
}

/// The members by name.
struct Places<'a> {
    names: Vec<&'a String>,
    config: &'a RunConfig,
}

impl Places<'_> {
    /// Where something of this name is; `key` is where it stands.
    fn find(&self, text: &str, key: &str) -> Result<End, ConfigError> {
        let (name, port) = match text.split_once('.') {
            Some((name, port)) => (name, port.parse::<u8>().ok()),
            None => (text, Some(0)),
        };
        if let Some(node) = self.names.iter().position(|known| *known == name) {
            let Some(port) = port else {
                return Err(ConfigError::new(
                    key,
                    format!("\"{text}\" names no port; write it as \"{name}.1\""),
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
            .names
            .iter()
            .copied()
            .chain(self.config.switch.keys())
            .chain(self.config.generator.keys())
            .collect();
        let hint = nearest(name, known).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        Err(ConfigError::new(key, format!("there is no node, switch or generator \"{text}\"{hint}")))
    }
}
