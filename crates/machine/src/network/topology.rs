//! Configuration of a network: named nodes, switches and load generators, and the links between them. It is
//! validated as a whole before any member is built.

use std::collections::{BTreeMap, BTreeSet};

use doorbell_loadgen::LoadGenConfig;
use doorbell_sim::Ps;
use doorbell_wire::LinkConfig;

use crate::config::{ConfigError, MachineConfig};
use crate::network::switch::SwitchConfig;

/// Minimum link latency. With a shorter look-ahead, members would synchronise every few instructions.
pub(crate) const LATENCY_MIN: Ps = Ps::from_ns(10);
/// Maximum number of members of each kind, and of links per switch: node and port numbers are bytes.
const MEMBERS_MAX: usize = 250;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A port of a node.
    Node {
        /// Index of the node.
        node: usize,
        /// Number of the port.
        port: u8,
    },
    /// A switch; each link to it uses a separate port.
    Switch(usize),
    /// A load generator.
    Generator(usize),
}

/// A link, with both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// Its name, for results and errors.
    pub name: String,
    /// Its two ends.
    pub ends: [End; 2],
    /// The direction into which each end sends. For a node's port it equals that port's `link`.
    pub directions: [LinkConfig; 2],
}

/// Configuration of a whole network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkConfig {
    /// Whole machines, each with its own configuration.
    pub nodes: Vec<(String, MachineConfig)>,
    /// Switches.
    pub switches: Vec<(String, SwitchConfig)>,
    /// Load generators that are separate members, not part of a node.
    pub generators: Vec<(String, LoadGenConfig)>,
    /// Links between members.
    pub links: Vec<LinkPlan>,
}

/// Derives a node's configuration from the common one: every node except the first gets different MAC
/// addresses and another boot seed. The caller may change further settings, such as a node's cores.
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
    /// Two nodes with one NIC each, connected by a cable. Each direction has its sender's `link` settings.
    pub fn two_nodes(nodes: [MachineConfig; 2]) -> Result<NetworkConfig, ConfigError> {
        let named = ["node0", "node1"].into_iter().zip(nodes).collect();
        Self::with_cables(named, &[("cable", [(0, 0), (1, 0)])])
    }

    /// A gateway with two NICs between two nodes with one NIC each: the client at its port 0, the server at
    /// its port 1.
    pub fn gateway(nodes: [MachineConfig; 3]) -> Result<NetworkConfig, ConfigError> {
        let named = ["gateway", "client", "server"].into_iter().zip(nodes).collect();
        Self::with_cables(named, &[("inside", [(0, 0), (1, 0)]), ("outside", [(0, 1), (2, 0)])])
    }

    /// Nodes with cables between their ports. A cable's end is given by node index and port.
    fn with_cables(
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
                    2 => format!("{nics} configured, but each of two nodes needs 1; set platform.nics=1"),
                    _ => format!("{nics} configured, but this node needs {ports}; set platform.nics={ports}"),
                };
                return Err(ConfigError::new("platform.nics", problem));
            }
        }
        let nodes = nodes.into_iter().map(|(name, node)| (name.to_owned(), node)).collect();
        Ok(NetworkConfig { nodes, links, ..NetworkConfig::default() })
    }

    /// The name of the member at this end.
    pub fn name(&self, end: End) -> &str {
        match end {
            End::Node { node, .. } => &self.nodes[node].0,
            End::Switch(switch) => &self.switches[switch].0,
            End::Generator(generator) => &self.generators[generator].0,
        }
    }

    /// The look-ahead: the shortest link latency, for which members can run without synchronisation. Without
    /// links it is arbitrary.
    pub fn lookahead(&self) -> Ps {
        let latencies =
            self.links.iter().flat_map(|link| &link.directions).map(|direction| direction.latency);
        latencies.min().unwrap_or(Ps(u64::MAX / 4))
    }

    /// Checks all members and links.
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
                    format!("{count} entries; a network has at most {MEMBERS_MAX}"),
                ));
            }
        }
        for (name, node) in &self.nodes {
            node.validate().map_err(|error| prefix_key(&format!("node.{name}"), error))?;
        }
        for (name, switch) in &self.switches {
            switch.validate(&format!("switch.{name}"))?;
        }
        for (name, generator) in &self.generators {
            generator.validate().map_err(|error| ConfigError::new(format!("generator.{name}"), error))?;
        }
        self.links.iter().try_for_each(|link| self.check_link(link))?;
        self.check_ends()?;
        self.check_for_loops()?;
        if self.nodes.is_empty() && self.generators.is_empty() {
            let problem = "a network needs a node or a generator; switches alone carry no traffic";
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
                End::Node { node, .. } if node >= self.nodes.len() => "the node does not exist".to_owned(),
                End::Switch(switch) if switch >= self.switches.len() => {
                    "the switch does not exist".to_owned()
                }
                End::Generator(generator) if generator >= self.generators.len() => {
                    "the generator does not exist".to_owned()
                }
                End::Node { node, port } => match self.nodes[node].1.platform.nics {
                    nics if u32::from(port) >= nics => {
                        format!("node {} has {nics} ports; port {port} does not exist", self.nodes[node].0)
                    }
                    _ if self.nodes[node].1.port(usize::from(port)).link != *direction => {
                        format!("port {port} of node {} has other link settings", self.nodes[node].0)
                    }
                    _ => continue,
                },
                End::Switch(_) | End::Generator(_) => continue,
            };
            return Err(ConfigError::new(key("between"), problem));
        }
        if link.ends[0] == link.ends[1] {
            return Err(ConfigError::new(
                key("between"),
                "both ends are the same; connect two different ones",
            ));
        }
        Ok(())
    }

    /// Checks that a node's port and a generator have at most one link, and a switch and a generator at least
    /// one.
    fn check_ends(&self) -> Result<(), ConfigError> {
        let mut taken: BTreeMap<End, &str> = BTreeMap::new();
        for link in &self.links {
            for end in link.ends {
                let first = taken.insert(end, &link.name);
                if let Some(first) = first.filter(|_| !matches!(end, End::Switch(_))) {
                    let what = match end {
                        End::Node { port, .. } => format!("port {port} of node {}", self.name(end)),
                        _ => self.name(end).to_owned(),
                    };
                    let problem = format!("{what} is already connected to link {first}");
                    return Err(ConfigError::new(format!("link.{}.between", link.name), problem));
                }
            }
        }
        for (index, (name, _)) in self.switches.iter().enumerate() {
            let ends = self.links.iter().flat_map(|link| link.ends);
            let count = ends.filter(|end| *end == End::Switch(index)).count();
            if count > MEMBERS_MAX {
                let problem = format!("{count} links; a switch has at most {MEMBERS_MAX} ports");
                return Err(ConfigError::new(format!("switch.{name}"), problem));
            }
        }
        let check_joined = |end: End, kind: &str| match taken.contains_key(&end) {
            true => Ok(()),
            false => Err(ConfigError::new(
                format!("{kind}.{}", self.name(end)),
                "no link is connected to it; add one",
            )),
        };
        (0..self.switches.len()).try_for_each(|switch| check_joined(End::Switch(switch), "switch"))?;
        (0..self.generators.len())
            .try_for_each(|generator| check_joined(End::Generator(generator), "generator"))
    }

    /// Rejects loops of switches: without a spanning tree, flooded frames would circulate forever.
    fn check_for_loops(&self) -> Result<(), ConfigError> {
        // Connected component of each switch, named by one of its switches.
        let mut group: Vec<usize> = (0..self.switches.len()).collect();
        for link in &self.links {
            let [End::Switch(one), End::Switch(other)] = link.ends else { continue };
            let (keep, merged) = (group[one], group[other]);
            if keep == merged {
                let ring: BTreeSet<&str> = (0..group.len())
                    .filter(|switch| group[*switch] == keep)
                    .map(|switch| self.switches[switch].0.as_str())
                    .collect();
                let names: Vec<&str> = ring.into_iter().collect();
                let problem = format!(
                    "it closes a loop of switches (among {}), in which frames would circulate; \
                     remove one link",
                    names.join(", ")
                );
                return Err(ConfigError::new(format!("link.{}.between", link.name), problem));
            }
            group.iter_mut().filter(|of| **of == merged).for_each(|of| *of = keep);
        }
        Ok(())
    }
}

fn too_short(latency: Ps) -> String {
    format!(
        "{latency} is too short: the latency is the simulation's look-ahead and must be at least \
         \"{LATENCY_MIN}\""
    )
}

fn prefix_key(part: &str, error: ConfigError) -> ConfigError {
    ConfigError { key: format!("{part}.{}", error.key), ..error }
}
