//! Compares every RV64GC instruction with QEMU.
//!
//! A test builds a RISC-V user program that runs each form of an instruction on a table of random and extreme
//! operands, and leaves results, flags and memory effects in memory. QEMU and our hart run it, and the two
//! outputs must be equal byte for byte. Encodings come from the tests' own assembler.

#[path = "../common/asm.rs"]
mod asm;
mod encodings;
mod float;
mod host;
mod integer;
mod memory;
mod monitor;
mod program;
#[path = "../common/random.rs"]
mod random;
mod streams;

use host::Chunks;
use program::Program;
use random::Random;

/// Builds a program, runs it on both, and compares.
fn check(seed: u64, build: impl FnOnce(&mut Program, &mut Random)) {
    check_in(&[Chunks::Whole, Chunks::Random(seed)], seed, build);
}

fn check_in(ways: &[Chunks], seed: u64, build: impl FnOnce(&mut Program, &mut Random)) {
    let mut program = Program::default();
    build(&mut program, &mut Random::new(seed));
    let cases = program.cases();
    let program = program.finish();
    let qemu = host::on_qemu(&program);
    assert_eq!(qemu.len() as u64, program.output_len, "QEMU wrote all results");
    for chunks in ways {
        let ours = host::on_ours(&program, *chunks);
        if let Some(text) = program.compare(&ours, &qemu) {
            panic!("our hart ({chunks:?}) and QEMU differ: {text}");
        }
    }
    println!("{cases} cases are the same on QEMU and on our hart");
}

#[test]
fn integer_arithmetic_matches_qemu() {
    check(1, |program, random| {
        integer::register_arithmetic(program, random);
        integer::immediate_arithmetic(program, random);
    });
}

#[test]
fn jumps_and_branches_match_qemu() {
    check(2, |program, random| {
        integer::jumps(program, random);
        integer::branches(program, random);
    });
}

#[test]
fn loads_and_stores_of_every_alignment_match_qemu() {
    check(3, |program, random| {
        memory::loads(program, random);
        memory::stores(program, random);
    });
}

#[test]
fn atomics_match_qemu() {
    check(4, memory::atomics);
}

#[test]
fn floating_point_control_registers_match_qemu() {
    check(5, memory::control_registers);
}

#[test]
fn single_precision_matches_qemu() {
    check(6, |program, random| float::all(program, random, false));
}

#[test]
fn double_precision_matches_qemu() {
    check(7, |program, random| float::all(program, random, true));
}

#[test]
fn compressed_encodings_execute_or_trap_as_on_qemu() {
    check(8, encodings::compressed);
}

#[test]
fn compressed_jumps_of_every_offset_match_qemu() {
    check(9, encodings::compressed_jumps);
}

#[test]
fn random_encodings_execute_or_trap_as_on_qemu() {
    check(10, encodings::random_words);
}

#[test]
fn random_streams_match_qemu_for_every_chunking() {
    let ways = [Chunks::Whole, Chunks::Single, Chunks::Random(11), Chunks::Random(12)];
    check_in(&ways, 11, |program, random| streams::streams(program, random, 400));
}
