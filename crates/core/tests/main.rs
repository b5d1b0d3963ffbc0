//! Tests of core models, as one program: each more would be linked apart.

mod closed_forms;
mod common;
mod decoded;
mod prefetches;
mod properties;
mod threads;
mod ticking;
