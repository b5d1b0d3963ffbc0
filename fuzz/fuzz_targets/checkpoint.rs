//! Checkpoints changed behind hashes that are right.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::checkpoint::run(bytes));
