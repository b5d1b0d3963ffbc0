//! Servers of Debian's in one node and their clients in another: what is counted is what crosses the cable, an answer for each request. All
//! are left to the long run, as they boot images of their own.

use std::path::Path;

use doorbell_acceptance::{doorbell, number, scratch, tshark};
use serde_json::Value;

/// A run; its summary.
fn run(options: &str) -> Value {
    let folder = scratch();
    let out = folder.path().join("out");
    let common = ["run", "--out", out.to_str().expect("a path in UTF-8"), "--json", "-q", "--warmup", "2ms"];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// Frames each way a transaction; those that are under way may count at one end only.
fn frames(of: &Value) -> [f64; 2] {
    let transactions = number(of, "/transfer/transactions");
    assert!(transactions > 200.0, "{of}");
    ["/transfer/wire_to_server/frames", "/transfer/wire_to_client/frames"]
        .map(|path| number(of, path) / transactions)
}

#[test]
#[ignore = "long: make test-long runs it"]
fn redis_answers_each_request_in_a_frame_and_many_in_one_if_they_come_together() {
    for command in ["GET", "SET"] {
        let one = run(&format!("redis --set redis.command={command} --duration 10ms"));
        // Acknowledgements go with the next request.
        assert!(frames(&one).iter().all(|each| (0.9..1.15).contains(each)), "{command}: {one}");
        let many =
            run(&format!("redis --set redis.command={command} --set redis.pipeline=16 --duration 10ms"));
        assert!(frames(&many).iter().all(|each| *each < 0.3), "{command}: {many}");
        let rate = |of: &Value| number(of, "/transfer/transactions_per_second");
        assert!(rate(&many) > 2.0 * rate(&one), "{command}: {many}");
    }
    let again = || run("redis --duration 2ms")["state_hash"].clone();
    assert_eq!(again(), again());
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_web_server_answers_with_the_file_that_is_asked_for() {
    for (server, file, duration) in
        [("nginx", 100, "10ms"), ("nginx", 10_000, "20ms"), ("apache", 10_000, "20ms")]
    {
        let found =
            run(&format!("web --set web.server={server} --set web.file={file} --duration {duration}"));
        let each = number(&found, "/transfer/bytes_received") / number(&found, "/transfer/transactions");
        // A head of the server's comes before it.
        let head = each - f64::from(file);
        assert!((150.0..500.0).contains(&head), "{server}, {file}: {each} bytes an answer: {found}");
        assert!(number(&found, "/transfer/drive_idle") > 0.05, "{found}");
    }
}

/// What tshark finds in HTTP's heads of a capture: for each the path that is asked for, or the status of an answer.
fn heads(capture: &Path) -> Vec<[String; 2]> {
    let wanted = ["http.request.uri", "http.response.code"];
    let heads = tshark::fields(capture, "http.request || http.response", &wanted);
    heads.into_iter().map(|head| head.try_into().expect("two fields")).collect()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_mix_has_its_shares_of_classes_files_directories_and_pages_made_anew() {
    for server in ["nginx", "apache"] {
        let folder = scratch();
        let out = folder.path().join("out");
        let options = "--preset fast --set web.mix=specweb99 --warmup 1ms --duration 60ms --pcap --json -q";
        let set = format!("web.server={server}");
        let words = ["run", "web", "--out", out.to_str().expect("a path in UTF-8"), "--set", &set];
        let words: Vec<&str> = words.into_iter().chain(options.split_whitespace()).collect();
        let found: Value = serde_json::from_str(&doorbell(&words).success()).expect("the summary");
        let heads = heads(&out.join("wire.pcap"));
        let asked: Vec<&String> =
            heads.iter().map(|[path, _]| path).filter(|path| !path.is_empty()).collect();
        let answers: Vec<&String> =
            heads.iter().map(|[_, status]| status).filter(|status| !status.is_empty()).collect();
        assert!(answers.iter().all(|status| *status == "200"), "{server}: {answers:?}");
        // Of 16 connections each may have a request or an answer that is cut.
        assert!(answers.len().abs_diff(asked.len()) <= 32, "{server}: {} of {}", answers.len(), asked.len());
        let parts = found.pointer("/transfer/over_time").and_then(Value::as_array).expect("told over time");
        let of = |part: &Value| number(part, "/transactions_per_second") * number(part, "/length_ns") / 1e9;
        let counted: f64 = parts.iter().map(of).sum();
        // A connection's first acknowledgement is what others are counted from, and at the end each may have a request under way.
        assert!(
            counted > 1000.0 && (counted - asked.len() as f64).abs() <= 33.0,
            "{server}: {counted} counted"
        );
        // Draws are always the same, so chance does not decide: four standard deviations of a half are told.
        let off = 2.0 / (asked.len() as f64).sqrt();
        let share = |is: &dyn Fn(&str) -> bool| {
            asked.iter().filter(|path| is(path)).count() as f64 / asked.len() as f64
        };
        // Paths are as `/f/DD/C_F` and `/d?DD/C_F`.
        for (at, text, expected) in [
            (6, "0", 0.35),
            (6, "1", 0.5),
            (6, "2", 0.14),
            (6, "3", 0.01),
            (8, "5", 0.353),
            (8, "1", 0.039),
            (1, "d?", 0.3),
            // One eighth's part of Zipf's: 1 / (1 + 1/2 + … + 1/8).
            (3, "00", 0.368),
            (3, "07", 0.046),
        ] {
            let found = share(&|path| path[at..].starts_with(text));
            assert!((found - expected).abs() < off, "{server}: {text} at {at}: {found} of {}", asked.len());
        }
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn servers_on_cores_of_their_own_have_their_requests_by_their_own_queues() {
    let machine = "--preset fast --set platform.harts=2 --set nic.model=82576 --set platform.interrupts=aia --duration 5ms";
    for load in [
        "redis --set redis.cores=2 --set redis.clients=8",
        "web --set web.cores=2 --set web.file=100",
        "netperf --set netperf.cores=2 --set netperf.streams=4 --set netperf.test=TCP_RR",
        "netperf --set netperf.cores=2 --set netperf.streams=2 --set netperf.test=UDP_RR",
        "iperf --set iperf.cores=2 --set iperf.streams=4",
    ] {
        let found = run(&format!("{load} {machine}"));
        let cores = found.pointer("/transfer/cores").and_then(Value::as_array).expect("of each core");
        assert_eq!(cores.len(), 2, "{load}: {found}");
        let frames = number(&found, "/transfer/wire_to_server/frames");
        let received: f64 = cores.iter().map(|core| number(core, "/queue_received")).sum();
        assert!((received - frames).abs() <= 0.05 * frames + 4.0, "{load}: {received} of {frames}: {found}");
        for core in cores {
            // A request is a frame. By chance half of them would come in by the other queue.
            let own = match core.get("transactions_per_second").and_then(Value::as_f64) {
                Some(rate) => rate * number(&found, "/transfer/seconds") / number(core, "/queue_received"),
                None => number(core, "/goodput_gbps").clamp(0.0, 1.0),
            };
            assert!((0.85..1.15).contains(&own), "{load}: {core}");
        }
    }
}

#[test]
fn what_servers_cannot_be_asked_is_refused() {
    doorbell(&["run", "redis", "--set", "redis.cores=2", "--harts", "1"])
        .assert_failure(&["redis.cores", "platform.harts=2"]);
    let two = ["platform.interrupts=plic", "netperf.streams=2", "netperf.cores=2"];
    let words = two.iter().flat_map(|set| ["--set", set]);
    let words: Vec<&str> = ["run", "netperf"].into_iter().chain(words).collect();
    doorbell(&words).assert_failure(&["netperf.cores", "platform.interrupts=aia"]);
    doorbell(&["run", "redis", "--set", "redis.pipeline=0"])
        .assert_failure(&["redis.pipeline", "from 1 to 128"]);
    doorbell(&["run", "web", "--set", "web.file=5"]).assert_failure(&["web.file", "100, 1000, 10000"]);
    doorbell(&["run", "web", "--set", "web.dynamic=10"])
        .assert_failure(&["web.dynamic", "set web.mix=specweb99"]);
    doorbell(&["run", "web", "--set", "web.mix=specweb99", "--set", "web.file=100"])
        .assert_failure(&["web.file", "web.mix"]);
    doorbell(&["run", "testpmd", "--set", "redis.value=9"])
        .assert_failure(&["redis.value", "testpmd has no"]);
    doorbell(&["run", "nfs", "--set", "nfs.writers=4"])
        .assert_failure(&["nfs.file", "set platform.ram=512MiB"]);
    doorbell(&["run", "web", "--rate", "1Mpps"]).assert_failure(&["--rate", "web has none"]);
}
