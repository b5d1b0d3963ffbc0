//! Pool of machines for reuse. A fuzzer needs several machines per case, and most of the cost of a new one is
//! host memory that must be allocated and cleared. A discarded machine therefore passes its memory to the
//! next one ([`Machine::rebuild`]).

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use doorbell_machine::{Machine, MachineConfig, Place};
use doorbell_pcie::PciFunction;

/// Maximum number of machines in the pool: as many as a case uses at a time.
const POOL_MAX: usize = 4;

thread_local! {
    static POOL: RefCell<Vec<Machine>> = const { RefCell::new(Vec::new()) };
}

/// A machine that returns to the pool when it is dropped.
pub struct PooledMachine {
    /// Present until it is dropped.
    machine: Option<Machine>,
}

impl PooledMachine {
    /// Builds a machine like [`Machine::with_functions`]. The configuration must be valid.
    pub fn new(
        config: MachineConfig,
        seed: u64,
        functions: Vec<(Place, Box<dyn PciFunction>)>,
    ) -> PooledMachine {
        let machine = match POOL.with_borrow_mut(|spare| take(spare, config.platform.harts)) {
            Some(spare) => spare.rebuild_with_functions(config, seed, functions),
            None => Machine::with_functions(config, seed, functions),
        };
        PooledMachine { machine: Some(machine.expect("the configuration is legal")) }
    }
}

/// Takes a machine from the pool, preferably one with `harts` harts.
fn take(spare: &mut Vec<Machine>, harts: u32) -> Option<Machine> {
    let fitting = spare.iter().position(|machine| machine.config().platform.harts == harts);
    fitting.map(|index| spare.swap_remove(index)).or_else(|| spare.pop())
}

impl Deref for PooledMachine {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        self.machine.as_ref().expect("the machine is present until it is dropped")
    }
}

impl DerefMut for PooledMachine {
    fn deref_mut(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("the machine is present until it is dropped")
    }
}

impl Drop for PooledMachine {
    fn drop(&mut self) {
        // After a panic the machine may be in any state, so it does not return to the pool.
        let spare = self.machine.take().filter(|_| !std::thread::panicking());
        let _ = POOL.try_with(|all| {
            let mut all = all.borrow_mut();
            if all.len() < POOL_MAX {
                all.extend(spare);
            }
        });
    }
}
