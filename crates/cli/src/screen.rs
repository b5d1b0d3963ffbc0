//! Progress on standard error: message lines, and a progress line on a terminal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use doorbell_bench::{Control, M5Ops, Progress, Stage};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::out::{errln, outln};
use crate::signals;

/// Redraw interval of the progress line.
const TICK: Duration = Duration::from_millis(100);

/// Content of a progress line for concurrent work.
pub trait Line: Send + Sync {
    /// The current text.
    fn text(&self) -> String;
    /// Finished and total number of parts, if known.
    fn position(&self) -> Option<(usize, usize)>;
}

/// Output of progress.
pub struct Screen {
    quiet: bool,
    ticker: Option<Ticker>,
    start: Mutex<Option<StageStart>>,
    /// The last line printed on standard output, if the parent process reads the progress.
    printed: Option<Mutex<String>>,
}

/// The progress line, and the thread that redraws it.
struct Ticker {
    bar: ProgressBar,
    line: Arc<WatchedLine>,
    thread: Option<JoinHandle<()>>,
}

/// The line being shown, shared with the drawing thread.
#[derive(Default)]
struct WatchedLine {
    line: Mutex<Option<Arc<dyn Line>>>,
    is_over: AtomicBool,
}

impl WatchedLine {
    fn set(&self, line: Option<Arc<dyn Line>>) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    fn draw(&self, bar: &ProgressBar) {
        while !self.is_over.load(Ordering::Relaxed) {
            // The lock is held while drawing, so that a removed line is not drawn later.
            let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(line) = line.as_ref().filter(|_| !bar.is_finished()) {
                if let Some((position, all)) = line.position() {
                    bar.set_length(all as u64);
                    bar.set_position(position as u64);
                }
                bar.set_message(line.text());
            }
            drop(line);
            std::thread::park_timeout(TICK);
        }
    }
}

impl Ticker {
    fn begin() -> Ticker {
        // Text beyond the terminal's width is cut off.
        let bar = ProgressBar::new_spinner().with_style(style(SPINNER));
        bar.enable_steady_tick(TICK);
        let line = Arc::new(WatchedLine::default());
        let own = (Arc::clone(&line), bar.clone());
        let thread = Some(std::thread::spawn(move || own.0.draw(&own.1)));
        Ticker { bar, line, thread }
    }
}

impl Drop for Ticker {
    /// Stops drawing, so that later output is not overwritten.
    fn drop(&mut self) {
        self.line.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // An error means that the thread panicked, which was already reported.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

const SPINNER: &str = "{spinner} {elapsed} {wide_msg}";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well formed")
}

/// Start of a stage, and the share done at the last update.
#[derive(Clone, Copy)]
struct StageStart {
    stage: &'static str,
    since: Instant,
    instructions: u64,
    share: f64,
}

impl StageStart {
    /// Text for the current progress.
    fn text(&self, at: &Progress) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        let mut parts = Vec::new();
        if let Some(share) = at.share {
            parts.push(format!("{:.0} %", share * 100.0));
            if seconds >= SPEED_SHOWN_AFTER && share > 0.0 {
                let left = Duration::try_from_secs_f64(seconds * (1.0 - share) / share);
                parts.extend(left.map(|left| format!("about {} left", HumanDuration(left))).ok());
            }
        }
        parts.push(format!("{} M instructions", at.instructions / 1_000_000));
        if seconds >= SPEED_SHOWN_AFTER {
            parts.push(format!(
                "{:.1} M per second",
                (at.instructions - self.instructions) as f64 / 1e6 / seconds
            ));
        }
        parts.push(format!("{:.3} s simulated", at.now.as_secs_f64()));
        format!("{}: {}", at.stage, parts.join(", "))
    }
}

/// Minimum time in a stage before its speed is shown.
const SPEED_SHOWN_AFTER: f64 = 1.0;

impl Screen {
    /// A screen; `quiet` suppresses output. Only terminals have a progress line.
    pub fn new(quiet: bool) -> Screen {
        let ticker = (!quiet && std::io::stderr().is_terminal()).then(Ticker::begin);
        Screen { quiet, ticker, start: Mutex::new(None), printed: None }
    }

    /// Also prints the progress on standard output, one line per change.
    pub fn printing(self) -> Screen {
        Screen { printed: Some(Mutex::default()), ..self }
    }

    fn bar(&self) -> Option<&ProgressBar> {
        self.ticker.as_ref().map(|ticker| &ticker.bar)
    }

    /// Whether it has a progress line.
    pub fn moves(&self) -> bool {
        self.ticker.is_some()
    }

    /// Prints a line.
    pub fn say(&self, line: &str) {
        match self.bar() {
            Some(bar) => bar.suspend(|| errln!("{line}")),
            None if !self.quiet => errln!("{line}"),
            None => {}
        }
    }

    /// Shows the progress of the work: stage, share, speed and remaining time.
    pub fn progress(&self, at: &Progress) {
        if let Some(bar) = self.bar() {
            bar.set_message(self.how_far(at));
        }
        if let Some(printed) = &self.printed {
            let (mut last, now) = (printed.lock().unwrap_or_else(PoisonError::into_inner), at.in_short());
            if *last != now {
                outln!("{now}");
                *last = now;
            }
        }
    }

    /// The progress as text.
    pub fn how_far(&self, at: &Progress) -> String {
        let share = at.share.unwrap_or(0.0);
        // A new load is measured on another machine, so its stage is restarted.
        let is_same_stage = |start: &StageStart| {
            start.stage == at.stage && start.instructions <= at.instructions && start.share <= share
        };
        let mut last = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let start = last.filter(is_same_stage).unwrap_or(StageStart {
            stage: at.stage,
            since: Instant::now(),
            instructions: at.instructions,
            share,
        });
        *last = Some(StageStart { share, ..start });
        start.text(at)
    }

    /// Runs work that Ctrl-C can interrupt, showing its progress. Guests' m5ops are handled by `m5`.
    pub fn simulating<R>(
        &self,
        m5: Option<&mut M5Ops>,
        work: impl FnOnce(&mut Control) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let interrupted = interrupt_flag()?;
        work(&mut Control {
            m5,
            interrupted: &interrupted,
            say: &mut |line| self.say(line),
            progress: &mut |at| self.progress(at),
            stage: Stage::default(),
        })
    }

    /// Shows this line, updated continuously, until [`Screen::stop_watching`].
    pub fn watch(&self, line: Arc<dyn Line>) {
        let Some(ticker) = &self.ticker else { return };
        if line.position().is_some() {
            ticker.bar.set_style(style("{bar:20} {elapsed} {wide_msg}"));
            ticker.bar.reset_elapsed();
        }
        ticker.line.set(Some(line));
    }

    /// Stops showing the line.
    pub fn stop_watching(&self) {
        let Some(ticker) = &self.ticker else { return };
        ticker.line.set(None);
        ticker.bar.set_style(style(SPINNER));
        ticker.bar.set_message("");
    }

    /// Removes the progress line.
    pub fn clear(&self) {
        if let Some(bar) = self.bar() {
            bar.finish_and_clear();
        }
    }
}

/// Registers a flag that Ctrl-C and SIGTERM set. A second Ctrl-C ends the program at once. SIGHUP is ignored:
/// a measurement continues and its results are written. The flag also interrupts image builds.
pub fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::new(AtomicBool::new(false)))?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    signals::handled();
    doorbell_image::interrupted_by(Arc::clone(&flag));
    Ok(flag)
}
