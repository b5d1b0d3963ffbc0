//! What components tell about themselves while they run: one line an event, with the simulated time. An observer, off
//! unless someone asks for it.
//!
//! Components and levels are closed lists, so a misspelt one does not compile, and the command line, its help and its
//! errors come from the lists. A line that nobody wants costs one load and one branch that is always taken the same
//! way; its text is not made. A general logging crate would bring wall-clock stamps, call-site registries and filters
//! by text, none of which a simulated machine needs.
//!
//! What is wanted, and where lines go, holds for the whole process. Which of several machines is speaking is said by
//! [`set_node`], for the calling thread.

use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::time::Ps;

/// Who speaks.
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

/// All components, in the order of the enum: name, and what they tell.
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
        "power-off (info), accesses to nothing (warn), interrupt lines (debug), each access to a device (trace)",
    ),
    (
        Component::Riscv,
        "riscv",
        "calls to the firmware (debug), other exceptions, system calls and interrupts taken (trace)",
    ),
];

/// How much is told. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off,
    /// What ends a run against the guest's wish.
    Error,
    /// The guest does what no driver should.
    Warn,
    /// What happens a few times a run.
    Info,
    /// What happens with every frame or interrupt.
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

/// What is wrong with a wish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
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

/// Which components tell how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes([Level; COMPONENTS.len()]);

impl Wishes {
    /// Reads `component=level,…`; a later word wins, and `all` is every component.
    pub fn parse(text: &str) -> Result<Wishes, WishError> {
        let mut wishes = Wishes([Level::Off; COMPONENTS.len()]);
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (component, level) = word.split_once('=').ok_or_else(|| WishError::Form(word.to_owned()))?;
            let (component, level) = (component.trim(), level.trim());
            let found = LEVELS.iter().find(|known| known.1 == level);
            let (level, _) = *found.ok_or_else(|| WishError::Level(level.to_owned()))?;
            if component == "all" {
                wishes.0 = [level; COMPONENTS.len()];
                continue;
            }
            let index = COMPONENTS.iter().position(|known| known.1 == component);
            wishes.0[index.ok_or_else(|| WishError::Component(component.to_owned()))?] = level;
        }
        Ok(wishes)
    }
}

static WANTED: [AtomicU8; COMPONENTS.len()] = [const { AtomicU8::new(0) }; COMPONENTS.len()];

struct Sink {
    out: Box<dyn Write + Send>,
    line: String,
    failed: Option<std::io::Error>,
}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);

thread_local! {
    static NODE: Cell<Option<u8>> = const { Cell::new(None) };
}

/// From now on these lines are written there. What was begun before is ended.
pub fn begin(wishes: Wishes, out: Box<dyn Write + Send>) -> std::io::Result<()> {
    let ended = end();
    *SINK.lock().expect("nobody panics with the log in hand") =
        Some(Sink { out, line: String::new(), failed: None });
    for (wanted, level) in WANTED.iter().zip(wishes.0) {
        wanted.store(level as u8, Ordering::Relaxed);
    }
    ended
}

/// Nothing is written any more. Tells what went wrong with writing, once.
pub fn end() -> std::io::Result<()> {
    WANTED.iter().for_each(|wanted| wanted.store(0, Ordering::Relaxed));
    match SINK.lock().expect("nobody panics with the log in hand").take() {
        Some(Sink { failed: Some(error), .. }) => Err(error),
        Some(mut sink) => sink.out.flush(),
        None => Ok(()),
    }
}

/// Names the machine that runs on this thread, where there are several.
pub fn set_node(node: Option<u8>) {
    NODE.set(node);
}

/// Whether lines of this component and level are wanted.
#[inline(always)]
pub fn wanted(component: Component, level: Level) -> bool {
    WANTED[component as usize].load(Ordering::Relaxed) >= level as u8
}

/// Whether anybody wants any lines.
pub fn is_wanted() -> bool {
    WANTED.iter().any(|wanted| wanted.load(Ordering::Relaxed) > Level::Off as u8)
}

/// Writes a line; [`log!`](crate::log!) asks first whether it is wanted.
#[cold]
#[inline(never)]
pub fn line(now: Ps, component: Component, level: Level, text: fmt::Arguments<'_>) {
    use fmt::Write as _;
    let mut sink = SINK.lock().expect("nobody panics with the log in hand");
    let Some(Sink { out, line, failed }) = sink.as_mut().filter(|sink| sink.failed.is_none()) else { return };
    line.clear();
    let (seconds, rest) = (now.0 / Ps::PER_SECOND, now.0 % Ps::PER_SECOND);
    let node = NODE.get().map_or(String::new(), |node| format!("node{node} "));
    let (name, level) = (COMPONENTS[component as usize].1, LEVELS[level as usize].1);
    // Writing to a String cannot fail.
    let _ = writeln!(line, "{seconds}.{rest:012} {node}{name:<8} {level:<5} {text}");
    *failed = out.write_all(line.as_bytes()).err();
}

/// Tells something, if it is wanted: `log!(now, Nic, Debug, "{name}: …")`.
#[macro_export]
macro_rules! log {
    ($now:expr, $component:ident, $level:ident, $($text:tt)+) => {
        if $crate::log::wanted($crate::log::Component::$component, $crate::log::Level::$level) {
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
    fn wishes_name_components_and_levels_and_the_last_word_wins() {
        let wishes = Wishes::parse("all=info, nic=trace,pcie=off").unwrap();
        assert_eq!(wishes.0[Component::Nic as usize], Level::Trace);
        assert_eq!(wishes.0[Component::Pcie as usize], Level::Off);
        assert_eq!(wishes.0[Component::Riscv as usize], Level::Info);
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_right_ones() {
        let told = |text: &str| Wishes::parse(text).unwrap_err().to_string();
        assert!(told("nik=trace").contains("\"nik\"") && told("nik=trace").contains("nic, pcie"));
        assert!(told("nic=loud").contains("\"loud\"") && told("nic=loud").contains("debug, trace"));
        assert!(told("nic").contains("component=level"));
    }

    #[test]
    fn the_lists_stand_in_the_order_of_the_enums() {
        assert!(COMPONENTS.iter().enumerate().all(|(i, known)| known.0 as usize == i));
        assert!(LEVELS.iter().enumerate().all(|(i, known)| known.0 as usize == i));
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

    fn unheard(why: &str) -> &str {
        panic!("put into words: {why}")
    }

    /// The only test here that logs: the sink is the process's.
    #[test]
    fn a_line_says_when_who_and_how_important_and_what_nobody_wants_is_not_even_put_into_words() {
        let out = Shared::default();
        begin(Wishes::parse("nic=debug").unwrap(), Box::new(out.clone())).unwrap();
        crate::log!(Ps(1_000_000_000_123), Nic, Debug, "nic0: {}", 7);
        crate::log!(Ps(1), Nic, Trace, "{}", unheard("it is not wanted"));
        crate::log!(Ps(1), Pcie, Error, "{}", unheard("it is not wanted"));
        set_node(Some(1));
        crate::log!(Ps::ZERO, Nic, Warn, "x");
        set_node(None);
        end().unwrap();
        crate::log!(Ps::ZERO, Nic, Warn, "{}", unheard("it is over"));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "1.000000000123 nic      debug nic0: 7\n0.000000000000 node1 nic      warn  x\n");
    }
}
