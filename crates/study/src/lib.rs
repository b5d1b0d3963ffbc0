//! Search for the highest rate, experiments over parameters, and comparison of results: which measurements
//! are made, in which order, on how many cores or cluster nodes.
//! The crate `bench` makes one measurement; the crate `report` displays the results.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod compare;
pub mod experiment;
pub mod reproduce;
pub mod search;
