//! Reference model of the cores: a state machine that steps cycle by cycle and checks every op in flight. It
//! shares no code with the model under test except the vocabulary and the configuration; branch predictions
//! are an input.

use std::collections::BTreeMap;

use doorbell_core::{CoreKind, MemoryDependence, PipelineConfig, Prediction, StoreDrain};
use doorbell_sim::memory::AccessKind;
use doorbell_sim::op::{Op, OpClass};

use crate::common::Simple;

/// The cycles of an op's events.
#[derive(Clone, Debug, Default)]
pub struct Life {
    arrived: Option<u64>,
    decode: Option<u64>,
    rename: Option<u64>,
    pub dispatch: Option<u64>,
    pub issue: Option<u64>,
    /// Its unit has the result, which waits for a write-back slot.
    finish: Option<u64>,
    pub complete: Option<u64>,
    pub commit: Option<u64>,
    /// Stores only.
    data: Option<u64>,
    address_known: Option<u64>,
    pub written: Option<u64>,
    /// Loads only: the store that forwards (true) or must be written first (false), and when it was looked
    /// up.
    source: Option<(usize, bool)>,
    requested: Option<u64>,
}

/// A fetch group.
struct Group {
    last_cycle: u64,
    left: u32,
    line: u64,
    arrived: u64,
}

/// Remaining capacity of a core in one cycle, shared by both threads if it has two.
struct Left {
    fetch: u32,
    decode: u32,
    rename: u32,
    dispatch: u32,
    issue: u32,
    writeback: u32,
    commit: u32,
    drain: u32,
    units: BTreeMap<&'static str, u32>,
}

impl Left {
    fn new(config: &PipelineConfig) -> Left {
        let in_order = config.kind == CoreKind::InOrder;
        Left {
            fetch: 1,
            decode: config.decode_width,
            rename: if in_order { config.issue_width } else { config.rename_width },
            dispatch: config.dispatch_width,
            issue: config.issue_width,
            writeback: config.writeback_width,
            commit: if in_order { config.issue_width } else { config.commit_width },
            drain: config.drain_width,
            units: BTreeMap::new(),
        }
    }
}

/// Partitioned resources of one SMT thread.
struct Share {
    rob: u32,
    lq: u32,
    sq: u32,
    drains: u32,
    registers: [u32; 2],
    /// Free fetch-queue entries required to start a group.
    places: u32,
}

impl Share {
    fn whole(config: &PipelineConfig) -> Share {
        Share {
            rob: config.rob,
            lq: config.lq,
            sq: config.sq,
            drains: config.drains_in_flight,
            registers: [config.int_registers - 32, config.float_registers - 32],
            places: 1,
        }
    }

    fn half(config: &PipelineConfig) -> Share {
        Share {
            rob: config.rob / 2,
            lq: config.lq / 2,
            sq: config.sq / 2,
            drains: config.drains_in_flight.div_ceil(2),
            registers: [(config.int_registers - 64) / 2, (config.float_registers - 64) / 2],
            places: config.fetch_width.min(config.fetch_queue),
        }
    }
}

pub struct Machine<'a> {
    share: Share,
    config: &'a PipelineConfig,
    ops: &'a [Op],
    predictions: &'a [Prediction],
    memory: &'a Simple,
    pub lives: Vec<Life>,
    /// For each op and source, the op that produces it.
    producers: Vec<[Option<usize>; 3]>,
    next_fetch: usize,
    next_decode: usize,
    next_rename: usize,
    next_dispatch: usize,
    next_commit: usize,
    group: Group,
    /// Stores to be written: the next one, the ends of those in flight, the last one's line and end.
    next_store: usize,
    ends: Vec<u64>,
    next_end: usize,
    last_write: (u64, u64),
}

/// Busy non-pipelined units: name, start, end.
type Busy = Vec<(&'static str, u64, u64)>;

/// Whether the event happened in this cycle or earlier.
fn by(event: Option<u64>, cycle: u64) -> bool {
    event.is_some_and(|at| at <= cycle)
}

fn before(event: Option<u64>, cycle: u64) -> bool {
    event.is_some_and(|at| at < cycle)
}

/// Whether the op occupies a load-queue entry.
fn takes_load_entry(op: &Op) -> bool {
    matches!(op.class, OpClass::Load | OpClass::Prefetch)
}

/// Latency of a prefetch from its address on.
fn look_up(class: OpClass, memory: &Simple) -> u64 {
    if class == OpClass::Prefetch { memory.look_up() } else { 0 }
}

fn is_store(op: &Op) -> bool {
    matches!(op.class, OpClass::Store | OpClass::Atomic)
}

fn bytes(op: &Op) -> std::ops::Range<u64> {
    let writes_nothing = op.class == OpClass::Atomic && op.flags & Op::WRITES == 0;
    op.phys.0..op.phys.0 + if writes_nothing { 0 } else { u64::from(op.size) }
}

fn overlap(store: &Op, load: &Op) -> bool {
    let (store, load) = (bytes(store), load.phys.0..load.phys.0 + u64::from(load.size));
    !store.is_empty() && store.start < load.end && load.start < store.end
}

impl<'a> Machine<'a> {
    pub fn new(
        config: &'a PipelineConfig,
        ops: &'a [Op],
        predictions: &'a [Prediction],
        memory: &'a Simple,
    ) -> Machine<'a> {
        Machine::with(Share::whole(config), config, ops, predictions, memory)
    }

    fn with(
        share: Share,
        config: &'a PipelineConfig,
        ops: &'a [Op],
        predictions: &'a [Prediction],
        memory: &'a Simple,
    ) -> Machine<'a> {
        let mut last = BTreeMap::new();
        let producers = ops.iter().enumerate().map(|(index, op)| {
            let producers = op.sources.map(|source| last.get(&source).copied());
            if op.destination != 0 {
                last.insert(op.destination, index);
            }
            producers
        });
        Machine {
            config,
            ops,
            predictions,
            memory,
            lives: vec![Life::default(); ops.len()],
            producers: producers.collect(),
            next_fetch: 0,
            next_decode: 0,
            next_rename: 0,
            next_dispatch: 0,
            next_commit: 0,
            group: Group { last_cycle: 0, left: 0, line: u64::MAX, arrived: 0 },
            next_store: 0,
            ends: vec![0; share.drains as usize],
            share,
            next_end: 0,
            last_write: (u64::MAX, 0),
        }
    }

    /// Runs until all ops are complete, committed and written.
    pub fn run(&mut self) {
        let mut busy = Busy::new();
        for cycle in 1.. {
            let mut left = Left::new(self.config);
            (0..self.next_dispatch).for_each(|index| self.write_back(index, cycle, &mut left));
            self.write_stores(cycle, &mut left);
            self.commit(cycle, &mut left);
            if self.config.kind == CoreKind::InOrder {
                self.issue_in_order(cycle, &mut busy);
            } else {
                busy.retain(|busy| busy.2 > cycle);
                (0..self.next_dispatch).for_each(|index| self.issue(index, cycle, &mut left, &mut busy));
            }
            self.proceed_loads(cycle);
            if self.config.kind == CoreKind::OutOfOrder {
                self.dispatch(cycle, &mut left, 0);
            }
            self.rename(cycle, &mut left);
            self.decode(cycle, &mut left);
            self.fetch(cycle, &mut left);
            if self.is_over() {
                return;
            }
            assert!(cycle < 1_000_000, "stuck: {:?}", self.lives[self.next_commit]);
        }
    }

    /// Whether all ops are complete, committed and written.
    fn is_over(&self) -> bool {
        let over = self.next_commit == self.ops.len() && self.next_store == self.ops.len();
        over && self.lives.iter().all(|life| life.complete.is_some())
    }

    fn commit(&mut self, cycle: u64, left: &mut Left) {
        let in_order = self.config.kind == CoreKind::InOrder;
        while left.commit > 0 {
            let Some(life) = self.lives.get_mut(self.next_commit) else { return };
            let ready = match self.ops[self.next_commit].class {
                _ if !in_order => {
                    by(life.complete.map(|at| at + u64::from(self.config.commit_cycles)), cycle)
                }
                OpClass::Store | OpClass::Atomic => before(life.complete, cycle),
                OpClass::Load => before(life.requested, cycle) && cycle >= life.issue.unwrap() + 2,
                _ => by(life.issue.map(|issue| issue + 2), cycle),
            };
            if !ready {
                return;
            }
            life.commit = Some(cycle);
            self.next_commit += 1;
            left.commit -= 1;
        }
    }

    /// Writes back a result if it is available. Called for the oldest op first.
    fn write_back(&mut self, index: usize, cycle: u64, left: &mut Left) {
        let life = &mut self.lives[index];
        if life.complete.is_some() || !by(life.finish, cycle) {
            return;
        }
        if self.ops[index].destination == 0 {
            life.complete = life.finish;
        } else if left.writeback > 0 {
            left.writeback -= 1;
            life.complete = Some(cycle);
        } else {
            return;
        }
        if self.ops[index].class == OpClass::Atomic {
            life.data = life.complete;
            life.written = life.complete;
        }
    }

    /// Whether an operand is available.
    fn is_ready(&self, index: usize, source: usize, cycle: u64) -> bool {
        self.producers[index][source].is_none_or(|producer| by(self.lives[producer].complete, cycle))
    }

    /// Whether the older fences and atomics whose successor set covers this op let it pass.
    fn fences_pass(&self, index: usize, cycle: u64, loads: bool, stores: bool) -> bool {
        (0..index).all(|fence| {
            let op = &self.ops[fence];
            let [loads_before, stores_before, loads_after, stores_after] = op.fence();
            if !(loads && loads_after || stores && stores_after) {
                return true;
            }
            match op.class {
                OpClass::Atomic => by(self.lives[fence].complete, cycle),
                OpClass::Fence => (0..fence).all(|older| {
                    let is_load = matches!(self.ops[older].class, OpClass::Load | OpClass::Atomic);
                    let life = &self.lives[older];
                    (!loads_before || !is_load || by(life.complete, cycle))
                        && (!stores_before || !is_store(&self.ops[older]) || by(life.written, cycle))
                }),
                _ => true,
            }
        })
    }

    fn can_issue(&self, index: usize, cycle: u64) -> bool {
        let op = &self.ops[index];
        let life = &self.lives[index];
        if !before(life.dispatch, cycle) || life.issue.is_some() || op.class == OpClass::Fence {
            return false;
        }
        if op.class == OpClass::Store {
            return self.is_ready(index, 0, cycle);
        }
        if !(0..3).all(|source| self.is_ready(index, source, cycle)) {
            return false;
        }
        match op.class {
            OpClass::Load => {
                let mut older = (0..index).rev().filter(|older| is_store(&self.ops[*older]));
                let address_known = match self.config.memory_dependence {
                    MemoryDependence::Wait => older.all(|store| by(self.lives[store].address_known, cycle)),
                    _ => older
                        .find(|store| overlap(&self.ops[*store], op))
                        .is_none_or(|store| by(self.lives[store].address_known, cycle)),
                };
                address_known && self.fences_pass(index, cycle, true, false)
            }
            OpClass::Atomic => {
                let written = (0..index)
                    .all(|older| !is_store(&self.ops[older]) || by(self.lives[older].written, cycle));
                written
                    && (0..index).all(|older| before(self.lives[older].commit, cycle))
                    && self.fences_pass(index, cycle, true, true)
            }
            _ => true,
        }
    }

    /// Issues an op if it can. Called for the oldest op first.
    fn issue(&mut self, index: usize, cycle: u64, left: &mut Left, busy: &mut Busy) {
        let op = &self.ops[index];
        if op.class == OpClass::Store {
            let ready = before(self.lives[index].dispatch, cycle)
                && self.is_ready(index, 1, cycle)
                && self.is_ready(index, 2, cycle);
            if ready && self.lives[index].data.is_none() {
                self.lives[index].data = Some(cycle);
                self.finish_store(index);
            }
        }
        let (unit, count, latency) = unit(op.class, self.config);
        let started = busy.iter().filter(|busy| busy.0 == unit && busy.1 < cycle && cycle < busy.2).count();
        let taken = left.units.entry(unit).or_default();
        if left.issue == 0 || *taken + started as u32 >= count || !self.can_issue(index, cycle) {
            return;
        }
        left.issue -= 1;
        *taken += 1;
        busy.push((unit, cycle, cycle + interval(op.class, self.config)));
        let life = &mut self.lives[index];
        life.issue = Some(cycle);
        match op.class {
            OpClass::Load => {}
            OpClass::Store => {
                life.address_known = Some(cycle + latency);
                self.finish_store(index);
            }
            _ => self.execute(index, cycle + latency),
        }
    }

    /// Executes an op other than a load or store whose unit finishes at `done`.
    fn execute(&mut self, index: usize, done: u64) {
        let (op, life) = (&self.ops[index], &mut self.lives[index]);
        if op.class == OpClass::Atomic {
            life.address_known = Some(done);
            let kind = if op.flags & Op::WRITES != 0 { AccessKind::Store } else { AccessKind::Load };
            life.finish = Some(done + self.memory.latency(kind, op.phys.0).0);
            return;
        }
        life.finish = Some(done + look_up(op.class, self.memory));
        if op.destination == 0 {
            life.complete = life.finish;
        }
    }

    /// Issues in program order, up to the first op that cannot issue.
    fn issue_in_order(&mut self, cycle: u64, busy: &mut Busy) {
        let mut used: BTreeMap<&str, u32> = BTreeMap::new();
        busy.retain(|busy| busy.2 > cycle);
        for _ in 0..self.config.issue_width {
            let index = self.next_dispatch;
            let Some(op) = self.ops.get(index) else { return };
            let (unit, count, latency) = match op.class {
                OpClass::Fence => ("alu", self.config.units.alus, 1),
                class => unit(class, self.config),
            };
            let started = busy.iter().filter(|busy| busy.0 == unit && busy.1 < cycle).count() as u32;
            let taken = used.entry(unit).or_default();
            if *taken + started >= count || !self.can_issue_in_order(index, cycle) {
                return;
            }
            *taken += 1;
            busy.push((unit, cycle, cycle + interval(op.class, self.config)));
            self.next_dispatch += 1;
            let life = &mut self.lives[index];
            life.dispatch = Some(cycle);
            life.issue = Some(cycle);
            match op.class {
                OpClass::Load => life.requested = Some(cycle + latency),
                OpClass::Store => {
                    life.address_known = Some(cycle + latency);
                    life.data = life.address_known;
                    life.complete = life.address_known;
                }
                _ => self.execute(index, cycle + latency),
            }
        }
    }

    fn can_issue_in_order(&self, index: usize, cycle: u64) -> bool {
        let op = &self.ops[index];
        let depth = u64::from(self.config.front_end_depth) - 2;
        let arrived = by(self.lives[index].rename.map(|rename| rename + depth), cycle);
        let mut writers = (0..index).rev().filter(|older| self.ops[*older].destination == op.destination);
        let overwrites =
            op.destination == 0 || writers.next().is_none_or(|writer| by(self.lives[writer].complete, cycle));
        let complete = |older: usize| by(self.lives[older].complete, cycle);
        let held = (0..index).any(|older| {
            matches!(self.ops[older].class, OpClass::Atomic | OpClass::Serialising) && !complete(older)
        });
        let window = self.config.in_order_window as usize;
        let room = window == 0 || (0..(index + 1).saturating_sub(window)).all(complete);
        if !arrived
            || !overwrites
            || held
            || !room
            || !(0..3).all(|source| self.is_ready(index, source, cycle))
        {
            return false;
        }
        match op.class {
            OpClass::Load | OpClass::Prefetch => {
                let mut loads = (0..index).rev().filter(|older| takes_load_entry(&self.ops[*older]));
                let room = loads.nth(self.share.lq as usize - 1).is_none_or(complete);
                room && (op.class == OpClass::Prefetch || self.fences_pass(index, cycle, true, false))
            }
            OpClass::Store => self.store_room(index, cycle),
            OpClass::Atomic => {
                let written =
                    |older: usize| !is_store(&self.ops[older]) || by(self.lives[older].written, cycle);
                (0..index).all(written) && self.fences_pass(index, cycle, true, true)
            }
            OpClass::Serialising => (0..index).all(|older| {
                matches!(self.ops[older].class, OpClass::Store | OpClass::Fence) || complete(older)
            }),
            _ => true,
        }
    }

    fn finish_store(&mut self, index: usize) {
        let life = &mut self.lives[index];
        if let (Some(address_known), Some(data)) = (life.address_known, life.data) {
            life.complete = Some(address_known.max(data));
        }
    }

    /// Advances issued loads: look up older stores, wait for them, access the cache.
    fn proceed_loads(&mut self, cycle: u64) {
        for index in 0..self.next_dispatch {
            let op = &self.ops[index];
            let life = &self.lives[index];
            if op.class != OpClass::Load || life.finish.is_some() {
                continue;
            }
            let requested = life.issue.map(|issue| issue + u64::from(self.config.address_cycles));
            if requested == Some(cycle) {
                let store = (0..index)
                    .rev()
                    .find(|older| is_store(&self.ops[*older]) && overlap(&self.ops[*older], op));
                let store = store.filter(|store| !by(self.lives[*store].written, cycle));
                let covers = |store: usize| {
                    let (has, needs) = (bytes(&self.ops[store]), bytes(op));
                    has.start <= needs.start && needs.end <= has.end
                };
                self.lives[index].source = store.map(|store| (store, covers(store)));
                self.lives[index].requested = requested;
            }
            if !by(self.lives[index].requested, cycle) {
                continue;
            }
            let access = cycle + self.memory.latency(AccessKind::Load, op.phys.0).0;
            let finish = match self.lives[index].source {
                None => Some(access),
                Some((store, true)) => {
                    by(self.lives[store].data, cycle).then(|| cycle + u64::from(self.config.forward_cycles))
                }
                Some((store, false)) => by(self.lives[store].written, cycle).then_some(access),
            };
            self.lives[index].finish = finish;
        }
    }

    /// Dispatches ops; the other thread occupies `others` entries of the issue queue.
    fn dispatch(&mut self, cycle: u64, left: &mut Left, others: usize) {
        while left.dispatch > 0 {
            let index = self.next_dispatch;
            let Some(op) = self.ops.get(index) else { return };
            let depth = u64::from(self.config.front_end_depth) - 2;
            if !by(self.lives[index].rename.map(|rename| rename + depth), cycle)
                || !self.has_room(index, cycle, others)
            {
                return;
            }
            self.lives[index].dispatch = Some(cycle);
            if op.class == OpClass::Fence {
                self.lives[index].issue = Some(cycle + 1);
                self.lives[index].complete = Some(cycle + 1);
            }
            self.next_dispatch += 1;
            left.dispatch -= 1;
        }
    }

    /// Number of occupied issue-queue entries.
    fn queued(&self, cycle: u64) -> usize {
        let waiting = |older: &usize| {
            let life = &self.lives[*older];
            match self.ops[*older].class {
                OpClass::Fence => false,
                OpClass::Store => !(before(life.issue, cycle) && before(life.data, cycle)),
                _ => !before(life.issue, cycle),
            }
        };
        (0..self.next_dispatch).filter(waiting).count()
    }

    fn has_room(&self, index: usize, cycle: u64, others: usize) -> bool {
        let op = &self.ops[index];
        let older = || 0..index;
        let uncommitted = |older: &usize| !before(self.lives[*older].commit, cycle);
        if older().filter(uncommitted).count() >= self.share.rob as usize {
            return false;
        }
        if self.queued(cycle) + others >= self.config.iq as usize {
            return false;
        }
        let loads = |older: &usize| takes_load_entry(&self.ops[*older]);
        if takes_load_entry(op) && older().filter(loads).filter(uncommitted).count() >= self.share.lq as usize
        {
            return false;
        }
        if is_store(op) && !self.store_room(index, cycle) {
            return false;
        }
        self.has_registers(index, cycle)
    }

    /// Whether a store-queue entry is free.
    fn store_room(&self, index: usize, cycle: u64) -> bool {
        // Entries are released in order: the oldest unwritten store holds all younger ones.
        let mut stores = (0..index).filter(|older| is_store(&self.ops[*older]));
        let first = stores.by_ref().find(|store| !by(self.lives[*store].written, cycle));
        first.is_none() || 1 + stores.count() < self.share.sq as usize
    }

    /// Whether a physical register is free and no serialising op blocks dispatch.
    fn has_registers(&self, index: usize, cycle: u64) -> bool {
        let op = &self.ops[index];
        let older = || 0..index;
        let uncommitted = |older: &usize| !before(self.lives[*older].commit, cycle);
        let float = |op: &Op| (32..64).contains(&op.destination);
        let renamed = older()
            .filter(|older| self.ops[*older].destination != 0 && float(&self.ops[*older]) == float(op))
            .filter(uncommitted);
        let registers = self.share.registers[usize::from(float(op))];
        if op.destination != 0 && renamed.count() >= registers as usize {
            return false;
        }
        let serialised =
            |older: usize| op.class == OpClass::Serialising || self.ops[older].class == OpClass::Serialising;
        !older().any(|older| serialised(older) && uncommitted(&older))
    }

    fn rename(&mut self, cycle: u64, left: &mut Left) {
        while left.rename > 0 {
            let Some(life) = self.lives.get_mut(self.next_rename) else { return };
            if !before(life.decode, cycle) {
                return;
            }
            life.rename = Some(cycle);
            self.next_rename += 1;
            left.rename -= 1;
        }
    }

    fn decode(&mut self, cycle: u64, left: &mut Left) {
        while left.decode > 0 {
            let Some(life) = self.lives.get_mut(self.next_decode) else { return };
            if !before(life.arrived, cycle) {
                return;
            }
            life.decode = Some(cycle);
            self.next_decode += 1;
            left.decode -= 1;
        }
    }

    /// Fetches a group, or joins the current one.
    fn fetch(&mut self, cycle: u64, left: &mut Left) {
        while let Some(op) = self.ops.get(self.next_fetch) {
            let index = self.next_fetch;
            let waiting = (0..index).filter(|older| !before(self.lives[*older].dispatch, cycle));
            let waiting = waiting.count();
            if waiting >= self.config.fetch_queue as usize {
                return;
            }
            let after = index.checked_sub(1).filter(|before| self.ops[*before].class.is_branch());
            let prediction = after.map_or(Prediction::Right, |branch| self.predictions[branch]);
            let ends =
                after.is_some_and(|branch| self.ops[branch].is_taken() || prediction != Prediction::Right);
            let line = op.fetch.0 / 64;
            let joins =
                self.group.left > 0 && line == self.group.line && !ends && cycle <= self.group.last_cycle;
            if !joins {
                let free = self.config.fetch_queue - waiting as u32;
                let may = left.fetch > 0 && cycle > self.group.last_cycle && free >= self.share.places;
                if !may || !self.may_begin(after, prediction, cycle) {
                    return;
                }
                left.fetch -= 1;
                self.begin_group(op, line, prediction, cycle);
            }
            self.group.left -= 1;
            self.lives[index].arrived = Some(self.group.arrived);
            self.next_fetch += 1;
        }
    }

    /// Whether the fetch address after a branch is address_known.
    fn may_begin(&self, after: Option<usize>, prediction: Prediction, cycle: u64) -> bool {
        let Some(branch) = after else { return true };
        let life = &self.lives[branch];
        if prediction.is_misprediction() {
            by(life.complete.map(|complete| complete + u64::from(self.config.redirect_cycles)), cycle)
        } else if prediction == Prediction::Misfetched {
            by(life.arrived.map(|arrived| arrived + u64::from(self.config.misfetch_cycles)), cycle)
        } else {
            true
        }
    }

    fn begin_group(&mut self, op: &Op, line: u64, prediction: Prediction, cycle: u64) {
        let same = line == self.group.line && !prediction.is_misprediction();
        let latency = if same { 1 } else { self.memory.latency(AccessKind::Fetch, op.fetch.0).0 };
        let arrived = (self.group.arrived + 1).max(cycle + latency);
        self.group = Group { last_cycle: cycle, left: self.config.fetch_width, line, arrived };
    }

    /// Sends committed stores to the cache, in order.
    fn write_stores(&mut self, cycle: u64, left: &mut Left) {
        while let Some(op) = self.ops.get(self.next_store) {
            let life = &self.lives[self.next_store];
            if op.class != OpClass::Store {
                if life.commit.is_none() {
                    return;
                }
                self.next_store += 1;
                continue;
            }
            let index = self.next_store;
            if left.drain == 0 || !before(life.commit, cycle) || !self.fences_pass(index, cycle, false, true)
            {
                return;
            }
            let line = op.phys.0 / 64;
            let end = if line == self.last_write.0 && cycle < self.last_write.1 {
                self.last_write.1
            } else {
                let in_order = self.config.store_drain == StoreDrain::InOrder;
                let free = if in_order {
                    Some(self.next_end).filter(|place| self.ends[*place] <= cycle)
                } else {
                    self.ends.iter().position(|end| *end <= cycle)
                };
                let Some(place) = free else { return };
                let mut end = cycle + self.memory.latency(AccessKind::Store, op.phys.0).0;
                if in_order {
                    end = end.max(self.last_write.1);
                    self.next_end = (place + 1) % self.ends.len();
                }
                self.ends[place] = end;
                self.last_write = (line, end);
                end
            };
            self.lives[index].written = Some(end);
            left.drain -= 1;
            self.next_store += 1;
        }
    }
}

/// Two SMT threads. Priority for each stage's slots alternates per cycle; units go to the op dispatched
/// first; fetch goes to the thread that did not fetch last.
pub struct Pair<'a> {
    pub threads: [Machine<'a>; 2],
    fetched_last: usize,
}

impl<'a> Pair<'a> {
    pub fn new(
        config: &'a PipelineConfig,
        ops: [&'a [Op]; 2],
        predictions: [&'a [Prediction]; 2],
        memory: &'a Simple,
    ) -> Pair<'a> {
        let thread = |thread: usize| {
            Machine::with(Share::half(config), config, ops[thread], predictions[thread], memory)
        };
        Pair { threads: [thread(0), thread(1)], fetched_last: 1 }
    }

    /// Runs until one thread has committed this number of ops; after that the other would run alone.
    pub fn run_until(&mut self, committed: usize) {
        let mut busy = Busy::new();
        for cycle in 1.. {
            self.step(cycle, &mut busy);
            if self.threads.iter().any(|thread| thread.next_commit >= committed) {
                return;
            }
            assert!(cycle < 1_000_000, "stuck");
        }
    }

    fn step(&mut self, cycle: u64, busy: &mut Busy) {
        let config = self.threads[0].config;
        let mut left = Left::new(config);
        let turns = [cycle as usize % 2, 1 - cycle as usize % 2];
        for (thread, index) in self.by_age(turns) {
            self.threads[thread].write_back(index, cycle, &mut left);
        }
        turns.iter().for_each(|thread| self.threads[*thread].write_stores(cycle, &mut left));
        turns.iter().for_each(|thread| self.threads[*thread].commit(cycle, &mut left));
        busy.retain(|busy| busy.2 > cycle);
        for (thread, index) in self.by_age(turns) {
            self.threads[thread].issue(index, cycle, &mut left, busy);
        }
        turns.iter().for_each(|thread| self.threads[*thread].proceed_loads(cycle));
        for thread in turns {
            let others = self.threads[1 - thread].queued(cycle);
            self.threads[thread].dispatch(cycle, &mut left, others);
        }
        let straight = config.decode_width.min(config.rename_width) >= config.fetch_width;
        for thread in turns {
            self.threads[thread].rename(cycle, &mut left);
            self.threads[thread].decode(cycle, &mut left);
            if straight {
                // Decoders as wide as a fetch group never stall.
                (left.rename, left.decode) = (config.rename_width, config.decode_width);
            }
        }
        for thread in [1 - self.fetched_last, self.fetched_last] {
            let before = left.fetch;
            self.threads[thread].fetch(cycle, &mut left);
            if left.fetch < before {
                self.fetched_last = thread;
                break;
            }
        }
    }

    /// Ops in flight of both threads, in dispatch order.
    fn by_age(&self, turns: [usize; 2]) -> Vec<(usize, usize)> {
        let mut ops: Vec<_> = turns
            .iter()
            .flat_map(|thread| {
                let machine = &self.threads[*thread];
                let open = |index: &usize| machine.lives[*index].complete.is_none();
                (0..machine.next_dispatch)
                    .filter(open)
                    .map(|index| (machine.lives[index].dispatch, *thread, index))
            })
            .collect();
        ops.sort_by_key(|(dispatched, _, _)| *dispatched);
        ops.into_iter().map(|(_, thread, index)| (thread, index)).collect()
    }
}

/// The unit name, the number of units, and the latency (memory accesses: up to the cache).
fn unit(class: OpClass, config: &PipelineConfig) -> (&'static str, u32, u64) {
    let units = &config.units;
    let (name, count, latency) = match class {
        OpClass::Int => ("alu", units.alus, units.alu_cycles),
        OpClass::Serialising => ("alu", units.alus, config.serialising_cycles),
        OpClass::IntMul => ("multiply", units.multipliers, units.multiply_cycles),
        OpClass::IntDiv => ("divide", units.dividers, units.divide_cycles),
        OpClass::FloatAdd => ("float add", units.float_adders, units.float_add_cycles),
        OpClass::FloatMul => ("float multiply", units.float_multipliers, units.float_multiply_cycles),
        OpClass::FloatFma => ("float multiply", units.float_multipliers, units.float_fma_cycles),
        OpClass::FloatDiv => ("float divide", units.float_dividers, units.float_divide_cycles),
        OpClass::Load | OpClass::Prefetch => ("load", units.load_ports, config.address_cycles),
        OpClass::Store | OpClass::Atomic if units.store_ports == 0 => {
            ("load", units.load_ports, config.address_cycles)
        }
        OpClass::Store | OpClass::Atomic => ("store", units.store_ports, config.address_cycles),
        OpClass::Fence => ("none", u32::MAX, 0),
        _ if units.branch_units == 0 => ("alu", units.alus, units.branch_cycles),
        _ => ("branch", units.branch_units, units.branch_cycles),
    };
    (name, count, u64::from(latency))
}

/// Cycles between two starts on one unit.
fn interval(class: OpClass, config: &PipelineConfig) -> u64 {
    u64::from(match class {
        OpClass::IntDiv => config.units.divide_interval,
        OpClass::FloatDiv => config.units.float_divide_interval,
        _ => 1,
    })
}
