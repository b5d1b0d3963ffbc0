//! Damaged traces: playback ends with an error that names the file and the damage, wherever that is, and
//! never as if the trace had ended.

use std::fs;
use std::path::Path;

use doorbell_sim::Op;
use doorbell_sim::memory::Walk;
use doorbell_trace::system::{Description, Kind, Step, TraceFile, TraceWriter};

use super::tests::{config, folder, int, polling};
use super::{PagesConfig, Plan, Player, TraceInput};
use crate::timed::unequal_tests::{chained_additions, machine_with_corunners};

/// Ops per block.
const OPS: u64 = 1000;

/// A trace of some harts with `blocks` blocks each.
fn steps(path: &Path, harts: u16, blocks: u64) -> TraceInput {
    let description = Description { isa: "riscv64".into(), harts, physical: true, ..Description::default() };
    let mut writer = TraceWriter::create(path, &description).unwrap();
    let ops: Vec<Op> = (0..OPS).map(|place| int(4 * place)).collect();
    for hart in 0..harts {
        for _ in 0..blocks {
            writer.block(hart, &Step::default(), &ops, &mut |_| Walk::default()).unwrap();
        }
    }
    writer.finish().unwrap();
    open(path)
}

fn open(path: &Path) -> TraceInput {
    TraceInput::own(TraceFile::open(path).unwrap()).named(path)
}

/// Damages one of a hart's chunks. Returns the chunk's offset.
fn damage(path: &Path, hart: u16, chunk: usize) -> u64 {
    let file = TraceFile::open(path).unwrap();
    let of_hart =
        file.chunks().iter().filter(|place| (place.head.kind, place.head.hart) == (Kind::Hart, hart));
    let place = *of_hart.clone().nth(chunk).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[(place.at + place.bytes - 1) as usize] ^= 0x55;
    fs::write(path, bytes).unwrap();
    place.at
}

/// The error when this plan is played to the end on `harts` harts.
fn playback_error(harts: u16, plan: &Plan) -> String {
    let config = config(&[&format!("platform.harts={harts}")]);
    let played = Player::new(&config, plan).and_then(|mut player| player.run(u64::MAX));
    played.expect_err("a damaged trace cannot be played").to_string()
}

fn expected(path: &Path, at: u64) -> String {
    format!(
        "{}: the trace is damaged at byte {at}: chunk checksum mismatch; copy it again, or record it again",
        path.display()
    )
}

#[test]
fn damaged_first_chunk_of_any_hart_is_an_error() {
    let folder = folder();
    for (harts, damaged) in [(1, 0), (2, 0), (2, 1)] {
        let path = folder.path().join(format!("{harts}-{damaged}"));
        steps(&path, harts, 20);
        let at = damage(&path, damaged, 0);
        assert_eq!(playback_error(harts, &Plan::of(open(&path))), expected(&path, at));
    }
}

#[test]
fn damaged_later_chunk_is_not_the_end_of_the_trace() {
    let folder = folder();
    let path = folder.path().join("long");
    // A chunk has four million instructions.
    steps(&path, 1, 4_500);
    let at = damage(&path, 0, 1);
    assert_eq!(playback_error(1, &Plan::of(open(&path))), expected(&path, at));
    // The part before the damage can be measured.
    let mut player = Player::new(&config(&[]), &Plan::of(open(&path))).unwrap();
    assert!(player.run(1_000_000).unwrap());
}

#[test]
fn error_names_the_damaged_neighbour() {
    let folder = folder();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let own = polling(&first, 40, 3, 1, true).named(&first);
    steps(&second, 2, 20);
    let at = damage(&second, 1, 0);
    assert_eq!(playback_error(3, &Plan::of(own).with_neighbour(open(&second))), expected(&second, at));
}

#[test]
fn damage_before_a_restart_is_an_error() {
    let folder = folder();
    let path = folder.path().join("again");
    let trace = steps(&path, 1, 20);
    let mut player = Player::new(&config(&[]), &Plan::of(trace)).unwrap();
    player.begin_warming_pass().unwrap();
    assert!(!player.run(u64::MAX).unwrap());
    let at = damage(&path, 0, 0);
    assert_eq!(player.restart().unwrap_err().to_string(), expected(&path, at));
}

#[test]
fn error_names_the_damaged_corunner() {
    let folder = folder();
    let [sound, damaged] = ["sound", "damaged"].map(|name| folder.path().join(name));
    let first = steps(&sound, 1, 20);
    steps(&damaged, 1, 20);
    let at = damage(&damaged, 0, 0);
    let mut machine = machine_with_corunners(2, &[], &chained_additions());
    let refused = machine.play_corunners(&[first, open(&damaged)], &PagesConfig::default());
    assert_eq!(refused.unwrap_err().to_string(), expected(&damaged, at));
}
