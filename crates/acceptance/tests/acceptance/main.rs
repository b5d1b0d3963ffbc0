//! The whole system against what it promises, one file a promise. See the crate's head for the long form.

#![forbid(unsafe_code)]

mod bad_input;
mod books;
mod captures;
mod checkpoints;
mod interruptions;
mod latency;
mod logs;
mod machines;
mod observers;
mod stages;
mod terminal;
