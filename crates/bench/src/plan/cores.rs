//! Programs on several cores, `SECTION.cores`: requirements on the machine, and arguments for the guest.

use doorbell_loadgen::{Field, SweepConfig};
use doorbell_machine::{ConfigError, HARTS_MAX};
use doorbell_nic::NicModel;

use crate::plan::config::RunConfig;
use crate::plan::options::{self, Setting};

/// Skips `cores = 1` when writing, so that configurations from before this option keep their hash.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_one(cores: &u32) -> bool {
    *cores == 1
}

/// Checks that the machine has this number of harts, and of receive and transmit queues on every port.
pub(crate) fn check(key: &str, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let fail = |problem: String| Err(ConfigError::new(key, problem));
    let best = NicModel::with_most_queues();
    if !(1..=best.queues()).contains(&cores) {
        return fail(format!("{cores} is not from 1 to {}, the queues of an {best}", best.queues()));
    }
    if cores == 1 {
        return Ok(());
    }
    check_harts(key, cores, config)?;
    match port_with_fewer_queues(cores, config) {
        Some((port, model)) => fail(format!(
            "{cores}, but port {port}'s {model} has {} queue(s); set nic.model={best}",
            model.queues()
        )),
        None => Ok(()),
    }
}

/// Settings that a number of cores requires: enough harts, and a NIC with enough queues.
pub(crate) fn required_settings(cores: u32, config: &RunConfig) -> Vec<Setting> {
    let mut settings = required_harts(cores, config);
    if cores > config.nic.model.queues() {
        settings.push(("nic.model", NicModel::with_most_queues().to_string().into()));
    }
    settings
}

/// Settings for programs whose harts share the NIC's queues: enough harts.
pub(crate) fn required_harts(harts: u32, config: &RunConfig) -> Vec<Setting> {
    // A larger number is rejected later, with the key of the cores.
    let harts = harts.min(HARTS_MAX);
    let whole = harts.next_multiple_of(config.platform.threads.max(1));
    let needed = (harts > config.platform.harts).then(|| ("platform.harts", i64::from(whole).into()));
    needed.into_iter().collect()
}

/// The first port whose NIC has fewer queues than this, and the NIC's model.
pub(crate) fn port_with_fewer_queues(queues: u32, config: &RunConfig) -> Option<(usize, NicModel)> {
    let models = (0..config.platform.nics as usize).map(|port| (port, config.port(port).nic.model));
    models.into_iter().find(|(_, model)| model.queues() < queues)
}

/// Checks that the machine has this number of harts.
pub(crate) fn check_harts(key: &str, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let harts = config.platform.harts;
    let problem = format!("{cores}, but the machine has {harts} hart(s); set platform.harts={cores} or more");
    options::reject_if(cores > harts, key, problem)?;
    Ok(())
}

/// Kernel command line words that assign `cores` cores to the first harts; empty for one core.
pub(crate) fn words(cores: u32) -> String {
    if cores == 1 {
        return String::new();
    }
    let lcores: Vec<String> = (0..cores).map(|core| format!("{core}@{core}")).collect();
    format!(" doorbell.cores={cores} doorbell.lcores={}", lcores.join(","))
}

/// Remarks on a program on `cores` cores, which `key` sets: unused harts, and a single flow that RSS keeps on
/// one queue.
pub(crate) fn remark(key: &str, cores: u32, config: &RunConfig) -> Option<String> {
    joined([spare_harts(key, cores, config), one_flow(cores, config).map(str::to_owned)])
}

/// A remark if all traffic is one flow but the program has several cores.
pub(crate) fn one_flow(cores: u32, config: &RunConfig) -> Option<&'static str> {
    let remark =
        "; the traffic is one flow, which RSS keeps on one queue of a port: use --flows 1000 for many flows";
    (cores > 1 && is_one_flow(config, |_| true)).then_some(remark)
}

/// As [`remark`], for a program whose RSS hash covers addresses only.
pub(crate) fn remark_of_addresses(key: &str, cores: u32, config: &RunConfig) -> Option<String> {
    let of_addresses = |field| matches!(field, Field::SourceIp | Field::DestinationIp);
    let one_flow = "; l3fwd's RSS hash covers addresses only, and all frames have the same addresses, so they use one queue of a port: \
         use --set 'loadgen.traffic.streams=[{sweeps=[{field=\"source-ip\",count=1000}]}]' for many addresses";
    let flows = (cores > 1 && is_one_flow(config, of_addresses)).then_some(one_flow);
    joined([spare_harts(key, cores, config), flows.map(str::to_owned)])
}

fn joined(remarks: [Option<String>; 2]) -> Option<String> {
    let all: String = remarks.into_iter().flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// A remark if the machine has more harts than the program uses, with the setting that uses them.
fn spare_harts(key: &str, cores: u32, config: &RunConfig) -> Option<String> {
    let harts = config.measured_harts() as u32;
    let most = harts.min(NicModel::with_most_queues().queues());
    (cores < most).then(|| format!("; it uses {cores} of {harts} harts: --set {key}={most} for {most}"))
}

/// Whether all frames have equal values in the RSS fields that `counts` selects.
fn is_one_flow(config: &RunConfig, counts: impl Fn(Field) -> bool) -> bool {
    let of_rss = [Field::SourceIp, Field::DestinationIp, Field::SourcePort, Field::DestinationPort];
    let varies =
        |sweep: &SweepConfig| sweep.count > 1 && of_rss.contains(&sweep.field) && counts(sweep.field);
    match &config.loadgen.traffic.streams[..] {
        [] => true,
        [stream] => stream.capture.is_none() && !stream.sweeps.iter().any(varies),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use doorbell_machine::InterruptsKind;
    use doorbell_nic::NicModel;

    use crate::registry::benchmark;
    use crate::request::resolve::on_fast;

    #[test]
    fn more_cores_than_harts_or_queues_are_rejected() {
        for (of, section) in
            [("testpmd", "testpmd"), ("l3fwd", "l3fwd"), ("touchfwd", "touch"), ("rxptx", "rxptx")]
        {
            let key = format!("{section}.cores");
            let cores = |count: u32| format!("{key}={count}");
            let (four, seventeen) = (cores(4), cores(17));
            let whole = [&four, "platform.harts=4", "nic.model=82576"];
            let words = benchmark(of).unwrap().workload(&on_fast(&whole).unwrap()).words;
            assert!(words.contains("doorbell.cores=4 doorbell.lcores=0@0,1@"), "{words}");
            for (set, message) in [
                (&[&four, "platform.harts=1"][..], "4, but the machine has 1 hart(s); set platform.harts=4"),
                (
                    &[&four, "nic.model=82540em"],
                    "4, but port 0's 82540EM has 1 queue(s); set nic.model=82576",
                ),
                (&[&seventeen, "platform.harts=16"], "17 is not from 1 to 16, the queues of an 82576"),
                (&[&cores(0)], "0 is not from 1 to 16"),
            ] {
                let error = on_fast(set).unwrap_err();
                assert!(error.contains(&key) && error.contains(message), "{error}");
            }
        }
    }

    #[test]
    fn harts_and_queues_follow_from_cores() {
        let machine = |set: &[&str]| {
            let config = on_fast(set).unwrap();
            (config.platform.harts, config.nic.model)
        };
        for key in ["testpmd", "l3fwd", "touch", "rxptx", "stages"] {
            assert_eq!(machine(&[&format!("{key}.cores=4")]), (4, NicModel::E82576), "{key}");
        }
        assert_eq!(machine(&["testpmd.cores=2", "platform.harts=8"]), (8, NicModel::E82576));
        let set = ["testpmd.cores=3", "platform.threads=2"].map(str::to_owned);
        let threads = crate::request::resolve::resolve("server", &set).map(|config| config.platform.harts);
        assert_eq!(threads.unwrap(), 4, "whole cores");
        assert_eq!(machine(&["testpmd.cores=1"]), (1, NicModel::E82540em));
        assert_eq!(machine(&["testpmd.cores=4"]), machine(&["testpmd={cores=4}"]));
        let web = on_fast(&["web.cores=2"]).unwrap();
        assert_eq!((web.platform.harts, web.platform.interrupts), (2, InterruptsKind::Aia));
        let store = on_fast(&["memcached_dpdk.cores=2"]).unwrap();
        assert_eq!((store.platform.harts, store.loadgen.traffic.memcached.shards), (2, 2));
        assert_eq!(on_fast(&["neighbour.cores=3", "platform.ram=1GiB"]).unwrap().platform.harts, 4);
    }

    #[test]
    fn single_core_words_and_configuration_are_unchanged() {
        let one = on_fast(&[]).unwrap();
        for section in ["l3fwd", "stages"] {
            assert!(!one.to_toml().contains(&format!("[{section}]")), "{section}");
        }
        assert!(!one.to_toml().contains("cores ="), "{}", one.to_toml());
        for of in ["testpmd", "l3fwd", "touchfwd", "touchdrop", "rxptx"] {
            let words = benchmark(of).unwrap().workload(&one).words;
            assert!(words.contains(&format!("doorbell.app={of} ")) && !words.contains("lcores"), "{words}");
        }
    }

    #[test]
    fn traffic_that_rss_cannot_spread_is_remarked() {
        let sweep =
            |field: &str| format!("loadgen.traffic.streams=[{{sweeps=[{{field=\"{field}\",count=9}}]}}]");
        let of = |name: &str, more: &[&str]| {
            let base = ["platform.harts=4", "nic.model=82576", "testpmd.cores=4", "l3fwd.cores=4"];
            let config = on_fast(&[&base[..], more].concat()).unwrap();
            (benchmark(name).unwrap().remark)(&config).is_some()
        };
        let (by_port, by_address) = (sweep("source-port"), sweep("source-ip"));
        assert_eq!([of("testpmd", &[]), of("l3fwd", &[])], [true; 2]);
        assert_eq!([of("testpmd", &[&by_port]), of("l3fwd", &[&by_port])], [false, true]);
        assert_eq!([of("testpmd", &[&by_address]), of("l3fwd", &[&by_address])], [false; 2]);
        assert!(!of("rxptx", &["platform.harts=1", "testpmd.cores=1", "l3fwd.cores=1"]), "it has one core");
        let four = on_fast(&["platform.harts=4"]).unwrap();
        let remark = (benchmark("rxptx").unwrap().remark)(&four).unwrap();
        assert_eq!(remark, "; it uses 1 of 4 harts: --set rxptx.cores=4 for 4");
    }
}
