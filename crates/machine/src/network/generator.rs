//! A load generator that is a member of a network of its own: it stands behind a switch or at the far end of a node's link, and has
//! an event queue of its own.

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

/// What waits in its queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Due {
    /// Its own wake-up.
    Wake(Event),
    /// A frame's last bit is there.
    Arrival(Frame),
}

/// A load generator and the link into which it sends.
pub struct Generator {
    name: String,
    loadgen: LoadGen,
    link: Link,
    queue: EventQueue<Due>,
    /// How far it was run.
    reached: Ps,
    pub(crate) sent: Vec<Crossing>,
}

/// What a checkpoint keeps of one.
#[derive(Serialize, Deserialize)]
pub(crate) struct GeneratorState {
    loadgen: LoadGenState,
    link: LinkState,
    queue: QueueState<Due>,
    reached: Ps,
}

/// What the generator sees of the world.
struct Side<'a> {
    link: &'a mut Link,
    queue: &'a mut EventQueue<Due>,
    sent: &'a mut Vec<Crossing>,
}

impl RoundTripObserver for Side<'_> {}

impl Timers<Event> for Side<'_> {
    fn wake_at(&mut self, at: Ps, event: Event) {
        self.queue.schedule(at, Phase::Stimulus, Due::Wake(event));
    }
}

impl WirePort for Side<'_> {
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
    /// A generator that has sent nothing yet; `index` names it among the network's.
    pub(crate) fn new(
        (index, name): (usize, &str),
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

    /// What it has sent, seen and measured.
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

    /// How far it has come.
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

    /// Sends no more. What is on its way is still waited for.
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

    fn call(&mut self, call: impl FnOnce(&mut LoadGen, Ps, &mut Side<'_>)) {
        let now = self.now();
        let mut side = Side { link: &mut self.link, queue: &mut self.queue, sent: &mut self.sent };
        call(&mut self.loadgen, now, &mut side);
    }

    pub(crate) fn deliver(&mut self, arrives_at: Ps, frame: Frame) {
        self.queue.schedule(arrives_at, Phase::Wire, Due::Arrival(frame));
    }

    pub(crate) fn next_activity(&self) -> Ps {
        self.queue.next_time()
    }

    /// Time has passed, whatever happened in it.
    pub(crate) fn reach(&mut self, time: Ps) {
        self.reached = self.reached.max(time);
    }

    /// Handles what is due by `until`.
    pub(crate) fn run(&mut self, until: Ps) {
        while self.queue.next_time() <= until {
            let Some((_, due)) = self.queue.pop() else { break };
            match due {
                Due::Wake(event) => self.call(|loadgen, now, side| loadgen.on_event(now, event, side)),
                Due::Arrival(frame) => {
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

    /// Takes up a saved state; `present` is how far the network has come.
    pub(crate) fn restore(&mut self, state: GeneratorState, present: Ps) -> Result<(), SnapshotError> {
        let queue = EventQueue::restore(state.queue.clone());
        if !state.queue.is_sound() || queue.now() > present || state.reached > present {
            let name = format!("generator {}", self.name);
            return Err(SnapshotError::Inconsistent { name, problem: "its time is impossible".to_owned() });
        }
        self.loadgen.restore(state.loadgen)?;
        self.link.restore(state.link)?;
        (self.queue, self.reached) = (queue, state.reached);
        Ok(())
    }
}
