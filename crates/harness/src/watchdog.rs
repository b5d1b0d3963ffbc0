//! Watchdog for cases that do not end. The simulator cannot detect an endless loop at one point in simulated
//! time, so a host-time limit aborts the process.

use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Far longer than any case takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

static RUNNING: Mutex<Vec<(u64, Instant)>> = Mutex::new(Vec::new());
static START: Once = Once::new();

/// Guards one case until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    id: u64,
}

impl Watchdog {
    /// Starts watching a case.
    pub fn start() -> Watchdog {
        START.call_once(|| {
            std::thread::spawn(watch);
        });
        let mut running = RUNNING.lock().expect("no thread panics while it holds the list");
        let id = running.last().map_or(0, |(id, _)| id + 1);
        running.push((id, Instant::now()));
        Watchdog { id }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        RUNNING.lock().expect("no thread panics while it holds the list").retain(|(id, _)| *id != self.id);
    }
}

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().expect("no thread panics while it holds the list");
        if running.iter().any(|(_, since)| since.elapsed() > TIMEOUT) {
            eprintln!(
                "a case did not end within {} s: probably an endless loop in the simulator",
                TIMEOUT.as_secs()
            );
            std::process::abort();
        }
    }
}
