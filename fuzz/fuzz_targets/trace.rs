//! Traces in Doorbell's format.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_harness::trace::run(bytes));
