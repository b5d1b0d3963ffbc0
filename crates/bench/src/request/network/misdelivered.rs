//! Frames that switches deliver to another node than their destination. Programs such as testpmd accept frames for any
//! MAC address and send them back with that address as the source. If a switch has flooded a frame with an unknown
//! destination, it then learns the address behind the wrong port, as a real switch would.

use doorbell_loadgen::LoadGenConfig;
use doorbell_machine::{End, NetworkConfig};
use doorbell_results::Direction;
use doorbell_wire::MacAddr;

/// A warning for each generator with no frame delivered to its destination node. `sent` has one entry per link direction.
pub(crate) fn misdelivered(plan: &NetworkConfig, sent: &[Direction]) -> Vec<String> {
    let frames = |counts: &dyn Fn(End, End) -> bool| -> u64 {
        let directions = sent.iter().enumerate().filter(|(index, _)| {
            let ends = plan.links[index / 2].ends;
            counts(ends[index % 2], ends[1 - index % 2])
        });
        directions.map(|(_, sent)| sent.frames).sum()
    };
    let line = |(index, (name, own)): (usize, &(String, LoadGenConfig))| {
        let (node, port) = station(plan, own.traffic.destination)?;
        let offered = frames(&|from, _| from == End::Generator(index));
        let arrived = frames(&|_, to| to == End::Node { node, port });
        let (mac, to) = (own.traffic.destination, &plan.nodes[node].0);
        (offered > 0 && arrived == 0).then(|| {
            format!(
                "none of {name}'s frames reached {to} in the measurement: perhaps a switch has learned {to}'s address ({mac}) behind another port, \
                 because a program there sent back frames that were flooded to it; connect the two nodes by another switch, or send to \
                 one program only"
            )
        })
    };
    plan.generators.iter().enumerate().filter_map(line).collect()
}

/// The node and the port with this MAC address.
fn station(plan: &NetworkConfig, mac: MacAddr) -> Option<(usize, u8)> {
    let ports = plan.nodes.iter().enumerate().flat_map(|(node, (_, machine))| {
        (0..machine.platform.nics as u8).map(move |port| (node, port, machine.mac_of(usize::from(port))))
    });
    ports.into_iter().find(|(.., own)| own.0 == mac.0).map(|(node, port, _)| (node, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_machine::{LinkPlan, MachineConfig, SwitchConfig, node_config};

    /// Two nodes, and a generator that sends to the second one, all at one switch.
    fn plan() -> NetworkConfig {
        let common = MachineConfig::default();
        let nodes: Vec<_> = (0..2).map(|node| (format!("n{node}"), node_config(&common, node))).collect();
        let mut own = LoadGenConfig::default();
        own.traffic.destination = nodes[1].1.mac_of(0);
        let ends = [End::Node { node: 0, port: 0 }, End::Node { node: 1, port: 0 }, End::Generator(0)];
        let link = |end: End| LinkPlan {
            name: format!("{end:?}"),
            ends: [end, End::Switch(0)],
            directions: [common.link.clone(), common.link.clone()],
        };
        let switches = vec![("s".to_owned(), SwitchConfig::default())];
        let generators = vec![("g".to_owned(), own)];
        NetworkConfig { nodes, switches, generators, links: ends.map(link).to_vec() }
    }

    #[test]
    fn generator_without_delivered_frames_is_reported() {
        let plan = plan();
        let sent = |to_nodes: [u64; 2], offered: u64| {
            let frames = [0, to_nodes[0], 0, to_nodes[1], offered, 0];
            misdelivered(&plan, &frames.map(|frames| Direction { frames, ..Direction::default() }))
        };
        let warnings = sent([10, 0], 10);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("none of g's frames reached n1 in the measurement"), "{warnings:?}");
        assert!(warnings[0].contains("(52:54:00:12:35:56)"), "{warnings:?}");
        for none in [sent([0, 10], 10), sent([9, 1], 10), sent([0, 0], 0)] {
            assert_eq!(none, Vec::<String>::new());
        }
    }
}
