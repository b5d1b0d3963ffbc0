//! A user's script in a guest: started when the guest is up, run to its end, and measured between two marks.
//!
//! The guest requests a checkpoint when it is up and then reads the script (`guest/host-script`), so that one
//! boot serves all scripts. Marks are a line on the console, an m5op of a program, or the beginning and end
//! of the script. Traffic is offered between the marks. After the second mark the run drains frames in flight
//! and continues to the end of the script. A machine with timing models runs in detailed mode between the
//! marks. Before the first mark its caches warm up, if a begin mark or a warm-up is configured.

use std::path::Path;

use doorbell_image::{GuestFile, delivery};
use doorbell_loadgen::{Returned, TrafficConfig};
use doorbell_machine::{CoreModel, Limits, Machine, Mode, Outcome, PortConfig, WatchReport, WatchRequest};
use doorbell_sim::Ps;

use crate::error::{RunError, describe};
use crate::measure::point::{MachineRun, Point};
use crate::measure::script_program::check_program;
use crate::plan::config::{RunConfig, RunParams};
use crate::plan::kernel;
use crate::plan::workload::{NO_TRAFFIC, Ready, Workload};
use crate::store::folder::ResultFolder;
use crate::testbed::control::{Control, SLICE_INSTRUCTIONS, SLICE_TIME};
use crate::testbed::corunners;
use crate::testbed::init_log;
use crate::testbed::links::time_on;
use crate::testbed::m5::{M5_CHECKPOINT_NOTE, M5Next, M5Ops};
use crate::testbed::session::Session;
use crate::testbed::steady::{Pace, Watch};
use crate::testbed::system::System;
use crate::testbed::ticks::{Ticks, until_ready};
use crate::window::drain::Drain;
use crate::window::machine::{OpenWindow, Window, gap_to_wait_for};
use crate::window::observe::{Observe, Trace};
use crate::window::phases::STEP;
use doorbell_results::Steady;

/// Path of the script in the guest.
const SCRIPT_PATH: &str = "run/doorbell/script";
/// Word on the kernel's command line with which the guest runs it.
const HOST_SCRIPT: &str = "doorbell.app=host";
/// Lines that the guest prints before and after the script.
const START_LINE: &str = "doorbell: start script";
const END_LINE: &str = "doorbell: exit ";
const LINES_SHOWN: usize = 12;
const M5_RESET: [u8; 2] = [0x40, 0x42];
const M5_DUMP: [u8; 2] = [0x41, 0x42];

/// Event at which a measurement begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The console shows this text.
    Line(String),
    /// A program resets (at the beginning) or dumps (at the end) the statistics by m5op.
    M5,
}

/// A script and how to measure it.
#[derive(Clone, Debug)]
pub struct Script {
    /// Archive of the script and its files.
    archive: Vec<u8>,
    /// Begin mark; by default the beginning of the script.
    pub begin: Option<Mark>,
    /// End mark; by default the end of the script.
    pub end: Option<Mark>,
    /// Maximum duration of the measurement.
    pub duration: Option<Ps>,
    /// Traffic offered during the measurement.
    pub traffic: Option<TrafficConfig>,
    /// Whether the run ends with the measurement, without waiting for the end of the script.
    pub end_with_measurement: bool,
    /// Observations of the measurement.
    pub observe: Observe,
}

impl Script {
    /// A script from its contents, with further files for the guest. The whole script is measured, without
    /// traffic.
    pub fn new(content: Vec<u8>, files: &[GuestFile]) -> Result<Script, RunError> {
        check_program(&content)?;
        let script = GuestFile { path: SCRIPT_PATH.to_owned(), executable: true, content };
        let archive = delivery(&[&[script], files].concat())?;
        Ok(Script {
            archive,
            begin: None,
            end: None,
            duration: None,
            traffic: None,
            end_with_measurement: false,
            observe: Observe::default(),
        })
    }

    /// Rejects observations that the machine does not support.
    pub fn check(&self, config: &RunConfig) -> Result<(), RunError> {
        self.observe.check_machine(config.core.model == CoreModel::Timed, config.loadgen.stages)
    }

    /// The workload of a session for scripts: an image with the user's `words` on the kernel's command line.
    pub fn workload(image: &str, words: &str) -> Workload {
        let stem = Path::new(image).file_stem().map_or_else(|| "own".into(), |stem| stem.to_string_lossy());
        Workload {
            name: stem.into_owned(),
            image: image.to_owned(),
            words: format!("{HOST_SCRIPT} {words}").trim().to_owned(),
            ready: Ready::M5Checkpoint,
            returned: Returned::Any,
            preload: None,
            silent: false,
            pause: kernel::PAUSE,
            rings: None,
            counting: None,
        }
    }
}

/// Runs a script on the session's guest. Writes the console's text to `console.log` in `folder`, even if the
/// run fails. The point's `exit_status` is the script's, or `None` if the run ended with the measurement.
pub fn run_script(
    session: &Session,
    script: &Script,
    m5: &mut M5Ops,
    folder: &ResultFolder,
    control: &mut Control,
) -> Result<Point, RunError> {
    let mut config = session.config().clone();
    if let Some(traffic) = &script.traffic {
        config.loadgen.traffic = traffic.clone();
    }
    let mut measured = MachineRun::begin(session, config, &script.observe, "a script")?;
    m5.set_file(script.archive.clone());
    let MachineRun { machine, config, watch, trace, .. } = &mut measured;
    let limit = machine.now().saturating_add(config.run.script_timeout);
    let mut run = Run {
        machine,
        guest: session.guest(),
        control,
        m5,
        limit,
        trace: trace.as_ref(),
        watch: watch.as_ref(),
        watched: None,
        ended: None,
        off: false,
        line: Vec::new(),
        inside: false,
    };
    let played = run.play(script, config);
    let (status, watched) = (run.ended, run.watched.take());
    folder.write("console.log", &measured.machine.console.text())?;
    init_log::write(folder, &init_log::of_machine(&measured.machine))?;
    let mut point = measured.finish(played?, watched, control)?;
    point.summary.exit_status = status;
    if script.traffic.is_none() {
        point.summary.rate = NO_TRAFFIC.to_owned();
    }
    Ok(point)
}

/// Event that stopped a run of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The given time.
    Time,
    /// The marker on the console.
    Line,
    /// An m5op that does not end the script.
    M5(u8),
    /// The end of the script.
    End,
}

struct Run<'a, 'c> {
    machine: &'a mut Machine,
    guest: &'a str,
    control: &'a mut Control<'c>,
    m5: &'a mut M5Ops,
    /// Time limit of the script.
    limit: Ps,
    trace: Option<&'a Trace>,
    /// Requested observations, and their results.
    watch: Option<&'a WatchRequest>,
    watched: Option<WatchReport>,
    /// The script's exit status, once it has ended.
    ended: Option<u8>,
    /// Whether the guest has powered off, so that time no longer advances.
    off: bool,
    /// The present, unfinished console line.
    line: Vec<u8>,
    /// Whether the line is output of the script.
    inside: bool,
}

impl Run<'_, '_> {
    fn play(&mut self, script: &Script, config: &RunConfig) -> Result<Window, RunError> {
        if self.machine.checkpoint_note == M5_CHECKPOINT_NOTE {
            self.resume_script(script)?;
        } else if !self.wait_for(&Mark::Line(START_LINE.to_owned()), &[])? {
            return Err(self.unfinished("the guest did not start the script"));
        }
        if script.begin.is_some() || config.run.warmup.is_some() {
            self.set_mode(Mode::Warming);
        }
        if let Some(begin) = &script.begin
            && !self.wait_for(begin, &M5_RESET)?
        {
            return Err(self.mark_missing(begin, "--begin-at"));
        }
        if let Some(traffic) = &script.traffic {
            self.machine.start_traffic(traffic)?;
        }
        let mut window = self.measure(script, config)?;
        let [begin, end] = &window.span;
        begin.differs(end, None).iter().for_each(|line| (self.control.say)(line));
        window.settled = self.drain(config)?;
        if self.ended.is_none() && !script.end_with_measurement {
            while self.go(self.limit)? != Stop::End {
                self.check_limit()?;
            }
        }
        self.show();
        Ok(window)
    }

    /// Resumes from a checkpoint that a script requested: the guest continues its copy of that script.
    /// Traffic of the run that saved the checkpoint is stopped.
    fn resume_script(&mut self, script: &Script) -> Result<(), RunError> {
        self.inside = true;
        if self.machine.ports().iter().any(|port| port.loadgen.is_sending()) {
            self.machine.stop_traffic();
            if script.traffic.is_none() {
                (self.control.say)(
                    "the checkpoint was taken under traffic, which is stopped; to offer traffic, set --rate",
                );
            }
        }
        self.set_mode(Mode::Functional);
        Ok(())
    }

    /// Changes the mode and resets the m5ops' counters, since some counters do not count in every mode.
    fn set_mode(&mut self, mode: Mode) {
        let before = self.machine.mode();
        self.machine.set_mode(mode);
        if self.machine.mode() != before {
            self.m5.count_from(self.machine);
        }
    }

    /// Runs to a mark. Returns `false` if the script ends before it.
    fn wait_for(&mut self, mark: &Mark, m5: &[u8]) -> Result<bool, RunError> {
        self.watch(Some(mark));
        loop {
            match (self.go(self.limit)?, mark) {
                (Stop::Line, Mark::Line(_)) => return Ok(true),
                (Stop::M5(function), Mark::M5) if m5.contains(&function) => return Ok(true),
                (Stop::End, _) => return Ok(false),
                _ => self.check_limit()?,
            }
        }
    }

    fn watch(&mut self, mark: Option<&Mark>) {
        self.machine.console.watch(match mark {
            Some(Mark::Line(text)) => Some(text),
            _ => None,
        });
    }

    /// Measures from the begin mark on. The window begins and ends between two frames. Each NIC's counters
    /// are read one link latency later, so that they cover exactly the frames of the window.
    fn measure(&mut self, script: &Script, config: &RunConfig) -> Result<Window, RunError> {
        self.watch(script.end.as_ref());
        let steady = self.warm_up(script, &config.run)?;
        if let Some(gap) = gap_to_wait_for(self.machine) {
            self.run_to(gap)?;
        }
        if let (Some(_), Some(_), Some(phase)) = (self.ended, &script.begin, &steady.warmup) {
            return Err(RunError::Script(format!("the script ended in the warm-up ({})", phase.asked)));
        }
        self.set_mode(Mode::Detailed);
        let mut open = OpenWindow::begin_recorded(self.machine, self.watch, self.trace);
        let (start, before) = (open.start.at, self.machine.instructions());
        let end = script.duration.map_or(self.limit, |length| start.saturating_add(length).min(self.limit));
        self.control.begin("measuring", start, script.duration);
        while self.ended.is_none() {
            open.snapshot.take(self.machine, self.machine.complete_until());
            let stop = self.go(open.snapshot.due().map_or(end, |due| due.min(end)))?;
            let at_mark = match (&script.end, stop) {
                (Some(Mark::Line(_)), Stop::Line) => true,
                (Some(Mark::M5), Stop::M5(function)) => M5_DUMP.contains(&function),
                (_, stop) => stop == Stop::End,
            };
            let over = script.duration.is_some() && self.machine.complete_until() >= end && end < self.limit;
            if at_mark || over {
                break;
            }
            self.check_limit()?;
        }
        if let (Some(mark), Some(_), None) = (&script.end, self.ended, script.duration) {
            return Err(self.mark_missing(mark, "--end-at"));
        }
        self.run_to(self.machine.next_gap())?;
        let (window, watched, mut last) = open.close(self.machine);
        self.watched = watched;
        let instructions = self.machine.instructions() - before;
        // Frames sent before a short measurement may still be in flight.
        for snapshot in [&mut open.snapshot, &mut last] {
            while let Some(due) = snapshot.due() {
                self.run_to(due)?;
                snapshot.take(self.machine, due);
            }
        }
        self.set_mode(Mode::Functional);
        let window = Window { instructions, steady: Some(steady), ..window };
        Ok(open.with_nics(window, last, self.machine))
    }

    /// Runs the warm-up, if one is configured.
    fn warm_up(&mut self, script: &Script, params: &RunParams) -> Result<Steady, RunError> {
        let pace = if script.traffic.is_some() { Pace::Generators } else { Pace::Silent };
        let link = System::longest_link(self.machine);
        let watch = Watch::begin(System::is_timed(self.machine), pace, link, self.machine.sample());
        let ticks = Ticks::begin(self.machine.now(), self.machine.timers());
        let warmup = until_ready(watch, Some(ticks), params.warmup, params.warmup_limit, |time| {
            self.run_to(time)?;
            Ok::<_, RunError>((self.machine.sample(), self.machine.timers()))
        })?;
        Ok(Steady { warmup, ..Steady::default() })
    }

    /// Runs until every frame has returned or is lost. Returns `false`, with a warning, if `run.drain` is too
    /// short. Unlike other drains it waits for missing frames up to that limit, since a script may hold them,
    /// unless the guest is off.
    fn drain(&mut self, config: &RunConfig) -> Result<bool, RunError> {
        let longest = config.run.drain;
        let on_link = |port: PortConfig| time_on(&port.link, config.loadgen.traffic.frame_len());
        let on_links = config.all_ports().map(on_link).max().unwrap_or_default();
        let pause = kernel::PAUSE + on_links + on_links;
        let end = self.machine.now().saturating_add(longest);
        let mut drain = Drain::begin(self.machine, longest, pause);
        while self.machine.frames_outstanding() > 0 && self.machine.now() < end && !self.off {
            self.run_to(self.machine.now().saturating_add(STEP).min(end))?;
            drain.next(self.machine);
        }
        let settled = drain.is_settled(self.machine) || self.off;
        if !settled {
            (self.control.say)(&drain.was_too_short(self.machine, longest));
        }
        Ok(settled)
    }

    /// Runs to a time regardless of events. Does nothing if the guest has powered off.
    fn run_to(&mut self, time: Ps) -> Result<(), RunError> {
        while self.machine.complete_until() < time && !self.off {
            if self.go(time)? == Stop::Time {
                break;
            }
        }
        Ok(())
    }

    /// Runs to a time, or to the next event of the script.
    fn go(&mut self, time: Ps) -> Result<Stop, RunError> {
        loop {
            let instructions = self.machine.instructions().saturating_add(SLICE_INSTRUCTIONS);
            let slice = self.machine.now().saturating_add(SLICE_TIME).min(time);
            let limits = Limits { instructions, on_marker: true, ..Limits::until(slice) };
            let outcome = self.machine.run(&limits);
            self.show();
            self.control.check()?;
            corunners::check_failure(self.machine)?;
            self.control.show(self.machine.instructions(), self.machine.now());
            match outcome {
                Outcome::Instructions => {}
                Outcome::Time if slice < time => {}
                Outcome::Time => return Ok(Stop::Time),
                Outcome::Marker => return Ok(Stop::Line),
                // After the script's end the guest only waits for the end of the run.
                Outcome::M5Op { .. } if self.ended.is_some() => {}
                Outcome::M5Op { hart, function, args } => {
                    let next =
                        self.m5.perform(self.machine, self.guest, hart, function, args, self.control.say)?;
                    return Ok(match next {
                        M5Next::Continue => Stop::M5(function),
                        M5Next::Exit(status) => {
                            self.ended = Some(status);
                            Stop::End
                        }
                    });
                }
                outcome if self.ended.is_none() => {
                    let why = format!("the script did not end: {}", describe(outcome, self.machine.now()));
                    return Err(self.unfinished(&why));
                }
                _ => {
                    self.off = true;
                    return Ok(Stop::End);
                }
            }
        }
    }

    fn check_limit(&self) -> Result<(), RunError> {
        if self.machine.now() < self.limit {
            return Ok(());
        }
        Err(self.unfinished(
            "the script did not end within its time limit; raise it with --time-limit (run.script_timeout)",
        ))
    }

    fn unfinished(&self, why: &str) -> RunError {
        RunError::Unfinished { why: why.to_owned(), console: self.machine.console.last_lines(LINES_SHOWN) }
    }

    fn mark_missing(&self, mark: &Mark, option: &str) -> RunError {
        let what = match mark {
            Mark::Line(text) => format!("the console never showed \"{text}\""),
            Mark::M5 => "no program issued the m5op".to_owned(),
        };
        let status = self.ended.map_or_else(String::new, |status| format!(" (exit status {status})"));
        self.unfinished(&format!("the script ended{status}, but {what} that {option} waits for"))
    }

    /// Prints the script's new console lines.
    fn show(&mut self) {
        for byte in self.machine.console.take_new() {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).replace('\r', "");
            // The script's last line may lack a newline.
            let (own, ends) = line.split_once(END_LINE).map_or((&*line, false), |(own, _)| (own, true));
            if self.inside && !(ends && own.is_empty()) {
                (self.control.say)(own);
            }
            self.inside = !ends && (self.inside || line == START_LINE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_selects_the_host_script_and_keeps_the_users_words() {
        let workload = Script::workload("recipes/mine.toml", "doorbell.ip=10.1.0.2/24");
        assert_eq!(workload.name, "mine");
        assert_eq!(workload.words, "doorbell.app=host doorbell.ip=10.1.0.2/24");
    }
}
