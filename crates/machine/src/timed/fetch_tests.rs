//! Fetch of cold code in a whole machine: overlapping instruction misses, and next-line prefetch.

use doorbell_assembler::*;
use doorbell_sim::Ps;

use super::Mode;
use crate::machine::Machine;
use crate::overlay::Overlay;
use crate::run::Limits;

const BASE: u64 = 0x8000_0000;
const LINES: u64 = 1024;

/// Cycles per line of straight-line code that is in no cache.
fn pace(set: &[&str]) -> f64 {
    let mut a = Assembler::new(BASE);
    (0..16 * LINES).for_each(|_| a.addi(ZERO, ZERO, 0));
    a.label("end");
    a.wfi();
    a.j("end");
    let mut overlay = Overlay::default();
    let all = ["platform.nics=0", "platform.ram=64MiB", "core.model=timed", "memory.dram.refresh=false"];
    all.iter().chain(set).for_each(|assignment| overlay.set(assignment).unwrap());
    let mut machine = Machine::new(overlay.resolve().unwrap(), 1).unwrap();
    assert!(machine.load_bare(&a.finish()));
    machine.set_mode(Mode::Detailed);
    machine.run(&Limits::until(Ps::from_ms(1)));
    assert!(machine.harts()[0].is_waiting(), "the code has reached its end");
    machine.timing().unwrap().core(0).now().number() as f64 / LINES as f64
}

#[test]
fn fetch_keeps_all_miss_registers_busy() {
    for kind in ["pipeline.kind=out-of-order", "pipeline.kind=in-order"] {
        let with =
            |mshrs: u32| pace(&[kind, "pipeline.fetch_queue=1024", &format!("memory.l1i.mshrs={mshrs}")]);
        let alone = with(1);
        assert!(alone > 100.0, "{kind}: a line takes {alone} cycles");
        for mshrs in [2, 4, 8] {
            let (together, expected) = (with(mshrs), alone / f64::from(mshrs));
            assert!((0.95..1.1).contains(&(together / expected)), "{kind}, {mshrs}: {together} of {alone}");
        }
    }
}

#[test]
fn next_line_prefetch_helps_when_the_fetch_queue_holds_one_line() {
    let with = |prefetch: &str| pace(&["pipeline.fetch_queue=16", "memory.l1i.mshrs=8", prefetch]);
    let (alone, ahead) = (with("memory.l1i.prefetch.kind=none"), with("memory.l1i.prefetch.kind=next-line"));
    assert!(ahead < 0.6 * alone, "{ahead} cycles per line, {alone} without prefetch");
}
