//! Captures as traffic, valid or damaged.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::capture::run(bytes));
