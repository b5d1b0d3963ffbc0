//! Machines that are used again. A fuzzer needs several for each case, and what a new one costs is mostly memory that the
//! host has to hand out and clear: so those that are done with lend theirs to the next
//! ([`Machine::renewed`]).

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use doorbell_machine::{Machine, MachineConfig, Place};
use doorbell_pcie::PciFunction;

/// As many as a case has at a time.
const SPARE_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Machine>> = const { RefCell::new(Vec::new()) };
}

/// A machine whose memory goes to another one when it is dropped.
pub struct Lent {
    /// Always there, but while it is dropped.
    machine: Option<Machine>,
}

impl Lent {
    /// A machine as [`Machine::with_functions`] builds it. The configuration has to be legal.
    pub fn new(config: MachineConfig, seed: u64, functions: Vec<(Place, Box<dyn PciFunction>)>) -> Lent {
        let machine = match SPARE.with_borrow_mut(|spare| take(spare, config.platform.harts)) {
            Some(spare) => spare.renewed_with(config, seed, functions),
            None => Machine::with_functions(config, seed, functions),
        };
        Lent { machine: Some(machine.expect("the configuration is legal")) }
    }
}

/// One with as many harts, if there is one.
fn take(spare: &mut Vec<Machine>, harts: u32) -> Option<Machine> {
    let fitting = spare.iter().position(|machine| machine.config().platform.harts == harts);
    fitting.map(|index| spare.swap_remove(index)).or_else(|| spare.pop())
}

impl Deref for Lent {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        self.machine.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After a panic it may be in any state, and its thread is about to end or goes on with another case.
        let spare = self.machine.take().filter(|_| !std::thread::panicking());
        let _ = SPARE.try_with(|all| {
            let mut all = all.borrow_mut();
            if all.len() < SPARE_MAX {
                all.extend(spare);
            }
        });
    }
}
