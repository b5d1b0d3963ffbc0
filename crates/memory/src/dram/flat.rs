//! Memory without rows and banks: each channel has a fixed latency and moves one line at a time.

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Calendar, DomainClock, FutureBookings, PhysAddr, Ps};

use serde::{Deserialize, Serialize};

use super::Command;
use super::config::FlatConfig;
use super::stats::DramStats;
use crate::backing::{FlatMemory, MainMemory};

/// Latest time accepted in a saved state.
const LATEST: Ps = Ps(1 << 60);

/// Saved state of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FlatState {
    busy: Calendar,
    ahead: [FutureBookings; 2],
}

/// Flat memory; see the module.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    channels: Vec<FlatMemory>,
    /// Intervals of each channel's booked reads and writes.
    ahead: Vec<[FutureBookings; 2]>,
    latency: Ps,
    line_time: Ps,
    /// Clock of the statistics.
    clock: DomainClock<Command>,
}

impl Flat {
    /// Idle channels.
    pub fn new(config: &FlatConfig, channels: u64, clock: DomainClock<Command>) -> Flat {
        let line = config.line_time();
        Flat {
            channels: (0..channels).map(|_| FlatMemory::new(config.latency, line)).collect(),
            ahead: (0..channels).map(|_| Default::default()).collect(),
            latency: config.latency,
            line_time: line,
            clock,
        }
    }

    /// Times a read or a write of a line on a channel.
    pub fn access(&mut self, now: Ps, index: usize, is_write: bool, stats: &mut DramStats) -> Ps {
        // The address does not matter.
        let (channel, addr) = (&mut self.channels[index], PhysAddr(0));
        let done = if is_write { channel.write(now, addr) } else { channel.read(now, addr) };
        let end =
            if is_write { done } else { done.saturating_sub(self.latency).saturating_add(self.line_time) };
        self.ahead[index][usize::from(is_write)].add(end.saturating_sub(self.line_time), end);
        let took = self.clock.edge_at_or_after(done.saturating_sub(now)).number();
        let (lines, bytes, clocks) = match is_write {
            true => (&mut stats.writes, &mut stats.bytes_written, &mut stats.write_clocks),
            false => (&mut stats.reads, &mut stats.bytes_read, &mut stats.read_clocks),
        };
        *lines += 1;
        *bytes += LINE_BYTES;
        *clocks += took;
        stats.busy_ps += self.line_time.0;
        done
    }

    /// Number of a channel's requests for a time before its recorded bookings.
    pub fn late(&self, channel: usize) -> u64 {
        self.channels[channel].late()
    }

    /// Lines that a channel reads and writes after `at`, with a line in transfer rounded, and picoseconds of
    /// channel time after `at`.
    pub fn booked_after(&self, channel: usize, at: Ps) -> ([u64; 2], u64) {
        let line = self.line_time.0.max(1);
        let busy = self.ahead[channel].each_ref().map(|ahead| ahead.time_after(at));
        (busy.map(|busy| busy.saturating_add(line / 2) / line), busy.iter().sum())
    }

    /// See [`MainMemory::advance_to`].
    pub fn advance_to(&mut self, now: Ps, behind: Ps) {
        self.ahead.iter_mut().flatten().for_each(|ahead| ahead.forget_ended(now));
        self.channels.iter_mut().for_each(|channel| channel.advance_to(now, behind));
    }

    /// Saved state of each channel.
    pub fn save(&self) -> Vec<FlatState> {
        let channels = self.channels.iter().zip(&self.ahead);
        channels.map(|(channel, ahead)| FlatState { busy: channel.save(), ahead: ahead.clone() }).collect()
    }

    /// Restores a saved state with the same number of channels.
    pub fn restore(&mut self, saved: &[FlatState]) -> Result<(), String> {
        if saved.len() != self.channels.len() {
            return Err(format!(
                "the saved state has {} flat channels, the machine has {}",
                saved.len(),
                self.channels.len()
            ));
        }
        if !saved.iter().flat_map(|saved| &saved.ahead).all(|ahead| ahead.is_consistent(LATEST)) {
            return Err("the end of flat memory's busy time is out of range".to_owned());
        }
        let mut both = self.channels.iter_mut().zip(saved);
        both.try_for_each(|(channel, saved)| channel.restore(saved.busy.clone()))
            .map_err(|error| error.to_string())?;
        self.ahead = saved.iter().map(|saved| saved.ahead.clone()).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::BitsPerSec;

    use super::*;
    use crate::dram::{Dram, DramConfig};

    /// Two channels of 51.2 Gbps, which move a line in 10 ns.
    fn dram() -> Dram {
        let flat = FlatConfig { latency: Ps::from_ns(50), rate: BitsPerSec(51_200_000_000) };
        Dram::new(&DramConfig { flat: Some(flat), channels: 2, channel_hash: false, ..DramConfig::default() })
    }

    #[test]
    fn a_read_takes_the_latency_and_waits_for_earlier_lines_on_its_channel() {
        let mut dram = dram();
        let at = Ps::from_us(1);
        let ns = |done: Ps| (done - at).0 / 1000;
        assert_eq!(ns(dram.read(at, PhysAddr(0))), 50);
        assert_eq!(ns(dram.read(at, PhysAddr(128))), 60);
        assert_eq!(ns(dram.read(at, PhysAddr(64))), 50, "another channel");
        assert_eq!(ns(dram.write(at, PhysAddr(0))), 30, "two lines and its own");
        assert_eq!(ns(dram.read(at + Ps::from_us(1), PhysAddr(0))), 1050, "no row, no refresh");
        let counted: Vec<_> = dram.stats().map(|s| (s.reads, s.writes, s.bytes_read, s.row_closed)).collect();
        assert_eq!(counted, [(3, 1, 192, 0), (1, 0, 64, 0)]);
        assert_eq!(dram.config().bytes_per_second(), 12_800_000_000);
        // The first channel reads two lines from 0 to 20 ns, writes from 20 to 30 ns and reads again after 1
        // µs.
        let moved = |ns: u64| {
            let stats = dram.stats_until(at + Ps::from_ns(ns)).next().unwrap();
            (stats.bytes_read, stats.bytes_written)
        };
        assert_eq!([0, 10, 20, 30].map(moved), [(0, 0), (64, 0), (128, 0), (128, 64)]);
        assert_eq!([1_000, 1_010].map(moved), [(128, 64), (192, 64)]);
    }

    #[test]
    fn a_saved_state_restores_flat_memory_and_not_one_of_dram_devices() {
        let mut dram = dram();
        dram.read(Ps::from_us(1), PhysAddr(0));
        let saved = dram.save();
        let mut other = self::dram();
        other.restore(&saved).unwrap();
        assert_eq!(other.read(Ps::from_us(1), PhysAddr(0)), dram.read(Ps::from_us(1), PhysAddr(0)));
        let mut rows = Dram::new(&DramConfig { channels: 2, ..DramConfig::default() });
        assert!(rows.restore(&saved).is_err() && dram.restore(&rows.save()).is_err());
    }

    #[test]
    fn invalid_parameters_are_rejected_by_name() {
        let with = |latency: Ps, rate: u64| {
            let flat = Some(FlatConfig { latency, rate: BitsPerSec(rate) });
            DramConfig { flat, ..DramConfig::default() }.validate()
        };
        assert!(with(Ps::from_ns(50), 1_000_000_000).is_ok());
        assert!(with(Ps::from_us(11), 1_000_000_000).unwrap_err().starts_with("flat.latency is"));
        assert!(with(Ps::from_ns(50), 0).unwrap_err().starts_with("flat.rate is"));
    }
}
