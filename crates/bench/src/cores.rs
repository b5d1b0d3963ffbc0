//! Programs on several cores, `SECTION.cores`: what a machine must have for them, and what their guests are told.

use doorbell_loadgen::{Field, SweepConfig};
use doorbell_machine::ConfigError;
use doorbell_nic::NicModel;
use doorbell_nic::e82576::QUEUES;

use crate::config::RunConfig;

/// Configurations from before there were several keep their hash.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_one(cores: &u32) -> bool {
    *cores == 1
}

/// Whether there are as many harts, and as many queues each way on every port.
pub(crate) fn check(key: &str, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let fail = |problem: String| Err(ConfigError::new(key, problem));
    if !(1..=QUEUES as u32).contains(&cores) {
        return fail(format!("{cores} is not from 1 to {QUEUES}, the queues of an 82576"));
    }
    if cores == 1 {
        return Ok(());
    }
    check_harts(key, cores, config)?;
    match port_with_one_queue(config) {
        Some(port) => fail(format!("{cores}, and port {port}'s 82540EM has one queue; set nic.model=82576")),
        None => Ok(()),
    }
}

/// The first port whose card has one queue each way, if there is one.
pub(crate) fn port_with_one_queue(config: &RunConfig) -> Option<usize> {
    (0..config.platform.nics as usize).find(|&port| config.port(port).nic.model == NicModel::E82540em)
}

/// Whether there are as many harts.
pub(crate) fn check_harts(key: &str, cores: u32, config: &RunConfig) -> Result<(), ConfigError> {
    let harts = config.platform.harts;
    if cores > harts {
        let problem =
            format!("{cores}, and the machine has {harts} hart(s); set platform.harts={cores} or more");
        return Err(ConfigError::new(key, problem));
    }
    Ok(())
}

/// What a program is told of so many cores, one on each hart from the first on; of one, nothing.
pub(crate) fn words(cores: u32) -> String {
    if cores == 1 {
        return String::new();
    }
    let lcores: Vec<String> = (0..cores).map(|core| format!("{core}@{core}")).collect();
    format!(" doorbell.cores={cores} doorbell.lcores={}", lcores.join(","))
}

/// What a run with several cores should know of its traffic: RSS keeps a flow on one queue.
pub(crate) fn remark(cores: u32, config: &RunConfig) -> Option<&'static str> {
    (cores > 1 && is_one_flow(config, |_| true))
        .then_some("; this is one flow, which RSS keeps on one queue of a port: --flows 1000 sends many")
}

/// The same where the program has RSS take addresses alone.
pub(crate) fn remark_of_addresses(cores: u32, config: &RunConfig) -> Option<&'static str> {
    let of_addresses = |field| matches!(field, Field::SourceIp | Field::DestinationIp);
    (cores > 1 && is_one_flow(config, of_addresses)).then_some(
        "; l3fwd has RSS take addresses alone, and all frames have the same, which keeps them on one queue of a port: \
         --set 'loadgen.traffic.streams=[{sweeps=[{field=\"source-ip\",count=1000}]}]' sends many",
    )
}

/// Whether all frames have the same in those of RSS' fields that count.
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
    use crate::registry::benchmark;
    use crate::resolve::on_fast;

    #[test]
    fn every_program_with_cores_is_refused_more_than_harts_or_queues() {
        for (of, section) in
            [("testpmd", "testpmd"), ("l3fwd", "l3fwd"), ("touchfwd", "touch"), ("rxptx", "rxptx")]
        {
            let key = format!("{section}.cores");
            let cores = |count: u32| format!("{key}={count}");
            let (four, seventeen) = (cores(4), cores(17));
            let whole = [&four, "platform.harts=4", "nic.model=82576"];
            let words = benchmark(of).unwrap().workload(&on_fast(&whole).unwrap()).words;
            assert!(words.contains("doorbell.cores=4 doorbell.lcores=0@0,1@"), "{words}");
            for (set, says) in [
                (&[&four, "nic.model=82576"][..], "4, and the machine has 1 hart(s); set platform.harts=4"),
                (&whole[..2], "4, and port 0's 82540EM has one queue; set nic.model=82576"),
                (&[&seventeen, "platform.harts=16"], "17 is not from 1 to 16, the queues of an 82576"),
                (&[&cores(0)], "0 is not from 1 to 16"),
            ] {
                let error = on_fast(set).unwrap_err();
                assert!(error.contains(&key) && error.contains(says), "{error}");
            }
        }
    }

    #[test]
    fn one_core_is_told_what_it_always_was_and_written_as_it_was() {
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
    fn what_rss_cannot_spread_is_remarked() {
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
        assert!(!of("rxptx", &[]), "it has one core");
    }
}
