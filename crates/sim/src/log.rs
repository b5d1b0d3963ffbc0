//! Component log: one line per event with its simulated time. Off by default; it does not affect the
//! simulation.
//!
//! Components and levels are closed lists, so a misspelt one does not compile, and the command line, its help
//! and its errors come from the lists. A disabled line costs one load and one predictable branch; its text is
//! not formatted. A general logging crate would add wall-clock stamps, call-site registries and text filters,
//! which a simulator does not need.
//!
//! The filter and the output are process-wide. [`set_node`] sets the machine name for lines of the calling
//! thread.

use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::time::Ps;

/// The component that logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // described in COMPONENTS
pub enum Component {
    Nic,
    Pcie,
    Link,
    Loadgen,
    Platform,
    Machine,
    Riscv,
}

/// All components, in the order of the enum: name, and the events they log.
pub const COMPONENTS: [(Component, &str, &str); 7] = [
    (
        Component::Nic,
        "nic",
        "resets and link (info), frames, drops and interrupts (debug), registers, descriptors, DMA (trace)",
    ),
    (Component::Pcie, "pcie", "accesses that no function claims (warn), configuration space (debug)"),
    (Component::Link, "link", "frames that a configured fault loses or damages (info)"),
    (
        Component::Loadgen,
        "loadgen",
        "traffic begins and ends (info), frames received (debug), frames sent (trace)",
    ),
    (Component::Platform, "platform", "interrupts claimed and completed (debug), device registers (trace)"),
    (
        Component::Machine,
        "machine",
        "power-off (info), accesses to unmapped addresses (warn), interrupt lines (debug), each access to a device (trace)",
    ),
    (
        Component::Riscv,
        "riscv",
        "calls to the firmware (debug), other exceptions, system calls and interrupts taken (trace)",
    ),
];

/// Log level. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off,
    /// Errors that end the run unexpectedly.
    Error,
    /// Guest behaviour that no correct driver shows.
    Warn,
    /// Events that happen a few times per run.
    Info,
    /// Events per frame or interrupt.
    Debug,
    /// Every register access, descriptor and trap.
    Trace,
}

/// All levels by name.
pub const LEVELS: [(Level, &str); 6] = [
    (Level::Off, "off"),
    (Level::Error, "error"),
    (Level::Warn, "warn"),
    (Level::Info, "info"),
    (Level::Debug, "debug"),
    (Level::Trace, "trace"),
];

/// Error in a log filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFilterError {
    /// Not of the form `component=level`.
    #[error("\"{0}\" is not of the form component=level, such as nic=trace or all=debug")]
    Form(String),
    /// No such component.
    #[error("there is no component \"{0}\" (components: {list}, or all)", list = names(&COMPONENTS.map(|c| c.1)))]
    Component(String),
    /// No such level.
    #[error("there is no level \"{0}\" (levels: {list})", list = names(&LEVELS.map(|l| l.1)))]
    Level(String),
}

fn names(all: &[&str]) -> String {
    all.join(", ")
}

/// Maximum level logged, per component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFilter([Level; COMPONENTS.len()]);

impl LogFilter {
    /// Reads `component=level,…`; a later word wins, and `all` is every component.
    pub fn parse(text: &str) -> Result<LogFilter, LogFilterError> {
        let mut filter = LogFilter([Level::Off; COMPONENTS.len()]);
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (component, level) =
                word.split_once('=').ok_or_else(|| LogFilterError::Form(word.to_owned()))?;
            let (component, level) = (component.trim(), level.trim());
            let found = LEVELS.iter().find(|entry| entry.1 == level);
            let (level, _) = *found.ok_or_else(|| LogFilterError::Level(level.to_owned()))?;
            if component == "all" {
                filter.0 = [level; COMPONENTS.len()];
                continue;
            }
            let index = COMPONENTS.iter().position(|entry| entry.1 == component);
            filter.0[index.ok_or_else(|| LogFilterError::Component(component.to_owned()))?] = level;
        }
        Ok(filter)
    }
}

static ENABLED: [AtomicU8; COMPONENTS.len()] = [const { AtomicU8::new(0) }; COMPONENTS.len()];

struct Sink {
    out: Box<dyn Write + Send>,
    line: String,
    failed: Option<std::io::Error>,
}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);

thread_local! {
    static NODE: Cell<Option<u8>> = const { Cell::new(None) };
}

/// Starts logging to `out`. An earlier log is ended first; returns its result.
pub fn begin(filter: LogFilter, out: Box<dyn Write + Send>) -> std::io::Result<()> {
    let ended = end();
    *SINK.lock().expect("no thread panics while it holds the log") =
        Some(Sink { out, line: String::new(), failed: None });
    for (enabled, level) in ENABLED.iter().zip(filter.0) {
        enabled.store(level as u8, Ordering::Relaxed);
    }
    ended
}

/// Stops logging. Returns the first write error, if any.
pub fn end() -> std::io::Result<()> {
    ENABLED.iter().for_each(|enabled| enabled.store(0, Ordering::Relaxed));
    match SINK.lock().expect("no thread panics while it holds the log").take() {
        Some(Sink { failed: Some(error), .. }) => Err(error),
        Some(mut sink) => sink.out.flush(),
        None => Ok(()),
    }
}

/// Sets the node number of the machine that runs on this thread; none if there is only one machine.
pub fn set_node(node: Option<u8>) {
    NODE.set(node);
}

/// Whether lines of this component and level are logged.
#[inline(always)]
pub fn enabled(component: Component, level: Level) -> bool {
    ENABLED[component as usize].load(Ordering::Relaxed) >= level as u8
}

/// Whether any component logs.
pub fn any_enabled() -> bool {
    ENABLED.iter().any(|enabled| enabled.load(Ordering::Relaxed) > Level::Off as u8)
}

/// Writes a line; [`log!`](crate::log!) checks first that it is enabled.
#[cold]
#[inline(never)]
pub fn line(now: Ps, component: Component, level: Level, text: fmt::Arguments<'_>) {
    use fmt::Write as _;
    let mut sink = SINK.lock().expect("no thread panics while it holds the log");
    let Some(Sink { out, line, failed }) = sink.as_mut().filter(|sink| sink.failed.is_none()) else { return };
    line.clear();
    let (seconds, rest) = (now.0 / Ps::PER_SECOND, now.0 % Ps::PER_SECOND);
    let node = NODE.get().map_or(String::new(), |node| format!("node{node} "));
    let (name, level) = (COMPONENTS[component as usize].1, LEVELS[level as usize].1);
    // Writing to a String cannot fail.
    let _ = writeln!(line, "{seconds}.{rest:012} {node}{name:<8} {level:<5} {text}");
    *failed = out.write_all(line.as_bytes()).err();
}

/// Logs a line if its component and level are enabled: `log!(now, Nic, Debug, "{name}: …")`.
#[macro_export]
macro_rules! log {
    ($now:expr, $component:ident, $level:ident, $($text:tt)+) => {
        if $crate::log::enabled($crate::log::Component::$component, $crate::log::Level::$level) {
            $crate::log::line(
                $now,
                $crate::log::Component::$component,
                $crate::log::Level::$level,
                format_args!($($text)+),
            );
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn filter_sets_level_per_component_and_last_word_wins() {
        let filter = LogFilter::parse("all=info, nic=trace,pcie=off").unwrap();
        assert_eq!(filter.0[Component::Nic as usize], Level::Trace);
        assert_eq!(filter.0[Component::Pcie as usize], Level::Off);
        assert_eq!(filter.0[Component::Riscv as usize], Level::Info);
    }

    #[test]
    fn error_lists_valid_components_and_levels() {
        let error = |text: &str| LogFilter::parse(text).unwrap_err().to_string();
        assert!(error("nik=trace").contains("\"nik\"") && error("nik=trace").contains("nic, pcie"));
        assert!(error("nic=loud").contains("\"loud\"") && error("nic=loud").contains("debug, trace"));
        assert!(error("nic").contains("component=level"));
    }

    #[test]
    fn lists_are_in_enum_order() {
        assert!(COMPONENTS.iter().enumerate().all(|(i, entry)| entry.0 as usize == i));
        assert!(LEVELS.iter().enumerate().all(|(i, entry)| entry.0 as usize == i));
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn unformatted(why: &str) -> &str {
        panic!("formatted although {why}")
    }

    /// The only test here that logs: the output is process-wide.
    #[test]
    fn line_has_time_component_and_level_and_disabled_lines_are_not_formatted() {
        let out = Shared::default();
        begin(LogFilter::parse("nic=debug").unwrap(), Box::new(out.clone())).unwrap();
        crate::log!(Ps(1_000_000_000_123), Nic, Debug, "nic0: {}", 7);
        crate::log!(Ps(1), Nic, Trace, "{}", unformatted("its level is disabled"));
        crate::log!(Ps(1), Pcie, Error, "{}", unformatted("its level is disabled"));
        set_node(Some(1));
        crate::log!(Ps::ZERO, Nic, Warn, "x");
        set_node(None);
        end().unwrap();
        crate::log!(Ps::ZERO, Nic, Warn, "{}", unformatted("the log has ended"));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "1.000000000123 nic      debug nic0: 7\n0.000000000000 node1 nic      warn  x\n");
    }
}
