//! A fault simulator for several `doorbell` processes on shared folders, modelled on TigerBeetle's.
//!
//! A seed determines a *history*: several processes (runs, sweeps, searches, first builds of an image) share
//! one cache and one results folder. The seed also determines when they start and are killed, and when the
//! disk is full. Each file operation of each process waits for the [`Controller`], which lets one process do
//! one operation at a time (`doorbell_files::control`). Timing therefore has no influence, and a seed
//! reproduces its history.
//!
//! At any moment, the published results must be complete. After the last process, every command is repeated
//! without faults: the results must equal those of an undisturbed world, and no partial files may be left
//! ([`World`]).

#![forbid(unsafe_code)]

mod commands;
mod controller;
mod fake_image;
mod guest;
mod history;
mod world;

pub use commands::{COMMANDS, Command};
pub use controller::{Controller, Event};
pub use history::{Expected, Outcome, expected, play};
pub use world::World;
