//! Manipulated checkpoints with correct hashes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::checkpoint::run(bytes));
