//! Tests that read the tree with an independent parser.

use super::*;
use std::collections::BTreeMap;
use std::process::Command;

#[derive(Debug, Default)]
struct Node {
    properties: BTreeMap<String, Vec<u8>>,
    children: BTreeMap<String, Node>,
}

fn word(blob: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(blob[at..at + 4].try_into().unwrap())
}

fn text(blob: &[u8], at: usize) -> String {
    let end = at + blob[at..].iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8(blob[at..end].to_vec()).unwrap()
}

/// Parses a tree: Devicetree Specification 0.4, chapter 5: header, structure block, strings block.
fn parse(blob: &[u8]) -> Node {
    assert_eq!(word(blob, 0), 0xd00d_feed);
    assert_eq!(word(blob, 4) as usize, blob.len());
    assert!(word(blob, 24) <= 17 && word(blob, 20) >= 16, "versions");
    let mut at = word(blob, 8) as usize;
    let strings = word(blob, 12) as usize;
    let mut open = vec![(String::new(), Node::default())];
    loop {
        let token = word(blob, at);
        at += 4;
        match token {
            1 => {
                let name = text(blob, at);
                at += (name.len() + 1).next_multiple_of(4);
                open.push((name, Node::default()));
            }
            2 => {
                let (name, node) = open.pop().unwrap();
                assert!(open.last_mut().unwrap().1.children.insert(name, node).is_none(), "duplicate name");
            }
            3 => {
                let (len, name) =
                    (word(blob, at) as usize, text(blob, strings + word(blob, at + 4) as usize));
                let value = blob[at + 8..at + 8 + len].to_vec();
                at += 8 + len.next_multiple_of(4);
                assert!(
                    open.last_mut().unwrap().1.properties.insert(name, value).is_none(),
                    "duplicate name"
                );
            }
            4 => {}
            9 => break,
            other => panic!("token {other}"),
        }
    }
    assert_eq!(open.len(), 1);
    open.pop().unwrap().1.children.remove("").unwrap()
}

impl Node {
    fn at(&self, path: &str) -> &Node {
        path.split('/').fold(self, |node, name| &node.children[name])
    }
    fn cells(&self, name: &str) -> Vec<u32> {
        self.properties[name].chunks(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect()
    }
    fn strings(&self, name: &str) -> Vec<String> {
        let value = self.properties[name].strip_suffix(&[0]).unwrap();
        value.split(|byte| *byte == 0).map(|part| String::from_utf8(part.to_vec()).unwrap()).collect()
    }
}

fn config() -> DeviceTreeConfig {
    DeviceTreeConfig {
        harts: 2,
        threads: 1,
        sstc: true,
        interrupts: InterruptsKind::Plic,
        mmu: MmuMode::Sv48,
        timebase: Hertz(10_000_000),
        ram: Bytes(256 << 20),
        bootargs: "console=ttyS0 quiet".to_owned(),
        initrd: Some(0x8f00_0000..0x8f12_3456),
        seed: 7,
        disks: 2,
    }
}

#[test]
fn cpu_map_lists_the_threads_of_each_core() {
    let handle = |tree: &Node, hart: u32| tree.at(&format!("cpus/cpu@{hart}")).cells("phandle");
    let plain = parse(&build(&DeviceTreeConfig { harts: 4, ..config() }).unwrap());
    let map = plain.at("cpus/cpu-map/cluster0");
    assert_eq!(map.at("core3").cells("cpu"), handle(&plain, 3));
    let tree = parse(&build(&DeviceTreeConfig { harts: 4, threads: 2, ..config() }).unwrap());
    let map = tree.at("cpus/cpu-map/cluster0");
    assert_eq!(map.children.len(), 2);
    for hart in 0..4 {
        let thread = map.at(&format!("core{}/thread{}", hart / 2, hart % 2));
        assert_eq!(thread.cells("cpu"), handle(&tree, hart));
    }
}

#[test]
fn the_tree_describes_harts_memory_and_boot_parameters() {
    let tree = parse(&build(&config()).unwrap());
    assert_eq!(tree.at("cpus").cells("timebase-frequency"), [10_000_000]);
    assert_eq!(tree.at("memory@80000000").cells("reg"), [0, 0x8000_0000, 0, 0x1000_0000]);
    let hart = tree.at("cpus/cpu@1");
    assert_eq!(hart.cells("reg"), [1]);
    assert_eq!(hart.strings("mmu-type"), ["riscv,sv48"]);
    assert_eq!(hart.strings("riscv,isa-base"), ["rv64i"]);
    let extensions = hart.strings("riscv,isa-extensions");
    assert_eq!(extensions[..6], ["i", "m", "a", "f", "d", "c"]);
    assert_eq!(extensions[6..], ["zicbop", "zicntr", "zicsr", "zifencei", "zihpm", "sstc"]);
    assert_eq!(hart.cells("riscv,cbop-block-size"), [64], "the cache line size");
    let chosen = tree.at("chosen");
    assert_eq!(chosen.strings("bootargs"), ["console=ttyS0 quiet"]);
    assert_eq!(chosen.cells("linux,initrd-start"), [0, 0x8f00_0000]);
    assert_eq!(chosen.cells("linux,initrd-end"), [0, 0x8f12_3456]);
    assert_eq!(chosen.properties["rng-seed"].len(), 32);
    assert!(tree.at("soc").children.contains_key(&chosen.strings("stdout-path")[0]["/soc/".len()..]));
}

#[test]
fn event_counters_follow_their_binding() {
    let tree = parse(&build(&config()).unwrap());
    let pmu = tree.at("pmu");
    assert_eq!(pmu.strings("compatible"), ["riscv,pmu"]);
    // First and last event, counters: cycles and instructions on counters 0 and 2, cache misses on 3 to 18.
    let ranges = pmu.cells("riscv,event-to-mhpmcounters");
    assert_eq!(ranges[..9], [1, 1, 1, 2, 2, 4, 3, 6, 0x7fff8]);
    assert_eq!(ranges.len() % 3, 0);
    // Select, mask, counters: 0x1ff is a raw event, 0x10000 is not.
    let raw = pmu.cells("riscv,raw-event-to-mhpmcounters");
    assert_eq!(raw, [0, 0, 0xffff_ffff, 0xffff_0000, 0x7fff8]);
    assert_eq!(pmu.cells("riscv,event-to-mhpmcounters").last(), Some(&0x7fff8));
}

#[test]
fn without_an_initrd_the_tree_has_no_initrd_properties() {
    let tree = parse(&build(&DeviceTreeConfig { initrd: None, mmu: MmuMode::Sv39, ..config() }).unwrap());
    assert!(!tree.at("chosen").properties.contains_key("linux,initrd-start"));
    assert_eq!(tree.at("cpus/cpu@0").strings("mmu-type"), ["riscv,sv39"]);
}

#[test]
fn interrupts_refer_to_their_controllers() {
    let tree = parse(&build(&config()).unwrap());
    let plic = tree.at("soc/plic@c000000");
    let intc = |hart: u32| tree.at(&format!("cpus/cpu@{hart}/interrupt-controller")).cells("phandle")[0];
    assert_eq!(plic.cells("interrupts-extended"), [intc(0), 11, intc(0), 9, intc(1), 11, intc(1), 9]);
    let clint = tree.at("soc/clint@2000000");
    assert_eq!(clint.cells("interrupts-extended"), [intc(0), 3, intc(0), 7, intc(1), 3, intc(1), 7]);
    for (name, source) in [("soc/serial@10000000", 10), ("soc/rtc@101000", 11)] {
        assert_eq!(tree.at(name).cells("interrupts"), [source]);
        assert_eq!(tree.at(name).cells("interrupt-parent"), plic.cells("phandle"));
    }
    let test = tree.at("soc/test@100000").cells("phandle");
    assert_eq!(tree.at("poweroff").cells("regmap"), test);
    assert_eq!(tree.at("reboot").cells("regmap"), test);
}

#[test]
fn the_kernels_random_seed_follows_the_runs_seed() {
    let seed = |seed| {
        parse(&build(&DeviceTreeConfig { seed, ..config() }).unwrap()).at("chosen").properties["rng-seed"]
            .clone()
    };
    assert_eq!(seed(1), seed(1));
    assert_ne!(seed(1), seed(2));
}

#[test]
fn a_command_line_with_a_nul_character_is_refused() {
    assert_eq!(build(&DeviceTreeConfig { bootargs: "a\0b".into(), ..config() }), Err(DeviceTreeError));
}

/// A folder that is removed at the end of the test.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("doorbell-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_device_tree_compiler_reports_no_warnings() {
    let scratch = Scratch::new("dtc");
    let path = scratch.0.join("machine.dtb");
    std::fs::write(&path, build(&config()).unwrap()).unwrap();
    let output = Command::new("dtc").args(["-I", "dtb", "-O", "dts"]).arg(&path).output();
    let output = output.expect("dtc starts (tools/setup test installs it)");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.trim().is_empty(), "{complaints}");
}

/// Collects the path of each phandle, to compare references by their target.
fn phandles(node: &Node, path: &str, into: &mut BTreeMap<u32, String>) {
    if node.properties.contains_key("phandle") {
        into.insert(node.cells("phandle")[0], path.to_owned());
    }
    for (name, child) in &node.children {
        phandles(child, &format!("{path}/{name}"), into);
    }
}

/// Cells of a property, with every `reference`-th cell of each `group` resolved from a phandle to a path.
fn resolved(tree: &Node, path: &str, name: &str, group: usize, reference: usize) -> Vec<String> {
    let mut names = BTreeMap::new();
    phandles(tree, "", &mut names);
    let cells = tree.at(path).cells(name);
    let resolve = |(i, cell): (usize, &u32)| match i % group == reference {
        true => names[cell].clone(),
        false => cell.to_string(),
    };
    cells.iter().enumerate().map(resolve).collect()
}

#[test]
fn device_nodes_agree_with_qemus() {
    let scratch = Scratch::new("qemu-dtb");
    let path = scratch.0.join("virt.dtb");
    let machine = format!("virt,dumpdtb={}", path.display());
    let run =
        doorbell_oracle::qemu().args(["-M", &machine, "-smp", "2", "-m", "256", "-display", "none"]).output();
    assert!(run.as_ref().is_ok_and(|output| output.status.success()), "{run:?}");
    let file = std::fs::read(&path).unwrap();
    // The file is padded beyond the tree's length.
    let theirs = parse(&file[..word(&file, 4) as usize]);
    let ours = parse(&build(&config()).unwrap());
    let mut compared = 0;
    for device in [
        "soc/pci@30000000",
        "soc/serial@10000000",
        "soc/rtc@101000",
        "soc/virtio_mmio@10001000",
        "soc/virtio_mmio@10002000",
        "soc/test@100000",
        "soc/plic@c000000",
        "soc/clint@2000000",
        "memory@80000000",
        "poweroff",
        "reboot",
        "cpus",
        "soc",
    ] {
        let (ours, theirs) = (ours.at(device), theirs.at(device));
        let references = ["phandle", "interrupt-parent", "interrupts-extended", "interrupt-map", "regmap"];
        for (name, value) in &theirs.properties {
            if !references.contains(&name.as_str()) {
                assert_eq!(ours.properties.get(name), Some(value), "{device} {name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 40, "{compared}");
    for (path, name, group, reference) in [
        ("soc/pci@30000000", "interrupt-map", 6, 4),
        ("soc/plic@c000000", "interrupts-extended", 2, 0),
        ("soc/clint@2000000", "interrupts-extended", 2, 0),
        ("soc/serial@10000000", "interrupt-parent", 1, 0),
        ("soc/virtio_mmio@10002000", "interrupt-parent", 1, 0),
        ("poweroff", "regmap", 1, 0),
    ] {
        assert_eq!(
            resolved(&ours, path, name, group, reference),
            resolved(&theirs, path, name, group, reference),
            "{path} {name}"
        );
    }
}

#[test]
fn with_aia_the_tree_has_imsics_and_an_aplic_instead_of_the_plic() {
    let tree = parse(&build(&DeviceTreeConfig { interrupts: InterruptsKind::Aia, ..config() }).unwrap());
    let extensions = tree.at("cpus/cpu@0").strings("riscv,isa-extensions");
    assert_eq!(extensions[6..], ["zicbop", "zicntr", "zicsr", "zifencei", "zihpm", "smaia", "ssaia", "sstc"]);
    let soc = tree.at("soc");
    assert!(!soc.children.keys().any(|name| name.starts_with("plic")));
    let node = |address: &str| soc.at(&format!("interrupt-controller@{address}"));
    let harts: Vec<u32> = (0..2)
        .map(|hart| tree.at(&format!("cpus/cpu@{hart}/interrupt-controller")).cells("phandle")[0])
        .collect();
    for (address, base, cause) in [("24000000", 0x2400_0000, 11), ("28000000", 0x2800_0000, 9)] {
        let files = node(address);
        assert_eq!(files.cells("reg"), [0, base, 0, 0x2000]);
        assert_eq!(files.cells("interrupts-extended"), [harts[0], cause, harts[1], cause]);
        assert_eq!(files.cells("riscv,num-ids"), [255]);
        assert_eq!(files.strings("compatible"), ["riscv,imsics"]);
        assert!(files.properties.contains_key("msi-controller"));
    }
    let (root, child) = (node("c000000"), node("d000000"));
    for (domain, files) in [(root, "24000000"), (child, "28000000")] {
        assert_eq!(domain.cells("msi-parent"), node(files).cells("phandle"));
        assert_eq!(
            (domain.cells("riscv,num-sources"), domain.cells("#interrupt-cells")),
            (vec![96], vec![2])
        );
    }
    let phandle = child.cells("phandle")[0];
    assert_eq!(
        (root.cells("riscv,children"), root.cells("riscv,delegation")),
        (vec![phandle], vec![phandle, 1, 96])
    );
    assert!(!child.properties.contains_key("riscv,children"));
    for (device, source) in [("serial@10000000", 10), ("rtc@101000", 11), ("virtio_mmio@10002000", 2)] {
        assert_eq!(soc.at(device).cells("interrupts"), [source, 4], "{device}");
        assert_eq!(soc.at(device).cells("interrupt-parent"), [phandle], "{device}");
    }
    let pci = soc.at("pci@30000000");
    assert_eq!(pci.cells("msi-parent"), node("28000000").cells("phandle"));
    assert_eq!(pci.cells("interrupt-map")[..14], [0, 0, 0, 1, phandle, 32, 4, 0, 0, 0, 2, phandle, 33, 4]);
    assert_eq!(pci.cells("interrupt-map").len(), 16 * 7);
}

#[test]
fn the_isa_string_lists_the_harts_extensions() {
    use InterruptsKind::{Aia, Plic};
    for (sstc, interrupts, ending) in [
        (true, Plic, "_sstc"),
        (true, Aia, "_smaia_ssaia_sstc"),
        (false, Aia, "_smaia_ssaia"),
        (false, Plic, ""),
    ] {
        let tree = parse(&build(&DeviceTreeConfig { sstc, interrupts, ..config() }).unwrap());
        let expected = format!("rv64imafdc_zicbop_zicntr_zicsr_zifencei_zihpm{ending}");
        assert_eq!(tree.at("cpus/cpu@1").strings("riscv,isa"), [expected]);
    }
}
