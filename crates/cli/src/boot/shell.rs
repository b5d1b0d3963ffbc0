//! The console of a running guest: keyboard input, output, m5ops, and an attached debugger.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use doorbell_bench::{M5Next, M5Ops, Results};
use doorbell_gdb::{Debuggee, Server, Status};
use doorbell_machine::{Limits, Outcome};
use doorbell_sim::{Bytes, Ps};

use super::BootProgress;
use crate::exit::INTERRUPTED;
use crate::terminal::{Input, Terminal};

/// Instructions between polls of the keyboard: some milliseconds of host time.
const SLICE_INSTRUCTIONS: u64 = 2_000_000;
/// Maximum simulated time between polls: a guest in an endless trap loop retires no instructions.
const SLICE_TIME: Ps = Ps::from_ms(10);
/// Simulated time between attempts to send unsent input.
const TYPING_STEP: Ps = Ps::from_ms(1);
/// The end-of-input character of a terminal.
const CTRL_D: u8 = 4;
/// After piped input has ended, Ctrl-D is sent each time the guest has printed nothing for this long.
const QUIET: Ps = Ps::from_ms(1000);
/// Number of Ctrl-D after which a guest that still sleeps is assumed not to end.
const ENDS_MAX: u32 = 3;
/// Maximum wait for a key while the guest is ahead of the wall clock.
const IDLE_WAIT_MS: u32 = 5;

/// State of the console session.
pub(super) struct Shell {
    pub progress: BootProgress,
    pub guest: Debuggee,
    pub gdb: Option<Server>,
    pub terminal: Terminal,
    /// Handler of the guest's m5ops, and the lock of their result folder.
    pub m5: Option<(M5Ops, Results)>,
    pub m5_limit: Bytes,
    pub out: PathBuf,
    /// Identity of the guest in checkpoints.
    pub identity: String,
    pub limit: Ps,
    /// Input not yet accepted by the guest's UART.
    pub unsent: Vec<u8>,
    /// Whether a kernel provides a terminal on the UART.
    pub has_terminal: bool,
    /// After the end of piped input: number of Ctrl-D sent, and the time of the next one.
    pub ends: Option<(u32, Ps)>,
    pub real_time: bool,
}

impl Shell {
    /// Runs the guest to its end and returns the exit code.
    pub fn run(&mut self, interrupted: &AtomicBool) -> anyhow::Result<u8> {
        let (started, first) = (Instant::now(), self.guest.machine.now());
        let mut halted = Duration::ZERO;
        let mut is_reported = false;
        loop {
            let polled = Instant::now();
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
                // A halted guest does not catch up with the wall clock afterwards.
                halted += polled.elapsed();
                continue;
            }
            let wall = first.saturating_add(Ps((started.elapsed() - halted).as_nanos() as u64 * 1000));
            let slice = self.guest.machine.now().saturating_add(SLICE_TIME).min(self.limit);
            let horizon = if self.real_time { wall.min(slice) } else { slice };
            // While the UART's FIFO has no room for the pending input, time advances in small steps.
            let typing = if self.unsent.is_empty() || self.waits_for_reader() {
                Ps::MAX
            } else {
                self.guest.machine.now().saturating_add(TYPING_STEP)
            };
            let horizon = horizon.min(typing);
            let instructions = self.guest.machine.instructions() + SLICE_INSTRUCTIONS;
            let outcome = self.guest.run(&Limits { instructions, ..Limits::until(horizon) });
            self.show()?;
            self.progress.follow(&self.guest.machine);
            self.progress.show(&self.guest.machine);
            let ahead = match outcome {
                Outcome::Time => self.real_time,
                Outcome::Asleep => {
                    self.asleep(&mut is_reported)?;
                    self.real_time
                }
                Outcome::Instructions
                | Outcome::Marker
                | Outcome::Breakpoint { .. }
                | Outcome::CorunnerFailed => false,
                Outcome::PowerOff { code: 0 } => return Ok(0),
                Outcome::PowerOff { code } => bail!("the guest powered off with failure code {code}"),
                Outcome::Reset => {
                    bail!("the guest requested a reset (its kernel panicked, or a program rebooted it)")
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
            // If the instruction limit ended the slice, only some harts may have reached the time limit.
            if horizon >= self.limit && matches!(outcome, Outcome::Time | Outcome::Asleep) {
                return Ok(0);
            }
            if self.listen(if ahead { IDLE_WAIT_MS } else { 0 })? {
                return Ok(0);
            }
            self.type_unsent();
        }
    }

    /// Reads input from the keyboard or a pipe. Returns whether the user leaves.
    fn listen(&mut self, wait_ms: u32) -> anyhow::Result<bool> {
        match self.terminal.read(wait_ms)? {
            Input::Quit => return Ok(true),
            Input::Status(bytes) => {
                self.unsent.extend(bytes);
                let text = self.progress.screen.how_far(&self.progress.at(&self.guest.machine));
                self.progress.say(&text);
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

    /// Whether piped input must wait for its reader: a kernel's driver discards input received before it
    /// starts.
    fn waits_for_reader(&self) -> bool {
        self.has_terminal && !self.terminal.is_interactive() && !self.guest.machine.has_receive_interrupt()
    }

    /// Sends pending input, and the end of input once everything else is sent.
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

    /// Prints new output of the guest.
    fn show(&mut self) -> anyhow::Result<()> {
        let printed = self.guest.machine.console.take_new();
        if !printed.is_empty() {
            self.progress.make_room();
        }
        if let Some((_, due)) = &mut self.ends
            && !printed.is_empty()
        {
            *due = self.guest.machine.now().saturating_add(QUIET);
        }
        Ok(self.terminal.write(&printed)?)
    }

    /// Handles a guest that sleeps and that only a key could wake; simulated time advances. Returns an error
    /// if the guest would sleep forever.
    fn asleep(&self, is_reported: &mut bool) -> anyhow::Result<()> {
        const ASLEEP: &str = "the guest sleeps and has no pending event to wake it";
        const MIE: u16 = 0x304;
        // A hart with all interrupts disabled never wakes. Another hart may be at its prompt.
        let for_ever = self.guest.machine.harts().iter().all(|hart| hart.csr(MIE) == Some(0));
        if for_ever && !std::mem::replace(is_reported, true) {
            self.progress.say(&format!("doorbell: {ASLEEP}: it waits with all interrupts disabled"));
        }
        let end_is_pending = !for_ever && self.ends.is_some_and(|(typed, _)| typed < ENDS_MAX);
        let no_key_comes = self.terminal.is_at_end() && !end_is_pending;
        match self.limit == Ps::MAX && no_key_comes && self.gdb.is_none() {
            true => bail!("{ASLEEP}; end it with --max-time, or give it a terminal"),
            false => Ok(()),
        }
    }

    /// Serves the debugger, if there is one, and returns what the guest may do. A broken connection ends the
    /// session.
    fn serve_debugger(&mut self) -> Status {
        let Some(gdb) = &mut self.gdb else { return Status::Running };
        gdb.poll(&mut self.guest).unwrap_or_else(|error| {
            self.progress.say(&format!("the debugger session has ended: {error}"));
            Status::Running
        })
    }

    fn report_to_debugger(&mut self, outcome: Outcome) {
        let Some(gdb) = &mut self.gdb else { return };
        if let Err(error) = gdb.report(&mut self.guest, outcome) {
            self.progress.say(&format!("the debugger session has ended: {error}"));
        }
    }

    fn m5op(&mut self, hart: usize, function: u8, args: [u64; 2]) -> anyhow::Result<M5Next> {
        if self.m5.is_none() {
            // Removes results of an earlier guest, so that they are not mixed with this one's.
            let results = Results::begin(&self.out)?;
            let folder = results.in_place()?;
            self.m5 = Some((M5Ops::new(folder, self.m5_limit), results));
        }
        let (m5, _) = self.m5.as_mut().expect("set above");
        let say = &mut |line: &str| self.progress.say(line);
        Ok(m5.perform(&mut self.guest.machine, &self.identity, hart, function, args, say)?)
    }
}
