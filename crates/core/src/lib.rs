//! Timing of cores: what each executed op costs, on an in-order or an out-of-order core.

#![forbid(unsafe_code)]
