//! A hart with recorded sleep, played with and without it.

use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, OpClass, PhysAddr, Ps};
use doorbell_trace::system::{Description, Step, TraceFile, TraceWriter};

use super::*;
use crate::overlay::Overlay;

const CODE: u64 = 0x8001_0000;
const SLEPT: Ps = Ps::from_us(7);

fn played(sleeps: bool) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.dbt");
    let description = Description {
        isa: "riscv64".into(),
        harts: 1,
        timed: true,
        physical: true,
        ..Description::default()
    };
    let mut writer = TraceWriter::create(&path, &description).unwrap();
    let op = Op { pc: CODE, fetch: PhysAddr(CODE), class: OpClass::Int, length: 4, ..Op::default() };
    for slept in [Ps::ZERO, SLEPT, SLEPT] {
        writer.block(0, &Step { slept, ..Step::default() }, &[op], &mut |_| Walk::default()).unwrap();
    }
    writer.finish().unwrap();
    let mut overlay = Overlay::default();
    ["platform.nics=1", "core.model=timed"].iter().for_each(|set| overlay.set(set).unwrap());
    let plan = Plan { sleeps, ..Plan::of(TraceInput::own(TraceFile::open(&path).unwrap())) };
    let mut player = Player::new(&overlay.resolve().unwrap(), &plan).unwrap();
    assert!(!player.run(u64::MAX).unwrap(), "there is no more");
    player.played()
}

#[test]
fn hart_sleeps_as_recorded_unless_sleep_is_disabled() {
    let [asleep, awake] = [true, false].map(played);
    assert_eq!((asleep.instructions, awake.instructions), (3, 3));
    assert!(asleep.now >= SLEPT + SLEPT && awake.now < SLEPT, "{} {}", asleep.now, awake.now);
    assert_eq!(awake.cores[0].1.books.cpi_idle, 0);
}
