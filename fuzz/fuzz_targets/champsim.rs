//! ChampSim traces.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::champsim::run(bytes));
