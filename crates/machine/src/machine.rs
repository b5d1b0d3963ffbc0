//! The machine's parts, and how they are built from a configuration.

use doorbell_attach::Attachment;
use doorbell_loadgen::{LoadGen, LoadGenConfig, StageRecorder};
use doorbell_pcie::{FunctionIdentity, HostBridge, PciFunction, Place, Slot, SlotError};
use doorbell_platform::{Clint, InterruptsKind, MmuMode, Rtc, Syscon, Uart, VirtioDisk, map};
use doorbell_riscv::{Hart, HartConfig};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Clock, EventQueue, Ps, Ram};
use doorbell_wire::Link;

use crate::cards::Cards;
use crate::config::{ConfigError, CoreModel, MachineConfig};
use crate::console::Console;
use crate::events::Event;
use crate::functions::PluggedFunction;
use crate::harts::Harts;
use crate::interrupt_controller::InterruptController;
use crate::playback::Corunners;
use crate::port::Port;
use crate::recycle::Recycled;
use crate::run::Outcome;
use crate::timed::{Recording, Timing};
use crate::turns::Turns;
use crate::writers::Writers;

/// A simulated computer with its NICs, links and load generators.
pub struct Machine {
    pub(crate) config: MachineConfig,
    pub(crate) ram: Ram,
    pub(crate) harts: Harts,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) timebase: Clock,
    pub(crate) clint: Clint,
    pub(crate) interrupts: InterruptController,
    pub(crate) uart: Uart,
    pub(crate) rtc: Rtc,
    pub(crate) syscon: Syscon,
    pub(crate) disks: Vec<VirtioDisk>,
    pub(crate) reset_rom: Vec<u8>,
    pub(crate) bridge: HostBridge,
    pub(crate) ports: Vec<Port>,
    pub(crate) functions: Vec<PluggedFunction>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) stats: MachineStats,
    /// Time up to which the machine was run. It may be past the last event while all harts wait.
    pub(crate) reached: Ps,
    /// Time of the platform access in progress; zero if there is none.
    pub(crate) access_at: Ps,
    pub(crate) turns: Turns,
    pub(crate) timing: Option<Box<Timing>>,
    /// Recorder of a machine without timing models. An observer.
    pub(crate) recording: Option<Box<Recording>>,
    /// Time that each generator's frames spent in each stage. An observer.
    pub stages: Vec<StageRecorder>,
    /// Hart that last wrote each PCI register, for frame observers.
    pub(crate) writers: Writers,
    /// Number of harts that are measured, counted from hart 0; all by default. Used by observers only.
    pub measured_harts: usize,
    /// Reason to end the run, if there is one.
    pub(crate) outcome: Option<Outcome>,
    /// Co-running programs, on cores after those of the harts.
    pub(crate) corunners: Option<Box<Corunners>>,
    /// Console output. An observer.
    pub console: Console,
    /// Notes of the boot for later runs. Checkpoints keep them; no state depends on them.
    pub boot_notes: String,
    /// Reason for which the restored checkpoint was made; empty if the machine has booted.
    pub checkpoint_note: String,
}

doorbell_sim::stats! {
    /// Counters of the machine itself.
    pub struct MachineStats {
        /// Events handled.
        events,
        /// Loads and stores to addresses without a device.
        bus_errors,
        /// Loads and stores to PCI memory or I/O space that no function claims: read as all ones.
        unclaimed_pci_accesses,
    }
}

impl Machine {
    /// Builds a machine with empty RAM and its harts at the reset vector.
    pub fn new(config: MachineConfig, seed: u64) -> Result<Machine, ConfigError> {
        Machine::build(config, seed, Recycled::default(), Vec::new())
    }

    /// Builds a machine with further PCI functions at these places. A function at the place of a port's NIC
    /// replaces that NIC and has the port's wire. Functions are not part of the configuration: a machine that
    /// restores a checkpoint needs the same functions.
    pub fn with_functions(
        config: MachineConfig,
        seed: u64,
        functions: Vec<(Place, Box<dyn PciFunction>)>,
    ) -> Result<Machine, ConfigError> {
        Machine::build(config, seed, Recycled::default(), functions)
    }

    pub(crate) fn build(
        config: MachineConfig,
        seed: u64,
        recycled: Recycled,
        functions: Vec<(Place, Box<dyn PciFunction>)>,
    ) -> Result<Machine, ConfigError> {
        config.validate()?;
        let platform = &config.platform;
        let (ram, harts) = recycled.memory(&config)?;
        let Cards { functions, attachments } = Cards::new(&config, functions)?;
        let nics = platform.nics as u8;
        let bridge = build_bridge(&config, &functions)?;
        // Functions 0 and up are the ports' NICs: each port has the number of its NIC.
        let ports = (0..nics).map(|port| build_port(&config, seed, port, port)).collect::<Result<_, _>>()?;
        let mut machine = Machine {
            ram,
            harts: Harts::new(harts),
            queue: EventQueue::new(),
            timebase: Clock::new(platform.timebase),
            clint: Clint::new(platform.harts),
            interrupts: InterruptController::new(platform.interrupts, platform.harts),
            uart: Uart::default(),
            rtc: Rtc::new(&platform.rtc),
            syscon: Syscon::default(),
            disks: Vec::new(),
            reset_rom: Vec::new(),
            bridge,
            ports,
            functions,
            attachments,
            stats: MachineStats::default(),
            reached: Ps::ZERO,
            access_at: Ps::ZERO,
            turns: Turns::new(platform.harts as usize),
            timing: None,
            recording: None,
            stages: vec![StageRecorder::new(config.loadgen.stages); platform.nics as usize],
            writers: Writers::new(platform.harts as usize),
            measured_harts: platform.harts as usize,
            outcome: None,
            corunners: None,
            console: Console::default(),
            boot_notes: String::new(),
            checkpoint_note: String::new(),
            config,
        };
        if machine.config.core.model == CoreModel::Timed {
            let timing = Timing::new(&machine.config);
            machine.timing = Some(Box::new(timing.map_err(|problem| ConfigError::new("memory", problem))?));
        }
        machine.follow_guest_events();
        for index in 0..machine.functions.len() as u8 {
            machine.with_function(index, |function, side| function.power_on(Ps::ZERO, side));
        }
        Ok(machine)
    }

    /// The configuration that the machine was built from.
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// Simulated time: the latest time of events, harts and runs.
    pub fn now(&self) -> Ps {
        let harts = self.harts.iter().map(Hart::time).max();
        self.queue.now().max(self.reached).max(harts.unwrap_or(Ps::ZERO))
    }

    /// Latest time up to which everything has happened and after which nothing has. [`now`](Machine::now) may
    /// be past the next event, because a timed hart is ahead by a block.
    pub fn complete_until(&self) -> Ps {
        let running = self.harts.iter().filter(|hart| Machine::can_run(hart)).map(Hart::time).min();
        let before_next = Ps(self.queue.next_time().0.saturating_sub(1));
        let next = running.unwrap_or(Ps::MAX).min(before_next).min(self.now());
        self.queue.now().max(self.reached).max(next)
    }

    /// Instructions retired by all harts.
    pub fn instructions(&self) -> u64 {
        self.harts.iter().map(Hart::instructions).sum()
    }

    /// The harts.
    pub fn harts(&self) -> &[Hart] {
        &self.harts
    }

    /// The network ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Guest memory.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The network ports, to attach observers.
    pub fn ports_mut(&mut self) -> &mut [Port] {
        &mut self.ports
    }

    /// Counters of the machine itself.
    pub fn stats(&self) -> &MachineStats {
        &self.stats
    }

    /// Sends input to the console. Returns the number of bytes accepted.
    pub fn type_input(&mut self, bytes: &[u8]) -> usize {
        let taken = self.uart.push_input(bytes);
        self.turns.restart();
        self.update_interrupts();
        taken
    }

    /// Whether the UART's receive interrupt is enabled. A kernel enables it once a program has opened the
    /// terminal.
    pub fn has_receive_interrupt(&self) -> bool {
        self.uart.receive_interrupt_enabled()
    }
}

pub(crate) fn hart_config(config: &MachineConfig, id: usize) -> HartConfig {
    let core = config.hart(id).core;
    HartConfig {
        id,
        slot_clock: core.slot_clock(),
        cycle_clock: Clock::new(core.frequency),
        timebase: Clock::new(config.platform.timebase),
        sstc: config.platform.sstc,
        aia: config.platform.interrupts == InterruptsKind::Aia,
        sv48: config.platform.mmu == MmuMode::Sv48,
        reset_pc: map::get(map::RegionId::ResetRom).base,
    }
}

/// Builds the tree of PCI functions: the configured bridges, then `functions`. If `functions` is empty, the
/// configured NICs are used.
pub(crate) fn build_bridge(
    config: &MachineConfig,
    functions: &[PluggedFunction],
) -> Result<HostBridge, ConfigError> {
    let (bridges, ports) = (&config.platform.bridges, config.platform.nics as usize);
    let bridge = |place: &Place| Slot { place: *place, identity: FunctionIdentity::pci_bridge() };
    let nic = |port| {
        let identity = doorbell_nic::identity(config.port(port).nic.model);
        Slot { place: config.ports().place(port), identity }
    };
    let plugged = |plugged: &PluggedFunction| Slot { place: plugged.place(), identity: plugged.identity() };
    let configured = (0..ports).skip(functions.len()).map(nic);
    let slots = bridges.iter().map(bridge).chain(functions.iter().map(plugged)).chain(configured).collect();
    HostBridge::new(slots).map_err(|error| {
        let (SlotError::HostBridge(index, _)
        | SlotError::Taken(index, _)
        | SlotError::NoBridge(index, _)
        | SlotError::NoFunctionZero(index, _)) = error;
        let key = match index.checked_sub(bridges.len()) {
            None => format!("platform.bridges[{index}]"),
            Some(port) if port < ports => format!("port.{port}.at"),
            Some(other) => format!("function {}", other - ports),
        };
        let hint = match error {
            SlotError::NoBridge(..) => "; list it in platform.bridges, such as platform.bridges=[\"1e.0\"]",
            _ => "",
        };
        ConfigError::new(key, format!("{error}{hint}"))
    })
}

fn build_port(config: &MachineConfig, seed: u64, port: u8, function: u8) -> Result<Port, ConfigError> {
    let (index, wire) = (u32::from(port), config.port(usize::from(port)).link);
    let link = |direction: &str| {
        let rng = Rng::stream(seed, &format!("port{index}.link.{direction}"));
        Link::new(wire.clone(), rng).map_err(|error| ConfigError::new("link", error))
    };
    let loadgen = LoadGenConfig { traffic: config.loadgen.traffic.for_port(index), ..config.loadgen.clone() };
    Ok(Port {
        function,
        link_in: link("in")?,
        link_out: link("out")?,
        loadgen: LoadGen::new(index, seed, &loadgen, &wire)
            .map_err(|error| ConfigError::new("loadgen", error))?,
        capture: None,
        cable: None,
    })
}
