//! Buses behind bridges, in whole machines: Linux gives them numbers and windows, `lspci` shows the tree, and NICs work there.

use std::fs;

use doorbell_acceptance::{cache_with_own_checkpoints, doorbell, quiet, scratch, session};
use doorbell_bench::run_point;
use doorbell_machine::CheckpointFile;
use doorbell_sim::Bytes;

const BRIDGES: &str = r#"platform.bridges=["1e.0", "0:01.0"]"#;
/// With names of devices left out, which take a file of their own.
const TREE: &str = r"-[0000:00]-+-00.0  Device 1b36:0008
           +-01.0  Device 8086:100e
           \-1e.0-[01-02]----01.0-[02]--+-02.0  Device 8086:100e
                                        \-02.1  Device 8086:100e
";

/// What `lspci` and the kernel's driver say in a machine with these settings.
fn lspci(cache: &str, set: &[&str]) -> String {
    let cache = cache_with_own_checkpoints(cache);
    let folder = scratch();
    // Always the same path, and so the same image in the cache.
    let recipe = cache.join("lspci.toml");
    fs::write(
        &recipe,
        "schema = 1\nextends = \"net\"\n[packages]\nroots = [\"pciutils\"]\n[initramfs]\nelf = [\"usr/bin/lspci\"]\n",
    )
    .unwrap();
    let (script, out) = (folder.path().join("script"), folder.path().join("out"));
    fs::write(&script, "lspci -tv\nls -d /sys/bus/pci/drivers/e1000/0000:*\n").unwrap();
    let [cache, recipe, script, out] = [&cache, &recipe, &script, &out].map(|path| path.to_str().unwrap());
    let run =
        ["--cache", cache, "run", "--preset", "fast", "--image", recipe, "--script", script, "--out", out];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    doorbell(&[&run[..], &set].concat()).success();
    fs::read_to_string(folder.path().join("out/console.log")).unwrap()
}

#[test]
fn lspci_shows_the_tree_and_the_kernel_drives_every_nic_in_it() {
    let set = [BRIDGES, "port.1.at=1:02.0", "port.2.at=1:02.1", "platform.nics=3"];
    let console = lspci("acceptance-pci-tree", &set);
    assert!(console.contains(TREE), "{console}");
    for place in ["0000:00:01.0", "0000:02:02.0", "0000:02:02.1"] {
        assert!(console.contains(&format!("/sys/bus/pci/drivers/e1000/{place}\n")), "{console}");
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn the_kernel_drives_every_port_of_four_cards_of_four() {
    let console = lspci("acceptance-pci-cards", &["platform.nics=16", "platform.ports_per_card=4"]);
    for (device, function) in (1..=4).flat_map(|device| (0..4).map(move |function| (device, function))) {
        let place = format!("{device:02x}.{function}");
        assert!(console.contains(&format!("-{place}  Device 8086:100e")), "{place}: {console}");
        assert!(console.contains(&format!("/sys/bus/pci/drivers/e1000/0000:00:{place}\n")), "{console}");
    }
}

#[test]
fn a_program_forwards_behind_two_bridges_and_a_checkpoint_of_it_belongs_to_that_tree() {
    let behind = session(&[BRIDGES, "port.0.at=1:02.0"], &["run.warmup=100us", "run.duration=500us"]);
    let point =
        quiet(|control| run_point(&behind, "4Mpps".parse().unwrap(), Bytes(64), None, control)).unwrap();
    assert_eq!((point.summary.frames_offered, point.summary.frames_delivered), (2000, 2000));
    // The guest's interrupts and DMA went through both: without them nothing would have been forwarded. A machine with the NIC at
    // another place is another machine.
    let beside = session(&[BRIDGES], &[]);
    let file = CheckpointFile::from_bytes(behind.checkpoint().bytes().to_vec()).unwrap();
    assert!(beside.machine().unwrap().restore(&file, behind.guest()).is_err());
}
