//! Playback of traces with virtual addresses only: ChampSim's, and others with page tables.

use doorbell_trace::champsim::{Record, Variant, Writer};

use super::tests::{config, folder, played, polling};
use super::*;

#[test]
fn champsim_trace_plays_alone_and_as_a_neighbour() {
    let folder = folder();
    let path = folder.path().join("loop.champsim.xz");
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    for turn in 0..1000u64 {
        for place in 0..10u64 {
            let mut record = Record { ip: 0x40_0000 + 4 * place, ..Record::default() };
            match place {
                3 => record.read[0] = 0x7fff_0000_0000 + 64 * (turn % 32),
                9 => {
                    (record.is_branch, record.taken, record.destinations[0], record.sources[0]) =
                        (true, true, 26, 26)
                }
                _ => record.destinations[0] = 70,
            }
            writer.write_record(&record).unwrap();
        }
    }
    writer.finish().unwrap();
    let trace = TraceInput::open(&path, Variant::Standard, None).unwrap();
    assert_eq!((trace.harts(), trace.instructions()), (1, 9_999));
    let alone = played(&config(&[]), &Plan::of(trace.clone())).played();
    assert_eq!(alone.instructions, 9_999);
    assert!((32..40).contains(&alone.memory.harts[0].l1d.misses), "{:?}", alone.memory.harts[0]);
    assert_eq!(alone.memory.harts[0].core.outside_ram, 0);
    let first = polling(&folder.path().join("a"), 40, 3, 1, true);
    let both = played(&config(&["platform.harts=2"]), &Plan::of(first).with_neighbour(trace)).played();
    assert!(both.traces[1].instructions > 0);
    let message =
        TraceInput::open(&folder.path().join("none"), Variant::Standard, None).err().unwrap().to_string();
    assert!(message.contains("No such file"), "{message}");
}

#[test]
fn virtual_addresses_use_the_configured_page_tables() {
    let folder = folder();
    let path = folder.path().join("pages.champsim");
    let mut writer = Writer::create(&path, Variant::Standard).unwrap();
    for turn in 0..20_000u64 {
        let mut record = Record { ip: 0x40_0000 + 4 * (turn % 8), ..Record::default() };
        record.read[0] = 0x7fff_0000_0000 + 4096 * (turn * 7 % 4096);
        writer.write_record(&record).unwrap();
    }
    writer.finish().unwrap();
    let trace = TraceInput::open(&path, Variant::Standard, None).unwrap();
    let with = |pages, page_size, set: &[&str]| {
        let pages = PagesConfig { pages, page_size: doorbell_sim::Bytes(page_size) };
        let plan = Plan { pages, ..Plan::of(trace.clone()) };
        let mut player = Player::new(&config(set), &plan)?;
        player.run(u64::MAX)?;
        let played = player.played();
        Ok::<_, PlaybackError>((played.cores[0].1.counts.walks, played.now))
    };
    let small = with(Pages::Kernel, 4096, &[]).unwrap();
    let large = with(Pages::Kernel, 2 << 20, &[]).unwrap();
    let champsim = with(Pages::ChampSim, 4096, &[]).unwrap();
    assert_eq!(with(Pages::Identity, 4096, &[]).unwrap().0, 0);
    assert!(small.0 > 19_000 && champsim.0 > 19_000, "each access needs a walk: {small:?} {champsim:?}");
    assert!(large.0 < 20, "{large:?}");
    assert!(champsim.1 > small.1, "its page-table entries share no lines: {champsim:?} {small:?}");
    assert_eq!(with(Pages::Kernel, 4096, &[]).unwrap(), small, "deterministic");
    let message = with(Pages::Kernel, 8192, &[]).unwrap_err().to_string();
    assert!(message.contains("playback.page_size"), "{message}");
    let small_ram = with(Pages::Kernel, 2 << 20, &["platform.ram=64MiB"]);
    assert!(small_ram.is_ok(), "16 MiB of data and one page of code");
}
