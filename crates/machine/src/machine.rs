//! The machine's parts and how they are built from a configuration.

use doorbell_attach::Attachment;
use doorbell_loadgen::{LoadGen, LoadGenConfig, StageRecorder};
use doorbell_pcie::{FunctionIdentity, HostBridge, HostBridgeConfig, PciFunction, Place, Slot, SlotError};
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
    /// How far the machine was run, which may be beyond the last event while all harts wait.
    pub(crate) reached: Ps,
    /// When the device access that is being made was made; zero if none is.
    pub(crate) access_at: Ps,
    pub(crate) turns: Turns,
    pub(crate) timing: Option<Box<Timing>>,
    /// What records where there are no timing models. An observer.
    pub(crate) recording: Option<Box<Recording>>,
    /// Where each generator's frames spent their time. An observer.
    pub stages: Vec<StageRecorder>,
    /// Which hart wrote which register of PCI last, for those who watch frames.
    pub(crate) writers: Writers,
    /// So many harts, from the first on, are measured: all, unless somebody says otherwise. An observer's.
    pub measured_harts: usize,
    /// Something happened that ends the run.
    pub(crate) outcome: Option<Outcome>,
    /// Programs on cores behind the harts'.
    pub(crate) corunners: Option<Box<Corunners>>,
    /// What was printed. An observer.
    pub console: Console,
    /// What a boot left to be read by later runs. Checkpoints carry it; no state depends on it.
    pub boot_notes: String,
    /// Why the checkpoint was made from which it goes on; empty if it has booted.
    pub checkpoint_note: String,
}

doorbell_sim::stats! {
    /// What the machine itself counts.
    pub struct MachineStats {
        /// Events handled.
        events,
        /// Loads and stores to addresses at which nothing answers.
        bus_errors,
        /// Loads and stores to PCI memory or I/O space that no function claims: read as all ones.
        unclaimed_pci_accesses,
    }
}

impl Machine {
    /// Builds a machine. Its RAM is empty and its harts stand at the reset vector.
    pub fn new(config: MachineConfig, seed: u64) -> Result<Machine, ConfigError> {
        Machine::build(config, seed, Recycled::default(), Vec::new())
    }

    /// The same with further PCI functions at these places. One at the place of a port's NIC replaces that NIC and has the port's wire.
    /// They are not part of the configuration: a machine that restores a checkpoint needs the same functions.
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
        // The NICs are listed first, in the ports' order.
        let ports = (0..nics).map(|port| build_port(&config, seed, port, port)).collect::<Result<_, _>>()?;
        let mut machine = Machine {
            ram,
            harts: Harts::new(harts),
            queue: EventQueue::new(),
            timebase: Clock::new(platform.timebase),
            clint: Clint::new(platform.harts),
            interrupts: InterruptController::new(platform.interrupts, platform.harts),
            uart: Uart::new(),
            rtc: Rtc::new(&platform.rtc),
            syscon: Syscon::new(),
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

    /// Simulated time: how far events, harts and runs have come.
    pub fn now(&self) -> Ps {
        let harts = self.harts.iter().map(Hart::time).max();
        self.queue.now().max(self.reached).max(harts.unwrap_or(Ps::ZERO))
    }

    /// The latest moment up to which everything has happened and behind which no event has. [`now`](Machine::now) may lie behind the next
    /// event, as a timed hart is ahead by a block.
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

    /// What the machine itself counted.
    pub fn stats(&self) -> &MachineStats {
        &self.stats
    }

    /// Types on the console's keyboard. Returns how many bytes were taken.
    pub fn type_input(&mut self, bytes: &[u8]) -> usize {
        let taken = self.uart.push_input(bytes);
        self.turns.restart();
        self.update_interrupts();
        taken
    }

    /// Whether the guest waits for input by the UART's interrupt, as a kernel does once a program has its terminal open.
    pub fn listens_to_input(&self) -> bool {
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

/// The tree of PCI functions: the bridges of the configuration, then the functions. Without these, those of the configuration.
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
    HostBridge::new(HostBridgeConfig::default(), slots).map_err(|error| {
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
