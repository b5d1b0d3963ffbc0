//! The console of a running guest: what is typed, what it prints, its m5ops, and a debugger that holds it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use doorbell_bench::{M5Next, M5Ops, Results};
use doorbell_gdb::{Debuggee, Server, Status};
use doorbell_machine::{Limits, Outcome};
use doorbell_sim::{Bytes, Ps};

use super::Course;
use crate::exit::INTERRUPTED;
use crate::terminal::{Input, Terminal};

/// Instructions between looks at the keyboard: some milliseconds of host time.
const SLICE_INSTRUCTIONS: u64 = 2_000_000;
/// The same in simulated time: a guest that traps without end retires no instructions.
const SLICE_TIME: Ps = Ps::from_ms(10);
/// Simulated time between attempts to type what is still unsent.
const TYPING_STEP: Ps = Ps::from_ms(1);
/// The end-of-input character of a terminal.
const CTRL_D: u8 = 4;
/// When all that was piped in is typed, Ctrl-D is typed each time that the guest has printed nothing for so long.
const QUIET: Ps = Ps::from_ms(1000);
/// A guest that still sleeps after this many ends of input will not end.
const ENDS_MAX: u32 = 3;
/// How long to wait for a key while the guest is ahead of the wall clock.
const IDLE_WAIT_MS: u32 = 5;

/// See the module.
pub(super) struct Shell {
    pub course: Course,
    pub guest: Debuggee,
    pub gdb: Option<Server>,
    pub terminal: Terminal,
    /// What the guest asks for by m5ops, and the lock of the folder that it goes to.
    pub m5: Option<(M5Ops, Results)>,
    pub m5_limit: Bytes,
    pub out: PathBuf,
    /// Names the guest in checkpoints.
    pub identity: String,
    pub limit: Ps,
    /// Typed, and not yet taken by the guest's UART.
    pub unsent: Vec<u8>,
    /// Whether a kernel makes a terminal of the UART.
    pub has_terminal: bool,
    /// Since what was piped in is at its end: how many Ctrl-D were typed, and when the next one is due.
    pub ends: Option<(u32, Ps)>,
    pub real_time: bool,
}

impl Shell {
    /// Runs to the end and tells the exit code.
    pub fn run(&mut self, interrupted: &AtomicBool) -> anyhow::Result<u8> {
        let (started, first) = (Instant::now(), self.guest.machine.now());
        let mut held = Duration::ZERO;
        let mut told_asleep = false;
        loop {
            let looked = Instant::now();
            let status = self.serve_debugger();
            if status == Status::Killed {
                return Ok(0);
            }
            if status != Status::Running {
                let wait_ms = if status == Status::Expecting { IDLE_WAIT_MS } else { 0 };
                if self.listen(wait_ms)? {
                    return Ok(0);
                }
                if interrupted.load(Ordering::Relaxed) {
                    return Ok(INTERRUPTED);
                }
                // A guest that was held does not hurry to make up for it.
                held += looked.elapsed();
                continue;
            }
            let wall = first.saturating_add(Ps((started.elapsed() - held).as_nanos() as u64 * 1000));
            let slice = self.guest.machine.now().saturating_add(SLICE_TIME).min(self.limit);
            let horizon = if self.real_time { wall.min(slice) } else { slice };
            // While the UART's FIFO has no room for all that was typed, time goes on in small steps.
            let typing = if self.unsent.is_empty() || self.waits_for_reader() {
                Ps::MAX
            } else {
                self.guest.machine.now().saturating_add(TYPING_STEP)
            };
            let horizon = horizon.min(typing);
            let instructions = self.guest.machine.instructions() + SLICE_INSTRUCTIONS;
            let outcome = self.guest.run(&Limits { instructions, ..Limits::until(horizon) });
            self.show()?;
            self.course.follow(&self.guest.machine);
            self.course.show(&self.guest.machine);
            let ahead = match outcome {
                Outcome::Time => self.real_time,
                Outcome::Asleep => {
                    self.asleep(&mut told_asleep)?;
                    self.real_time
                }
                Outcome::Instructions | Outcome::Marker | Outcome::Breakpoint { .. } | Outcome::Beside => {
                    false
                }
                Outcome::PowerOff { code: 0 } => return Ok(0),
                Outcome::PowerOff { code } => bail!("the guest powered off with the failure code {code}"),
                Outcome::Reset => {
                    bail!("the guest asked for a reset (its kernel panicked, or a program rebooted it)")
                }
                Outcome::M5Op { hart, function, args } => match self.m5op(hart, function, args)? {
                    M5Next::Continue => false,
                    M5Next::Exit(code) => return Ok(code),
                },
            };
            self.report_to_debugger(outcome);
            if interrupted.load(Ordering::Relaxed) {
                return Ok(INTERRUPTED);
            }
            // Where instructions ended the slice, some harts are at the limit in time and others are not.
            if horizon >= self.limit && matches!(outcome, Outcome::Time | Outcome::Asleep) {
                return Ok(0);
            }
            if self.listen(if ahead { IDLE_WAIT_MS } else { 0 })? {
                return Ok(0);
            }
            self.type_unsent();
        }
    }

    /// Takes what comes from the keyboard or a pipe; whether the user wants to leave.
    fn listen(&mut self, wait_ms: u32) -> anyhow::Result<bool> {
        match self.terminal.read(wait_ms)? {
            Input::Quit => return Ok(true),
            Input::Status(bytes) => {
                self.unsent.extend(bytes);
                let said = self.course.screen.how_far(&self.course.at(&self.guest.machine));
                self.course.tell(&said);
            }
            Input::Bytes(bytes) => self.unsent.extend(bytes),
            Input::End { whole_line } if self.has_terminal => {
                self.unsent.extend((!whole_line).then_some(b'\n'));
                self.ends = Some((0, self.guest.machine.now()));
            }
            Input::End { .. } => {}
        }
        Ok(false)
    }

    /// What is piped in waits for its reader: a kernel's driver throws away what came before.
    fn waits_for_reader(&self) -> bool {
        self.has_terminal && !self.terminal.is_interactive() && !self.guest.machine.listens_to_input()
    }

    /// Types what there is, and the end of input once all else is typed.
    fn type_unsent(&mut self) {
        if self.waits_for_reader() {
            return;
        }
        let now = self.guest.machine.now();
        if let Some((typed, due)) = &mut self.ends
            && self.unsent.is_empty()
            && now >= *due
        {
            self.unsent.push(CTRL_D);
            (*typed, *due) = (*typed + 1, now.saturating_add(QUIET));
        }
        let taken = self.guest.machine.type_input(&self.unsent);
        self.unsent.drain(..taken);
    }

    /// Shows what the guest has printed.
    fn show(&mut self) -> anyhow::Result<()> {
        let printed = self.guest.machine.console.take_new();
        if !printed.is_empty() {
            self.course.make_room();
        }
        if let Some((_, due)) = &mut self.ends
            && !printed.is_empty()
        {
            *due = self.guest.machine.now().saturating_add(QUIET);
        }
        Ok(self.terminal.write(&printed)?)
    }

    /// The guest waits and nothing is left that would wake it but a key, if it listens to any; simulated time passes. An error,
    /// if this would never end.
    fn asleep(&self, told: &mut bool) -> anyhow::Result<()> {
        const ASLEEP: &str = "the guest sleeps, and nothing is left that would wake it";
        const MIE: u16 = 0x304;
        // A hart that has all interrupts switched off never wakes. Another one may be at its prompt.
        let for_ever = self.guest.machine.harts().iter().all(|hart| hart.csr(MIE) == Some(0));
        if for_ever && !std::mem::replace(told, true) {
            self.course.tell(&format!("doorbell: {ASLEEP}: it waits with all interrupts switched off"));
        }
        let is_told_to_end = !for_ever && self.ends.is_some_and(|(typed, _)| typed < ENDS_MAX);
        let no_key_comes = self.terminal.is_at_end() && !is_told_to_end;
        match self.limit == Ps::MAX && no_key_comes && self.gdb.is_none() {
            true => bail!("{ASLEEP}; end it with --max-time, or give it a terminal"),
            false => Ok(()),
        }
    }

    /// What the debugger, if there is one, lets the guest do. One whose connection breaks has gone.
    fn serve_debugger(&mut self) -> Status {
        let Some(gdb) = &mut self.gdb else { return Status::Running };
        gdb.poll(&mut self.guest).unwrap_or_else(|error| {
            self.course.tell(&format!("the debugger's session has ended: {error}"));
            Status::Running
        })
    }

    fn report_to_debugger(&mut self, outcome: Outcome) {
        let Some(gdb) = &mut self.gdb else { return };
        if let Err(error) = gdb.report(&mut self.guest, outcome) {
            self.course.tell(&format!("the debugger's session has ended: {error}"));
        }
    }

    fn m5op(&mut self, hart: usize, function: u8, args: [u64; 2]) -> anyhow::Result<M5Next> {
        if self.m5.is_none() {
            // What an earlier guest left there must not stand beside what this one asks for.
            let results = Results::begin(&self.out)?;
            let folder = results.in_place()?;
            self.m5 = Some((M5Ops::new(folder, self.m5_limit), results));
        }
        let (m5, _) = self.m5.as_mut().expect("it was just made");
        let say = &mut |line: &str| self.course.tell(line);
        Ok(m5.perform(&mut self.guest.machine, &self.identity, hart, function, args, say)?)
    }
}
