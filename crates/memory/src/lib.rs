//! Timing of the memory system: caches, coherence, direct cache access, interconnect, memory controllers.

#![forbid(unsafe_code)]

pub mod dram;
