//! Traffic with several streams: runs the examples of `docs/traffic.md` verbatim.

use std::fs;
use std::path::Path;

use doorbell_acceptance::{doorbell, places, scratch};
use serde_json::Value;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traffic.md")).unwrap()
}

/// First fenced code block of a language.
fn block(language: &str) -> String {
    let page = page();
    let rest = page.split_once(&format!("```{language}\n")).expect("the page has such a block").1;
    rest.split("```").next().unwrap().to_owned()
}

fn stream<'a>(point: &'a Value, name: &str) -> &'a Value {
    point["streams"].as_array().unwrap().iter().find(|stream| stream["name"] == name).unwrap()
}

#[test]
fn the_example_of_the_page_on_traffic_works() {
    let folder = scratch();
    fs::create_dir(folder.path().join("examples")).unwrap();
    fs::write(folder.path().join("examples/mix.toml"), block("toml")).unwrap();
    let cache = places().cache.display().to_string();
    for command in block("sh").lines() {
        let words = command.strip_prefix("doorbell ").expect("the page shows commands of doorbell");
        let here = |word: &str| match word {
            "examples/mix.toml" | "results/mix" | "results/loads" => {
                folder.path().join(word).display().to_string()
            }
            _ => word.to_owned(),
        };
        let mut args = vec!["--cache".to_owned(), cache.clone()];
        args.extend(words.split(' ').map(here));
        let output = doorbell(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let shown = output.success();
        assert!(shown.contains("voice ") && shown.contains("backup "), "{shown}");
    }
    let summary = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(folder.path().join(name).join("summary.json")).unwrap())
            .unwrap()
    };
    let mix = summary("results/mix");
    // A Poisson process with a mean of 2000 frames and a standard deviation of 45.
    let voice = stream(&mix, "voice")["frames_offered"].as_f64().unwrap();
    assert!((voice - 2_000.0).abs() < 200.0, "{voice}");
    // 5 % of 100 Gbps, as the ramp ends with the warm-up.
    let backup = stream(&mix, "backup")["offered"]["gbps_l1"].as_f64().unwrap();
    assert!((backup - 5.0).abs() < 0.1, "{backup}");
    for name in ["voice", "web", "backup"] {
        let of = stream(&mix, name);
        assert_eq!(of["frames_delivered"], of["frames_offered"], "{name}");
        assert!(of["latency_ns"]["p50"].as_f64().unwrap() > 1_000.0);
    }
    assert!(stream(&mix, "voice")["flows"]["offered"].as_u64().unwrap() > 900);
    let sum: u64 =
        mix["streams"].as_array().unwrap().iter().map(|s| s["frames_offered"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), mix["frames_offered"].as_u64());

    // The tables have the same frame counts per stream and per flow.
    let table = |name: &str| -> Vec<Vec<String>> {
        let text = fs::read_to_string(folder.path().join("results/mix").join(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let sum_of = |rows: &[Vec<String>], stream: &str, column: usize| -> f64 {
        let own = rows.iter().filter(|row| row[0] == stream);
        own.map(|row| row[column].parse::<f64>().unwrap()).sum()
    };
    let (over_time, flows) = (table("streams.csv"), table("flows.csv"));
    for name in ["voice", "web", "backup"] {
        assert_eq!(
            Some(sum_of(&over_time, name, 2)),
            stream(&mix, name)["frames_offered"].as_f64(),
            "{name}"
        );
    }
    assert_eq!(sum_of(&flows, "voice", 9), voice);
    let of_voice = flows.iter().filter(|row| row[0] == "voice").count() as u64;
    assert_eq!(Some(of_voice), stream(&mix, "voice")["flows"]["offered"].as_u64());

    let loads = summary("results/loads");
    let points = loads["points"].as_array().unwrap();
    assert_eq!(
        points.iter().map(|point| point["frames_offered"].as_u64().unwrap()).collect::<Vec<_>>(),
        [5_000; 2]
    );
    assert_eq!((&points[0]["rate"], &points[1]["rate"]), (&"0.5x".into(), &"8Mpps".into()));
    assert!(points[1]["offered_mpps"].as_f64().unwrap() > 3.0 * points[0]["offered_mpps"].as_f64().unwrap());
}

/// Writes a capture of 39 UDP packets with different payloads and one TCP packet, a microsecond apart.
fn write_capture(path: &Path) {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for n in 0..40u8 {
        let mut packet = vec![2; 12];
        packet.extend([
            8,
            0,
            0x45,
            0,
            0,
            50,
            0,
            n,
            0,
            0,
            64,
            if n == 7 { 6 } else { 17 },
            0,
            0,
            10,
            1,
            2,
            n,
            10,
            0,
            0,
            2,
        ]);
        packet.extend([0, 53, 0, 53, 0, 30, 0, 0]);
        packet.resize(64, n);
        for word in [9, 1_000 * u32::from(n), 64, 64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    std::fs::write(path, zstd::encode_all(file.as_slice(), 1).unwrap()).unwrap();
}

#[test]
fn the_capture_replay_example_of_the_page_works() {
    let folder = scratch();
    write_capture(&folder.path().join("web.pcap.zst"));
    let text = block("toml replay")
        .replace("web.pcap.zst", &folder.path().join("web.pcap.zst").display().to_string());
    std::fs::write(folder.path().join("replay.toml"), text).unwrap();
    let (file, out) = (folder.path().join("replay.toml"), folder.path().join("out"));
    let cache = places().cache.display().to_string();
    // The first packet is sent after the start of the measurement.
    let options = ["--preset", "fast", "--warmup", "0ns", "--duration", "100us", "--pcap", "--json", "-q"];
    let after = ["--set", "loadgen.traffic.start_after=1us"];
    let mut args = vec!["--cache", &cache, "run", "testpmd", "--traffic", file.to_str().unwrap()];
    args.extend(["--out", out.to_str().unwrap()]);
    args.extend(options.iter().chain(&after));
    let summary: Value = serde_json::from_str(&doorbell(&args).success()).unwrap();
    let recorded = stream(&summary, "recorded");
    assert_eq!((&recorded["frames_offered"], &recorded["frames_delivered"]), (&117.into(), &117.into()));
    assert_eq!(recorded["latency_ns"]["frames"], 117);
    assert_eq!((&recorded["replay"]["packets"], &recorded["replay"]["filtered"]), (&39.into(), &1.into()));
    // The first frame has the generator's MAC address and the sender's rewritten network address.
    let wire = std::fs::read(out.join("wire.pcap")).unwrap();
    let first = &wire[24 + 16..];
    assert_eq!((first[6], &first[26..34]), (2, [198, 18, 2, 0, 10, 0, 0, 2].as_slice()));
}
