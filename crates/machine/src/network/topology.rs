//! What a network is made of: nodes, switches and load generators by name, and the links that join them. It is checked as a whole
//! before anything is built from it.

use std::collections::{BTreeMap, BTreeSet};

use doorbell_loadgen::LoadGenConfig;
use doorbell_sim::Ps;
use doorbell_wire::LinkConfig;

use crate::config::{ConfigError, MachineConfig};
use crate::network::switch::SwitchConfig;

/// A shorter look-ahead would make the members take turns every few instructions.
pub(crate) const LATENCY_MIN: Ps = Ps::from_ns(10);
/// Members of each kind, and links of a switch; the log names nodes by a byte, and a switch its ports.
const MEMBERS_MAX: usize = 250;

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A port of a node, by the node's place in the list.
    Node {
        /// Which node.
        node: usize,
        /// Which of its ports.
        port: u8,
    },
    /// A switch: each link to it has a port of its own there.
    Switch(usize),
    /// A load generator.
    Generator(usize),
}

/// A link, both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// Its name, for figures and errors.
    pub name: String,
    /// What it joins.
    pub ends: [End; 2],
    /// What each end sends into. Of a node's port it is that port's `link`.
    pub directions: [LinkConfig; 2],
}

/// A whole network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkConfig {
    /// Whole machines, each with a configuration of its own.
    pub nodes: Vec<(String, MachineConfig)>,
    /// Switches.
    pub switches: Vec<(String, SwitchConfig)>,
    /// Load generators that are no node's own.
    pub generators: Vec<(String, LoadGenConfig)>,
    /// What joins them.
    pub links: Vec<LinkPlan>,
}

/// A node's configuration, made from what is common to all: each but the first has MAC addresses and random numbers of its own.
/// Whoever builds a network may change what is not common, such as a node's cores.
pub fn node_config(common: &MachineConfig, node: usize) -> MachineConfig {
    let mut config = common.clone();
    if node > 0 {
        let mut mac = common.mac_of(0);
        mac.0[4] = mac.0[4].wrapping_add(node as u8);
        config.nic.mac = Some(mac);
        config.port.values_mut().for_each(|own| drop(own.nic.remove("mac")));
        config.platform.boot_seed = common.platform.boot_seed.wrapping_add(node as u64);
    }
    config
}

impl NetworkConfig {
    /// Two nodes with one NIC each on one cable, which is made of their own links.
    pub fn two_nodes(nodes: [MachineConfig; 2]) -> Result<NetworkConfig, ConfigError> {
        let named = ["node0", "node1"].into_iter().zip(nodes).collect();
        Self::on_cables(named, &[("cable", [(0, 0), (1, 0)])])
    }

    /// A gateway with two NICs between two nodes with one each: the client on its port 0, the server on port 1.
    pub fn gateway(nodes: [MachineConfig; 3]) -> Result<NetworkConfig, ConfigError> {
        let named = ["gateway", "client", "server"].into_iter().zip(nodes).collect();
        Self::on_cables(named, &[("inside", [(0, 0), (1, 0)]), ("outside", [(0, 1), (2, 0)])])
    }

    /// Nodes, and cables between ports of theirs, each by node and port.
    fn on_cables(
        nodes: Vec<(&str, MachineConfig)>,
        cables: &[(&str, [(usize, u8); 2])],
    ) -> Result<NetworkConfig, ConfigError> {
        let mut links = Vec::new();
        for (name, ends) in cables {
            let mut directions = Vec::new();
            for (node, port) in ends {
                let link = nodes[*node].1.ports().port(usize::from(*port))?.link;
                if link.latency < LATENCY_MIN {
                    return Err(ConfigError::new("link.latency", too_short(link.latency)));
                }
                directions.push(link);
            }
            let directions = directions.try_into().expect("two ends");
            let ends = ends.map(|(node, port)| End::Node { node, port });
            links.push(LinkPlan { name: (*name).to_owned(), ends, directions });
        }
        for (index, (_, node)) in nodes.iter().enumerate() {
            let ends = cables.iter().flat_map(|(_, ends)| ends);
            let (ports, nics) = (ends.filter(|(node, _)| *node == index).count(), node.platform.nics);
            if nics as usize != ports {
                let problem = match nodes.len() {
                    2 => format!("{nics} NICs; each of two nodes has 1"),
                    _ => format!("{nics}, and a gateway has {ports} NICs; set platform.nics={ports}"),
                };
                return Err(ConfigError::new("platform.nics", problem));
            }
        }
        let nodes = nodes.into_iter().map(|(name, node)| (name.to_owned(), node)).collect();
        Ok(NetworkConfig { nodes, links, ..NetworkConfig::default() })
    }

    /// The name of what is at this end.
    pub fn name(&self, end: End) -> &str {
        match end {
            End::Node { node, .. } => &self.nodes[node].0,
            End::Switch(switch) => &self.switches[switch].0,
            End::Generator(generator) => &self.generators[generator].0,
        }
    }

    /// The shortest latency of all links: how long nobody notices how far the others are. Without links it does not matter.
    pub fn lookahead(&self) -> Ps {
        let latencies =
            self.links.iter().flat_map(|link| &link.directions).map(|direction| direction.latency);
        latencies.min().unwrap_or(Ps(u64::MAX / 4))
    }

    /// Checks every member and that the links join what can be joined.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("node", self.nodes.len()),
            ("switch", self.switches.len()),
            ("generator", self.generators.len()),
        ];
        for (kind, count) in counts {
            if count > MEMBERS_MAX {
                return Err(ConfigError::new(
                    kind,
                    format!("{count} of them; a network has {MEMBERS_MAX} at most"),
                ));
            }
        }
        for (name, node) in &self.nodes {
            node.validate().map_err(|error| below(&format!("node.{name}"), error))?;
        }
        for (name, switch) in &self.switches {
            switch.validate().map_err(|error| below(&format!("switch.{name}"), error))?;
        }
        for (name, generator) in &self.generators {
            generator.validate().map_err(|error| ConfigError::new(format!("generator.{name}"), error))?;
        }
        self.links.iter().try_for_each(|link| self.check_link(link))?;
        self.check_joints()?;
        self.check_for_loops()?;
        if self.nodes.is_empty() && self.generators.is_empty() {
            let problem = "a network has a node or a generator; switches alone have nothing to carry";
            return Err(ConfigError::new("node", problem));
        }
        Ok(())
    }

    fn check_link(&self, link: &LinkPlan) -> Result<(), ConfigError> {
        let key = |last: &str| format!("link.{}.{last}", link.name);
        for (end, direction) in link.ends.iter().zip(&link.directions) {
            direction
                .validate()
                .map_err(|error| ConfigError::in_part(&format!("link.{}", link.name), &error.to_string()))?;
            if direction.latency < LATENCY_MIN {
                return Err(ConfigError::new(key("latency"), too_short(direction.latency)));
            }
            let problem = match *end {
                End::Node { node, .. } if node >= self.nodes.len() => "it ends at no node".to_owned(),
                End::Switch(switch) if switch >= self.switches.len() => "it ends at no switch".to_owned(),
                End::Generator(generator) if generator >= self.generators.len() => {
                    "it ends at no generator".to_owned()
                }
                End::Node { node, port } => match self.nodes[node].1.platform.nics {
                    nics if u32::from(port) >= nics => {
                        format!("node {} has {nics} ports, and no port {port}", self.nodes[node].0)
                    }
                    _ if self.nodes[node].1.port(usize::from(port)).link != *direction => {
                        format!("port {port} of node {} has another link", self.nodes[node].0)
                    }
                    _ => continue,
                },
                End::Switch(_) | End::Generator(_) => continue,
            };
            return Err(ConfigError::new(key("between"), problem));
        }
        if link.ends[0] == link.ends[1] {
            return Err(ConfigError::new(key("between"), "both ends are at the same place"));
        }
        Ok(())
    }

    /// A node's port and a generator have one link; a switch and a generator have one at least.
    fn check_joints(&self) -> Result<(), ConfigError> {
        let mut taken: BTreeMap<End, &str> = BTreeMap::new();
        for link in &self.links {
            for end in link.ends {
                let first = taken.insert(end, &link.name);
                if let Some(first) = first.filter(|_| !matches!(end, End::Switch(_))) {
                    let what = match end {
                        End::Node { port, .. } => format!("port {port} of node {}", self.name(end)),
                        _ => self.name(end).to_owned(),
                    };
                    let problem = format!("link {first} is at {what} already");
                    return Err(ConfigError::new(format!("link.{}.between", link.name), problem));
                }
            }
        }
        for (index, (name, _)) in self.switches.iter().enumerate() {
            let ends = self.links.iter().flat_map(|link| link.ends);
            let count = ends.filter(|end| *end == End::Switch(index)).count();
            if count > MEMBERS_MAX {
                let problem = format!("{count} links end at it; a switch has {MEMBERS_MAX} ports at most");
                return Err(ConfigError::new(format!("switch.{name}"), problem));
            }
        }
        let unjoined = |end: End, kind: &str| match taken.contains_key(&end) {
            true => Ok(()),
            false => {
                Err(ConfigError::new(format!("{kind}.{}", self.name(end)), "no link joins it to anything"))
            }
        };
        (0..self.switches.len()).try_for_each(|switch| unjoined(End::Switch(switch), "switch"))?;
        (0..self.generators.len()).try_for_each(|generator| unjoined(End::Generator(generator), "generator"))
    }

    /// Switches flood what they do not know, and know of no spanning tree: a loop would carry a frame round for ever.
    fn check_for_loops(&self) -> Result<(), ConfigError> {
        // Which switches hang together, each named by one of them.
        let mut group: Vec<usize> = (0..self.switches.len()).collect();
        for link in &self.links {
            let [End::Switch(one), End::Switch(other)] = link.ends else { continue };
            let (keep, gone) = (group[one], group[other]);
            if keep == gone {
                let ring: BTreeSet<&str> = (0..group.len())
                    .filter(|switch| group[*switch] == keep)
                    .map(|switch| self.switches[switch].0.as_str())
                    .collect();
                let names: Vec<&str> = ring.into_iter().collect();
                let problem = format!(
                    "it closes a loop of switches (among {}); frames would go round for ever: leave one link out",
                    names.join(", ")
                );
                return Err(ConfigError::new(format!("link.{}.between", link.name), problem));
            }
            group.iter_mut().filter(|of| **of == gone).for_each(|of| *of = keep);
        }
        Ok(())
    }
}

fn too_short(latency: Ps) -> String {
    format!(
        "{latency} is too short between nodes: it is their look-ahead, and must be \"{LATENCY_MIN}\" at least"
    )
}

fn below(part: &str, error: ConfigError) -> ConfigError {
    ConfigError { key: format!("{part}.{}", error.key), ..error }
}
