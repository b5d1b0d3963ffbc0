use super::*;
use crate::config::{ConfigError, LoadGenConfig};

fn traffic(text: &str) -> TrafficConfig {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

fn problem(text: &str) -> String {
    traffic(text).validate().unwrap_err().to_string()
}

const EVERYTHING: &str = r#"
    total = "2x"

    [[streams]]
    name = "voice"
    rate = "20%"
    ramp = { to = "10Gbps-l1", over = "1ms" }
    arrivals = { on-off = { on = "10us", off = "30us", lengths = { pareto = { shape = 1.5 } }, gaps = "poisson" } }
    size = ["7x128B", "1x1518B"]
    size_order = "random"
    vlans = [{ id = 100 }, { id = 7, priority = 5 }]
    network = "ipv6"
    transport = "tcp"
    dscp = 46
    ttl = 3
    source = "02:00:00:00:00:09"
    destination = "52:54:00:00:00:01"
    source_ip = "2001:2::5"
    destination_ip = "2001:2::6"
    source_port = 1000
    destination_port = 2000
    sweeps = [
        { field = "source-port", count = 10, step = 2, every = 3 },
        { field = "destination-ip", count = 1000, order = { zipf = { skew = 0.9 } } },
        { field = "vlan", count = 5, order = "random" },
    ]
    start_after = "1us"
    duration = "5ms"
    frames = 1000
    returned = "io"

    [[streams]]
    arrivals = { bursts = { frames = 32, gap = "100ns", spacing = { uniform = { spread = 0.5 } } } }
    size = "imix"

    [[streams]]
    arrivals = { lognormal = { sigma = 1 } }
"#;

#[test]
fn full_stream_configuration_round_trips() {
    let traffic = traffic(EVERYTHING);
    assert_eq!(traffic.validate(), Ok(()));
    let config = LoadGenConfig { traffic, ..LoadGenConfig::default() };
    let text = toml::to_string_pretty(&config).unwrap();
    assert_eq!(toml::from_str::<LoadGenConfig>(&text).unwrap(), config, "{text}");
    let bytes = postcard::to_stdvec(&config).unwrap();
    assert_eq!(postcard::from_bytes::<LoadGenConfig>(&bytes).unwrap(), config);
    let names: Vec<String> = config.traffic.streams.iter().zip(0..).map(|(s, n)| s.name(n)).collect();
    assert_eq!(names, ["voice", "stream1", "stream2"]);
    assert_eq!(config.traffic.streams[0].flows(), 50_000);
}

#[test]
fn minimum_frame_size_follows_from_the_headers() {
    for (headers, least) in [
        ("", 64),
        ("vlans = [{ id = 1 }]", 66),
        ("vlans = [{ id = 1 }, { id = 2 }]", 70),
        ("transport = \"tcp\"", 74),
        ("network = \"ipv6\"", 82),
        ("source_ip = \"2001:2::9\"\ntransport = \"tcp\"", 94),
        ("network = \"ipv6\"\ntransport = \"tcp\"\nvlans = [{ id = 1 }, { id = 2 }]", 102),
    ] {
        let stream = |size: u64| format!("[[streams]]\nsize = \"{size}B\"\n{headers}");
        assert_eq!(traffic(&stream(least)).validate(), Ok(()), "{headers}");
        let error = problem(&stream(least - 1));
        assert!(
            error.starts_with("streams[0].size: ") && error.contains(&format!("take \"{least}B\"")),
            "{error}"
        );
    }
}

#[test]
fn stream_errors_name_index_and_key() {
    for (text, parts) in [
        ("size = \"7x64B,1x20KiB\"", "streams[1].size: \"20KiB\" is too large"),
        ("vlans = [{ id = 1 }, { id = 2 }, { id = 3 }]", "vlans has 3 tags"),
        ("vlans = [{ id = 4095 }]", "id = 4095"),
        ("vlans = [{ id = 1, priority = 8 }]", "priority = 8"),
        ("network = \"ipv6\"\nsource_ip = \"10.0.0.1\"\nsize = \"128B\"", "one version"),
        ("source = \"01:00:00:00:00:01\"", "source is a group address"),
        ("dscp = 64", "dscp is 64"),
        ("ttl = 1", "ttl is 1"),
        ("frames = 0", "frames or duration is zero"),
        ("duration = \"0ns\"", "frames or duration is zero"),
        ("ramp = { to = \"1Mpps\", over = \"0ns\" }", "ramp.over"),
        ("ramp = { to = \"2x\", over = \"1ms\" }", "ramp.to = \"2x\""),
        ("rate = \"2x\"", "rate = \"2x\""),
        ("arrivals = { uniform = { spread = 1.5 } }", "arrivals: spread is 1.5"),
        ("arrivals = { lognormal = { sigma = 0 } }", "arrivals: sigma is 0"),
        ("arrivals = { pareto = { shape = 1 } }", "arrivals: shape is 1"),
        ("arrivals = { on-off = { on = \"0ns\", off = \"1us\" } }", "arrivals: on is zero"),
        ("arrivals = { on-off = { on = \"1000s\", off = \"1s\" } }", "1000s"),
        (
            "arrivals = { on-off = { on = \"1us\", off = \"1us\", lengths = { pareto = { shape = 1 } } } }",
            "arrivals: lengths: shape",
        ),
        ("arrivals = { bursts = { frames = 1 } }", "arrivals: frames is 1"),
        ("sweeps = [{ field = \"source-port\", count = 0 }]", "sweeps[0]: count is 0"),
        (
            "sweeps = [{ field = \"source-port\", count = 2 }, { field = \"source-port\", count = 2 }]",
            "sweeps[1]: field has another sweep",
        ),
        ("sweeps = [{ field = \"vlan\", count = 2 }]", "needs a tag"),
        (
            "size = \"66B\"\nvlans = [{ id = 4000 }]\nsweeps = [{ field = \"vlan\", count = 96 }]",
            "at most 4094",
        ),
        ("name = \"stream0\"", "used by another stream"),
    ] {
        let error = problem(&format!("[[streams]]\n[[streams]]\n{text}"));
        assert!(error.starts_with("streams[1].") && error.contains(parts), "{error}");
    }
}

#[test]
fn settings_in_conflict_with_streams_are_refused() {
    for (text, part) in [
        ("total = \"5Mpps\"", "total = \"5Mpps\" needs streams"),
        ("rate = \"2x\"", "rate = \"2x\" needs a base rate"),
        ("kind = \"ping\"\n[[streams]]", "streams need kind = \"frames\""),
    ] {
        let error = problem(text);
        assert!(error.contains(part), "{error}");
    }
    let many = TrafficConfig { streams: vec![StreamConfig::default(); 65], ..TrafficConfig::default() };
    assert!(
        matches!(many.validate(), Err(ConfigError::Streams(problem)) if problem.contains("maximum is 64"))
    );
}

#[test]
fn errors_name_unknown_keys_and_values_of_streams() {
    for (text, parts) in [
        ("[[streams]]\nspeed = \"1Mpps\"", ["speed", "rate"]),
        ("[[streams]]\narrivals = \"poison\"", ["poison", "poisson"]),
        ("[[streams]]\narrivals = { pareto = { alpha = 2 } }", ["alpha", "shape"]),
        ("[[streams]]\nsweeps = [{ field = \"port\", count = 2 }]", ["port", "source-port"]),
        ("[[streams]]\nsweeps = [{ field = \"vlan\" }]", ["missing", "count"]),
        ("[[streams]]\nvlans = [{ number = 2 }]", ["number", "priority"]),
        ("[[streams]]\nsize = \"64\"", ["no unit", "imix"]),
        ("[[streams]]\nramp = { to = \"1Mpps\" }", ["missing", "over"]),
    ] {
        let error = toml::from_str::<TrafficConfig>(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}
