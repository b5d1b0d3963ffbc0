//! Test bench: a generator, two links and a scripted machine at their far end.

use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::rng::Rng;
use doorbell_sim::{EventQueue, Frame, Phase, Ps};
use doorbell_wire::{Link, LinkConfig};

use crate::arrival::Arrival;
use crate::config::{LoadGenConfig, TrafficConfig};
use crate::generator::{Event, LoadGen};
use crate::stages::RoundTripObserver;

#[derive(Clone, Debug)]
pub(crate) enum EventKind {
    Generator(Event),
    AtMachine(Frame),
    FromMachine(Frame),
    AtGenerator(Frame),
}

/// The machine's response to the nth frame: the frames it sends and their delays.
pub(crate) type Machine = fn(u64, Frame) -> Vec<(Ps, Frame)>;

#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) queue: EventQueue<EventKind>,
    pub(crate) generator: LoadGen,
    pub(crate) there: Link,
    pub(crate) back: Link,
    pub(crate) machine: Machine,
    pub(crate) seen: u64,
    /// Every frame sent towards the machine with its start time, if recording is on.
    pub(crate) tap: Option<Vec<(Ps, Frame)>>,
}

struct Ports<'a> {
    queue: &'a mut EventQueue<EventKind>,
    link: &'a mut Link,
    tap: &'a mut Option<Vec<(Ps, Frame)>>,
}

impl RoundTripObserver for Ports<'_> {}

impl WirePort for Ports<'_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        let sent = self.link.transmit(now, &mut frame);
        if let Some(tap) = self.tap {
            tap.push((sent.start, frame.clone()));
        }
        if !sent.lost {
            self.queue.schedule(sent.arrives_at, Phase::Wire, EventKind::AtMachine(frame));
        }
        sent.free_at
    }
    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}

impl Timers<Event> for Ports<'_> {
    fn wake_at(&mut self, at: Ps, event: Event) {
        self.queue.schedule(at, Phase::Stimulus, EventKind::Generator(event));
    }
}

/// Returns the frame immediately with its MAC addresses swapped.
pub(crate) fn swap(_: u64, mut frame: Frame) -> Vec<(Ps, Frame)> {
    frame.bytes[..12].rotate_left(6);
    vec![(Ps::ZERO, frame)]
}

/// Returns the frame immediately, unchanged.
pub(crate) fn echo(_: u64, frame: Frame) -> Vec<(Ps, Frame)> {
    vec![(Ps::ZERO, frame)]
}

impl Bench {
    pub(crate) fn new(link: LinkConfig, traffic: TrafficConfig, machine: Machine) -> Bench {
        Self::with_config(link, LoadGenConfig { traffic, ..LoadGenConfig::default() }, machine)
    }

    pub(crate) fn with_config(link: LinkConfig, config: LoadGenConfig, machine: Machine) -> Bench {
        let new_link = |path| Link::new(link.clone(), Rng::stream(1, path)).unwrap();
        Bench {
            queue: EventQueue::new(),
            generator: LoadGen::new(0, 1, &config, &link).unwrap(),
            there: new_link("there"),
            back: new_link("back"),
            machine,
            seen: 0,
            tap: None,
        }
    }

    pub(crate) fn start(&mut self) {
        let now = self.queue.now();
        let mut ports = Ports { queue: &mut self.queue, link: &mut self.there, tap: &mut self.tap };
        self.generator.start(now, &mut ports);
    }

    /// Hands the generator a frame directly.
    pub(crate) fn arrive(&mut self, now: Ps, frame: &Frame) -> Arrival {
        let mut ports = Ports { queue: &mut self.queue, link: &mut self.there, tap: &mut self.tap };
        self.generator.frame_arrived(now, frame, &mut ports)
    }

    /// Handles one event; false if there is none up to `until`.
    pub(crate) fn step(&mut self, until: Ps) -> bool {
        if self.queue.is_empty() || self.queue.next_time() > until {
            return false;
        }
        let Some((now, event)) = self.queue.pop() else { return false };
        match event {
            EventKind::Generator(event) => {
                let mut ports = Ports { queue: &mut self.queue, link: &mut self.there, tap: &mut self.tap };
                self.generator.on_event(now, event, &mut ports);
            }
            EventKind::AtMachine(frame) => {
                for (after, frame) in (self.machine)(self.seen, frame) {
                    self.queue.schedule(now + after, Phase::Mmio, EventKind::FromMachine(frame));
                }
                self.seen += 1;
            }
            EventKind::FromMachine(mut frame) => {
                let sent = self.back.transmit(now, &mut frame);
                if !sent.lost {
                    self.queue.schedule(sent.arrives_at, Phase::Wire, EventKind::AtGenerator(frame));
                }
            }
            EventKind::AtGenerator(frame) => {
                self.arrive(now, &frame);
                self.generator.recycle(frame);
            }
        }
        true
    }

    /// Handles all events up to `until`.
    pub(crate) fn run_until(&mut self, until: Ps) {
        while self.step(until) {}
    }

    /// Runs until there are no more events.
    pub(crate) fn run(&mut self) {
        self.run_until(Ps::MAX);
    }
}
