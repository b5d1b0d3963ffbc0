//! Link times against closed forms, with a memory that has fixed latencies and records its requests.

mod sharing;
mod ticking;

use super::*;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Bytes, stats::Stats as _};
use proptest::prelude::*;

/// Memory with fixed read and write latencies.
#[derive(Default)]
struct Fixed {
    read: Ps,
    write: Ps,
    /// Time, address, bytes, offset, and whether it was a write.
    requests: Vec<(Ps, u64, u32, u32, bool)>,
}

impl HostMemory for Fixed {
    fn device_read(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps {
        self.requests.push((now, addr.0, bytes, access.offset, false));
        now + self.read
    }
    fn device_write(&mut self, now: Ps, addr: PhysAddr, bytes: u32, access: DmaAccess) -> Ps {
        self.requests.push((now, addr.0, bytes, access.offset, true));
        now + self.write
    }
}

const RX: DmaAccess = DmaAccess::plain(0, DmaPurpose::RxData, 0);
const TX: DmaAccess = DmaAccess::plain(0, DmaPurpose::TxData, 0);

impl PcieLink {
    fn new(config: &LinkConfig) -> PcieLink {
        PcieLink::behind_bridges(config, 0)
    }
}

fn ns(ns: u64) -> Ps {
    Ps::from_ns(ns)
}

/// A byte takes a nanosecond (Gen2 x2, no data link layer share); 100 ns over the link and 20 ns through the
/// root complex.
fn plain() -> LinkConfig {
    LinkConfig {
        generation: 2,
        lanes: 2,
        data_link_share: Some(0),
        link_latency: Some(ns(100)),
        root_latency: Some(ns(20)),
        register_latency: Some(Ps::ZERO),
        read_issue_interval: Ps::ZERO,
        write_issue_interval: Ps::ZERO,
        line_interval: Ps::ZERO,
        ..LinkConfig::default()
    }
}

fn memory() -> Fixed {
    Fixed { read: ns(50), write: ns(30), requests: Vec::new() }
}

#[test]
fn a_write_takes_its_packets_the_latencies_and_memory() {
    let at = PhysAddr(0x1000);
    let write = |len| PcieLink::new(&plain()).write(ns(1000), at, len, RX, &mut memory());
    assert_eq!(write(64), ns(1000 + 24 + 64 + 100 + 20 + 30));
    assert_eq!(write(256), ns(1000 + 24 + 256 + 100 + 20 + 30));
    assert_eq!(write(257), ns(1000 + 2 * 24 + 257 + 100 + 20 + 30), "a second packet");
    assert_eq!(write(0), ns(1000 + 24 + 100 + 20), "zero length");
}

#[test]
fn a_read_takes_its_request_memory_and_its_completions() {
    let at = PhysAddr(0x1000);
    let read = |len| PcieLink::new(&plain()).read(ns(1000), at, len, TX, &mut memory());
    assert_eq!(read(64), ns(1000 + 24 + 120 + 50 + 20 + 20 + 64 + 100));
    assert_eq!(read(512), ns(1000 + 24 + 120 + 50 + 20 + 2 * 20 + 512 + 100));
    // The second request follows the first; its data are ready before the first's have been sent.
    assert_eq!(read(1024), ns(1000 + 24 + 120 + 50 + 20 + 4 * 20 + 1024 + 100));
}

#[test]
fn packets_and_bytes_match_the_closed_form_for_every_size() {
    for (mps, mrrs) in [(128, 128), (128, 512), (256, 512), (512, 4096)] {
        let config =
            LinkConfig { max_payload: Bytes(mps), max_read_request: Bytes(mrrs), ..LinkConfig::default() };
        for size in 1..=4096u64 {
            let mut link = PcieLink::new(&config);
            link.write(Ps::ZERO, PhysAddr(0x10_0000), size as u32, RX, &mut memory());
            link.read(Ps::ZERO, PhysAddr(0x20_0000), size as u32, TX, &mut memory());
            let (rx, tx) = (
                link.kind_stats(DmaPurpose::RxData, DmaDirection::Write),
                link.kind_stats(DmaPurpose::TxData, DmaDirection::Read),
            );
            assert_eq!((rx.up_packets, rx.up_bytes), (size.div_ceil(mps), size.div_ceil(mps) * 24 + size));
            assert_eq!((tx.up_packets, tx.up_bytes), (size.div_ceil(mrrs), size.div_ceil(mrrs) * 24));
            let answers = size.div_ceil(mps.min(mrrs));
            assert_eq!((tx.down_packets, tx.down_bytes), (answers, answers * 20 + size));
            let stats = link.stats();
            assert_eq!((stats.up_bytes, stats.down_bytes), (rx.up_bytes + tx.up_bytes, tx.down_bytes));
            assert_eq!(stats.full_line_writes, size / 64);
            assert_eq!(stats.partial_line_writes, u64::from(size % 64 > 0));
            assert_eq!(stats.line_reads, size.div_ceil(64));
        }
    }
}

#[test]
fn packets_do_not_cross_pages_and_completions_end_at_the_boundary() {
    let mut link = PcieLink::new(&LinkConfig { read_completion_boundary: Bytes(128), ..plain() });
    let mut memory = memory();
    // 256 bytes from 0x0f80: 128 up to the page's end, 128 after it.
    link.write(Ps::ZERO, PhysAddr(0xf80), 256, RX, &mut memory);
    assert_eq!(link.kind_stats(DmaPurpose::RxData, DmaDirection::Write).up_packets, 2);
    // 512 bytes from 0x20: completions of 224, 256 and 32 bytes.
    link.read(Ps::ZERO, PhysAddr(0x20), 512, TX, &mut memory);
    assert_eq!(link.kind_stats(DmaPurpose::TxData, DmaDirection::Read).down_packets, 3);
    let parts: Vec<_> = memory.requests[4..].iter().map(|a| (a.1, a.2, a.3)).collect();
    assert_eq!((parts[0], parts[1], parts[8]), ((0x20, 32, 0), (0x40, 64, 32), (0x200, 32, 480)));
}

#[test]
fn each_line_reaches_memory_when_its_packet_has_arrived() {
    let mut link = PcieLink::new(&LinkConfig { line_interval: ns(2), ..plain() });
    let mut memory = memory();
    link.write(Ps::ZERO, PhysAddr(0x1000), 300, DmaAccess { offset: 100, ..RX }, &mut memory);
    let first = ns(24 + 256 + 120);
    let second = ns(2 * 24 + 300 + 120);
    let expected = [
        (first, 0x1000, 64, 100, true),
        (first + ns(2), 0x1040, 64, 164, true),
        (first + ns(4), 0x1080, 64, 228, true),
        (first + ns(6), 0x10c0, 64, 292, true),
        (second, 0x1100, 44, 356, true),
    ];
    assert_eq!(memory.requests, expected);
}

#[test]
fn a_write_waits_until_the_header_credit_of_a_visible_write_has_returned() {
    let config = LinkConfig { posted_headers: 1, ..plain() };
    let visible = 24 + 64 + 120 + 30;
    let back = visible + 100;
    for (now, begin) in [(0, back), (back - 1, back), (back, back), (back + 1, back + 1)] {
        let mut link = PcieLink::new(&config);
        let mut memory = memory();
        link.write(Ps::ZERO, PhysAddr(0), 64, RX, &mut memory);
        assert_eq!(link.write(ns(now), PhysAddr(64), 64, RX, &mut memory), ns(begin + visible), "at {now}");
        assert_eq!(link.stats().posted_stall_ps, ns(begin - now).0);
    }
}

#[test]
fn a_write_waits_for_data_credits() {
    // 16 credits are 256 bytes: the second packet of 64 fits in addition to 192, but not to 256.
    let config = LinkConfig { posted_data: 16, ..plain() };
    for (first, waits) in [(192, false), (193, true), (256, true)] {
        let mut link = PcieLink::new(&config);
        let mut memory = memory();
        let visible = link.write(Ps::ZERO, PhysAddr(0), first, RX, &mut memory);
        link.write(Ps::ZERO, PhysAddr(0x400), 64, RX, &mut memory);
        let expected = if waits { (visible + ns(100)).0 } else { 0 };
        assert_eq!(link.stats().posted_stall_ps, expected, "{first}");
    }
}

#[test]
fn slow_memory_occupies_the_root_complexs_buffers() {
    // Write bandwidth is the number of buffers divided by the time for which each is held.
    let config = LinkConfig { posted_headers: 8, ..plain() };
    let mut link = PcieLink::new(&config);
    let mut memory = Fixed { write: ns(1000), ..memory() };
    let mut last = Ps::ZERO;
    for index in 0..1000 {
        last = link.write(Ps::ZERO, PhysAddr(index * 64), 64, RX, &mut memory);
    }
    let held = ns(24 + 64 + 120 + 1000 + 100);
    let expected = held.0 * 1000 / 8;
    assert!(last.0.abs_diff(expected) < expected / 50, "{last} for {expected}");
}

#[test]
fn a_read_waits_for_a_tag_until_the_first_read_completes() {
    let config = LinkConfig { tags: 1, ..plain() };
    let trip = 24 + 120 + 50 + 20 + 84 + 100;
    for (now, begin) in [(0, trip), (trip - 1, trip), (trip, trip), (trip + 1, trip + 1)] {
        let mut link = PcieLink::new(&config);
        let mut memory = memory();
        assert_eq!(link.read(Ps::ZERO, PhysAddr(0), 64, TX, &mut memory), ns(trip));
        assert_eq!(link.read(ns(now), PhysAddr(64), 64, TX, &mut memory), ns(begin + trip));
        assert_eq!(link.stats().tag_stall_ps, ns(begin - now).0);
    }
}

#[test]
fn read_bandwidth_is_tags_times_size_over_the_round_trip() {
    for (tags, size) in [(4, 64), (16, 64), (8, 256), (2, 512)] {
        let mut link = PcieLink::new(&LinkConfig { tags, ..LinkConfig::default() });
        let mut memory = memory();
        let alone = PcieLink::new(link.config()).read(Ps::ZERO, PhysAddr(0), size, TX, &mut memory);
        let count = 2000;
        let mut last = Ps::ZERO;
        for index in 0..count {
            last = link.read(Ps::ZERO, PhysAddr(index * 4096), size, TX, &mut memory);
        }
        let least = alone.0 * count / u64::from(tags);
        assert!((least..least * 102 / 100).contains(&last.0), "{tags} tags of {size}: {last}, {least}ps");
        let mean = link.stats().round_trip_ps / link.stats().read_requests;
        assert!((alone.0..alone.0 * 102 / 100).contains(&mean));
    }
}

#[test]
fn a_read_waits_for_room_in_the_root_complex() {
    let config = LinkConfig { non_posted_headers: 1, ..plain() };
    let back = 24 + 120 + 100;
    for (now, begin) in [(back - 1, back), (back, back)] {
        let mut link = PcieLink::new(&config);
        let mut memory = memory();
        link.read(Ps::ZERO, PhysAddr(0), 64, TX, &mut memory);
        link.read(ns(now), PhysAddr(64), 64, TX, &mut memory);
        assert_eq!(link.stats().non_posted_stall_ps, ns(begin - now).0);
    }
}

#[test]
fn reads_push_writes_unless_ordering_is_relaxed() {
    for (relaxed, expected) in [(false, 24 + 64 + 120 + 500), (true, 24 + 64 + 24 + 120)] {
        let mut link = PcieLink::new(&LinkConfig { relaxed_ordering: relaxed, ..plain() });
        let mut memory = Fixed { write: ns(500), ..memory() };
        link.write(Ps::ZERO, PhysAddr(0), 64, RX, &mut memory);
        link.read(Ps::ZERO, PhysAddr(0x1000), 64, TX, &mut memory);
        assert_eq!(memory.requests[1].0, ns(expected), "relaxed: {relaxed}");
    }
}

#[test]
fn a_write_passes_reads_waiting_for_tags_but_no_read_passes_a_waiting_write() {
    let mut link = PcieLink::new(&LinkConfig { tags: 1, ..plain() });
    let mut memory = memory();
    link.read(Ps::ZERO, PhysAddr(0), 64, TX, &mut memory);
    link.read(Ps::ZERO, PhysAddr(0x1000), 64, TX, &mut memory);
    let visible = link.write(Ps::ZERO, PhysAddr(0x2000), 64, RX, &mut memory);
    assert_eq!(visible, ns(24 + 24 + 64 + 120 + 30), "after the first request's 24 bytes only");
    let mut link = PcieLink::new(&LinkConfig { posted_headers: 1, ..plain() });
    link.write(Ps::ZERO, PhysAddr(0), 64, RX, &mut memory);
    let visible = link.write(Ps::ZERO, PhysAddr(64), 64, RX, &mut memory);
    let before = memory.requests.len();
    link.read(Ps::ZERO, PhysAddr(0x1000), 64, TX, &mut memory);
    assert!(memory.requests[before].0 >= visible, "the read was sent after the second write");
}

#[test]
fn issue_intervals_space_the_devices_requests() {
    let config = LinkConfig { write_issue_interval: ns(200), read_issue_interval: ns(300), ..plain() };
    let mut link = PcieLink::new(&config);
    let mut memory = memory();
    let first = link.write(Ps::ZERO, PhysAddr(0), 64, RX, &mut memory);
    let second = link.write(Ps::ZERO, PhysAddr(64), 64, RX, &mut memory);
    assert_eq!(second, first + ns(200));
    assert_eq!(link.stats().issue_stall_ps, ns(200).0);
    let mut link = PcieLink::new(&config);
    let one = link.read(Ps::ZERO, PhysAddr(0), 64, TX, &mut memory);
    assert_eq!(link.read(Ps::ZERO, PhysAddr(64), 64, TX, &mut memory), one + ns(300));
}

#[test]
fn register_accesses_share_the_link_and_stay_in_order() {
    let mut link = PcieLink::new(&plain());
    let write = link.register_write(ns(10), 4);
    assert_eq!(
        write,
        RegisterWrite { accepted: ns(10), acknowledged: ns(10 + 20), arrives: ns(10 + 20 + 28 + 100) }
    );
    assert_eq!(link.register_read(ns(10)), ns(10 + 20 + 28 + 24 + 100), "after the write");
    assert_eq!(link.register_answer(ns(1000), 4), ns(1000 + 24 + 100 + 20));
    // DMA completions delay a register access, but not an earlier one.
    let mut memory = memory();
    link.read(ns(2000), PhysAddr(0x1000), 512, TX, &mut memory);
    let data_from = 2000 + 24 + 120 + 50 + 20;
    for (ready, begins) in [(data_from - 1, data_from - 1), (data_from, data_from + 2 * 20 + 512)] {
        let arrives = link.clone().register_write(ns(ready - 20), 4).arrives;
        assert_eq!(arrives, ns(begins + 28 + 100), "ready at {ready}");
    }
    assert_eq!((link.stats().register_reads, link.stats().register_writes), (1, 1));
}

#[test]
fn register_writes_wait_for_room_in_the_device() {
    let mut link = PcieLink::new(&LinkConfig { register_writes: 1, ..plain() });
    let first = link.register_write(Ps::ZERO, 4);
    let second = link.register_write(Ps::ZERO, 4);
    assert_eq!(second.accepted, first.arrives + ns(100));
}

#[test]
fn a_register_response_follows_the_devices_writes() {
    let mut link = PcieLink::new(&plain());
    let mut memory = Fixed { write: ns(5000), ..memory() };
    let visible = link.write(ns(100), PhysAddr(0), 64, RX, &mut memory);
    assert_eq!(link.register_answer(ns(200), 4), visible);
    assert_eq!(link.register_answer(visible, 4), visible + ns(24 + 120));
}

#[test]
fn packet_rates_match_the_generations() {
    // In Gbps, after encoding, acknowledgements, flow control and skip sets, before headers.
    for (generation, lanes, tenths) in
        [(3, 8, 579), (3, 16, 1137), (4, 8, 1158), (4, 16, 2274), (5, 16, 4547)]
    {
        let rate = LinkConfig { generation, lanes, ..LinkConfig::default() }.packet_rate().0;
        assert_eq!((rate + 50_000_000) / 100_000_000, tenths, "Gen{generation} x{lanes}");
    }
    let encoded =
        |generation, lanes| LinkConfig { generation, lanes, ..LinkConfig::default() }.encoded_rate().0;
    assert_eq!((encoded(1, 1), encoded(2, 4), encoded(3, 1)), (2_000_000_000, 16_000_000_000, 7_876_923_076));
}

#[test]
fn register_read_latency_is_the_published_one_for_each_attachment_point() {
    for (attached, expected) in [
        (Attached::Peripheral, 773),
        (Attached::OffBridge, 381),
        (Attached::OnBridge, 190),
        (Attached::OnDie, 30),
    ] {
        let mut link = PcieLink::new(&LinkConfig { attached, ..LinkConfig::default() });
        let at_device = link.register_read(Ps::ZERO);
        let back = link.register_answer(at_device, 4);
        assert!(back.0.abs_diff(expected * 1000) < 100, "{attached:?}: {back}");
    }
}

/// Payload bandwidth in Mbps for back-to-back requests of `size` bytes.
fn bandwidth(config: &LinkConfig, size: u32, write: bool) -> u64 {
    let mut link = PcieLink::new(config);
    let mut memory = Fixed { read: ns(50), write: ns(50), requests: Vec::new() };
    let count = 4000u64;
    let mut last = Ps::ZERO;
    for index in 0..count {
        let at = PhysAddr(index % 64 * 4096);
        last = match write {
            true => link.write(Ps::ZERO, at, size, RX, &mut memory),
            false => link.read(Ps::ZERO, at, size, TX, &mut memory),
        };
    }
    count * u64::from(size) * 8_000_000 / last.0
}

#[test]
fn bandwidth_and_latency_match_the_measured_host() {
    // pcie-bench: Gen3 x8, MPS 256, MRRS 512; a device with about 32 reads in flight and a write every 21 ns.
    // In Mbps.
    let config = LinkConfig { write_issue_interval: ns(21), ..LinkConfig::default() };
    for (size, measured, write) in [
        (64, 28_700, false),
        (512, 55_100, false),
        (1024, 49_100, false),
        (64, 24_300, true),
        (256, 50_600, true),
        (512, 54_400, true),
        (1024, 54_400, true),
    ] {
        let ours = bandwidth(&config, size, write);
        assert!(ours.abs_diff(measured) * 10 <= measured, "{size} B, write {write}: {ours} for {measured}");
    }
    let mut link = PcieLink::new(&config);
    let latency = link.read(Ps::ZERO, PhysAddr(0), 64, TX, &mut memory());
    assert!(latency.0.abs_diff(600_000) < 1_000, "64 B of a cached line: {latency}");
}

#[test]
fn full_rate_bandwidth_matches_the_formula_with_headers() {
    // 57.9 Gbps, with 256 of every 280 bytes up and 512 of every 552 down.
    let config = LinkConfig { tags: 256, ..LinkConfig::default() };
    assert_eq!(bandwidth(&config, 256, true) / 100, 528);
    assert_eq!(bandwidth(&config, 512, false) / 100, 535);
}

#[test]
fn parameters_are_read_and_checked() {
    let config: LinkConfig = toml::from_str("generation = 4\nattached = \"on-die\"").unwrap();
    assert_eq!((config.validate(), config.latencies().link), (Ok(()), Ps::ZERO));
    assert!(toml::from_str::<LinkConfig>("generaton = 4").is_err());
    for text in [
        "generation = 6",
        "lanes = 3",
        "max_payload = \"100B\"",
        "max_read_request = \"8KiB\"",
        "read_completion_boundary = \"32B\"",
        "link_latency = \"1s\"",
        "root_latency = \"1s\"",
        "register_latency = \"1s\"",
        "data_link_share = 6000",
        "tags = 0",
        "posted_headers = 0",
        "posted_data = 15",
        "non_posted_headers = 5000",
        "register_writes = 0",
        "line_interval = \"1ms\"",
    ] {
        let problem = toml::from_str::<LinkConfig>(text).unwrap().validate().unwrap_err();
        assert!(problem.starts_with(text.split(' ').next().unwrap()), "{problem}");
    }
    let written = toml::to_string(&LinkConfig::default()).unwrap();
    assert_eq!(toml::from_str::<LinkConfig>(&written).unwrap(), LinkConfig::default());
}

#[test]
fn a_restored_link_keeps_the_same_past_bookings() {
    let config = LinkConfig::default();
    let (mut link, mut copy) = (PcieLink::new(&config), PcieLink::new(&config));
    // The machine's last DMA request was long ago; register accesses since then have filled the list of bookings.
    link.advance_to(Ps::ZERO);
    let access = |link: &mut PcieLink, at: Ps| {
        let arrives = link.register_read(at);
        link.register_answer(arrives, 4);
    };
    for index in 1..=400 {
        access(&mut link, ns(1000 * index));
    }
    copy.restore(link.clone()).unwrap();
    for link in [&mut link, &mut copy] {
        access(link, ns(500_000));
    }
    assert_eq!(postcard::to_stdvec(&link), postcard::to_stdvec(&copy));
}

proptest! {
    #[test]
    fn requests_end_in_order_cover_every_byte_once_and_a_restored_link_continues(
        requests in prop::collection::vec((0u8..4, 0u64..1 << 20, 1u32..3000, 0u64..400), 1..80),
        split in 0usize..80,
        tags in 1u32..8,
        posted_headers in 1u32..8,
    ) {
        let config = LinkConfig { tags, posted_headers, posted_data: 40, ..LinkConfig::default() };
        let (mut link, mut copy) = (PcieLink::new(&config), PcieLink::new(&config));
        let (mut now, mut last, mut bytes) = (Ps::ZERO, [Ps::ZERO; 2], 0);
        let mut memory = Fixed { read: ns(70), write: ns(40), requests: Vec::new() };
        for (index, (kind, addr, len, wait)) in requests.into_iter().enumerate() {
            now += ns(wait);
            if index == split {
                let bytes = postcard::to_stdvec(&link).unwrap();
                copy.restore(postcard::from_bytes(&bytes).unwrap()).unwrap();
            }
            let go = |link: &mut PcieLink, memory: &mut Fixed| match kind {
                0 => link.write(now, PhysAddr(addr), len, RX, memory),
                1 => link.read(now, PhysAddr(addr), len, TX, memory),
                2 => link.register_write(now, 4).arrives,
                _ => { let at = link.register_read(now); link.register_answer(at, 4) }
            };
            let done = go(&mut link, &mut memory);
            if kind < 2 {
                prop_assert!(done >= last[usize::from(kind)] && done > now);
                last[usize::from(kind)] = done;
                bytes += u64::from(len);
            }
            if index >= split {
                prop_assert_eq!(go(&mut copy, &mut Fixed { read: ns(70), write: ns(40), requests: Vec::new() }), done);
            }
        }
        prop_assert_eq!(memory.requests.iter().map(|a| u64::from(a.2)).sum::<u64>(), bytes);
        prop_assert!(memory.requests.iter().all(|a| a.1 % 64 + u64::from(a.2) <= 64));
        let stats = link.stats();
        prop_assert_eq!(stats.full_line_writes + stats.partial_line_writes + stats.line_reads, memory.requests.len() as u64);
        prop_assert!(stats.counters().len() > 10);
    }

    #[test]
    fn a_damaged_state_is_rejected_or_harmless(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let config = LinkConfig { tags: 4, ..LinkConfig::default() };
        let mut link = PcieLink::new(&config);
        for index in 0..10 {
            link.write(ns(index), PhysAddr(index * 100), 500, RX, &mut memory());
            link.read(ns(index), PhysAddr(index * 100), 500, TX, &mut memory());
        }
        let mut bytes = postcard::to_stdvec(&link).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(state) = postcard::from_bytes::<PcieLink>(&bytes) {
            let mut copy = PcieLink::new(&config);
            if copy.restore(state).is_ok() {
                copy.read(ns(100), PhysAddr(0), 64, TX, &mut memory());
                copy.write(ns(100), PhysAddr(0), 64, RX, &mut memory());
            }
        }
    }
}
