//! Valid and invalid requests to virtio disks, in a whole machine under traffic.

#![no_main]

use doorbell_harness::guest;
use doorbell_harness::operations::Profile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| guest::run(Profile::Disk, bytes));
