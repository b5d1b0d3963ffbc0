//! Manipulated checkpoints.

use doorbell_harness::container::{Container, PAYLOAD_AT, compress};
use doorbell_harness::{checkpoint, guest, operations, sweep};
use doorbell_machine::{CheckpointError, CheckpointFile, Machine};
use doorbell_sim::Ps;

#[test]
fn changed_checkpoint_is_refused_or_runs() {
    sweep::random("checkpoints", 2000, (16, 64), checkpoint::run);
    sweep::seeds("checkpoint", checkpoint::run);
}

fn saved() -> Vec<u8> {
    let mut machine = Machine::new(guest::small_machine(), 1).unwrap();
    machine.load(&guest::guest(operations::idle_program(), 1)).unwrap();
    guest::run_to(&mut machine, Ps::from_us(50), u64::MAX);
    machine.checkpoint("idle", "").bytes().to_vec()
}

fn restore(file: Vec<u8>) -> Result<Machine, CheckpointError> {
    let file = CheckpointFile::from_bytes(file)?;
    let mut machine = Machine::new(guest::small_machine(), 1).unwrap();
    machine.restore(&file, "idle").map(|()| machine)
}

#[test]
fn checkpoint_layout_matches_the_container_module() {
    let file = saved();
    let again = Container::open(&file).close();
    let (one, other) = (restore(file).unwrap(), restore(again).unwrap());
    guest::assert_same(&one, &other, "a reassembled checkpoint differs");
}

#[test]
fn truncated_checkpoint_is_refused_at_any_length() {
    let file = saved();
    let lengths = (0..PAYLOAD_AT + 16).chain((PAYLOAD_AT..file.len()).step_by(97)).chain([file.len() - 1]);
    for length in lengths {
        assert!(restore(file[..length].to_vec()).is_err(), "{length} of {} bytes", file.len());
    }
}

#[test]
fn truncated_payload_with_a_correct_hash_is_refused() {
    let parts = Container::open(&saved());
    let payload = parts.payload();
    for length in (0..64).chain((64..payload.len()).step_by(1013)).chain([payload.len() - 1]) {
        assert!(restore(parts.wrap(&compress(&payload[..length]))).is_err(), "{length} bytes");
    }
    let longer = [payload, vec![0]].concat();
    assert!(restore(parts.wrap(&compress(&longer))).is_err(), "an extra byte");
}

#[test]
fn decompression_bomb_is_refused() {
    let parts = Container::open(&saved());
    // The body length field is 2^60; after it come zeros, which compress well.
    let mut bomb = (1u64 << 60).to_le_bytes().to_vec();
    bomb.resize(64 << 20, 0);
    let packed = compress(&bomb);
    assert!(packed.len() < 64 << 10);
    assert!(restore(parts.wrap(&packed)).is_err());
}

#[test]
fn every_section_is_required_and_its_version_checked() {
    let parts = Container::open(&saved());
    for index in 0..parts.sections.len() {
        let name = &parts.sections[index].name;
        let mut without = parts.clone();
        without.sections.remove(index);
        let error = restore(without.close()).err().expect("a section is missing").to_string();
        assert!(error.contains("missing") && error.contains(name.as_str()), "{error}");
        let mut newer = parts.clone();
        newer.sections[index].version += 1;
        let error = restore(newer.close()).err().expect("a section is newer").to_string();
        assert!(error.contains("version") && error.contains(name.as_str()), "{error}");
    }
}

#[test]
fn pages_out_of_order_or_outside_ram_are_refused() {
    let parts = Container::open(&saved());
    for change in [
        |pages: &mut Vec<u64>| pages.swap(0, 1),
        |pages: &mut Vec<u64>| pages[1] = pages[0],
        |pages: &mut Vec<u64>| *pages.last_mut().unwrap() = 1 << 40,
        |pages: &mut Vec<u64>| *pages.last_mut().unwrap() = u64::MAX,
    ] {
        let mut parts = parts.clone();
        change(&mut parts.pages);
        assert!(restore(parts.close()).is_err());
    }
}
