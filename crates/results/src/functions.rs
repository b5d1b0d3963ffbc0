//! Costs of guest functions.

use serde::{Deserialize, Serialize};

/// A function's cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The program, `kernel`, `firmware` or `idle`.
    pub program: String,
    /// The file or module that contains it.
    pub object: String,
    /// Its name; for an unnamed function, the file and its start address.
    pub function: String,
    /// Core cycles, without callees.
    pub cycles: u64,
    /// Share of all harts' cycles in the measurement.
    pub share: f64,
    /// Instructions retired.
    pub instructions: u64,
    /// Fetches that missed the first-level cache.
    pub l1i_misses: u64,
    /// Loads, stores and page walks that missed the first-level cache.
    pub l1d_misses: u64,
    /// Accesses that missed the second-level cache.
    pub l2_misses: u64,
    /// Accesses that missed the last-level cache.
    pub llc_misses: u64,
}
