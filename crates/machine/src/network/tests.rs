//! Switches compared with closed forms; and networks whose results do not depend on threads, stops or
//! checkpoints.

use doorbell_loadgen::{Arrivals, LoadGenConfig, Rate, TrafficConfig};
use doorbell_sim::{BitsPerSec, Bytes, Frame, Ps};
use doorbell_wire::LinkConfig;

use super::*;

const FRAME: u64 = 1000;
/// Time of a frame on a 10 Gbps link, with preamble and inter-frame gap: 8 ns per ten bytes.
const SLOT: Ps = Ps((FRAME + 20) * 800);

fn link(latency: Ps) -> LinkConfig {
    LinkConfig { rate: BitsPerSec(10_000_000_000), latency, ..LinkConfig::default() }
}

fn percent(of_line: u64) -> Rate {
    Rate::Line(of_line * 1_000_000)
}

/// A switch with `generators` load generators. Each sends to the first generator, and the first to the
/// second.
fn star(generators: usize, rate: Rate, queue: Bytes) -> Network {
    let config = NetworkConfig {
        switches: vec![("tor".to_owned(), SwitchConfig { queue, ..SwitchConfig::default() })],
        generators: (0..generators).map(|index| (format!("g{index}"), LoadGenConfig::default())).collect(),
        links: (0..generators)
            .map(|index| LinkPlan {
                name: format!("l{index}"),
                ends: [End::Generator(index), End::Switch(0)],
                directions: [link(Ps::from_ns(300)), link(Ps::from_ns(300))],
            })
            .collect(),
        ..NetworkConfig::default()
    };
    let mut network = Network::new(config, 1).unwrap();
    let arrivals = Arrivals::Constant;
    let base = TrafficConfig { rate, arrivals, frame_size: Bytes(FRAME), ..TrafficConfig::default() };
    let stations: Vec<_> = (0..generators as u32).map(|index| base.for_port(index).source).collect();
    for (index, generator) in network.generators_mut().enumerate() {
        let destination = stations[usize::from(index == 0)];
        generator.start(TrafficConfig { destination, ..base.for_port(index as u32) }).unwrap();
    }
    network.begin_window();
    network
}

fn run(network: &mut Network, time: Ps) {
    assert_eq!(network.run(&Limits::until(time)), NetworkOutcome::Time);
    network.check_conservation();
}

#[test]
fn switch_floods_unknown_stations_and_delays_by_its_latency_and_one_frame() {
    let mut network = star(3, Rate::Frames(10_000), Bytes(64 << 10));
    run(&mut network, Ps::from_ms(10));
    let switch = network.switches().next().unwrap();
    let stats = switch.stats();
    // All three send their first frame at the same time; only the destination of the first one is still
    // unknown.
    assert_eq!((stats.learned, stats.flooded, stats.bad_fcs), (3, 1, 0));
    assert!(stats.forwarded >= 3 * 99 - 1, "{stats:?}");
    // The second generator gets one frame at a time: 500 ns forwarding latency, then preamble and frame.
    let residence = switch.outputs()[1].residence();
    let alone = Ps::from_ns(500) + Ps((FRAME + 8) * 800);
    assert_eq!(residence.extremes(), Some((alone, alone)));
    assert_eq!(switch.outputs()[1].deepest(), FRAME);
    // The first gets two at a time: the second of them waits for the time of one frame.
    assert_eq!(switch.outputs()[0].residence().extremes(), Some((alone, alone + SLOT)));
}

#[test]
fn two_line_rate_senders_to_one_output_lose_half_and_fill_its_queue() {
    let queue = Bytes(16 * FRAME + 999);
    let mut network = star(3, percent(100), queue);
    run(&mut network, Ps::from_ms(1));
    network.begin_window();
    let before = network.switches().next().unwrap().outputs()[0].stats().clone();
    run(&mut network, Ps::from_ms(11));
    let output = &network.switches().next().unwrap().outputs()[0];
    let (stats, slots) = (output.stats(), Ps::from_ms(10).0 / SLOT.0);
    let (queued, dropped) = (stats.queued - before.queued, stats.dropped - before.dropped);
    assert!(queued.abs_diff(slots) <= 1 && dropped.abs_diff(slots) <= 2, "{queued} {dropped} of {slots}");
    assert_eq!(output.deepest(), 16 * FRAME);
    // The last frame that fits waits for 15 whole frames and the rest of the frame being sent.
    let (_, longest) = output.residence().extremes().unwrap();
    let full = Ps::from_ns(500).0 + 16 * SLOT.0;
    assert!((full - SLOT.0..=full).contains(&longest.0), "{longest} of {full}");
    // The output to the third generator is idle.
    assert_eq!(network.switches().next().unwrap().outputs()[2].stats().queued, 1);
}

#[test]
fn frame_being_sent_by_a_switch_counts_on_the_link_and_not_inside() {
    let mut network = star(2, Rate::Frames(10_000), Bytes(64 << 10));
    // Each has sent one frame: about 800 ns to send, 300 ns link, 500 ns in the switch and 800 ns to send
    // again.
    run(&mut network, Ps::from_us(2));
    assert!(network.holding().is_empty(), "{:?}", network.holding());
}

#[test]
fn time_advances_in_a_sleeping_network_and_held_frames_are_listed() {
    let mut network = star(3, percent(100), Bytes(64 << 10));
    run(&mut network, Ps::from_us(500));
    let held = network.holding();
    assert!(matches!(held[..], [("tor", frames)] if (65..80).contains(&frames)), "{held:?}");
    network.generators_mut().for_each(Generator::stop);
    // Generators that wait for frames lost in the queue must still reach the end, on and off the window grid.
    for end in [Ps::from_ms(3), Ps(5_000_000_001), Ps::from_ms(9)] {
        while network.now() < end {
            network.run(&Limits::until(end));
        }
        assert_eq!(network.now(), end);
    }
    assert_eq!(network.run(&Limits::until(Ps::MAX)), NetworkOutcome::Asleep);
    assert!(network.holding().is_empty());
    assert!(network.generators().any(|generator| generator.loadgen().outstanding() > 0));
    // A generator started now starts at the present time.
    let base = TrafficConfig { rate: percent(50), frame_size: Bytes(FRAME), ..TrafficConfig::default() };
    network.generators_mut().next().unwrap().start(base).unwrap();
    run(&mut network, Ps::from_ms(10));
    network.check_conservation();
}

#[test]
fn network_state_does_not_depend_on_threads_stops_or_checkpoints() {
    let new = || star(5, percent(70), Bytes(8 << 10));
    let end = Ps::from_us(700);
    let mut straight = new();
    run(&mut straight, end);
    for threads in [2, 3, 16] {
        let mut other = new();
        other.set_threads(threads);
        run(&mut other, end);
        assert_eq!(other.state_hash(), straight.state_hash(), "{threads} threads");
    }
    let mut stopped = new();
    let mut at = Ps::ZERO;
    while at < end {
        at = (at + Ps(33_333_333)).min(end);
        run(&mut stopped, at);
        let saved = NetworkCheckpoint::from_bytes(stopped.checkpoint(&[], "").bytes().to_vec()).unwrap();
        let mut next = new();
        next.restore(&saved, &[]).unwrap();
        assert_eq!(next.state_hash(), stopped.state_hash());
        stopped = next;
    }
    assert_eq!(stopped.state_hash(), straight.state_hash());
}

#[test]
fn checkpoint_of_another_network_is_rejected() {
    let mut network = star(3, percent(50), Bytes(8 << 10));
    run(&mut network, Ps::from_us(50));
    let saved = network.checkpoint(&[], "");
    let rejected = |other: &mut Network| other.restore(&saved, &[]).unwrap_err().to_string();
    assert!(rejected(&mut star(4, percent(50), Bytes(8 << 10))).contains("another machine"));
    let mut reversed = network.config().clone();
    reversed.links.iter_mut().for_each(|link| link.ends.reverse());
    assert!(rejected(&mut Network::new(reversed, 1).unwrap()).contains("connect other members"));
    // The saved frames do not fit a smaller queue.
    run(&mut network, Ps::from_us(500));
    let mut small = network.config().clone();
    small.switches[0].1.queue = Bytes(FRAME);
    let waits = star(3, percent(100), Bytes(64 << 10));
    let mut full = waits;
    run(&mut full, Ps::from_us(500));
    let error = Network::new(small, 1).unwrap().restore(&full.checkpoint(&[], ""), &[]).unwrap_err();
    assert!(error.to_string().contains("more bytes"), "{error}");
    for cut in [0, 10, saved.bytes().len() - 1] {
        assert!(NetworkCheckpoint::from_bytes(saved.bytes()[..cut].to_vec()).is_err());
    }
}

fn frame(to: u8, from: u8) -> Frame {
    let mut bytes = vec![0; 60];
    (bytes[0], bytes[5]) = (2, to);
    (bytes[6], bytes[11]) = (2, from);
    Frame::new(bytes)
}

fn switch_alone(config: &SwitchConfig) -> Switch {
    Switch::new("s", config, vec![link(Ps::from_ns(100)); 3], 1).unwrap()
}

/// Delivers a frame to a switch and returns the ports at which it left.
fn through(switch: &mut Switch, port: u8, at: Ps, frame: Frame) -> Vec<u8> {
    switch.deliver(port, at, frame);
    switch.run(at + Ps::from_ns(900));
    (0..3).filter(|port| !std::mem::take(&mut switch.output_mut(*port).sent).is_empty()).collect()
}

#[test]
fn moved_station_is_relearned_and_silent_station_ages_out() {
    let ageing = Ps::from_us(100);
    let mut switch = switch_alone(&SwitchConfig { ageing, ..SwitchConfig::default() });
    assert_eq!(through(&mut switch, 0, Ps::from_us(1), frame(9, 1)), [1, 2]);
    assert_eq!(through(&mut switch, 1, Ps::from_us(2), frame(1, 2)), [0]);
    assert_eq!(through(&mut switch, 2, Ps::from_us(3), frame(2, 1)), [1]);
    assert_eq!(through(&mut switch, 1, Ps::from_us(4), frame(1, 2)), [2], "it has moved");
    assert_eq!(
        through(&mut switch, 2, Ps::from_us(5), frame(1, 3)),
        [0; 0],
        "the destination is at the port of arrival"
    );
    assert_eq!(through(&mut switch, 1, Ps::from_us(103), frame(1, 2)), [2]);
    assert_eq!(
        through(&mut switch, 1, Ps::from_us(104), frame(1, 2)),
        [0, 2],
        "no frame from the station for 101 us"
    );
    assert_eq!((switch.stats().filtered, switch.stats().flooded), (1, 2));
    switch.check_conservation();
}

#[test]
fn reserved_and_damaged_frames_are_dropped_and_a_full_address_table_floods() {
    let mut switch = switch_alone(&SwitchConfig { stations: 1, ..SwitchConfig::default() });
    let mut pause = frame(0, 1);
    pause.bytes[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    assert_eq!(through(&mut switch, 0, Ps::from_us(1), pause), [0; 0]);
    let damaged = Frame { fcs_bad: true, ..frame(9, 7) };
    assert_eq!(through(&mut switch, 0, Ps::from_us(2), damaged), [0; 0]);
    assert_eq!(through(&mut switch, 1, Ps::from_us(3), frame(9, 2)), [0, 2]);
    assert_eq!(through(&mut switch, 2, Ps::from_us(4), frame(2, 3)), [0, 1], "the address table was full");
    assert_eq!(through(&mut switch, 2, Ps::from_us(5), frame(1, 3)), [0]);
    let mut group = frame(9, 1);
    group.bytes[0] = 3;
    assert_eq!(through(&mut switch, 0, Ps::from_us(6), group), [1, 2]);
    let s = switch.stats();
    assert_eq!((s.reserved, s.bad_fcs, s.learned, s.not_learned), (1, 1, 1, 3));
    switch.check_conservation();
}

#[test]
fn invalid_network_is_rejected_with_the_key() {
    let cable = |name: &str, ends: [End; 2]| LinkPlan {
        name: name.to_owned(),
        ends,
        directions: [link(Ps::from_ns(300)), link(Ps::from_ns(300))],
    };
    let switches = |count: usize| (0..count).map(|i| (format!("s{i}"), SwitchConfig::default())).collect();
    let generators = |count: usize| (0..count).map(|i| (format!("g{i}"), LoadGenConfig::default())).collect();
    let rejected = |config: NetworkConfig, key: &str, words: &str| {
        let error = Network::new(config, 1).err().expect(key);
        assert!(error.key == key && error.problem.contains(words), "{error}");
    };
    let of = |switch: usize, generator: usize, links: Vec<LinkPlan>| NetworkConfig {
        switches: switches(switch),
        generators: generators(generator),
        links,
        ..NetworkConfig::default()
    };
    let (s, g) = (End::Switch, End::Generator);
    let ring = vec![cable("a", [s(0), s(1)]), cable("b", [s(1), s(2)]), cable("c", [s(2), s(0)])];
    rejected(of(3, 0, ring), "link.c.between", "among s0, s1, s2");
    rejected(of(2, 0, vec![cable("a", [s(0), s(1)]), cable("b", [s(0), s(1)])]), "link.b.between", "loop");
    rejected(of(1, 0, vec![cable("a", [s(0), s(0)])]), "link.a.between", "both ends are the same");
    rejected(of(1, 1, vec![cable("a", [s(0), g(1)])]), "link.a.between", "the generator does not exist");
    rejected(
        of(1, 1, vec![cable("a", [s(0), End::Node { node: 0, port: 0 }])]),
        "link.a.between",
        "the node does not exist",
    );
    rejected(of(2, 0, vec![cable("a", [s(0), s(1)])]), "node", "carry no traffic");
    let mut many = of(252, 0, (1..252).map(|leaf| cable(&format!("c{leaf}"), [s(0), s(leaf)])).collect());
    rejected(many.clone(), "switch", "at most 250");
    many.switches = switches(2);
    many.links = (0..251).map(|at| cable(&format!("c{at}"), [s(0), s(1)])).collect();
    rejected(many, "switch.s0", "251 links");
    rejected(of(2, 1, vec![cable("a", [s(0), g(0)])]), "switch.s1", "no link");
    rejected(of(1, 2, vec![cable("a", [s(0), g(0)])]), "generator.g1", "no link");
    rejected(
        of(2, 1, vec![cable("a", [s(0), g(0)]), cable("b", [s(1), g(0)])]),
        "link.b.between",
        "g0 is already connected to link a",
    );
    let mut short = of(1, 1, vec![cable("a", [s(0), g(0)])]);
    short.links[0].directions[1].latency = Ps::from_ns(9);
    rejected(short, "link.a.latency", "10ns");
    let mut wrong = of(1, 1, vec![cable("a", [s(0), g(0)])]);
    wrong.switches[0].1.queue = Bytes(63);
    rejected(wrong, "switch.s0.queue", "64B");
}
