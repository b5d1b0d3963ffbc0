//! The flattened device tree that describes the machine to firmware and kernel.
//!
//! Documents: Devicetree Specification 0.4; the kernel's bindings for RISC-V CPUs, PLIC, APLIC, IMSIC, CLINT,
//! ns16550a, goldfish-rtc, syscon-poweroff and pci-host-ecam-generic; OpenSBI's binding for performance
//! counters. The nodes of the devices modelled here have the same names and properties as on QEMU's `virt`;
//! the addresses come from the map.

use std::ops::Range;

use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, Hertz};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vm_fdt::{Error as FdtError, FdtWriter};

use crate::clint::MAX_HARTS;
use crate::imsic;
use crate::map::{self, InterruptsKind, RegionId};

/// Single-letter extensions of the harts.
const LETTERS: &str = "imafdc";
/// Bytes fetched by a prefetch instruction (Linux's binding `riscv/cpus.yaml`).
const PREFETCH_BYTES: u32 = doorbell_sim::memory::LINE_BYTES as u32;
/// The UART's input clock, which only scales divisors.
const UART_CLOCK_HZ: u32 = 3_686_400;
/// Bytes of randomness for the kernel's generator.
const RNG_SEED_BYTES: usize = 32;

/// Events: first and last SBI index, and the mask of counters that can count them. Cycles and instructions
/// have fixed counters; the other events use any of the sixteen counters from `mhpmcounter3` on.
pub const EVENT_RANGES: [[u32; 3]; 10] = [
    [0x1, 0x1, 1 << 0],
    [0x2, 0x2, 1 << 2],
    [0x3, 0x6, EVENT_COUNTERS],
    [0x8, 0x9, EVENT_COUNTERS],
    [0x10000, 0x10002, EVENT_COUNTERS],
    [0x10008, 0x10009, EVENT_COUNTERS],
    [0x10010, 0x10015, EVENT_COUNTERS],
    [0x10018, 0x10019, EVENT_COUNTERS],
    [0x10021, 0x10021, EVENT_COUNTERS],
    [0x10028, 0x10029, EVENT_COUNTERS],
];
const EVENT_COUNTERS: u32 = 0xffff << 3;
/// Raw events have codes below this one.
pub const RAW_EVENTS: u64 = 0x1_0000;

/// The harts' other extensions.
fn extensions(config: &DeviceTreeConfig) -> Vec<&'static str> {
    let mut all = vec!["zicbop", "zicntr", "zicsr", "zifencei", "zihpm"];
    if config.interrupts == InterruptsKind::Aia {
        all.extend(["smaia", "ssaia"]);
    }
    all.extend(config.sstc.then_some("sstc"));
    all
}

/// Phandles. The harts and their interrupt controllers have those from `FIRST_HART_PHANDLE`, then those of
/// interrupt files.
const WIRED_PHANDLE: u32 = 1;
const TEST_PHANDLE: u32 = 2;
const FIRST_HART_PHANDLE: u32 = 3;
const ROOT_APLIC_PHANDLE: u32 = FIRST_HART_PHANDLE + 2 * MAX_HARTS;
const MACHINE_FILES_PHANDLE: u32 = ROOT_APLIC_PHANDLE + 1;
const SUPERVISOR_FILES_PHANDLE: u32 = ROOT_APLIC_PHANDLE + 2;

/// Trigger type in the second cell of an APLIC interrupt: level-high.
const LEVEL_HIGH: u32 = 4;

/// Interrupts of a hart's own controller, by their cause numbers (privileged architecture, mcause).
const MACHINE_SOFTWARE: u32 = 3;
const MACHINE_TIMER: u32 = 7;
const SUPERVISOR_EXTERNAL: u32 = 9;
const MACHINE_EXTERNAL: u32 = 11;

/// Address spaces of a PCI address (first cell of `ranges`, IEEE 1275 PCI binding).
const PCI_IO_SPACE: u32 = 0x0100_0000;
const PCI_MEMORY32_SPACE: u32 = 0x0200_0000;
const PCI_MEMORY64_SPACE: u32 = 0x0300_0000;

/// Largest page-table format of the harts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MmuMode {
    /// Three levels.
    Sv39,
    /// Four levels.
    #[default]
    Sv48,
}

/// The machine described by the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTreeConfig {
    /// Number of harts.
    pub harts: u32,
    /// Number of consecutive harts that are threads of the same core.
    pub threads: u32,
    /// Whether harts have Sstc.
    pub sstc: bool,
    /// The machine's interrupt controllers.
    pub interrupts: InterruptsKind,
    /// Their largest page-table format.
    pub mmu: MmuMode,
    /// Frequency of the `time` counter.
    pub timebase: Hertz,
    /// RAM size.
    pub ram: Bytes,
    /// The kernel's command line.
    pub bootargs: String,
    /// Address range of the initial RAM file system.
    pub initrd: Option<Range<u64>>,
    /// The run's seed, from which the kernel's random seed is derived.
    pub seed: u64,
    /// Number of virtio slots with a device, from the first slot on.
    pub disks: u32,
}

/// The kernel's command line cannot be stored in a property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's command line contains a NUL character")]
pub struct DeviceTreeError;

/// Generates the tree.
pub fn build(config: &DeviceTreeConfig) -> Result<Vec<u8>, DeviceTreeError> {
    if config.bootargs.contains('\0') {
        return Err(DeviceTreeError);
    }
    Ok(write(config).expect("names and nesting of the tree are fixed and right"))
}

fn write(config: &DeviceTreeConfig) -> Result<Vec<u8>, FdtError> {
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "riscv-virtio")?;
    fdt.property_string("model", "riscv-virtio,doorbell")?;
    chosen(&mut fdt, config)?;
    cpus(&mut fdt, config)?;
    let memory = fdt.begin_node(&format!("memory@{:x}", map::RAM_BASE))?;
    fdt.property_string("device_type", "memory")?;
    fdt.property_array_u64("reg", &[map::RAM_BASE, config.ram.0])?;
    fdt.end_node(memory)?;
    let soc = fdt.begin_node("soc")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "simple-bus")?;
    fdt.property_null("ranges")?;
    match config.interrupts {
        InterruptsKind::Plic => plic(&mut fdt, config.harts)?,
        InterruptsKind::Aia => aia(&mut fdt, config)?,
    }
    clint(&mut fdt, config.harts)?;
    simple_devices(&mut fdt, config.interrupts)?;
    virtio(&mut fdt, config)?;
    pci(&mut fdt, config.interrupts)?;
    fdt.end_node(soc)?;
    power_nodes(&mut fdt)?;
    event_counters(&mut fdt)?;
    fdt.end_node(root)?;
    fdt.finish()
}

fn chosen(fdt: &mut FdtWriter, config: &DeviceTreeConfig) -> Result<(), FdtError> {
    let node = fdt.begin_node("chosen")?;
    let uart = map::get(RegionId::Uart).base;
    fdt.property_string("stdout-path", &format!("/soc/serial@{uart:x}"))?;
    fdt.property_string("bootargs", &config.bootargs)?;
    if let Some(initrd) = &config.initrd {
        fdt.property_u64("linux,initrd-start", initrd.start)?;
        fdt.property_u64("linux,initrd-end", initrd.end)?;
    }
    let mut random = Rng::stream(config.seed, "platform.device_tree.rng_seed");
    let seed: Vec<u8> = (0..RNG_SEED_BYTES / 8).flat_map(|_| random.next_u64().to_be_bytes()).collect();
    fdt.property("rng-seed", &seed)?;
    fdt.end_node(node)
}

fn hart_intc(hart: u32) -> u32 {
    FIRST_HART_PHANDLE + 2 * hart + 1
}

fn cpus(fdt: &mut FdtWriter, config: &DeviceTreeConfig) -> Result<(), FdtError> {
    let extensions = extensions(config);
    let isa = format!("rv64{LETTERS}_{}", extensions.join("_"));
    let listed: Vec<String> = LETTERS.chars().map(String::from).chain(strings(&extensions)).collect();
    let node = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    fdt.property_u32("timebase-frequency", config.timebase.0 as u32)?;
    for hart in 0..config.harts {
        let cpu = fdt.begin_node(&format!("cpu@{hart:x}"))?;
        fdt.property_phandle(FIRST_HART_PHANDLE + 2 * hart)?;
        fdt.property_string("device_type", "cpu")?;
        fdt.property_u32("reg", hart)?;
        fdt.property_string("status", "okay")?;
        fdt.property_string("compatible", "riscv")?;
        fdt.property_string("riscv,isa", &isa)?;
        fdt.property_string("riscv,isa-base", "rv64i")?;
        fdt.property_string_list("riscv,isa-extensions", listed.clone())?;
        fdt.property_u32("riscv,cbop-block-size", PREFETCH_BYTES)?;
        let mmu = match config.mmu {
            MmuMode::Sv39 => "riscv,sv39",
            MmuMode::Sv48 => "riscv,sv48",
        };
        fdt.property_string("mmu-type", mmu)?;
        let intc = fdt.begin_node("interrupt-controller")?;
        fdt.property_phandle(hart_intc(hart))?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_string("compatible", "riscv,cpu-intc")?;
        fdt.end_node(intc)?;
        fdt.end_node(cpu)?;
    }
    let cpu_map = fdt.begin_node("cpu-map")?;
    let cluster = fdt.begin_node("cluster0")?;
    for core in 0..config.harts / config.threads {
        let node = fdt.begin_node(&format!("core{core}"))?;
        for thread in 0..config.threads {
            // A core without threads refers to its hart directly (Linux's binding `cpu/cpu-topology.txt`,
            // section 3).
            let own = match config.threads {
                1 => None,
                _ => Some(fdt.begin_node(&format!("thread{thread}"))?),
            };
            fdt.property_u32("cpu", FIRST_HART_PHANDLE + 2 * (config.threads * core + thread))?;
            own.map_or(Ok(()), |own| fdt.end_node(own))?;
        }
        fdt.end_node(node)?;
    }
    fdt.end_node(cluster)?;
    fdt.end_node(cpu_map)?;
    fdt.end_node(node)
}

/// The `reg` property of a region of the map.
fn reg(fdt: &mut FdtWriter, id: RegionId) -> Result<(), FdtError> {
    let region = map::get(id);
    fdt.property_array_u64("reg", &[region.base, region.size])
}

fn node_name(name: &str, id: RegionId) -> String {
    format!("{name}@{:x}", map::get(id).base)
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}

/// Interrupt specifiers for the given causes of each hart's own controller.
fn wires(harts: u32, causes: &[u32]) -> Vec<u32> {
    (0..harts).flat_map(|hart| causes.iter().flat_map(move |cause| [hart_intc(hart), *cause])).collect()
}

fn plic(fdt: &mut FdtWriter, harts: u32) -> Result<(), FdtError> {
    let plic = fdt.begin_node(&node_name("plic", RegionId::Plic))?;
    fdt.property_phandle(WIRED_PHANDLE)?;
    fdt.property_string_list("compatible", strings(&["sifive,plic-1.0.0", "riscv,plic0"]))?;
    reg(fdt, RegionId::Plic)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("riscv,ndev", map::PLIC_SOURCES)?;
    fdt.property_array_u32("interrupts-extended", &wires(harts, &[MACHINE_EXTERNAL, SUPERVISOR_EXTERNAL]))?;
    fdt.end_node(plic)
}

/// The interrupt files and the APLIC's domains of machine and supervisor mode.
fn aia(fdt: &mut FdtWriter, config: &DeviceTreeConfig) -> Result<(), FdtError> {
    let harts = config.harts;
    for (phandle, id, cause) in [
        (MACHINE_FILES_PHANDLE, RegionId::ImsicMachine, MACHINE_EXTERNAL),
        (SUPERVISOR_FILES_PHANDLE, RegionId::ImsicSupervisor, SUPERVISOR_EXTERNAL),
    ] {
        let files = fdt.begin_node(&node_name("interrupt-controller", id))?;
        fdt.property_phandle(phandle)?;
        fdt.property_string("compatible", "riscv,imsics")?;
        fdt.property_array_u64("reg", &[map::get(id).base, u64::from(harts) * imsic::FILE_BYTES])?;
        fdt.property_u32("#interrupt-cells", 0)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_null("msi-controller")?;
        fdt.property_array_u32("interrupts-extended", &wires(harts, &[cause]))?;
        fdt.property_u32("riscv,num-ids", imsic::IDENTITIES)?;
        fdt.end_node(files)?;
    }
    for (phandle, id, files) in [
        (ROOT_APLIC_PHANDLE, RegionId::AplicMachine, MACHINE_FILES_PHANDLE),
        (WIRED_PHANDLE, RegionId::AplicSupervisor, SUPERVISOR_FILES_PHANDLE),
    ] {
        let domain = fdt.begin_node(&node_name("interrupt-controller", id))?;
        fdt.property_phandle(phandle)?;
        fdt.property_string("compatible", "riscv,aplic")?;
        reg(fdt, id)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_u32("#interrupt-cells", 2)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("msi-parent", files)?;
        fdt.property_u32("riscv,num-sources", map::APLIC_SOURCES)?;
        if phandle == ROOT_APLIC_PHANDLE {
            fdt.property_u32("riscv,children", WIRED_PHANDLE)?;
            fdt.property_array_u32("riscv,delegation", &[WIRED_PHANDLE, 1, map::APLIC_SOURCES])?;
        }
        fdt.end_node(domain)?;
    }
    Ok(())
}

fn clint(fdt: &mut FdtWriter, harts: u32) -> Result<(), FdtError> {
    let clint = fdt.begin_node(&node_name("clint", RegionId::Clint))?;
    fdt.property_string_list("compatible", strings(&["sifive,clint0", "riscv,clint0"]))?;
    reg(fdt, RegionId::Clint)?;
    fdt.property_array_u32("interrupts-extended", &wires(harts, &[MACHINE_SOFTWARE, MACHINE_TIMER]))?;
    fdt.end_node(clint)
}

/// The cells of a device's interrupt specifier.
fn source(number: u32, interrupts: InterruptsKind) -> Vec<u32> {
    match interrupts {
        InterruptsKind::Plic => vec![number],
        InterruptsKind::Aia => vec![number, LEVEL_HIGH],
    }
}

fn simple_devices(fdt: &mut FdtWriter, interrupts: InterruptsKind) -> Result<(), FdtError> {
    let uart = fdt.begin_node(&node_name("serial", RegionId::Uart))?;
    fdt.property_string("compatible", "ns16550a")?;
    reg(fdt, RegionId::Uart)?;
    fdt.property_u32("clock-frequency", UART_CLOCK_HZ)?;
    fdt.property_u32("interrupt-parent", WIRED_PHANDLE)?;
    fdt.property_array_u32("interrupts", &source(map::UART_IRQ, interrupts))?;
    fdt.end_node(uart)?;
    let rtc = fdt.begin_node(&node_name("rtc", RegionId::Rtc))?;
    fdt.property_string("compatible", "google,goldfish-rtc")?;
    reg(fdt, RegionId::Rtc)?;
    fdt.property_u32("interrupt-parent", WIRED_PHANDLE)?;
    fdt.property_array_u32("interrupts", &source(map::RTC_IRQ, interrupts))?;
    fdt.end_node(rtc)?;
    let test = fdt.begin_node(&node_name("test", RegionId::Syscon))?;
    fdt.property_phandle(TEST_PHANDLE)?;
    fdt.property_string_list("compatible", strings(&["sifive,test1", "sifive,test0", "syscon"]))?;
    reg(fdt, RegionId::Syscon)?;
    fdt.end_node(test)
}

/// Mapping of events to counters (OpenSBI's binding `riscv,pmu`). An event's code is its SBI index, so no
/// translation is needed.
fn event_counters(fdt: &mut FdtWriter) -> Result<(), FdtError> {
    let pmu = fdt.begin_node("pmu")?;
    fdt.property_string("compatible", "riscv,pmu")?;
    fdt.property_array_u32("riscv,event-to-mhpmcounters", EVENT_RANGES.as_flattened())?;
    // Select and mask have two cells each: a raw event's code has no bits above the mask.
    let raw = [[0, 0], halves(!(RAW_EVENTS - 1))].concat();
    fdt.property_array_u32("riscv,raw-event-to-mhpmcounters", &[raw, vec![EVENT_COUNTERS]].concat())?;
    fdt.end_node(pmu)
}

/// Only occupied slots have a node: probing an empty slot would cost each boot some instructions.
fn virtio(fdt: &mut FdtWriter, config: &DeviceTreeConfig) -> Result<(), FdtError> {
    let base = map::get(RegionId::Virtio).base;
    for slot in 0..config.disks.min(map::VIRTIO_SLOTS) {
        let address = base + u64::from(slot) * map::VIRTIO_SLOT_BYTES;
        let node = fdt.begin_node(&format!("virtio_mmio@{address:x}"))?;
        fdt.property_string("compatible", "virtio,mmio")?;
        fdt.property_array_u64("reg", &[address, map::VIRTIO_SLOT_BYTES])?;
        fdt.property_u32("interrupt-parent", WIRED_PHANDLE)?;
        fdt.property_array_u32("interrupts", &source(map::VIRTIO_IRQ + slot, config.interrupts))?;
        fdt.end_node(node)?;
    }
    Ok(())
}

fn power_nodes(fdt: &mut FdtWriter) -> Result<(), FdtError> {
    for (name, compatible, value) in [
        ("poweroff", "syscon-poweroff", crate::syscon::PASS),
        ("reboot", "syscon-reboot", crate::syscon::RESET),
    ] {
        let node = fdt.begin_node(name)?;
        fdt.property_string("compatible", compatible)?;
        fdt.property_u32("regmap", TEST_PHANDLE)?;
        fdt.property_u32("offset", 0)?;
        fdt.property_u32("value", value)?;
        fdt.end_node(node)?;
    }
    Ok(())
}

fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, value as u32]
}

fn pci(fdt: &mut FdtWriter, interrupts: InterruptsKind) -> Result<(), FdtError> {
    let node = fdt.begin_node(&node_name("pci", RegionId::PciEcam))?;
    fdt.property_string("compatible", "pci-host-ecam-generic")?;
    fdt.property_string("device_type", "pci")?;
    reg(fdt, RegionId::PciEcam)?;
    fdt.property_u32("#address-cells", 3)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_u32("linux,pci-domain", 0)?;
    fdt.property_array_u32("bus-range", &[0, 0xff])?;
    fdt.property_null("dma-coherent")?;
    let mut ranges = Vec::new();
    for (space, id) in [
        (PCI_IO_SPACE, RegionId::PciIo),
        (PCI_MEMORY32_SPACE, RegionId::PciMmio32),
        (PCI_MEMORY64_SPACE, RegionId::PciMmio64),
    ] {
        let region = map::get(id);
        // Memory has the same address on both sides; I/O ports start at zero.
        let pci_address = if space == PCI_IO_SPACE { 0 } else { region.base };
        ranges.push(space);
        ranges.extend([pci_address, region.base, region.size].into_iter().flat_map(halves));
    }
    fdt.property_array_u32("ranges", &ranges)?;
    // The mapping from pins to sources repeats every four devices, so it depends on two bits of the device
    // number and the pin.
    let device_bits = (map::PCI_INTX_COUNT - 1) << 11;
    fdt.property_array_u32("interrupt-map-mask", &[device_bits, 0, 0, 0x7])?;
    let mut interrupt_map = Vec::new();
    for device in 0..map::PCI_INTX_COUNT {
        for pin in 1..=map::PCI_INTX_COUNT {
            let number = map::PCI_INTX_IRQ + (device + pin - 1) % map::PCI_INTX_COUNT;
            interrupt_map.extend([device << 11, 0, 0, pin, WIRED_PHANDLE]);
            interrupt_map.extend(source(number, interrupts));
        }
    }
    fdt.property_array_u32("interrupt-map", &interrupt_map)?;
    if interrupts == InterruptsKind::Aia {
        fdt.property_u32("msi-parent", SUPERVISOR_FILES_PHANDLE)?;
    }
    fdt.end_node(node)
}

#[cfg(test)]
#[path = "device_tree_tests.rs"]
mod tests;
