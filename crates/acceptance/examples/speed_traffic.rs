//! Speed of the load generator: by itself, for several kinds of traffic, and as a share of a timed machine's
//! host time. A benchmark, not a test: results depend on the host.
//!
//!     cargo run --release -p doorbell-acceptance --example speed_traffic [-- --only NAME --frames N]
//!
//! By itself, the generator builds each frame, sends it on a link, tracks it, compares it byte by byte when
//! it returns with swapped MAC addresses, and counts it. `--only` runs one kind, so that `valgrind
//! --tool=cachegrind` with two values of `--frames` gives the instructions per frame.

use std::collections::VecDeque;
use std::time::Instant;

use doorbell_acceptance::baseline::median;
use doorbell_acceptance::{places, quiet};
use doorbell_bench::{Session, Source, benchmark, resolve};
use doorbell_loadgen::{Event, LoadGen, LoadGenConfig, Returned, RoundTripObserver, TrafficConfig};
use doorbell_machine::overlay::Overlay;
use doorbell_machine::{Limits, LinkConfig, Machine, MachineConfig, Mode};
use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::rng::Rng;
use doorbell_sim::{Frame, Ps};
use doorbell_wire::Link;

/// Kinds of traffic: name and contents of a traffic file.
const KINDS: &[(&str, &str)] = &[
    ("64 B", ""),
    ("512 B", "frame_size = \"512B\""),
    ("1518 B", "frame_size = \"1518B\""),
    ("64 B, one stream", "[[streams]]\nrate = \"100%\""),
    ("64 B, poisson", "[[streams]]\nrate = \"100%\"\narrivals = \"poisson\""),
    (
        "64 B, 1000 flows",
        "[[streams]]\nrate = \"100%\"\nsweeps = [{ field = \"source-port\", count = 1000 }]",
    ),
    (
        "64 B, 50000 flows by Zipf's law",
        "[[streams]]\nrate = \"100%\"\nsweeps = [{ field = \"source-ip\", count = 50000, order = { zipf = { skew = 1 } } }]",
    ),
    (
        "64 B, on and off",
        "[[streams]]\nrate = \"100%\"\narrivals = { on-off = { on = \"5us\", off = \"5us\", lengths = \"poisson\", gaps = \"poisson\" } }",
    ),
    (
        "imix, poisson, 1000 flows",
        "[[streams]]\nrate = \"100%\"\nsize = \"imix\"\narrivals = \"poisson\"\nsweeps = [{ field = \"source-port\", count = 1000 }]",
    ),
    (
        "IPv6, TCP, two tags",
        "[[streams]]\nrate = \"100%\"\nsize = \"102B\"\nnetwork = \"ipv6\"\ntransport = \"tcp\"\nvlans = [{ id = 1 }, { id = 2 }]",
    ),
];
/// Frames in flight: the capacity of a ring and a FIFO.
const IN_FLIGHT: usize = 1_500;
const RUNS: usize = 5;
const MEASURED: Ps = Ps::from_ms(1);

/// Minimal link endpoint: keeps the generator's last frame and its next timer.
struct BareEnd {
    link: Link,
    sent: Option<Frame>,
    wake: Option<(Ps, Event)>,
}

impl RoundTripObserver for BareEnd {}

impl WirePort for BareEnd {
    fn send(&mut self, now: Ps, frame: Frame) -> Ps {
        let free_at = self.link.send(now, frame.bytes.len()).free_at;
        self.sent = Some(frame);
        free_at
    }
    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}

impl Timers<Event> for BareEnd {
    fn wake_at(&mut self, at: Ps, event: Event) {
        self.wake = Some((at, event));
    }
}

fn traffic(text: &str) -> TrafficConfig {
    let mut overlay = Overlay::default();
    overlay.merge_toml_at("loadgen.traffic", "a kind of traffic", text).expect("TOML");
    let config = overlay.resolve::<MachineConfig>().expect("a configuration");
    let traffic = config.loadgen.traffic;
    TrafficConfig { rate: "100%".parse().expect("a rate"), returned: Returned::MacSwap, ..traffic }
}

/// Sends `frames` frames, of which `returned` come back, without a machine; returns host seconds.
fn generator_seconds(traffic: TrafficConfig, frames: u64, returned: u64) -> f64 {
    let traffic = TrafficConfig { frames: Some(frames), ..traffic };
    let config = LoadGenConfig { traffic, ..LoadGenConfig::default() };
    let link = Link::new(LinkConfig::default(), Rng::stream(1, "link")).expect("a link");
    let mut end = BareEnd { link, sent: None, wake: None };
    let mut generator = LoadGen::new(0, 1, &config, end.link.config()).expect("a generator");
    generator.begin_window(Ps::ZERO);
    let begin = Instant::now();
    generator.start(Ps::ZERO, &mut end);
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT + 1);
    let (mut now, mut share) = (Ps::ZERO, 0);
    while let Some((at, event)) = end.wake.take() {
        now = at;
        generator.on_event(now, event, &mut end);
        if let Some(frame) = end.sent.take() {
            in_flight.push_back(frame);
        }
        if in_flight.len() > IN_FLIGHT {
            take_back(&mut generator, &mut end, now, &mut share, (frames, returned), in_flight.pop_front());
        }
    }
    for frame in in_flight {
        take_back(&mut generator, &mut end, now, &mut share, (frames, returned), Some(frame));
    }
    let seconds = begin.elapsed().as_secs_f64();
    assert!(generator.stats().returned.abs_diff(returned) <= 1, "every frame is accounted for");
    generator.assert_conservation();
    seconds
}

/// Returns or drops a frame, so that the returned frames are evenly spread.
fn take_back(
    generator: &mut LoadGen,
    end: &mut BareEnd,
    now: Ps,
    share: &mut u64,
    (frames, returned): (u64, u64),
    frame: Option<Frame>,
) {
    let Some(mut frame) = frame else { return };
    *share += returned;
    if *share >= frames {
        *share -= frames;
        frame.bytes[..12].rotate_left(6);
        generator.frame_arrived(now + Ps::from_us(10), &frame, end);
    }
    generator.recycle(frame);
}

/// Runs a timed machine under 100 Gbps of 64-byte frames; returns host seconds, frames sent and frames
/// returned.
fn timed(session: &Session) -> (f64, u64, u64) {
    let mut machine = session.machine().expect("a machine");
    machine.start_traffic(&session.config().loadgen.traffic).expect("traffic");
    machine.set_mode(Mode::Warming);
    run(&mut machine, Ps::from_us(500));
    machine.set_mode(Mode::Detailed);
    run(&mut machine, Ps::from_us(200));
    let before = machine.ports()[0].loadgen.stats().clone();
    let started = Instant::now();
    run(&mut machine, MEASURED);
    let stats = machine.ports()[0].loadgen.stats();
    (started.elapsed().as_secs_f64(), stats.sent - before.sent, stats.returned - before.returned)
}

fn run(machine: &mut Machine, time: Ps) {
    machine.run(&Limits::until(machine.now() + time));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let option =
        |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1).cloned());
    let frames: u64 =
        option("--frames").map_or(2_000_000, |text| text.parse().expect("--frames is a number"));
    if let Some(only) = option("--only") {
        let (_, text) = KINDS
            .iter()
            .find(|(name, _)| *name == only)
            .expect("--only must be one of the names printed without it");
        println!("{only}: {:.3} s", generator_seconds(traffic(text), frames, frames));
        return;
    }
    println!("Load generator by itself, millions of frames per host second:");
    for (name, text) in KINDS {
        let seconds = median((0..RUNS).map(|_| generator_seconds(traffic(text), frames, frames)));
        println!("  {name:<32} {:6.2}", frames as f64 / seconds / 1e6);
    }
    let config = resolve("server", &["loadgen.traffic.rate=100%".to_owned()]).expect("a configuration");
    let chosen = benchmark("testpmd").expect("a benchmark");
    let session = quiet(|control| Session::prepare(&config, chosen, &places(), &Source::Cache, control))
        .expect("the application becomes ready");
    let shares = (0..RUNS).map(|_| {
        let (seconds, sent, returned) = timed(&session);
        100.0 * generator_seconds(traffic(""), sent, returned) / seconds
    });
    println!(
        "Share of the load generator in a timed machine's host time at 100 Gbps of 64-byte frames: {:.1} %",
        median(shares)
    );
}
