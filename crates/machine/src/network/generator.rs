//! Load generator as a separate member of a network, connected to a switch or to a node's port, with its own
//! event queue.

use doorbell_loadgen::{Event, LoadGen, LoadGenConfig, LoadGenState, RoundTripObserver, TrafficConfig};
use doorbell_sim::event::QueueState;
use doorbell_sim::ports::{Timers, WirePort};
use doorbell_sim::rng::Rng;
use doorbell_sim::snapshot::SnapshotError;
use doorbell_sim::{EventQueue, Frame, Phase, Ps};
use doorbell_wire::link::LinkState;
use doorbell_wire::{Link, LinkConfig};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::network::Crossing;

/// An event of a load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum GeneratorEvent {
    /// A timer of the load generator.
    Wake(Event),
    /// The last bit of a frame has arrived.
    Arrival(Frame),
}

/// A load generator and the link into which it sends.
pub struct Generator {
    name: String,
    loadgen: LoadGen,
    link: Link,
    queue: EventQueue<GeneratorEvent>,
    /// Time up to which it has run.
    reached: Ps,
    pub(crate) sent: Vec<Crossing>,
}

/// Saved state of a load generator.
#[derive(Serialize, Deserialize)]
pub(crate) struct GeneratorState {
    loadgen: LoadGenState,
    link: LinkState,
    queue: QueueState<GeneratorEvent>,
    reached: Ps,
}

/// Timers and wire port, as the load generator uses them.
struct GeneratorPorts<'a> {
    link: &'a mut Link,
    queue: &'a mut EventQueue<GeneratorEvent>,
    sent: &'a mut Vec<Crossing>,
}

impl RoundTripObserver for GeneratorPorts<'_> {}

impl Timers<Event> for GeneratorPorts<'_> {
    fn wake_at(&mut self, at: Ps, event: Event) {
        self.queue.schedule(at, Phase::Stimulus, GeneratorEvent::Wake(event));
    }
}

impl WirePort for GeneratorPorts<'_> {
    fn send(&mut self, now: Ps, mut frame: Frame) -> Ps {
        let sent = self.link.transmit(now, &mut frame);
        if !sent.lost {
            self.sent.push(Crossing { arrives_at: sent.arrives_at, frame });
        }
        sent.free_at
    }

    fn free_at(&self) -> Ps {
        self.link.free_at()
    }
}

impl Generator {
    /// Builds an idle generator; `index` is its number in the network.
    pub(crate) fn new(
        index: usize,
        name: &str,
        config: &LoadGenConfig,
        link: LinkConfig,
        seed: u64,
    ) -> Result<Generator, ConfigError> {
        let wrong = |problem: String| ConfigError::new(format!("generator.{name}"), problem);
        let loadgen =
            LoadGen::new(index as u32, seed, config, &link).map_err(|error| wrong(error.to_string()))?;
        let rng = Rng::stream(seed, &format!("generator.{name}.link"));
        Ok(Generator {
            name: name.to_owned(),
            loadgen,
            link: Link::new(link, rng).map_err(|error| wrong(error.to_string()))?,
            queue: EventQueue::new(),
            reached: Ps::ZERO,
            sent: Vec::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The load generator, with its counters and measurements.
    pub fn loadgen(&self) -> &LoadGen {
        &self.loadgen
    }

    /// The link into which it sends.
    pub fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Present time of the generator.
    pub fn now(&self) -> Ps {
        self.reached.max(self.queue.now())
    }

    /// Sets its traffic and starts it.
    pub fn start(&mut self, traffic: TrafficConfig) -> Result<(), ConfigError> {
        let wrong = |problem: String| ConfigError::new(format!("generator.{}.traffic", self.name), problem);
        self.loadgen.set_traffic(traffic).map_err(|error| wrong(error.to_string()))?;
        self.call(|loadgen, now, side| loadgen.start(now, side));
        Ok(())
    }

    /// Stops sending. Frames in flight are still received.
    pub fn stop(&mut self) {
        let now = self.now();
        self.loadgen.stop(now);
    }

    /// Begins a measurement window.
    pub fn begin_window(&mut self) {
        let now = self.now();
        self.loadgen.begin_window(now);
    }

    /// Ends the measurement window.
    pub fn end_window(&mut self) {
        let now = self.now();
        self.loadgen.end_window(now);
    }

    fn call(&mut self, call: impl FnOnce(&mut LoadGen, Ps, &mut GeneratorPorts<'_>)) {
        let now = self.now();
        let mut side = GeneratorPorts { link: &mut self.link, queue: &mut self.queue, sent: &mut self.sent };
        call(&mut self.loadgen, now, &mut side);
    }

    pub(crate) fn deliver(&mut self, arrives_at: Ps, frame: Frame) {
        self.queue.schedule(arrives_at, Phase::Wire, GeneratorEvent::Arrival(frame));
    }

    pub(crate) fn next_activity(&self) -> Ps {
        self.queue.next_time()
    }

    /// Advances time.
    pub(crate) fn reach(&mut self, time: Ps) {
        self.reached = self.reached.max(time);
    }

    /// Handles all events up to and including `until`.
    pub(crate) fn run(&mut self, until: Ps) {
        while self.queue.next_time() <= until {
            let Some((_, due)) = self.queue.pop() else { break };
            match due {
                GeneratorEvent::Wake(event) => {
                    self.call(|loadgen, now, side| loadgen.on_event(now, event, side))
                }
                GeneratorEvent::Arrival(frame) => {
                    self.call(|loadgen, now, side| {
                        loadgen.frame_arrived(now, &frame, side);
                    });
                    self.loadgen.recycle(frame);
                }
            }
        }
        self.reach(until);
    }

    pub(crate) fn save(&self) -> GeneratorState {
        GeneratorState {
            loadgen: self.loadgen.save(),
            link: self.link.save(),
            queue: self.queue.save(),
            reached: self.reached,
        }
    }

    /// Restores a saved state; `present` is the end of the network's present window.
    pub(crate) fn restore(&mut self, state: GeneratorState, present: Ps) -> Result<(), SnapshotError> {
        let queue = EventQueue::restore(state.queue.clone());
        if !state.queue.is_sound() || queue.now() > present || state.reached > present {
            let name = format!("generator {}", self.name);
            return Err(SnapshotError::Inconsistent { name, problem: "its time is out of range".to_owned() });
        }
        self.loadgen.restore(state.loadgen)?;
        self.link.restore(state.link)?;
        (self.queue, self.reached) = (queue, state.reached);
        Ok(())
    }
}
