//! Log messages about driver errors. The log is global to the process, so this file has one test.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex};

use crate::common::{Bench, RDT, TDT};
use doorbell_nic::NicConfig;
use doorbell_pcie::NetworkFunction as _;
use doorbell_sim::log;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn invalid_rings_are_logged_with_their_registers() {
    let lines = Lines::default();
    log::begin(log::LogFilter::parse("nic=warn").unwrap(), Box::new(lines.clone())).unwrap();
    let mut bench = Bench::running(NicConfig::default(), 64, 8);
    assert_eq!(bench.nic.stats().ring_nonsense, 0);
    bench.write(RDT, 64);
    bench.write(TDT, 9);
    log::end().unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("head 0 or tail 64 is outside the receive 0 ring of 64 descriptors"), "{text}");
    assert!(text.contains("head 0 or tail 9 is outside the transmit 0 ring of 8 descriptors"), "{text}");
    assert_eq!(text.lines().count() as u64, bench.nic.stats().ring_nonsense, "{text}");
}
