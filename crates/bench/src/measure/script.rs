//! A user's script in a guest: started when the guest is up, run to its end, and measured between two marks.
//!
//! The guest requests a checkpoint when it is up and then reads the script (`guest/host-script`), so that one
//! boot serves all scripts. Marks are a line on the console, an m5op of a program, or the beginning and end
//! of the script. Traffic is offered between the marks. After the second mark the run drains frames in flight
//! and continues to the end of the script. A machine with timing models runs in detailed mode between the
//! marks. Before the first mark its caches warm up, if a begin mark or a warm-up is configured.

use std::path::Path;
use std::time::Instant;

use doorbell_image::{GuestFile, delivery};
use doorbell_loadgen::{Returned, TrafficConfig};
use doorbell_machine::{CoreModel, Limits, Machine, Mode, Outcome, PortConfig, WatchReport, WatchRequest};
use doorbell_sim::Ps;
use doorbell_wire::pcap::PcapFile;

use crate::error::{RunError, describe};
use crate::figures::counters::CountersAt;
use crate::figures::ports;
use crate::figures::timing;
use crate::measure::point::{CAPTURE_SNAP_LEN, Point, finish_capture, merged_measurement, summarise};
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
use crate::window::machine::{NicSnapshot, Window, gap_to_wait_for};
use crate::window::observe::{Delivered, Observe, Trace, digest};
use crate::window::phases::STEP;
use crate::window::snapshot::Edge;
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
    let started = Instant::now();
    let mut machine = session.machine()?;
    let mut config = session.config().clone();
    if let Some(traffic) = &script.traffic {
        config.loadgen.traffic = traffic.clone();
    }
    let observe = &script.observe;
    let watch = observe.request(&machine)?;
    machine.stages.iter_mut().for_each(|book| book.keep_packets(observe.timeline.unwrap_or(0)));
    if let (Some(path), Some(port)) = (&observe.capture, machine.ports_mut().first_mut()) {
        port.capture = Some(PcapFile::create(path, CAPTURE_SNAP_LEN)?);
    }
    let trace = observe.trace.as_deref();
    let trace = trace.map(|path| Trace::create(path, &machine, &config, "a script")).transpose()?;
    m5.set_file(script.archive.clone());
    let booted = machine.instructions();
    let limit = machine.now().saturating_add(config.run.script_timeout);
    let mut run = Run {
        machine: &mut machine,
        guest: session.guest(),
        control,
        m5,
        limit,
        trace: trace.as_ref(),
        watch,
        watched: None,
        ended: None,
        off: false,
        line: Vec::new(),
        inside: false,
    };
    let played = run.play(script, &config);
    let (status, watched) = (run.ended, run.watched.take().unwrap_or_default());
    folder.write("console.log", &machine.console.text())?;
    init_log::write(folder, &init_log::of_machine(&machine))?;
    let window = played?;
    let counters = window.counters.clone();
    let trace = trace.map(Trace::finish).transpose()?;
    let mut observed = digest(observe, session.image(), &mut machine, (watched, trace))?;
    machine.check_conservation();
    finish_capture(&mut machine)?;
    let host = (started.elapsed().as_secs_f64(), machine.instructions() - booted);
    let measurement = merged_measurement(&machine);
    let mut summary = summarise(session, &config, &machine, &measurement, (window, None), host)?;
    (summary.functions, summary.kinds) = observed.profile(&Delivered::of(&summary));
    summary.exit_status = status;
    if script.traffic.is_none() {
        summary.rate = NO_TRAFFIC.to_owned();
    }
    let mut meanings = ports::meanings(&machine);
    meanings.extend(timing::meanings(&summary));
    Ok(Point { summary, meanings, config, machine, counters, measurement, observed })
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
    watch: Option<WatchRequest>,
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
        self.machine.begin_window();
        self.machine.record(self.trace.map(Trace::recorder));
        if let Some(request) = &self.watch {
            self.machine.watch(request);
        }
        let (start, before) = (Edge::of(self.machine), self.machine.instructions());
        let timed = timing::TimingSnapshot::of(self.machine);
        let counters = CountersAt::of(self.machine);
        let corunners = corunners::stats(self.machine);
        let end =
            script.duration.map_or(self.limit, |length| start.at.saturating_add(length).min(self.limit));
        self.control.begin("measuring", start.at, script.duration);
        let mut begin = NicSnapshot::begin(self.machine);
        while self.ended.is_none() {
            begin.take(self.machine, self.machine.complete_until());
            let stop = self.go(begin.due().map_or(end, |due| due.min(end)))?;
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
        let ended = Edge::of(self.machine);
        self.machine.end_window();
        self.machine.stop_traffic();
        self.machine.record(None);
        let instructions = self.machine.instructions() - before;
        let timed = timed.zip(timing::TimingSnapshot::of(self.machine));
        let counters = counters.until(CountersAt::of(self.machine));
        let corunners = [corunners, corunners::stats(self.machine)];
        self.watched = self.machine.end_watch();
        let mut last = NicSnapshot::begin(self.machine);
        // Frames sent before a short measurement may still be in flight.
        for snapshot in [&mut begin, &mut last] {
            while let Some(due) = snapshot.due() {
                self.run_to(due)?;
                snapshot.take(self.machine, due);
            }
        }
        self.set_mode(Mode::Functional);
        let ports = begin.figures.until(&last.figures, self.machine);
        Ok(Window {
            span: [start, ended],
            begin: begin.totals,
            end: last.totals,
            ports,
            instructions,
            timed,
            counters,
            corunners,
            steady: Some(steady),
            ..Window::default()
        })
    }

    /// Runs the warm-up, if one is configured.
    fn warm_up(&mut self, script: &Script, params: &RunParams) -> Result<Steady, RunError> {
        let pace = if script.traffic.is_some() { Pace::Generators } else { Pace::Silent };
        let link = System::longest_link(self.machine);
        let watch = Watch::begin(System::is_timed(self.machine), pace, link, self.machine.sample());
        let ticks = Ticks::begin(self.machine.now(), self.machine.timers());
        let warmup = until_ready(watch, Some(ticks), (params.warmup, params.warmup_limit), |time| {
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
