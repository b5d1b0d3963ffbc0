//! Whether a saved state can be gone on with.

use super::State;

impl State {
    /// Whether a saved state belongs to a core like `fresh` and agrees with itself.
    pub(super) fn check(&self, fresh: &State) -> Result<(), String> {
        let parts = [
            ("front end", self.front.fits(&fresh.front)),
            ("branch predictors", self.branch.fits(&fresh.branch)),
            ("TLBs", self.mmu.fits(&fresh.mmu)),
            ("reorder buffer", self.window.fits(&fresh.window)),
            ("load queue", self.loads.fits(&fresh.loads)),
            ("store queue", self.stores.fits(&fresh.stores)),
            ("registers", (0..2).all(|file| self.registers_free[file].fits(&fresh.registers_free[file]))),
            ("issue queue", self.queue.fits(&fresh.queue)),
            ("store sets", self.sets.fits(&fresh.sets)),
            ("widths", self.dispatch.fits(&fresh.dispatch) && self.commit.fits(&fresh.commit)),
            ("books", self.accounts.fits(&fresh.accounts)),
            (
                "latencies",
                self.dependence == fresh.dependence
                    && self.address_cycles == fresh.address_cycles
                    && self.forward_cycles == fresh.forward_cycles
                    && self.trap_cycles == fresh.trap_cycles,
            ),
        ];
        match parts.iter().find(|part| !part.1) {
            Some((name, _)) => Err(format!("the {name} are of another core or damaged")),
            None => Ok(()),
        }
    }
}
