//! NAT benchmark: the measured machine is a Linux gateway with two ports between a client and a server. It
//! forwards their packets and translates the client's address (nf_nat). The load is that of another
//! benchmark, netperf or web. The client is node 1, on port 0; the server is node 2, on port 1. Traffic is
//! counted on the client's cable.

use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::measure::benchmark::{Benchmark, Measured, Nodes, NodesLoad};
use crate::measure::kinds::{BETWEEN_NODES, KERNEL, TRANSFER};
use crate::measure::roles::{CLIENT, Pair, Role, role};
use crate::measure::transfer::{self, Transfers};
use crate::plan::config::RunConfig;
use crate::plan::options::{self, Options, Section};
use crate::scenarios::netperf::{self, NetperfConfig};
use crate::scenarios::web::WebConfig;
use crate::testbed::control::Control;
use crate::testbed::nodes::NodeGuest;
use crate::testbed::nodes::NodesTestbed;
use crate::testbed::ramp::Ramp;
use crate::window::transfer_counts::Load;

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "nat",
    summary: "a Linux gateway with two ports translates addresses between client and server: netperf, web",
    nodes: Nodes::Joined { guests, ramp, measure },
    image: "nat",
    options: &[
        KERNEL,
        Section::of::<NetperfConfig>(),
        Section::of::<WebConfig>(),
        TRANSFER,
        Section::of::<NatConfig>(),
    ],
    defaults: DEFAULTS,
    ..BETWEEN_NODES
};

/// The machine and measurement times that it needs.
const DEFAULTS: &[&str] = &["platform.nics=2", "run.settle=5ms", "run.window=20ms"];

/// The server's address on the client's cable (no gateway), and behind the gateway.
const NEAR: &str = "10.0.0.2";
const FAR: &str = "10.0.1.3";
/// The gateway's address on port `n`, a shell variable.
const GATEWAY: &str = "10.0.$n.2/24";
/// Run by the client before its script: the route to the server.
const ROUTE: &str = "ip route add 10.0.1.0/24 via 10.0.0.2 || exit\n";
/// Run by the server before its script: the route to the client, needed without address translation.
const ROUTE_BACK: &str = "ip route add 10.0.0.0/24 via 10.0.1.2 || exit\n";

/// Traffic through the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// A netperf test, configured in `[netperf]`.
    #[default]
    Netperf,
    /// Requests to a web server, configured in `[web]`.
    Web,
}

/// Address translation at the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Translate {
    /// Packets to the server get the gateway's source address, by an nftables rule (`masquerade`).
    #[default]
    Masquerade,
    /// Forwards without connection tracking.
    None,
}

/// The gateway's options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NatConfig {
    /// Traffic: `netperf`, configured by `netperf.test` and its other keys, or `web`. Both on one core.
    pub through: Through,
    /// Address translation: `masquerade`, or `none` as a baseline for its cost.
    pub translate: Translate,
}

impl Options for NatConfig {
    const SECTION: &'static str = "nat";
    const QUIET: bool = true;

    fn validate(&self, _: &RunConfig) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// The load as it is without a gateway, and the section that configures it.
fn through(config: &RunConfig) -> (&'static str, &dyn Transfers) {
    match config.options::<NatConfig>().through {
        Through::Netperf => (NetperfConfig::SECTION, config.options::<NetperfConfig>()),
        Through::Web => (WebConfig::SECTION, config.options::<WebConfig>()),
    }
}

/// The guests of the three nodes.
fn guests(config: &RunConfig) -> Result<Vec<NodeGuest>, ConfigError> {
    let (section, through) = through(config);
    let problem = "a gateway supports one core only: with several cores, clients choose ports by the addresses of two directly \
             connected nodes; remove this setting";
    options::reject_if(!through.load().servers.is_empty(), format!("{section}.cores"), problem)?;
    let problem =
        "with TCP_SENDFILE the test node sends, but here it is the gateway; choose TCP_STREAM or TCP_MAERTS";
    options::reject_if(through.load().start.client != 1, "netperf.test", problem)?;
    let Pair { image, server, client } = through.pair();
    let translate = match config.options::<NatConfig>().translate {
        Translate::Masquerade => "masquerade",
        Translate::None => "none",
    };
    let gateway = role!("nat-gateway", "nat: forwarding").after(&format!("translate={translate}"));
    let client = Role { lines: behind(&client.lines), ..client };
    Ok(vec![
        gateway.guest(config, "nat", GATEWAY, 2, ""),
        client.guest(config, image, CLIENT, 1, ROUTE),
        server.guest(config, image, &format!("{FAR}/24"), 1, ROUTE_BACK),
    ])
}

/// Replaces the server's address by the one behind the gateway.
fn behind(words: &str) -> String {
    words.replace(NEAR, FAR)
}

fn load(config: &RunConfig) -> Load {
    let load = through(config).1.load();
    Load { start: Ramp { command: behind(&load.start.command), ..load.start }, ..load }
}

/// The load that reaches steady state before measurements begin; none for a whole netperf test.
fn ramp(config: &RunConfig) -> Option<Ramp> {
    let is_continuous = match config.options::<NatConfig>().through {
        Through::Netperf => netperf::ramp(config).is_some(),
        Through::Web => true,
    };
    is_continuous.then(|| load(config).start)
}

/// Measures a part of the running load, or a whole netperf test.
fn measure(nodes: &NodesTestbed, load: &NodesLoad, control: &mut Control) -> Result<Measured, RunError> {
    let own = self::load(load.config);
    match load.config.options::<NatConfig>().through {
        Through::Netperf => netperf::measure_load(nodes, load, &own, control),
        Through::Web => transfer::measure(nodes, load, &own, control, |test| test.part::<()>(), |_, _| {}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::benchmark;
    use crate::request::resolve::resolve;

    fn nat(set: &[&str]) -> crate::plan::resolved::Resolved {
        let set: Vec<String> = DEFAULTS.iter().chain(set).map(|&text| text.to_owned()).collect();
        resolve("fast", &set).unwrap()
    }

    #[test]
    fn client_and_server_have_addresses_and_routes_through_the_gateway() {
        for (set, image) in [
            (&[][..], "netperf"),
            (&["nat.through=web"], "servers"),
            (&["nat.through=web", "web.server=apache", "web.mix=specweb99"], "apache"),
        ] {
            let config = nat(set);
            let [gateway, client, server] = guests(&config).unwrap().try_into().unwrap();
            assert_eq!([&gateway.image[..], &client.image, &server.image], ["nat", image, image]);
            assert!(client.words.contains("doorbell.ip=10.0.0.3/24"), "{}", client.words);
            assert!(server.words.contains("doorbell.ip=10.0.1.3/24"), "{}", server.words);
            // The gateway has /init's default addresses.
            assert!(!gateway.words.contains("doorbell.ip"), "{}", gateway.words);
            let script = client.script.unwrap().1 + &load(&config).start.command;
            assert!(script.contains(FAR) && script.replace(ROUTE, "").matches(NEAR).count() == 0, "{script}");
            assert!(server.script.unwrap().1.starts_with(ROUTE_BACK));
        }
        let plain = guests(&nat(&["nat.translate=none"])).unwrap();
        assert!(plain[0].script.as_ref().unwrap().1.starts_with("translate=none\n"));
    }

    #[test]
    fn drivers_are_configured_in_all_nodes_before_routes_are_added() {
        let config = nat(&["kernel.interrupt_throttle_rate=0", "kernel.mtu=9000", "kernel.gro=false"]);
        let [gateway, client, _] = guests(&config).unwrap().try_into().unwrap();
        let (gateway, client) = (gateway.script.unwrap().1, client.script.unwrap().1);
        assert!(gateway.contains("10.0.$n.2/24 dev eth$n") && gateway.contains("gro off"), "{gateway}");
        let [loaded, route] = ["insmod", ROUTE].map(|text| client.find(text).unwrap());
        assert!(loaded < route, "{client}");
    }

    #[test]
    fn gateway_ports_are_named_by_pci_address_only_if_their_cards_differ() {
        for port in ["port.0", "port.1"] {
            let config = nat(&[&format!("{port}.nic.model=82576"), "kernel.gro=false"]);
            let [gateway, client, server] = guests(&config).unwrap().try_into().unwrap();
            let [gateway, client, server] = [gateway, client, server].map(|guest| guest.script.unwrap().1);
            let [named, up, gro, rules] =
                ["/0000:00:02.0/net/*; do net=", "dev eth$n", "gro off", "translate="]
                    .map(|text| gateway.find(text).unwrap_or_else(|| panic!("no {text}: {gateway}")));
            assert!(named < up && up < gro && gro < rules, "{gateway}");
            assert!(!client.contains("sys/bus") && !server.contains("sys/bus"), "{client} {server}");
        }
        let same = |set: &[&str]| guests(&nat(set)).unwrap().remove(0).script;
        assert_eq!(same(&["nic.model=82576"]), same(&[]));
        assert!(same(&[]).unwrap().1.starts_with("translate=masquerade\n"));
    }

    #[test]
    fn a_gateway_has_two_ports_and_one_core_and_other_configurations_have_no_nat_section() {
        let plan_of = |set: &[&str]| {
            let config = nat(set);
            let plan =
                crate::request::planned::BenchmarkPlan::new(benchmark("nat").unwrap(), &config, "nat", 1);
            plan.map(|_| ()).map_err(|error| error.to_string())
        };
        plan_of(&[]).unwrap();
        let error = plan_of(&["platform.nics=1"]).unwrap_err();
        assert!(
            error.contains("platform.nics: 1 configured, but this node needs 2; set platform.nics=2"),
            "{error}"
        );
        let error = plan_of(&["netperf.test=TCP_SENDFILE"]).unwrap_err();
        assert!(error.contains("netperf.test: with TCP_SENDFILE the test node sends"), "{error}");
        let two = ["platform.harts=2", "nic.model=82576", "platform.interrupts=aia"];
        let error = plan_of(&[&two[..], &["netperf.cores=2", "netperf.streams=2"]].concat()).unwrap_err();
        assert!(error.contains("netperf.cores: a gateway supports one core only"), "{error}");
        let other = [&two[..], &["netperf.cores=2", "netperf.streams=2", "nat.through=web"]].concat();
        plan_of(&other).unwrap();
        assert!(!resolve("fast", &[]).unwrap().to_toml().contains("[nat]"));
    }
}
