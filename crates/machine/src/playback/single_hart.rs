//! Fast path of a player with one hart. Its blocks run back to back up to the next event, with the same
//! result as choosing the earliest each time. Where nothing can happen between blocks, nothing is checked
//! between them.

use doorbell_sim::{CoreCycle, OpSource};

use super::{PlaybackError, Player};

impl Player {
    /// Runs the hart while its next block comes before the next event.
    pub(super) fn run_single_hart(&mut self, instructions: u64) -> Result<(), PlaybackError> {
        while let ([stream], [replay]) = (&self.streams[..], &self.replays[..])
            && stream.is_ready()
            && self.accesses[0].is_none()
            && !self.blocked[0]
            && self.done() < instructions
            && replay.next_event().is_none_or(|(due, _)| self.time(0) < due)
        {
            let end = replay.unchecked_until(0).min(stream.position() + (instructions - self.done()));
            #[cfg(test)]
            let end = if self.checks_after_each_block { 0 } else { end };
            match end > stream.position() {
                true => self.run_unchecked(end)?,
                false => self.step(0)?,
            }
        }
        Ok(())
    }

    /// Plays one block, and more while the hart has done fewer than `end` instructions.
    fn run_unchecked(&mut self, end: u64) -> Result<(), PlaybackError> {
        let due =
            self.replays[0].next_event().map_or(CoreCycle::MAX, |(due, _)| self.timing.cycle_at(0, due));
        loop {
            let continues = self.block(0)?;
            let (stream, replay) = (&self.streams[0], &mut self.replays[0]);
            let done = stream.position();
            if !continues
                || done >= end
                || stream.cycle() >= due
                || !stream.is_ready()
                || stream.skips_sleep()
            {
                return self.reached(0);
            }
            replay.end_block(0, done, self.timing.time_of(0, stream.end_cycle()));
        }
    }
}
