//! Searches for a rate, experiments over parameters, results side by side: which measurements are made, in which order, on how many cores or nodes of a cluster.
//! How one is made is the room `bench`'s; what is shown of them is the room `report`'s.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod compare;
pub mod experiment;
pub mod reproduce;
pub mod search;
