use doorbell_memory::dram::Dram;
use doorbell_memory::{MemoryConfig, MemorySystem};
use doorbell_sim::memory::{AccessKind, CoreAccess, Level};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Bytes, CoreCycle, Hertz};

use super::*;

const BASE: u64 = 0x8000_0000;
const DATA: DmaAccess = DmaAccess::plain(0, DmaPurpose::RxData, 0);

/// One configuration of each kind, and chains with another entry.
fn kinds() -> Vec<AttachConfig> {
    let stages =
        "[{width = \"8B\", clock = \"400MHz\", latency = \"10ns\", bridge_latency = \"50ns\", buffer = 4},
        {width = \"16B\", clock = \"1GHz\", latency = \"9ns\", split = false}]";
    [
        "",
        "kind = \"memory-bus\"",
        "kind = \"llc\"\noutstanding = 2",
        &format!("kind = \"bus\"\nstages = {stages}"),
        &format!("kind = \"bus\"\nenters = \"llc\"\nburst = \"256B\"\nstages = {stages}"),
    ]
    .map(|text| toml::from_str::<AttachConfig>(text).unwrap())
    .to_vec()
}

fn attachment(config: &AttachConfig) -> Attachment {
    config.validate().unwrap();
    Attachment::new(config, &LinkConfig::default(), 0)
}

fn memory(config: &AttachConfig) -> MemorySystem<Dram> {
    let (clocks, caches) = ([Hertz(3_000_000_000)], MemoryConfig::default());
    let dram = Dram::new(&caches.dram);
    let mut memory = MemorySystem::new(&caches, &clocks, PhysAddr(BASE), Bytes(64 << 20), dram).unwrap();
    memory.set_entry(0, config.entry());
    memory
}

fn timed(config: &AttachConfig) -> Attachment {
    let mut attachment = attachment(config);
    attachment.set_timed(true, Ps::ZERO);
    attachment
}

fn load(memory: &mut MemorySystem<Dram>, addr: u64) -> Level {
    memory
        .core_access(
            0,
            CoreCycle::new(1_000_000),
            CoreAccess { kind: AccessKind::Load, addr: PhysAddr(addr), pc: 0 },
        )
        .level
}

#[test]
fn writes_at_the_llc_stay_there_and_writes_at_the_memory_bus_go_to_memory() {
    let [memory_bus, llc] = [1, 2].map(|index| kinds()[index].clone());
    for (config, level) in [(llc, Level::Llc), (memory_bus, Level::Dram)] {
        let (mut attachment, mut memory) = (timed(&config), memory(&config));
        attachment.write(Ps::ZERO, PhysAddr(BASE), 64, DATA, Some(&mut memory));
        let written: u64 = memory.memory().stats().map(|channel| channel.writes).sum();
        assert_eq!(written, u64::from(level == Level::Dram));
        assert_eq!(load(&mut memory, BASE), level, "{:?}", config.kind);
        memory.check_invariants().unwrap();
    }
}

#[test]
fn a_register_read_of_an_on_die_nic_takes_30_ns() {
    // Binkert et al. (2005), table 2.
    for config in &kinds()[1..3] {
        let mut attachment = timed(config);
        let now = Ps::from_us(1);
        let arrives = attachment.register_read(now, 4);
        assert_eq!(attachment.register_answer(arrives, 4), now + Ps::from_ns(30));
    }
}

#[test]
fn dma_bytes_equal_the_memory_systems_device_traffic() {
    for config in kinds() {
        let (mut attachment, mut memory) = (timed(&config), memory(&config));
        let mut rng = Rng::stream(1, "bytes");
        for step in 0..500 {
            let (now, addr) = (Ps::from_ns(100 * step), PhysAddr(BASE + rng.below(1 << 20)));
            let len = rng.below(2000) as u32;
            attachment.write(now, addr, len, DATA, Some(&mut memory));
            let access = DmaAccess { purpose: DmaPurpose::TxData, ..DATA };
            attachment.read(now, addr, len / 2, access, Some(&mut memory));
        }
        let traffic = memory.stats().traffic;
        let moved = |purpose, direction| attachment.stats(purpose, direction).payload_bytes;
        assert_eq!(
            moved(DmaPurpose::RxData, DmaDirection::Write),
            traffic.device_in_bytes,
            "{:?}",
            config.kind
        );
        assert_eq!(
            moved(DmaPurpose::TxData, DmaDirection::Read),
            traffic.device_out_bytes,
            "{:?}",
            config.kind
        );
        if let Some(bus) = attachment.bus() {
            for stage in bus.stages() {
                assert_eq!(
                    (stage.up_bytes, stage.down_bytes),
                    (
                        moved(DmaPurpose::RxData, DmaDirection::Write),
                        moved(DmaPurpose::TxData, DmaDirection::Read)
                    )
                );
            }
        }
        memory.check_invariants().unwrap();
    }
}

#[test]
fn accesses_in_flight_are_not_overtaken_when_the_model_changes() {
    for config in kinds() {
        let (mut attachment, mut memory) = (attachment(&config), memory(&config));
        let mut rng = Rng::stream(7, "modes");
        let mut last = [Ps::ZERO; 3];
        let mut now = Ps::ZERO;
        for _ in 0..4000 {
            now += Ps(rng.below(100_000));
            if rng.below(10) == 0 {
                attachment.set_timed(rng.below(2) == 0, now);
            }
            let (addr, len) = (PhysAddr(BASE + rng.below(1 << 20)), rng.below(1500) as u32);
            let (order, at) = match rng.below(4) {
                0 => (0, attachment.write(now, addr, len, DATA, Some(&mut memory))),
                1 => (1, attachment.read(now, addr, len, DATA, Some(&mut memory))),
                2 => (2, attachment.register_write(now, 8).arrives),
                _ => (2, attachment.register_read(now, 4)),
            };
            assert!(at >= last[order] && at >= now, "{:?}: {at} after {:?}", config.kind, last[order]);
            last[order] = at;
            assert!(
                attachment.register_answer(now, 4) >= last[0],
                "a register response pushes the device's writes"
            );
        }
    }
}

#[test]
fn each_kind_continues_from_its_own_state_and_rejects_others() {
    for (index, config) in kinds().iter().enumerate() {
        let (mut one, mut memory) = (timed(config), memory(config));
        for step in 0..100 {
            one.write(Ps::from_ns(step), PhysAddr(BASE + 64 * step), 1500, DATA, Some(&mut memory));
            one.read(Ps::from_ns(step), PhysAddr(BASE + 64 * step), 1500, DATA, Some(&mut memory));
            one.register_write(Ps::from_ns(step), 4);
        }
        let bytes = postcard::to_stdvec(&one.save()).unwrap();
        let state: AttachmentState = postcard::from_bytes(&bytes).unwrap();
        let mut copy = attachment(config);
        copy.path_mut().restore(one.path().save()).unwrap();
        copy.restore(&state).unwrap();
        copy.resume_timed(true);
        let mut same = memory.clone();
        let next = |of: &mut Attachment, memory: &mut MemorySystem<Dram>| {
            let (now, addr) = (Ps::from_ns(200), PhysAddr(BASE));
            let done = of.read(now, addr, 4000, DATA, Some(memory));
            (done, of.write(now, addr, 4000, DATA, Some(memory)), of.register_write(now, 4))
        };
        assert_eq!(next(&mut copy, &mut same), next(&mut one, &mut memory), "{:?}", config.kind);
        for other in kinds().iter().enumerate().filter(|(other, _)| (*other == 0) != (index == 0)) {
            assert!(attachment(other.1).restore(&state).is_err());
        }
    }
}

#[test]
fn register_accesses_in_flight_survive_a_switch_of_the_model() {
    let mut attachment = timed(&kinds()[3]);
    let arrives = (0..50).map(|_| attachment.register_write(Ps::ZERO, 8).arrives).last().unwrap();
    attachment.set_timed(false, Ps::from_ns(1));
    let kept = attachment.registers_in_flight(arrives - Ps(1)).unwrap();
    assert_eq!((kept, attachment.registers_in_flight(arrives)), (arrives, None));
    let mut copy = self::attachment(&kinds()[3]);
    copy.restore_registers(kept).unwrap();
    assert_eq!(copy.register_write(Ps::from_ns(1), 8).arrives, arrives, "it waits for earlier ones");
    assert!(copy.restore_registers(Ps(u64::MAX)).is_err());
}

#[test]
fn each_pci_bridge_adds_its_latency_each_way_by_default_zero() {
    let with = |latency: u64, bridges: u32, timed: bool| {
        let link = LinkConfig { bridge_latency: Ps::from_ns(latency), ..LinkConfig::default() };
        let config = AttachConfig::default();
        let mut attachment = Attachment::new(&config, &link, bridges);
        attachment.set_timed(timed, Ps::ZERO);
        let mut memory = memory(&config);
        let later = Ps::from_us(10);
        let arrives = attachment.register_read(later, 4);
        let answer = attachment.register_answer(arrives, 4) - later;
        let read = attachment.read(later, PhysAddr(BASE), 64, DATA, Some(&mut memory)) - later;
        (answer, read)
    };
    for timed in [true, false] {
        assert_eq!(with(0, 3, timed), with(0, 0, timed));
        let (answer, read) = with(0, 0, timed);
        for (latency, bridges) in [(1, 1), (120, 1), (120, 3)] {
            let both = Ps::from_ns(2 * latency * u64::from(bridges));
            assert_eq!(with(latency, bridges, timed), (answer + both, read + both));
        }
    }
}

#[test]
fn a_restored_attachment_keeps_the_same_past_bookings() {
    for config in kinds() {
        let (mut attachment, mut copy) = (timed(&config), timed(&config));
        // The machine's last DMA request was long ago; register accesses since then have filled the lists of bookings.
        attachment.advance_to(Ps::ZERO);
        let access = |attachment: &mut Attachment, at: u64| {
            let arrives = attachment.register_read(Ps::from_us(at), 4);
            attachment.register_answer(arrives, 4);
        };
        (1..=400).for_each(|at| access(&mut attachment, at));
        copy.restore(&attachment.save()).unwrap();
        for attachment in [&mut attachment, &mut copy] {
            access(attachment, 500);
        }
        let [saved, restored] = [attachment, copy].map(|one| postcard::to_stdvec(&one.save()).unwrap());
        assert_eq!(saved, restored, "{:?}", config.kind);
    }
}
