//! A case that does not end is a failure too. The simulator cannot notice its own endless loop at one moment
//! of simulated time, so the host's clock does: it ends the process with the case's name.

use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Far longer than any case takes on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

static RUNNING: Mutex<Vec<(u64, Instant)>> = Mutex::new(Vec::new());
static START: Once = Once::new();

/// Guards one case until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    id: u64,
}

impl Watchdog {
    /// Begins to watch.
    pub fn start() -> Watchdog {
        START.call_once(|| {
            std::thread::spawn(watch);
        });
        let mut running = RUNNING.lock().expect("nothing panics with the list");
        let id = running.last().map_or(0, |(id, _)| id + 1);
        running.push((id, Instant::now()));
        Watchdog { id }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        RUNNING.lock().expect("nothing panics with the list").retain(|(id, _)| *id != self.id);
    }
}

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().expect("nothing panics with the list");
        if running.iter().any(|(_, since)| since.elapsed() > LONGEST) {
            eprintln!("a case did not end within {} s: an endless loop in the simulator", LONGEST.as_secs());
            std::process::abort();
        }
    }
}
