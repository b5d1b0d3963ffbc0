//! Phases of an offered load on a machine or a network: store keys, warm up, settle with timing, and drain after the
//! measurement.

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

/// Interval between checks for returned frames and for ARP replies.
pub(crate) const STEP: Ps = Ps::from_us(100);
/// Time within which a generator's ARP request must be answered.
const ARP_PATIENCE: Ps = Ps::from_ms(500);
/// Outstanding requests while keys are stored: few, so that none is lost.
const PRELOAD_OUTSTANDING: u32 = 8;

/// Traffic of a load generator.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Name of the port or generator, for messages.
    pub owner: String,
    /// Its key in the configuration.
    pub key: String,
    pub traffic: TrafficConfig,
    /// Kind of the requests that store keys before the first measurement, each sent once.
    pub preload: Option<Kind>,
    /// Longest time without progress while frames can still return: on links, or held by a program.
    pub pause: Ps,
    /// Whether checkpoints are saved at the edges of a window.
    pub keeps_checkpoints: bool,
}

impl Load {
    /// The loads of a machine's own generators.
    pub fn of_ports(config: &RunConfig, workload: &Workload) -> Vec<Load> {
        let ports = if workload.silent { 0 } else { config.platform.nics };
        let load = |port: u32| {
            let on_link = time_on(&config.port(port as usize).link, config.loadgen.traffic.frame_len());
            Load {
                owner: format!("port {port}"),
                key: "loadgen".to_owned(),
                traffic: config.loadgen.traffic.clone(),
                preload: workload.preload,
                pause: workload.pause + on_link + on_link,
                keeps_checkpoints: workload.counting.is_some(),
            }
        };
        (0..ports).map(load).collect()
    }

    /// Traffic that stores the keys, if there is a preload.
    fn storing(&self) -> Option<TrafficConfig> {
        Some(TrafficConfig {
            kind: self.preload?,
            frames: Some(u64::from(self.traffic.memcached.keys)),
            duration: None,
            start_after: Ps::ZERO,
            rate: Rate::Frames(1_000_000),
            outstanding: Some(PRELOAD_OUTSTANDING),
            // At least the default, even if the measurement's timeout is shorter.
            timeout: TrafficConfig::default().timeout.max(self.traffic.timeout),
            ..self.traffic.clone()
        })
    }
}

/// A system under load with its run control.
pub(crate) struct Run<'a, 'c, S: System> {
    pub system: &'a mut S,
    /// Name of the guest in the checkpoints of a single machine.
    pub guest: &'a str,
    pub control: &'a mut Control<'c>,
    /// Load of each generator; empty if nothing is sent.
    pub loads: &'a [Load],
    pub params: &'a RunParams,
}

impl<S: System> Run<'_, '_, S> {
    /// Runs to a time; any other end of the run is an error.
    pub fn until(&mut self, time: Ps) -> Result<(), RunError> {
        self.system.run_to(time, self.guest, self.control)
    }

    /// Runs for the given time.
    pub fn run_for(&mut self, time: Ps) -> Result<(), RunError> {
        self.until(self.system.now().saturating_add(time))
    }

    /// Starts the generators that have traffic. Waits until all that send to an IPv4 address have an ARP reply.
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
                let address = self.system.generators()[index].traffic().destination_ip;
                let Load { owner, key, .. } = &self.loads[index];
                return Err(RunError::NoAnswer(format!(
                    "{owner}: no ARP reply from {address} within {ARP_PATIENCE}; set {key}.traffic.destination_ip to a \
                     guest's address"
                )));
            }
            self.run_for(STEP)?;
        }
        Ok(())
    }

    /// Stores the keys of each generator whose guest needs them: each key once, a few requests at a time, until all are
    /// answered. Link faults are off meanwhile, since a lost key would be missing in the measurement.
    pub fn preload(&mut self) -> Result<(), RunError> {
        let Some(first) = self.loads.iter().find(|load| load.preload.is_some()) else { return Ok(()) };
        self.control.begin("storing keys", self.system.now(), None);
        (self.control.say)(&format!("storing {} keys", first.traffic.memcached.keys));
        self.system.disable_link_faults(true);
        self.system.begin_window();
        self.start(Load::storing)?;
        while self.system.generators().iter().any(|generator| generator.is_sending()) {
            self.run_for(STEP)?;
        }
        self.drain()?;
        self.system.disable_link_faults(false);
        for (load, generator) in self.loads.iter().zip(self.system.generators()) {
            let Some(TrafficConfig { frames: keys, .. }) = load.storing() else { continue };
            let stored = generator.measurement().map_or(0, |window| window.volumes().1.frames);
            if keys != Some(stored) {
                let (Load { owner, key, .. }, keys) = (load, keys.unwrap_or_default());
                return Err(RunError::NoAnswer(format!(
                    "{owner}: memcached stored only {stored} of the {keys} keys that were sent; set fewer keys or shorter \
                     values ({key}.traffic.memcached)"
                )));
            }
        }
        Ok(())
    }

    /// Starts the load and runs to its steady state, with warm caches and detailed timing.
    pub fn approach(&mut self) -> Result<Steady, RunError> {
        self.system.set_mode(Mode::Warming);
        self.start(|load| Some(load.traffic.clone()))?;
        self.settle(self.params.settle)
    }

    /// The same for a trial of a search, which tests the queues itself: an automatic settling time is the minimum.
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

    /// Runs until caches and then queues are steady, or for the configured times.
    fn settle(&mut self, settle: Length) -> Result<Steady, RunError> {
        let (params, timed) = (self.params, self.system.is_timed());
        let warmup = self.phase("warming up", timed, params.warmup, params.warmup_limit)?;
        if !timed {
            return Ok(Steady { warmup, ..Steady::default() });
        }
        self.system.set_mode(Mode::Detailed);
        let settle = self.phase("settling", false, settle, params.settle_limit)?;
        Ok(Steady { warmup, settle, ..Steady::default() })
    }

    /// One phase: until caches are steady and the guest's timer has ticked (`caches`), or until queues are steady.
    fn phase(
        &mut self,
        name: &'static str,
        caches: bool,
        length: Length,
        limit: Ps,
    ) -> Result<Option<SteadyPhase>, RunError> {
        self.control.begin(name, self.system.now(), length.given());
        let pace = match (self.loads, self.system.generators().as_slice()) {
            ([], []) => Pace::Programs,
            ([], _) => Pace::Silent,
            _ => Pace::Generators,
        };
        let watch = Watch::begin(caches, pace, self.system.longest_link(), self.system.sample());
        let ticks = caches.then(|| Ticks::begin(self.system.now(), self.system.timers()));
        until_ready(watch, ticks, length, limit, |time| {
            self.until(time)?;
            Ok((self.system.sample(), self.system.timers()))
        })
    }
}
