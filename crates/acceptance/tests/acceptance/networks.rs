//! Networks of nodes, switches and load generators described by files. Switch and queue figures match closed
//! forms, the kernel's stack answers through two switches, results do not depend on the number of threads,
//! and invalid files are rejected.

use std::fs;
use std::path::{Path, PathBuf};

use doorbell_acceptance::{cache_with_own_checkpoints, doorbell, number, repository, scratch};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    repository().join("experiments/networks").join(name)
}

/// Runs a network; returns its summary and fingerprint.
fn run(file: &Path, options: &[&str]) -> (Value, String) {
    let folder = scratch();
    let out = folder.path().join("out");
    let common = [
        "run",
        "--network",
        file.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--json",
        "-q",
        "--fingerprint",
    ];
    let printed = doorbell(&[&common[..], options].concat()).success();
    let fingerprint = fs::read_to_string(out.join("fingerprint.json")).expect("the run writes a fingerprint");
    (serde_json::from_str(&printed).expect("the summary is JSON and nothing else"), fingerprint)
}

#[test]
fn an_incast_fills_the_switch_queue_and_does_not_depend_on_the_number_of_threads() {
    let (one, print) = run(&example("incast.toml"), &["--preset", "fast", "--threads", "1"]);
    let of_server = ["--preset", "fast", "--threads", "2", "--trace", "--node", "server"];
    let (two, again) = run(&example("incast.toml"), &of_server);
    assert_eq!(one["state_hash"], two["state_hash"]);
    // While a functional machine is recorded, its blocks are decoded again.
    let without_decoding =
        |text: &str| text.lines().filter(|line| !line.contains("blocks_decoded")).collect::<String>();
    assert_eq!(without_decoding(&print), without_decoding(&again), "recording does not change the run");
    let switches = example("four.toml");
    doorbell(&["trace", "record", "--network", switches.to_str().unwrap(), "--preset", "fast"])
        .assert_failure(&["--node", "no node is timed"]);
    // Three generators offer 4 Gbps each. The server's cable carries 10 Gbps, of which frames are 1518 of
    // 1538 bytes.
    let network = &one["network"];
    let offered = number(&one, "/offered_gbps");
    assert!((offered - 12.0).abs() < 0.1, "{offered}");
    let to_server = &network["hops"]["server: tor > server"];
    let carried = number(to_server, "/gbps");
    assert!((carried - 10.0 * 1518.0 / 1538.0).abs() < 0.05, "{carried}");
    assert!(number(to_server, "/busy") > 0.99, "{to_server}");
    let output = &network["switches"]["tor"]["outputs"]["server"];
    assert!(
        number(output, "/dropped") > 0.0 && number(output, "/deepest") > 128.0 * 1024.0 - 1518.0,
        "{output}"
    );
    // A full queue of 86 frames drains at the cable's rate, including preambles and gaps.
    let full = 86.0 * 1538.0 * 0.8 + 500.0;
    let longest = number(output, "/residence_ns/max");
    assert!((full - 1538.0 * 0.8..=full).contains(&longest), "{longest} of {full}");
    // The reverse direction is not congested: switch latency, preamble and frame.
    let back = number(&network["switches"]["tor"]["outputs"]["a"], "/residence_ns/max");
    assert!((500.0 + 1526.0 * 0.8 - back).abs() < 1.0, "{back}");
}

#[test]
fn the_kernel_answers_through_two_switches_and_every_hop_is_counted() {
    let (found, _) = run(&example("memcached.toml"), &["--preset", "server", "--profile"]);
    assert_eq!(number(&found, "/drop_rate"), 0.0, "{found}");
    let network = &found["network"];
    for generator in ["gets", "pings"] {
        let own = &network["generators"][generator];
        assert!(number(own, "/frames_delivered") > 50.0, "{own}");
        assert_eq!(own["frames_delivered"], own["frames_offered"]);
    }
    // The trunk carries the requests for both nodes, except for frames in flight.
    let [trunk, store, idle] = ["trunk: left > right", "store: right > store", "idle: right > idle"]
        .map(|hop| number(&network["hops"][hop], "/frames"));
    assert!((trunk - store - idle).abs() <= 2.0, "{trunk}, {store}, {idle}");
    // The node store is timed, as in the preset; the node idle is functional.
    assert!(network["nodes"]["store"]["timing"]["top-down"].is_object());
    assert!(network["nodes"]["idle"]["timing"].is_null());
    assert!(network["nodes"]["idle"]["kinds"].is_null() && found["kinds"].is_null());
    let profile = &network["nodes"]["store"]["kinds"];
    let kinds = profile["kinds"].as_array().expect("the node was profiled");
    assert_eq!(
        kinds.iter().map(|cost| cost["cycles"].as_u64().unwrap()).sum::<u64>(),
        profile["cycles"].as_u64().unwrap()
    );
    let share = |kind: &str| {
        kinds.iter().find(|cost| cost["kind"] == kind).map_or(0.0, |cost| number(cost, "/share"))
    };
    assert!(share("other") <= 0.05 && kinds.len() > 2, "{profile}");
    // Lower bound: the trunk's 2 µs and the cables at both ends, in each direction.
    assert!(number(&found, "/latency_ns/min") > 2.0 * (2_000.0 + 2.0 * 500.0 + 2.0 * 500.0), "{found}");
}

#[test]
fn a_reply_after_the_timeout_counts_as_late_and_not_as_a_guest_drop() {
    let folder = scratch();
    let file = folder.path().join("late.toml");
    let text = "[run]\nwarmup = '1ms'\nduration = '2ms'\n[loadgen.traffic]\nkind = 'ping'\nrate = '200kpps'\noutstanding = 1\n\
        timeout = '5us'\n[node.n]\nbenchmark = 'ping'\n[generator.g]\nto = 'n'\n[cable.c]\nbetween = ['n', 'g']\n";
    fs::write(&file, text).unwrap();
    let (found, _) = run(&file, &["--preset", "fast"]);
    let [offered, delivered, timed_out, late, guest] =
        ["frames_offered", "frames_delivered", "frames_timed_out", "frames_late", "drops/guest"]
            .map(|figure| number(&found, &format!("/{figure}")));
    assert!(late > 100.0 && guest == 0.0, "{found}");
    assert_eq!((offered - delivered, timed_out), (late, late), "{found}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_nodes_disk_path_is_relative_to_the_network_file() {
    let (folder, cache) = (scratch(), cache_with_own_checkpoints("acceptance-network-disk"));
    // A fixed path, so that the image is found in the cache.
    let image = cache.join("net-with-disks.toml");
    let modules = "[kernel]\nmodules = [\"virtio_mmio\", \"virtio_blk\"]\n";
    fs::write(&image, format!("schema = 1\nextends = \"net\"\n{modules}")).unwrap();
    let (file, disk) = (folder.path().join("own.toml"), folder.path().join("own.img"));
    let script = "read line </dev/vda; echo \"read: $line\"; read end";
    let text = format!(
        "[run]\nwarmup = \"1us\"\nduration = \"1ms\"\nboot_timeout = \"1s\"\n[node.a]\nimage = {image:?}\n\
         disks = [\"own.img\"]\nscript = '{script}'\nready = \"read: one\"\n"
    );
    fs::write(&file, text).unwrap();
    let run = |text: &str| {
        let mut sectors = text.as_bytes().to_vec();
        sectors.resize(1 << 16, 0);
        fs::write(&disk, sectors).unwrap();
        let cache = cache.to_str().unwrap();
        let (file, out) = (file.to_str().unwrap(), folder.path().join("out").display().to_string());
        let args = ["run", "--network", file, "--preset", "fast", "-q", "--out", &out];
        doorbell(&[&["--cache", cache], &args[..]].concat())
    };
    // The node is ready when it has read the expected line. Another disk makes another guest, which boots
    // again.
    run("one\n").success();
    run("two\n").assert_failure(&["a: ", "run.boot_timeout", "read: two"]);
}

#[test]
fn config_show_prints_the_resolved_configuration_of_the_network_and_of_each_node() {
    let file = example("memcached.toml");
    let show = |options: &[&str]| {
        let common = ["config", "show", "--preset", "server", "--network", file.to_str().unwrap()];
        doorbell(&[&common[..], options].concat())
    };
    let set = ["--set", "nic.rx_fifo=24KiB", "--set", "node.idle.nic.rx_fifo=40KiB"];
    assert!(show(&set).success().contains("[cable.trunk]"));
    for (node, fifo, model) in [("store", "24KiB", "timed"), ("idle", "40KiB", "functional")] {
        let shown = show(&[&set[..], &["--node", node]].concat()).success();
        for line in [format!("rx_fifo = \"{fifo}\""), format!("model = \"{model}\"")] {
            assert!(shown.contains(&line), "{node}: no {line} in\n{shown}");
        }
    }
    show(&["--node", "nobody"]).assert_failure(&["--node", "idle, store"]);
}

#[test]
fn a_sweep_can_vary_any_parameter_of_a_network() {
    let folder = scratch();
    let out = folder.path().join("sweep");
    fs::copy(example("incast.toml"), folder.path().join("incast.toml")).unwrap();
    let file = folder.path().join("queue.toml");
    let text = "network = \"incast.toml\"\npreset = \"fast\"\n[grid]\n\"switch.tor.queue\" = [\"16KiB\", \"64KiB\"]\n";
    fs::write(&file, text).unwrap();
    let args = ["sweep", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "-q", "--jobs", "1"];
    doorbell(&args).success();
    let table = fs::read_to_string(out.join("table.csv")).unwrap();
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| {
        head.iter().position(|own| *own == name).unwrap_or_else(|| panic!("no {name}: {head:?}"))
    };
    let deepest = column("network.switches.tor.outputs.server.deepest");
    let found: Vec<f64> = rows.map(|row| row[deepest].parse().unwrap()).collect();
    assert_eq!(found, [10.0 * 1518.0, 43.0 * 1518.0]);
}

#[test]
fn an_invalid_network_is_rejected_before_the_run_and_the_message_has_the_key() {
    let folder = scratch();
    let file = folder.path().join("own.toml");
    let rejected = |text: &str, words: &[&str]| {
        fs::write(&file, text).unwrap();
        doorbell(&[
            "run",
            "--network",
            file.to_str().unwrap(),
            "--out",
            folder.path().join("o").to_str().unwrap(),
        ])
        .assert_failure(words);
        assert!(!folder.path().join("o").exists());
    };
    let two = "[node.a]\nbenchmark = \"testpmd\"\n[node.b]\nbenchmark = \"testpmd\"\n";
    let cable = |name: &str, ends: &str| format!("[cable.{name}]\nbetween = [{ends}]\n");
    rejected("[run]\nseed = 2\n", &["own.toml", "[node.NAME]"]);
    rejected(
        &(two.to_owned() + &cable("x", "\"a\", \"bb\"")),
        &["cable.x.between", "\"bb\"", "did you mean \"b\""],
    );
    rejected(&(two.to_owned() + &cable("x", "\"a\"")), &["cable.x.between", "1 ends"]);
    rejected(&(two.to_owned() + &cable("x", "\"a.1\", \"b\"")), &["cable.x.between", "no port 1"]);
    rejected(
        &(two.to_owned() + &cable("x", "\"a\", \"b\"") + &cable("y", "\"b\", \"a\"")),
        &["cable.y.between", "port 0 of node b is already connected to link x"],
    );
    rejected(
        &(two.to_owned() + &cable("x", "\"a\", \"b\"") + "rat = \"1Gbps\"\n"),
        &["cable.x.rat", "\"rate\""],
    );
    rejected(
        &two.replace("[node.b]", "nic.rx_fifi = \"1KiB\"\n[node.b]"),
        &["node.a.nic.rx_fifi", "\"rx_fifo\""],
    );
    rejected("[node.a]\nbenchmark = \"testpdm\"\n", &["node.a.benchmark", "testpmd"]);
    rejected("[node.a]\npreset = \"fats\"\n", &["node.a", "fats"]);
    rejected("[node.a]\nbenchmark = \"iperf\"\n", &["node.a.benchmark", "itself has two nodes"]);
    let loops =
        "[switch.s]\n[switch.t]\n".to_owned() + &cable("x", "\"s\", \"t\"") + &cable("y", "\"t\", \"s\"");
    rejected(&loops, &["cable.y.between", "loop of switches", "s, t"]);
    rejected("[switch.s]\nqueue = \"1B\"\n", &["switch.s.queue", "64B"]);
    rejected("[switch.s]\n", &["switch.s", "no link"]);
    let sink = "[node.a]\nbenchmark = \"touchdrop\"\n[generator.g]\nto = \"a\"\n".to_owned()
        + &cable("x", "\"a\", \"g\"");
    rejected(&sink, &["generator.g.to", "touchfwd"]);
    rejected("[node.a]\nscript_file = \"nowhere.sh\"\n", &["nowhere.sh"]);
    rejected("[node.a]\ndisks = [\"nowhere.img\"]\n", &[folder.path().join("nowhere.img").to_str().unwrap()]);
    rejected("[node.a]\nrun.seed = 2\n", &["node.a.run", "set run"]);
    rejected("[node.a]\nloadgen.traffic.rate = \"1Mpps\"\n", &["node.a.loadgen", "set loadgen"]);
    rejected("[run]\nframes = 5\n[node.a]\n", &["run.frames", "run.duration"]);
    rejected("[run]\nimage = \"net\"\n[node.a]\n", &["run.image", "node.NAME.image"]);
    rejected("[run]\ndisks = [\"x\"]\n[node.a]\n", &["run.disks", "node.NAME.disks"]);
    let incast = example("incast.toml");
    let incast = incast.to_str().unwrap();
    doorbell(&["run", "--network", incast, "--frames", "5"]).assert_failure(&["--frames", "--duration"]);
    doorbell(&["run", "--network", incast, "--set", "node.server.script_file=x"])
        .assert_failure(&["node.server.script_file"]);
    for ip in ["banana", "10.0.0.3", "10.0.0.300/24", "10.0.0.3/33"] {
        let set = format!("node.server.ip={ip}");
        doorbell(&["run", "--network", incast, "--set", &set])
            .assert_failure(&["node.server.ip", "10.0.0.2/24"]);
    }
    doorbell(&["run", "--network", incast, "--set", "node.sever.nic.rx_fifo=64KiB"]).assert_failure(&[
        "node.sever",
        "no cable",
        "did you mean node server",
    ]);
    doorbell(&["run", "testpmd", "--network", incast]).assert_failure(&["testpmd", "remove \"testpmd\""]);
    doorbell(&["run", "testpmd", "--threads", "2"]).assert_failure(&["--network"]);
    doorbell(&["run", "--network", incast, "--set", "cable.server.latency=1ns"])
        .assert_failure(&["cable.server.latency", "10ns"]);
}
