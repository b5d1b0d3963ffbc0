//! Debian's servers in one node and their clients in another: the counted requests match the traffic on the
//! cable, with one reply per request. Most are in the long run, as they boot their own images.

use std::path::Path;

use doorbell_acceptance::{doorbell, number, scratch, tshark};
use serde_json::Value;

/// Runs `doorbell run` with these options; returns its summary.
fn run(options: &str) -> Value {
    let folder = scratch();
    let out = folder.path().join("out");
    let common = ["run", "--out", out.to_str().expect("a path in UTF-8"), "--json", "-q", "--warmup", "2ms"];
    let words: Vec<&str> = common.into_iter().chain(options.split_whitespace()).collect();
    serde_json::from_str(&doorbell(&words).success()).expect("the summary is JSON and nothing else")
}

/// Frames per transaction in each direction. Transactions in flight at the edges may count at one end only.
fn frames(of: &Value) -> [f64; 2] {
    let transactions = number(of, "/transfer/transactions");
    assert!(transactions > 200.0, "{of}");
    ["/transfer/wire_to_server/frames", "/transfer/wire_to_client/frames"]
        .map(|path| number(of, path) / transactions)
}

#[test]
#[ignore = "long: make test-long runs it"]
fn redis_answers_with_one_frame_per_request_and_fewer_when_pipelined() {
    for command in ["GET", "SET"] {
        let one = run(&format!("redis --set redis.command={command} --duration 10ms"));
        // Acknowledgements are piggybacked on the next request.
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
fn a_web_server_answers_with_the_requested_file() {
    for (server, file, duration) in
        [("nginx", 100, "10ms"), ("nginx", 10_000, "20ms"), ("apache", 10_000, "20ms")]
    {
        let found =
            run(&format!("web --set web.server={server} --set web.file={file} --duration {duration}"));
        let each = number(&found, "/transfer/bytes_received") / number(&found, "/transfer/transactions");
        // The HTTP header precedes the file.
        let header = each - f64::from(file);
        assert!((150.0..500.0).contains(&header), "{server}, {file}: {each} bytes per reply: {found}");
        assert!(number(&found, "/transfer/drive_idle") > 0.05, "{found}");
    }
}

/// HTTP headers in a capture: the path of each request, or the status of each response.
fn http_headers(capture: &Path) -> Vec<[String; 2]> {
    let wanted = ["http.request.uri", "http.response.code"];
    let headers = tshark::fields(capture, "http.request || http.response", &wanted);
    headers.into_iter().map(|header| header.try_into().expect("two fields")).collect()
}

#[test]
#[ignore = "long: make test-long runs it"]
fn specweb99_mix_has_the_specified_shares_of_classes_files_directories_and_dynamic_pages() {
    for server in ["nginx", "apache"] {
        let folder = scratch();
        let out = folder.path().join("out");
        let options = "--preset fast --set web.mix=specweb99 --warmup 1ms --duration 60ms --pcap --json -q";
        let set = format!("web.server={server}");
        let words = ["run", "web", "--out", out.to_str().expect("a path in UTF-8"), "--set", &set];
        let words: Vec<&str> = words.into_iter().chain(options.split_whitespace()).collect();
        let found: Value = serde_json::from_str(&doorbell(&words).success()).expect("the summary");
        let headers = http_headers(&out.join("wire.pcap"));
        let paths: Vec<&String> =
            headers.iter().map(|[path, _]| path).filter(|path| !path.is_empty()).collect();
        let statuses: Vec<&String> =
            headers.iter().map(|[_, status]| status).filter(|status| !status.is_empty()).collect();
        assert!(statuses.iter().all(|status| *status == "200"), "{server}: {statuses:?}");
        // Each of 16 connections may have a truncated request or response at the start and the end of the
        // capture.
        assert!(
            statuses.len().abs_diff(paths.len()) <= 32,
            "{server}: {} of {}",
            statuses.len(),
            paths.len()
        );
        let parts =
            found.pointer("/transfer/over_time").and_then(Value::as_array).expect("figures over time");
        let of = |part: &Value| number(part, "/transactions_per_second") * number(part, "/length_ns") / 1e9;
        let counted: f64 = parts.iter().map(of).sum();
        // The count starts at a connection's first acknowledgement, and each connection may have a request in
        // flight at the end.
        assert!(
            counted > 1000.0 && (counted - paths.len() as f64).abs() <= 33.0,
            "{server}: {counted} counted"
        );
        // The random draws are reproducible. The tolerance is four standard deviations of a share of one
        // half.
        let off = 2.0 / (paths.len() as f64).sqrt();
        let share = |is: &dyn Fn(&str) -> bool| {
            paths.iter().filter(|path| is(path)).count() as f64 / paths.len() as f64
        };
        // Paths have the forms `/f/DD/C_F` and `/d?DD/C_F`: directory, class and file.
        for (at, text, expected) in [
            (6, "0", 0.35),
            (6, "1", 0.5),
            (6, "2", 0.14),
            (6, "3", 0.01),
            (8, "5", 0.353),
            (8, "1", 0.039),
            (1, "d?", 0.3),
            // The first of eight by Zipf's law: 1 / (1 + 1/2 + … + 1/8).
            (3, "00", 0.368),
            (3, "07", 0.046),
        ] {
            let found = share(&|path| path[at..].starts_with(text));
            assert!((found - expected).abs() < off, "{server}: {text} at {at}: {found} of {}", paths.len());
        }
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn each_core_of_a_server_receives_its_requests_through_its_own_queue() {
    let machine = "--preset fast --set platform.harts=2 --set nic.model=82576 --set platform.interrupts=aia --duration 5ms";
    for load in [
        "redis --set redis.cores=2 --set redis.clients=8",
        "web --set web.cores=2 --set web.file=100",
        "netperf --set netperf.cores=2 --set netperf.streams=4 --set netperf.test=TCP_RR",
        "netperf --set netperf.cores=2 --set netperf.streams=2 --set netperf.test=UDP_RR",
        "iperf --set iperf.cores=2 --set iperf.streams=4",
    ] {
        let found = run(&format!("{load} {machine}"));
        let cores = found.pointer("/transfer/cores").and_then(Value::as_array).expect("figures per core");
        assert_eq!(cores.len(), 2, "{load}: {found}");
        let frames = number(&found, "/transfer/wire_to_server/frames");
        let received: f64 = cores.iter().map(|core| number(core, "/queue_received")).sum();
        assert!((received - frames).abs() <= 0.05 * frames + 4.0, "{load}: {received} of {frames}: {found}");
        for core in cores {
            // Each request is one frame. Random steering would send half of them through the other queue.
            let own = match core.get("transactions_per_second").and_then(Value::as_f64) {
                Some(rate) => rate * number(&found, "/transfer/seconds") / number(core, "/queue_received"),
                None => number(core, "/goodput_gbps").clamp(0.0, 1.0),
            };
            assert!((0.85..1.15).contains(&own), "{load}: {core}");
        }
    }
}

#[test]
fn options_that_servers_do_not_support_are_rejected() {
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
