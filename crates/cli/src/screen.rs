//! What is told on standard error while work goes on: lines, and a progress line on a terminal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use doorbell_bench::{Control, M5Ops, Progress, Stage};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::out::{outln, tell};
use crate::signals;

/// How often the moving line is drawn.
const TICK: Duration = Duration::from_millis(100);

/// What a moving line says of work that several do side by side.
pub trait Line: Send + Sync {
    /// How far it is now.
    fn said(&self) -> String;
    /// How many of how many parts are behind it, if that is known.
    fn of_all(&self) -> Option<(usize, usize)>;
}

/// Where progress is shown.
pub struct Screen {
    quiet: bool,
    ticker: Option<Ticker>,
    begun: Mutex<Option<Begun>>,
    /// What was printed last, if whoever began this process wants to know how far it is.
    printed: Option<Mutex<String>>,
}

/// The moving line, and who draws it while nobody tells anything new.
struct Ticker {
    bar: ProgressBar,
    line: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

/// What is watched.
#[derive(Default)]
struct Watched {
    line: Mutex<Option<Arc<dyn Line>>>,
    is_over: AtomicBool,
}

impl Watched {
    fn set(&self, line: Option<Arc<dyn Line>>) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    fn draw(&self, bar: &ProgressBar) {
        while !self.is_over.load(Ordering::Relaxed) {
            // Kept while it is drawn: what is watched no more is not drawn later.
            let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(line) = line.as_ref().filter(|_| !bar.is_finished()) {
                if let Some((position, all)) = line.of_all() {
                    bar.set_length(all as u64);
                    bar.set_position(position as u64);
                }
                bar.set_message(line.said());
            }
            drop(line);
            std::thread::park_timeout(TICK);
        }
    }
}

impl Ticker {
    fn begin() -> Ticker {
        // What does not fit the terminal's width is cut off.
        let bar = ProgressBar::new_spinner().with_style(style(SPINNER));
        bar.enable_steady_tick(TICK);
        let line = Arc::new(Watched::default());
        let own = (Arc::clone(&line), bar.clone());
        let thread = Some(std::thread::spawn(move || own.0.draw(&own.1)));
        Ticker { bar, line, thread }
    }
}

impl Drop for Ticker {
    /// Nothing is drawn after this, over what is said then.
    fn drop(&mut self) {
        self.line.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has panicked, which it said.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

const SPINNER: &str = "{spinner} {elapsed} {wide_msg}";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well formed")
}

/// A stage that was seen to begin, and how much of it was done at last.
#[derive(Clone, Copy)]
struct Begun {
    stage: &'static str,
    since: Instant,
    instructions: u64,
    share: f64,
}

impl Begun {
    /// How far it is now.
    fn said(&self, at: &Progress) -> String {
        let seconds = self.since.elapsed().as_secs_f64();
        let mut parts = Vec::new();
        if let Some(share) = at.share {
            parts.push(format!("{:.0} %", share * 100.0));
            if seconds >= SURE_SECONDS && share > 0.0 {
                let left = Duration::try_from_secs_f64(seconds * (1.0 - share) / share);
                parts.extend(left.map(|left| format!("about {} left", HumanDuration(left))).ok());
            }
        }
        parts.push(format!("{} M instructions", at.instructions / 1_000_000));
        if seconds >= SURE_SECONDS {
            parts.push(format!(
                "{:.1} M a second",
                (at.instructions - self.instructions) as f64 / 1e6 / seconds
            ));
        }
        parts.push(format!("{:.3} s simulated", at.now.as_secs_f64()));
        format!("{}: {}", at.stage, parts.join(", "))
    }
}

/// From then on a stage's pace is told.
const SURE_SECONDS: f64 = 1.0;

impl Screen {
    /// A screen; `quiet` shows nothing. The moving line is only for terminals.
    pub fn new(quiet: bool) -> Screen {
        let ticker = (!quiet && std::io::stderr().is_terminal()).then(Ticker::begin);
        Screen { quiet, ticker, begun: Mutex::new(None), printed: None }
    }

    /// The same, which also prints in short how far work is: a line whenever that is something else.
    pub fn printing(self) -> Screen {
        Screen { printed: Some(Mutex::default()), ..self }
    }

    fn bar(&self) -> Option<&ProgressBar> {
        self.ticker.as_ref().map(|ticker| &ticker.bar)
    }

    /// Whether it has a moving line.
    pub fn moves(&self) -> bool {
        self.ticker.is_some()
    }

    /// Tells a line.
    pub fn say(&self, line: &str) {
        match self.bar() {
            Some(bar) => bar.suspend(|| tell!("{line}")),
            None if !self.quiet => tell!("{line}"),
            None => {}
        }
    }

    /// Shows how far the work is: what is done, how much of it, how fast, and what is left.
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

    /// The same in words.
    pub fn how_far(&self, at: &Progress) -> String {
        let share = at.share.unwrap_or(0.0);
        // The next load is measured on another machine.
        let goes_on = |begun: &Begun| {
            begun.stage == at.stage && begun.instructions <= at.instructions && begun.share <= share
        };
        let mut last = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = last.filter(goes_on).unwrap_or(Begun {
            stage: at.stage,
            since: Instant::now(),
            instructions: at.instructions,
            share,
        });
        *last = Some(Begun { share, ..begun });
        begun.said(at)
    }

    /// Does what Ctrl-C can interrupt, and shows how far the machine is. Guests' m5ops are done by `m5`.
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

    /// From here on the moving line says this, as it is then, until [`Screen::watch_no_more`].
    pub fn watch(&self, line: Arc<dyn Line>) {
        let Some(ticker) = &self.ticker else { return };
        if line.of_all().is_some() {
            ticker.bar.set_style(style("{bar:20} {elapsed} {wide_msg}"));
            ticker.bar.reset_elapsed();
        }
        ticker.line.set(Some(line));
    }

    /// What was watched is over.
    pub fn watch_no_more(&self) {
        let Some(ticker) = &self.ticker else { return };
        ticker.line.set(None);
        ticker.bar.set_style(style(SPINNER));
        ticker.bar.set_message("");
    }

    /// Removes the moving line.
    pub fn clear(&self) {
        if let Some(bar) = self.bar() {
            bar.finish_and_clear();
        }
    }
}

/// A flag that Ctrl-C and a polite kill set. The second Ctrl-C ends the program at once. That the terminal goes away ends nothing:
/// a measurement goes on and its results are written. What is being built for it ends as well.
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
