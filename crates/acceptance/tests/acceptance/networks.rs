//! Networks of nodes, switches and load generators as files describe them: what the switch and its queue do is what arithmetic says, the
//! kernel's stack answers through two switches, no number of threads changes anything, and what cannot be is refused.

use std::fs;
use std::path::{Path, PathBuf};

use doorbell_acceptance::{cache_with_own_checkpoints, doorbell, number, repository, scratch};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    repository().join("experiments/networks").join(name)
}

/// A network's run; its summary, and its folder's fingerprint.
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
    let fingerprint = fs::read_to_string(out.join("fingerprint.json")).expect("a fingerprint was written");
    (serde_json::from_str(&printed).expect("the summary is JSON and nothing else"), fingerprint)
}

#[test]
fn an_incast_fills_the_switchs_queue_and_no_number_of_threads_changes_it() {
    let (one, print) = run(&example("incast.toml"), &["--preset", "fast", "--threads", "1"]);
    let of_server = ["--preset", "fast", "--threads", "2", "--trace", "--node", "server"];
    let (two, again) = run(&example("incast.toml"), &of_server);
    assert_eq!(one["state_hash"], two["state_hash"]);
    // What is recorded of a machine without times is decoded anew.
    let but_decoding =
        |text: &str| text.lines().filter(|line| !line.contains("blocks_decoded")).collect::<String>();
    assert_eq!(but_decoding(&print), but_decoding(&again), "recorded, too");
    let switches = example("four.toml");
    doorbell(&["trace", "record", "--network", switches.to_str().unwrap(), "--preset", "fast"])
        .refused_with(&["--node", "no node is timed"]);
    // Three times 4 Gbps go in, and the server's cable carries 10: 1518 of 1538 bytes of it are frames.
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
    // A full queue takes its bytes, with gaps, at the cable's rate: 86 whole frames.
    let full = 86.0 * 1538.0 * 0.8 + 500.0;
    let longest = number(output, "/residence_ns/max");
    assert!((full - 1538.0 * 0.8..=full).contains(&longest), "{longest} of {full}");
    // The way back is not full: the switch's latency, the preamble and the frame.
    let back = number(&network["switches"]["tor"]["outputs"]["a"], "/residence_ns/max");
    assert!((500.0 + 1526.0 * 0.8 - back).abs() < 1.0, "{back}");
}

#[test]
fn the_kernels_stack_answers_through_two_switches_and_each_hop_is_accounted_for() {
    let (found, _) = run(&example("memcached.toml"), &["--preset", "server", "--profile"]);
    assert_eq!(number(&found, "/drop_rate"), 0.0, "{found}");
    let network = &found["network"];
    for generator in ["gets", "pings"] {
        let own = &network["generators"][generator];
        assert!(number(own, "/frames_delivered") > 50.0, "{own}");
        assert_eq!(own["frames_delivered"], own["frames_offered"]);
    }
    // What both ask crosses the trunk, give or take what is on its way.
    let [trunk, store, idle] = ["trunk: left > right", "store: right > store", "idle: right > idle"]
        .map(|hop| number(&network["hops"][hop], "/frames"));
    assert!((trunk - store - idle).abs() <= 2.0, "{trunk}, {store}, {idle}");
    // The store is timed as the preset says, the other is not.
    assert!(network["nodes"]["store"]["timing"]["top-down"].is_object());
    assert!(network["nodes"]["idle"]["timing"].is_null());
    assert!(network["nodes"]["idle"]["kinds"].is_null() && found["kinds"].is_null());
    let profile = &network["nodes"]["store"]["kinds"];
    let kinds = profile["kinds"].as_array().expect("it was profiled");
    assert_eq!(
        kinds.iter().map(|cost| cost["cycles"].as_u64().unwrap()).sum::<u64>(),
        profile["cycles"].as_u64().unwrap()
    );
    let share = |kind: &str| {
        kinds.iter().find(|cost| cost["kind"] == kind).map_or(0.0, |cost| number(cost, "/share"))
    };
    assert!(share("other") <= 0.05 && kinds.len() > 2, "{profile}");
    // A trunk of 2 us in each direction, and the cables at both ends: no answer can be sooner.
    assert!(number(&found, "/latency_ns/min") > 2.0 * (2_000.0 + 2.0 * 500.0 + 2.0 * 500.0), "{found}");
}

#[test]
fn an_answer_that_is_no_longer_waited_for_is_late_and_not_the_guests_loss() {
    let folder = scratch();
    let file = folder.path().join("late.toml");
    let text = "[run]\nwarmup = '1ms'\nduration = '2ms'\n[loadgen.traffic]\nkind = 'ping'\nrate = '200kpps'\noutstanding = 1\n\
        timeout = '5us'\n[node.n]\nbenchmark = 'ping'\n[generator.g]\nto = 'n'\n[cable.c]\nbetween = ['n', 'g']\n";
    fs::write(&file, text).unwrap();
    let (found, _) = run(&file, &["--preset", "fast"]);
    let [offered, delivered, given_up, late, guest] =
        ["frames_offered", "frames_delivered", "frames_timed_out", "frames_late", "drops/guest"]
            .map(|figure| number(&found, &format!("/{figure}")));
    assert!(late > 100.0 && guest == 0.0, "{found}");
    assert_eq!((offered - delivered, given_up), (late, late), "{found}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_node_alone_has_the_disk_that_stands_beside_the_networks_file() {
    let (folder, cache) = (scratch(), cache_with_own_checkpoints("acceptance-network-disk"));
    // Always the same path, and so the same image in the cache.
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
    let run = |says: &str| {
        let mut sectors = says.as_bytes().to_vec();
        sectors.resize(1 << 16, 0);
        fs::write(&disk, sectors).unwrap();
        let cache = cache.to_str().unwrap();
        let (file, out) = (file.to_str().unwrap(), folder.path().join("out").display().to_string());
        let args = ["run", "--network", file, "--preset", "fast", "-q", "--out", &out];
        doorbell(&[&["--cache", cache], &args[..]].concat())
    };
    // It is ready only when it has read the disk; with another disk it is another guest, and boots again.
    run("one\n").success();
    run("two\n").refused_with(&["a: ", "run.boot_timeout", "read: two"]);
}

#[test]
fn what_is_in_force_is_shown_for_the_network_and_for_each_node() {
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
    show(&["--node", "nobody"]).refused_with(&["--node", "idle, store"]);
}

#[test]
fn a_sweep_varies_any_part_of_a_network() {
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
fn what_cannot_be_a_network_is_refused_before_anything_runs_with_the_key() {
    let folder = scratch();
    let file = folder.path().join("own.toml");
    let refused = |text: &str, words: &[&str]| {
        fs::write(&file, text).unwrap();
        doorbell(&[
            "run",
            "--network",
            file.to_str().unwrap(),
            "--out",
            folder.path().join("o").to_str().unwrap(),
        ])
        .refused_with(words);
        assert!(!folder.path().join("o").exists());
    };
    let two = "[node.a]\nbenchmark = \"testpmd\"\n[node.b]\nbenchmark = \"testpmd\"\n";
    let cable = |name: &str, ends: &str| format!("[cable.{name}]\nbetween = [{ends}]\n");
    refused("[run]\nseed = 2\n", &["own.toml", "[node.NAME]"]);
    refused(
        &(two.to_owned() + &cable("x", "\"a\", \"bb\"")),
        &["cable.x.between", "\"bb\"", "did you mean \"b\""],
    );
    refused(&(two.to_owned() + &cable("x", "\"a\"")), &["cable.x.between", "1 ends"]);
    refused(&(two.to_owned() + &cable("x", "\"a.1\", \"b\"")), &["cable.x.between", "no port 1"]);
    refused(
        &(two.to_owned() + &cable("x", "\"a\", \"b\"") + &cable("y", "\"b\", \"a\"")),
        &["cable.y.between", "link x is at port 0 of node b"],
    );
    refused(
        &(two.to_owned() + &cable("x", "\"a\", \"b\"") + "rat = \"1Gbps\"\n"),
        &["cable.x.rat", "\"rate\""],
    );
    refused(
        &two.replace("[node.b]", "nic.rx_fifi = \"1KiB\"\n[node.b]"),
        &["node.a.nic.rx_fifi", "\"rx_fifo\""],
    );
    refused("[node.a]\nbenchmark = \"testpdm\"\n", &["node.a.benchmark", "testpmd"]);
    refused("[node.a]\npreset = \"fats\"\n", &["node.a", "fats"]);
    refused("[node.a]\nbenchmark = \"iperf\"\n", &["node.a.benchmark", "two nodes of its own"]);
    let loops =
        "[switch.s]\n[switch.t]\n".to_owned() + &cable("x", "\"s\", \"t\"") + &cable("y", "\"t\", \"s\"");
    refused(&loops, &["cable.y.between", "loop of switches", "s, t"]);
    refused("[switch.s]\nqueue = \"1B\"\n", &["switch.s.queue", "64B"]);
    refused("[switch.s]\n", &["switch.s", "no link"]);
    let sink = "[node.a]\nbenchmark = \"touchdrop\"\n[generator.g]\nto = \"a\"\n".to_owned()
        + &cable("x", "\"a\", \"g\"");
    refused(&sink, &["generator.g.to", "touchfwd"]);
    refused("[node.a]\nscript_file = \"nowhere.sh\"\n", &["nowhere.sh"]);
    refused("[node.a]\ndisks = [\"nowhere.img\"]\n", &[folder.path().join("nowhere.img").to_str().unwrap()]);
    refused("[node.a]\nrun.seed = 2\n", &["node.a.run", "set run"]);
    refused("[node.a]\nloadgen.traffic.rate = \"1Mpps\"\n", &["node.a.loadgen", "set loadgen"]);
    refused("[run]\nframes = 5\n[node.a]\n", &["run.frames", "run.duration"]);
    refused("[run]\nimage = \"net\"\n[node.a]\n", &["run.image", "node.NAME.image"]);
    refused("[run]\ndisks = [\"x\"]\n[node.a]\n", &["run.disks", "node.NAME.disks"]);
    let incast = example("incast.toml");
    let incast = incast.to_str().unwrap();
    doorbell(&["run", "--network", incast, "--frames", "5"]).refused_with(&["--frames", "--duration"]);
    doorbell(&["run", "--network", incast, "--set", "node.server.script_file=x"])
        .refused_with(&["node.server.script_file"]);
    for ip in ["banana", "10.0.0.3", "10.0.0.300/24", "10.0.0.3/33"] {
        let set = format!("node.server.ip={ip}");
        doorbell(&["run", "--network", incast, "--set", &set])
            .refused_with(&["node.server.ip", "10.0.0.2/24"]);
    }
    doorbell(&["run", "--network", incast, "--set", "node.sever.nic.rx_fifo=64KiB"]).refused_with(&[
        "node.sever",
        "no cable",
        "did you mean node server",
    ]);
    doorbell(&["run", "testpmd", "--network", incast]).refused_with(&["testpmd", "leave out"]);
    doorbell(&["run", "testpmd", "--threads", "2"]).refused_with(&["--network"]);
    doorbell(&["run", "--network", incast, "--set", "cable.server.latency=1ns"])
        .refused_with(&["cable.server.latency", "10ns"]);
}
