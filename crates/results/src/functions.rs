//! What the guest's functions cost.

use serde::{Deserialize, Serialize};

/// A function's cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The program that ran it, `kernel`, `firmware` or `idle`.
    pub program: String,
    /// The file or module that it is of.
    pub object: String,
    /// Its name; of one without, the file and where it begins.
    pub function: String,
    /// Core cycles, its callees' not included.
    pub cycles: u64,
    /// Of all harts' cycles in the measurement.
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
