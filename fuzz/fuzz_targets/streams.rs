//! Traffic files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::streams::run(bytes));
