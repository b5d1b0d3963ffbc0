//! Servers on several cores over the kernel's stack, one NIC queue per core: required settings, the scripts'
//! common prefix, and figures per core. Linux' igb driver supports no flow filters for this NIC, so the RSS
//! hash of a connection's ports selects its queue. Clients therefore choose source ports that hash to the
//! queue of their server (`guest/several-cores`).

use doorbell_machine::{ConfigError, InterruptsKind};
use doorbell_results::{PortFigures, TransferCore};

use crate::measure::roles::Pair;
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::Setting;
use crate::window::interval::Interval;
use crate::window::transfer_counts::{Load, Side};

/// Maximum number of an 82576's queues that Linux uses.
const QUEUES_MAX: u32 = 8;

/// Checks that the machine supports this number of cores, each with its own queue.
pub(crate) fn check(key: &str, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let fail = |problem: String| Err(ConfigError::new(key, problem));
    if !(1..=QUEUES_MAX).contains(&cores) {
        return fail(format!("{cores} is not from 1 to {QUEUES_MAX}, the queues that Linux uses"));
    }
    cores::check(key, cores, config)?;
    if cores > 1 && config.platform.interrupts == InterruptsKind::Plic {
        return fail(format!(
            "{cores} cores need as many queues, but with the PLIC Linux gives a port one queue; set platform.interrupts=aia"
        ));
    }
    Ok(())
}

/// Settings that this number of cores requires.
pub(crate) fn required_settings(cores: u32, config: &RunConfig) -> Vec<Setting> {
    let mut settings = cores::required_settings(cores, config);
    if cores > 1 && config.platform.interrupts == InterruptsKind::Plic {
        settings.push(("platform.interrupts", "aia".into()));
    }
    settings
}

/// The same, and a number of streams that is a multiple of the number of cores.
pub(crate) fn follow_streams(
    key: &'static str,
    cores: u32,
    streams: u32,
    config: &RunConfig,
) -> Vec<Setting> {
    let mut settings = required_settings(cores, config);
    let whole = streams.checked_next_multiple_of(cores).filter(|whole| *whole != streams);
    settings.extend(whole.map(|whole| (key, i64::from(whole).into())));
    settings
}

/// Checks that the machine supports this number of cores, with the same number of streams on each.
pub(crate) fn check_streams(
    section: &str,
    cores: u32,
    streams: u32,
    config: &RunConfig,
) -> Result<(), ConfigError> {
    let key = format!("{section}.cores");
    check(&key, cores, config)?;
    if streams.is_multiple_of(cores) {
        return Ok(());
    }
    let problem = format!(
        "{streams} stream(s) cannot be divided equally among {cores} cores; set {section}.streams={}",
        streams.next_multiple_of(cores)
    );
    Err(ConfigError::new(key, problem))
}

/// A server and its client on this number of cores. With several cores, both scripts start with the common
/// prefix that finds ports for queues.
pub(crate) fn on_cores(cores: u32, pair: Pair) -> Pair {
    if cores == 1 {
        return pair;
    }
    let begin = format!("cores={cores}\n{}", include_str!("../../../../guest/several-cores"));
    Pair { server: pair.server.after(&begin), client: pair.client.after(&begin), ..pair }
}

/// Ports of the servers on each core: the servers have successive ports from `first` on, and are assigned to
/// cores in turn.
pub(crate) fn ports(first: u16, servers: u32, cores: u32) -> Vec<Vec<u16>> {
    if cores == 1 {
        return Vec::new();
    }
    let of = |core: u32| (core..servers).step_by(cores as usize).map(|server| first + server as u16);
    (0..cores).map(|core| of(core).collect()).collect()
}

/// Delivered data of each core in an interval, and received frames of its queue.
pub(crate) fn figures(load: &Load, interval: &Interval) -> Vec<TransferCore> {
    let queues = interval.nodes[0].ports.first().map_or(&[][..], |port: &PortFigures| &port.queues);
    let received = |core: usize| {
        let queue = queues.iter().find(|queue| queue.queue as usize == core);
        let figures = queue.map_or(&[][..], |queue| &queue.figures);
        figures.iter().find(|figure| figure.name == "rx_frames").map_or(0, |figure| figure.value)
    };
    let of = |(core, ports): (usize, &Vec<u16>)| {
        let sides = Side::both_of(interval, ports);
        let counts = load.counts(&sides);
        let counted = load.transaction.is_some();
        TransferCore {
            core: core as u32,
            ports: ports.clone(),
            goodput_gbps: (!counted).then(|| counts.gbps(interval.seconds)),
            transactions_per_second: counted.then(|| counts.transactions / interval.seconds),
            queue_received: received(core),
        }
    };
    load.servers.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;

    #[test]
    fn servers_are_assigned_to_cores_in_turn_and_a_single_core_has_no_figures_of_its_own() {
        assert_eq!(ports(20_000, 5, 2), [vec![20_000, 20_002, 20_004], vec![20_001, 20_003]]);
        assert!(ports(6379, 1, 1).is_empty());
    }

    #[test]
    fn cores_need_harts_queues_message_interrupts_and_streams() {
        let machine = ["platform.harts=4", "nic.model=82576", "platform.interrupts=aia"];
        for (section, more) in [
            ("redis", &[][..]),
            ("web", &[]),
            ("iperf", &["iperf.streams=4"]),
            ("netperf", &["netperf.streams=8"]),
        ] {
            let cores = |count: u32| format!("{section}.cores={count}");
            let (four, nine) = (cores(4), cores(9));
            let whole = [&machine[..], more, &[&four]].concat();
            on_fast(&whole).unwrap();
            let follows = on_fast(&[&four]).unwrap();
            assert_eq!((follows.platform.harts, follows.platform.interrupts), (4, InterruptsKind::Aia));
            let wrong = ["platform.harts=3", "nic.model=82540em", "platform.interrupts=plic"];
            for (wrong, remedy) in wrong.into_iter().zip(machine) {
                let error = on_fast(&[&whole[..], &[wrong]].concat()).unwrap_err();
                assert!(error.contains(&format!("{section}.cores")) && error.contains(remedy), "{error}");
            }
            let error = on_fast(&[&nine, "platform.harts=16"]).unwrap_err();
            assert!(error.contains("9 is not from 1 to 8, the queues that Linux uses"), "{error}");
            let one = on_fast(&[]).unwrap().to_toml();
            assert!(!one.contains("cores ="), "the configuration keeps its hash: {one}");
        }
        let error = on_fast(&[&machine[..], &["netperf.cores=4", "netperf.streams=6"]].concat()).unwrap_err();
        assert!(error.contains("set netperf.streams=8"), "{error}");
    }
}
