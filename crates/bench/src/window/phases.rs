//! The phases of an offered load, of one machine and of a network: store what is asked for, warm up, time everything, and after the
//! measurement drain.

use doorbell_loadgen::{Kind, Rate, TrafficConfig};
use doorbell_machine::Mode;
use doorbell_results::{Steady, SteadyPhase};
use doorbell_sim::Ps;

use crate::error::RunError;
use crate::plan::config::{RunConfig, RunParams};
use crate::plan::length::Length;
use crate::plan::workload::Workload;
use crate::testbed::control::Control;
use crate::testbed::links::time_on;
use crate::testbed::steady::{Pace, SETTLED_MIN, Watch};
use crate::testbed::system::System;
use crate::testbed::ticks::{Ticks, until_ready};

/// How often it is looked whether everything has come back, or a station was found.
pub(crate) const STEP: Ps = Ps::from_us(100);
/// How long a generator asks for its station.
const ARP_PATIENCE: Ps = Ps::from_ms(500);
/// How many requests are on their way while keys are stored: few, so that none is lost.
const PRELOAD_OUTSTANDING: u32 = 8;

/// What a load generator is to send.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Whose it is, in words.
    pub who: String,
    /// Where it stands in the configuration.
    pub key: String,
    pub traffic: TrafficConfig,
    /// Requests that it sends, each once, before the first measurement.
    pub preload: Option<Kind>,
    /// The longest time in which nothing may move though frames are still to come back: on links, or where a program keeps them.
    pub pause: Ps,
    /// Whether the machine is kept as it was at the edges of a window.
    pub kept: bool,
}

impl Load {
    /// Those of a machine's own generators.
    pub fn of_ports(config: &RunConfig, workload: &Workload) -> Vec<Load> {
        let ports = if workload.silent { 0 } else { config.platform.nics };
        let load = |port: u32| {
            let on_link = time_on(&config.port(port as usize).link, config.loadgen.traffic.frame_len());
            Load {
                who: format!("port {port}"),
                key: "loadgen".to_owned(),
                traffic: config.loadgen.traffic.clone(),
                preload: workload.preload,
                pause: workload.pause + on_link + on_link,
                kept: workload.counting.is_some(),
            }
        };
        (0..ports).map(load).collect()
    }

    /// What is sent to store keys, if that is wanted.
    fn storing(&self) -> Option<TrafficConfig> {
        Some(TrafficConfig {
            kind: self.preload?,
            frames: Some(u64::from(self.traffic.memcached.keys)),
            duration: None,
            start_after: Ps::ZERO,
            rate: Rate::Frames(1_000_000),
            outstanding: Some(PRELOAD_OUTSTANDING),
            // However long the measurement waits.
            timeout: TrafficConfig::default().timeout.max(self.traffic.timeout),
            ..self.traffic.clone()
        })
    }
}

/// A system under load, and who watches over it.
pub(crate) struct Run<'a, 'c, S: System> {
    pub system: &'a mut S,
    /// Names a lone guest in its own checkpoints.
    pub guest: &'a str,
    pub control: &'a mut Control<'c>,
    /// By generator; none if nothing is sent.
    pub loads: &'a [Load],
    pub params: &'a RunParams,
}

impl<S: System> Run<'_, '_, S> {
    /// Runs to a time; anything else that ends the run is an error.
    pub fn until(&mut self, time: Ps) -> Result<(), RunError> {
        self.system.run_to(time, self.guest, self.control)
    }

    /// Goes on for so long.
    pub fn go_on(&mut self, time: Ps) -> Result<(), RunError> {
        self.until(self.system.now().saturating_add(time))
    }

    /// Starts the generators that have something to send; what asks by IPv4 has found its station when this returns.
    fn start(&mut self, traffic: impl Fn(&Load) -> Option<TrafficConfig>) -> Result<(), RunError> {
        for (index, load) in self.loads.iter().enumerate() {
            if let Some(traffic) = traffic(load) {
                self.system.start(index, &traffic)?;
            }
        }
        let end = self.system.now() + ARP_PATIENCE;
        while let Some(index) = self.system.generators().iter().position(|generator| generator.is_resolving())
        {
            if self.system.now() >= end {
                let asked = self.system.generators()[index].traffic().destination_ip;
                let Load { who, key, .. } = &self.loads[index];
                return Err(RunError::NoAnswer(format!(
                    "{who}: nobody at {asked} has answered ARP for {ARP_PATIENCE}; {key}.traffic.destination_ip must be a \
                     guest's address"
                )));
            }
            self.go_on(STEP)?;
        }
        Ok(())
    }

    /// Each generator whose guest needs it sends requests that store its keys, each once, a few at a time, and waits for all
    /// answers. A key that a faulty link lost would be missing in the measurement, so that links have no faults meanwhile.
    pub fn preload(&mut self) -> Result<(), RunError> {
        let Some(first) = self.loads.iter().find(|load| load.preload.is_some()) else { return Ok(()) };
        self.control.begin("storing keys", self.system.now(), None);
        (self.control.say)(&format!("storing {} keys", first.traffic.memcached.keys));
        self.system.disable_link_faults(true);
        self.system.begin_window();
        self.start(Load::storing)?;
        while self.system.generators().iter().any(|generator| generator.is_sending()) {
            self.go_on(STEP)?;
        }
        self.drain()?;
        self.system.disable_link_faults(false);
        for (load, generator) in self.loads.iter().zip(self.system.generators()) {
            let Some(TrafficConfig { frames: keys, .. }) = load.storing() else { continue };
            let stored = generator.measurement().map_or(0, |window| window.volumes().1.frames);
            if keys != Some(stored) {
                let (Load { who, key, .. }, keys) = (load, keys.unwrap_or_default());
                return Err(RunError::NoAnswer(format!(
                    "{who}: memcached stored only {stored} of the {keys} keys that were sent; fewer or shorter values \
                     ({key}.traffic.memcached) may fit"
                )));
            }
        }
        Ok(())
    }

    /// Sends until the system has reached the load's own pace: caches are warm, and everything is timed.
    pub fn approach(&mut self) -> Result<Steady, RunError> {
        self.system.set_mode(Mode::Warming);
        self.start(|load| Some(load.traffic.clone()))?;
        self.settle(self.params.settle)
    }

    /// The same for a load that is watched further: whoever does so sees what queues do, and is not kept waiting for them.
    pub fn approach_trial(&mut self) -> Result<Steady, RunError> {
        self.system.set_mode(Mode::Warming);
        self.start(|load| Some(load.traffic.clone()))?;
        let mut steady = self.settle(match self.params.settle {
            Length::Auto => Length::For(SETTLED_MIN),
            given => given,
        })?;
        steady.settle.iter_mut().for_each(|phase| phase.criteria.clear());
        Ok(steady)
    }

    /// Goes on until caches and then queues are steady, or for as long as it is said.
    fn settle(&mut self, settle: Length) -> Result<Steady, RunError> {
        let (params, timed) = (self.params, self.system.is_timed());
        let warmup = self.phase(("warming up", timed), (params.warmup, params.warmup_limit))?;
        if !timed {
            return Ok(Steady { warmup, ..Steady::default() });
        }
        self.system.set_mode(Mode::Detailed);
        let settle = self.phase(("settling", false), (settle, params.settle_limit))?;
        Ok(Steady { warmup, settle, ..Steady::default() })
    }

    /// A phase in which caches are to become steady, and the guest's timer to tick, or queues are.
    fn phase(
        &mut self,
        (name, caches): (&'static str, bool),
        length: (Length, Ps),
    ) -> Result<Option<SteadyPhase>, RunError> {
        self.control.begin(name, self.system.now(), length.0.given());
        let pace = match (self.loads, self.system.generators().as_slice()) {
            ([], []) => Pace::Programs,
            ([], _) => Pace::Silent,
            _ => Pace::Generators,
        };
        let watch = Watch::begin(caches, pace, self.system.longest_link(), self.system.seen());
        let ticks = caches.then(|| Ticks::begin(self.system.now(), self.system.timers()));
        until_ready(watch, ticks, length, |time| {
            self.until(time)?;
            Ok((self.system.seen(), self.system.timers()))
        })
    }
}
