//! Values for a configuration's keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::config::run(bytes));
