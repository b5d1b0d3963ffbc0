//! gem5's m5ops: requests of a guest program to the simulator.
//!
//! | Function | Operation | Effect |
//! |---|---|---|
//! | 0x21 | exit | ends the run; the delay in a0 is ignored |
//! | 0x22 | fail | ends the run with the exit code in a1 |
//! | 0x40 | reset stats | counters restart from zero |
//! | 0x41 | dump stats | writes the counters to `m5stats-N.json` |
//! | 0x42 | dump and reset stats | both |
//! | 0x43 | checkpoint | writes the machine to `m5checkpoint-N.ckpt` |
//! | 0x50 | read file | copies up to a1 bytes of the run's file, from offset a2, to address a0; returns their number in a0 |
//! | 0x5a, 0x5b | work begin, work end | prints a message with the work's ID (a0) and the time |
//!
//! Any other function is ignored with a message.

use std::collections::BTreeMap;

use doorbell_machine::Machine;
use doorbell_sim::stats::Counter;
use doorbell_sim::{Bytes, Ps};
use serde_json::{Map, Value, json};

use crate::error::RunError;
use crate::figures::core_counts::CoreCounts;
use crate::figures::counters::all_counters;
use crate::store::folder::{ResultFolder, pretty};

/// The action after an m5op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum M5Next {
    /// The guest continues.
    Continue,
    /// The run ends with this exit code.
    Exit(u8),
}

/// Executes a guest's m5ops.
pub struct M5Ops {
    folder: ResultFolder,
    /// Counter values at the last reset.
    base: Vec<(String, Counter)>,
    /// Time of the last reset, and the counts of the timed cores then.
    reset: Ps,
    cores: CoreCounts,
    /// Counts of the timed cores at the beginning of unfinished work, by its ID.
    work: BTreeMap<u64, CoreCounts>,
    dumps: u32,
    checkpoints: u32,
    /// Bytes left for files that the guest requests; `None` once a file has exceeded them.
    bytes_left: Option<u64>,
    /// Data for the guest's `read file`.
    file: Option<Vec<u8>>,
}

/// Function number of a checkpoint request.
pub(crate) const M5_CHECKPOINT: u8 = 0x43;
/// The note in checkpoints that a guest requested during a run.
pub(crate) const M5_CHECKPOINT_NOTE: &str = "m5 checkpoint";
/// Maximum number of unfinished work IDs; core figures of more are not printed.
const WORK_MAX: usize = 1024;
/// Maximum bytes per read of the host's file, so that a guest cannot stall the host.
const READ_BYTES_MAX: u64 = 1 << 20;
const A0: usize = 10;
const A2: usize = 12;

impl M5Ops {
    /// Writes requested files to `folder`, up to a total of `limit` bytes (`run.m5_limit`).
    pub fn new(folder: ResultFolder, limit: Bytes) -> M5Ops {
        M5Ops {
            folder,
            base: Vec::new(),
            reset: Ps::ZERO,
            cores: CoreCounts::default(),
            work: BTreeMap::new(),
            dumps: 0,
            checkpoints: 0,
            bytes_left: Some(limit.0),
            file: None,
        }
    }

    /// Sets the data for the guest's `read file`.
    pub fn set_file(&mut self, file: Vec<u8>) {
        self.file = Some(file);
    }

    /// Executes an m5op. `guest` is the guest's identity in checkpoints.
    pub fn perform(
        &mut self,
        machine: &mut Machine,
        guest: &str,
        hart: usize,
        function: u8,
        args: [u64; 2],
        say: &mut dyn FnMut(&str),
    ) -> Result<M5Next, RunError> {
        match function {
            0x21 => return Ok(M5Next::Exit(0)),
            0x22 => return Ok(M5Next::Exit(u8::try_from(args[1]).unwrap_or(u8::MAX).max(1))),
            0x40 => self.count_from(machine),
            0x41 => self.dump(machine, say)?,
            0x42 => {
                self.dump(machine, say)?;
                self.count_from(machine);
            }
            M5_CHECKPOINT if self.bytes_left.is_none() => {}
            M5_CHECKPOINT => {
                let name = format!("m5checkpoint-{}.ckpt", self.checkpoints);
                let checkpoint = machine.checkpoint(guest, M5_CHECKPOINT_NOTE);
                if self.within_limit(&name, checkpoint.size(), say) {
                    self.checkpoints += 1;
                    checkpoint.write(&self.folder.path().join(&name))?;
                    say(&format!("m5 checkpoint: {}", self.folder.shown(&name).display()));
                }
            }
            0x50 => self.read_file(machine, hart, args, say),
            0x5a | 0x5b => {
                let what = if function == 0x5a { "begin" } else { "end" };
                say(&format!("m5 work {what}: id {} at {} simulated ns", args[0], machine.now().0 / 1000));
                self.track_work(machine, function == 0x5a, args[0], say);
            }
            other => say(&format!("m5op {other:#x} is not supported and was ignored")),
        }
        Ok(M5Next::Continue)
    }

    /// As in gem5, page permissions are not checked, since guest code that executes m5ops is trusted. Without
    /// a file, zero bytes are read. A read to an unmapped address returns -1.
    fn read_file(&self, machine: &mut Machine, hart: usize, args: [u64; 2], say: &mut dyn FnMut(&str)) {
        let file = self.file.as_deref().unwrap_or_else(|| {
            say("m5 readfile: this run has no file for the guest");
            &[]
        });
        let offset = usize::try_from(machine.harts()[hart].reg(A2)).unwrap_or(usize::MAX).min(file.len());
        let length = args[1].min(READ_BYTES_MAX).min((file.len() - offset) as u64) as usize;
        let written = machine.poke(hart, args[0], &file[offset..offset + length]);
        let result = if written { length as u64 } else { u64::MAX };
        machine.hart_mut(hart).set_reg(A0, result);
    }

    /// Prints the timed cores' counts for a piece of work at its end.
    fn track_work(&mut self, machine: &Machine, begins: bool, id: u64, say: &mut dyn FnMut(&str)) {
        let now = CoreCounts::of(machine);
        if begins && self.work.len() < WORK_MAX {
            self.work.insert(id, now);
        } else if let Some(start) = self.work.remove(&id) {
            now.since(&start).iter().for_each(|line| say(line));
        }
    }

    /// Resets the counters.
    pub fn count_from(&mut self, machine: &Machine) {
        self.base = all_counters(machine);
        self.reset = machine.now();
        self.cores = CoreCounts::of(machine);
    }

    fn dump(&mut self, machine: &Machine, say: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let base: Map<String, Value> =
            self.base.iter().map(|(name, counter)| (name.clone(), json!(counter.value))).collect();
        let since = |name: &str, value: u64| value - base.get(name).and_then(Value::as_u64).unwrap_or(0);
        let counters: Map<String, Value> = all_counters(machine)
            .into_iter()
            .map(|(name, counter)| {
                let value = since(&name, counter.value);
                (name, json!({ "value": value, "description": counter.description }))
            })
            .collect();
        let name = format!("m5stats-{}.json", self.dumps);
        let all = pretty(&json!({
            "simulated_seconds": (machine.now() - self.reset).as_secs_f64(),
            "simulated_seconds_since_boot": machine.now().as_secs_f64(),
            "counters": counters,
        }));
        if self.within_limit(&name, all.len(), say) {
            self.dumps += 1;
            self.folder.write(&name, &all)?;
            say(&format!("m5 dump stats: {}", self.folder.shown(&name).display()));
            CoreCounts::of(machine).since(&self.cores).iter().for_each(|line| say(line));
        }
        Ok(())
    }

    /// Whether a requested file may still be written. A guest in a loop must not fill the host's disk or its
    /// terminal.
    fn within_limit(&mut self, name: &str, bytes: usize, say: &mut dyn FnMut(&str)) -> bool {
        let Some(left) = self.bytes_left else { return false };
        self.bytes_left = left.checked_sub(bytes as u64);
        if self.bytes_left.is_none() {
            say(&format!(
                "{name} ({bytes} bytes) is not written, since only {left} bytes of run.m5_limit are left. Later requests are \
                 ignored too; raise the limit, for example with --set run.m5_limit=8GiB"
            ));
        }
        self.bytes_left.is_some()
    }
}
