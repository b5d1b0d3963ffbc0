//! PCI buses behind bridges in whole machines: Linux assigns bus numbers and windows, `lspci` shows the tree,
//! and NICs behind bridges work.

use std::fs;

use doorbell_acceptance::{cache_with_own_checkpoints, doorbell, quiet, run_point, scratch, session};
use doorbell_machine::CheckpointFile;
use doorbell_sim::Bytes;

const BRIDGES: &str = r#"platform.bridges=["1e.0", "0:01.0"]"#;
/// Output of `lspci -tv` without device names, as the image lacks pci.ids.
const TREE: &str = r"-[0000:00]-+-00.0  Device 1b36:0008
           +-01.0  Device 8086:100e
           \-1e.0-[01-02]----01.0-[02]--+-02.0  Device 8086:100e
                                        \-02.1  Device 8086:100e
";

/// Console output of `lspci` and of the devices bound to the driver, on a machine with these settings.
fn lspci(cache: &str, set: &[&str]) -> String {
    let cache = cache_with_own_checkpoints(cache);
    let folder = scratch();
    // A fixed path, so that the image is found in the cache.
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
fn lspci_shows_the_tree_and_the_driver_binds_every_nic() {
    let set = [BRIDGES, "port.1.at=1:02.0", "port.2.at=1:02.1", "platform.nics=3"];
    let console = lspci("acceptance-pci-tree", &set);
    assert!(console.contains(TREE), "{console}");
    for place in ["0000:00:01.0", "0000:02:02.0", "0000:02:02.1"] {
        assert!(console.contains(&format!("/sys/bus/pci/drivers/e1000/{place}\n")), "{console}");
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn the_driver_binds_all_ports_of_four_cards_with_four_ports() {
    let console = lspci("acceptance-pci-cards", &["platform.nics=16", "platform.ports_per_card=4"]);
    for (device, function) in (1..=4).flat_map(|device| (0..4).map(move |function| (device, function))) {
        let place = format!("{device:02x}.{function}");
        assert!(console.contains(&format!("-{place}  Device 8086:100e")), "{place}: {console}");
        assert!(console.contains(&format!("/sys/bus/pci/drivers/e1000/0000:00:{place}\n")), "{console}");
    }
}

#[test]
fn testpmd_forwards_behind_two_bridges_and_its_checkpoint_needs_the_same_tree() {
    let behind = session(&[BRIDGES, "port.0.at=1:02.0"], &["run.warmup=100us", "run.duration=500us"]);
    let point = quiet(|control| run_point(&behind, "4Mpps".parse().unwrap(), Bytes(64), control)).unwrap();
    assert_eq!((point.summary.frames_offered, point.summary.frames_delivered), (2000, 2000));
    // Register accesses and DMA crossed both bridges. A machine with the NIC at another address rejects the
    // checkpoint.
    let at_root = session(&[BRIDGES], &[]);
    let file = CheckpointFile::from_bytes(behind.checkpoint().bytes().to_vec()).unwrap();
    assert!(at_root.machine().unwrap().restore(&file, behind.guest()).is_err());
}
