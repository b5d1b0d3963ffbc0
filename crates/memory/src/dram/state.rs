//! Saved state of memory controllers.

use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use super::bank::Bank;
use super::bus::{Activations, Bus, Paid};
use super::flat::{Flat, FlatState};
use super::slots::{Marks, Slots, SlotsState};
use super::stats::DramStats;
use super::writes::{WriteQueue, WriteQueueState};
use super::{Command, Dram, DramCycle};
use crate::in_flight::InFlightState;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChannelState {
    commands: SlotsState,
    reads: SlotsState,
    writes: SlotsState,
    activations: Vec<SlotsState>,
    banks: Vec<Bank>,
    debt: u64,
    paid: Paid,
    read_queue: InFlightState<Command>,
    now: DramCycle,
    behind: DramCycle,
    queue: WriteQueueState,
    stats: DramStats,
}

/// All bookings, open rows, waiting writes and statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DramState {
    channels: Vec<ChannelState>,
    /// Channels of flat memory; empty for DRAM devices.
    flat: Vec<FlatState>,
}

impl Dram {
    /// Returns the state to save.
    pub fn save(&self) -> DramState {
        let queues = self.reads.iter().zip(&self.queues);
        let channels = self.channels.iter().zip(queues).map(|(channel, (reads, queue))| ChannelState {
            commands: channel.bus.commands.save(),
            reads: channel.bus.reads.save(),
            writes: channel.bus.writes.save(),
            activations: channel.ranks.iter().map(|rank| rank.slots.save()).collect(),
            banks: channel.banks.clone(),
            debt: channel.bus.debt,
            paid: channel.bus.paid.clone(),
            read_queue: reads.save(),
            now: channel.now,
            behind: channel.behind,
            queue: queue.save(),
            stats: channel.stats.clone(),
        });
        DramState { channels: channels.collect(), flat: self.flat.as_ref().map_or(Vec::new(), Flat::save) }
    }

    /// Restores a saved state. One of another configuration, or an invalid one, is rejected and changes
    /// nothing.
    pub fn restore(&mut self, state: &DramState) -> Result<(), SnapshotError> {
        self.restored(state)
            .map(|restored| *self = restored)
            .map_err(|problem| SnapshotError::Inconsistent { name: "dram".to_owned(), problem })
    }

    fn restored(&self, state: &DramState) -> Result<Dram, String> {
        let mut dram = Dram::new(&self.config);
        match &mut dram.flat {
            Some(flat) => flat.restore(&state.flat)?,
            None if state.flat.is_empty() => {}
            None => return Err("the saved state is of flat memory, the machine has DRAM devices".to_owned()),
        }
        if state.channels.len() != dram.channels.len() {
            return Err(format!(
                "the saved state has {} channels, the machine has {}",
                state.channels.len(),
                dram.channels.len()
            ));
        }
        for (index, saved) in state.channels.iter().enumerate() {
            let channel = &mut dram.channels[index];
            if saved.banks.len() != channel.banks.len() || saved.activations.len() != channel.ranks.len() {
                return Err("the saved state has a different number of ranks or banks".to_owned());
            }
            saved.banks.iter().try_for_each(Bank::validate)?;
            let notes_max = channel.notes_max();
            let mut bus = Bus::new(&channel.timing);
            bus.debt = saved.debt.min(super::bus::DEBT_MAX);
            saved.paid.validate()?;
            bus.paid = saved.paid.clone();
            bus.commands = Marks::restore(&saved.commands)?;
            bus.reads = Slots::restore(&saved.reads, notes_max)?;
            bus.writes = Slots::restore(&saved.writes, notes_max)?;
            let ranks = saved.activations.iter().map(|slots| {
                let mut rank = Activations::new(&channel.timing);
                rank.slots = Slots::restore(slots, notes_max)?;
                Ok::<_, String>(rank)
            });
            channel.ranks = ranks.collect::<Result<_, _>>()?;
            channel.bus = bus;
            channel.banks.clone_from(&saved.banks);
            channel.stats = saved.stats.clone();
            dram.reads[index].check(&saved.read_queue, super::CYCLE_MAX)?;
            dram.reads[index].restore(saved.read_queue.clone());
            let [now, behind] = [saved.now, saved.behind].map(|at| at.min(super::LATEST));
            channel.advance_to(now, behind);
            let mapping = &dram.mapping;
            let here = saved.queue.waiting.iter().all(|(line, _)| mapping.place(*line).0 == index);
            if !here {
                return Err("a write is in the queue of the wrong channel".to_owned());
            }
            let capacity = self.config.write_queue;
            dram.queues[index] = WriteQueue::restore(&saved.queue, capacity, |line| mapping.place(line).1)?;
        }
        Ok(dram)
    }
}
