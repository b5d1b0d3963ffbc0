//! A fault simulator for what several `doorbell` processes do to shared folders, in the manner of TigerBeetle's.
//!
//! From a seed it makes a *history*: some processes (runs, sweeps, searches, first builds of an image) on one cache and one folder
//! of results, begun and killed at moments, and disks that are full for a while, all of which the seed decides. Each file
//! operation of each process waits for the [`Controller`], which lets one process do one operation at a time
//! (`doorbell_files::control`), so no luck of timing is in it and a seed repeats its history. At any moment what is in place must
//! be whole, and after the last process everything is asked for once more, undisturbed: the results must equal those of a
//! world in which nothing ever went wrong, and nothing may be left lying about ([`World`]).

#![forbid(unsafe_code)]

mod commands;
mod controller;
mod guest;
mod history;
mod world;

pub use commands::{COMMANDS, Command};
pub use controller::{Controller, Event};
pub use history::{Expected, Outcome, expected, play};
pub use world::World;
