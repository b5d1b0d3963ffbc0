//! What is told on standard error while work goes on: lines, and a progress line on a terminal.

use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use doorbell_bench::{Control, M5Ops, Progress, Stage};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::out::tell;

/// Where progress is shown.
pub struct Screen {
    quiet: bool,
    bar: Option<ProgressBar>,
    begun: Mutex<Option<Begun>>,
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
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            // What does not fit the terminal's width is cut off.
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}")
                .expect("the template is well formed");
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Screen { quiet, bar, begun: Mutex::new(None) }
    }

    /// Whether it has a moving line.
    pub fn moves(&self) -> bool {
        self.bar.is_some()
    }

    /// Tells a line.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell!("{line}")),
            None if !self.quiet => tell!("{line}"),
            None => {}
        }
    }

    /// Shows how far the work is: what is done, how much of it, how fast, and what is left.
    pub fn progress(&self, at: &Progress) {
        let Some(bar) = &self.bar else { return };
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
        bar.set_message(begun.said(at));
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

    /// Shows what is being done.
    pub fn message(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// From here on the moving line counts to `total`, with an estimate of the time that is left.
    pub fn count_to(&self, total: usize) {
        if let Some(bar) = &self.bar {
            // How long the first takes is not known.
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {elapsed} gone  {msg}");
            bar.set_style(style.expect("the template is well formed"));
            bar.set_length(total as u64);
            bar.set_position(0);
            bar.set_message("");
            bar.reset_elapsed();
        }
    }

    /// One more is done, which is told.
    pub fn counted(&self, line: &str) {
        self.say(line);
        if let Some(bar) = &self.bar {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len}, {elapsed} gone, about {eta} left  {msg}");
            bar.set_style(style.expect("the template is well formed"));
            bar.inc(1);
        }
    }

    /// Removes the moving line.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A flag that Ctrl-C and a polite kill set. The second Ctrl-C ends the program at once. That the terminal goes away ends nothing:
/// a measurement goes on and its results are written.
pub fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::new(AtomicBool::new(false)))?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
