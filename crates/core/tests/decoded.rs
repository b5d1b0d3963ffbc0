//! The decoded-instruction buffer: hits, latency and capacity.

use crate::common::{Program, Simple, assert_books_balance, run, watch};
use doorbell_core::{Core, CoreKind, DecodedConfig, PipelineConfig, Prediction};
use doorbell_sim::memory::AccessKind;
use doorbell_sim::op::OpClass;

/// A core with a buffer of `bytes` bytes of code, in windows of 16 bytes.
fn with_buffer(bytes: u32, latency: u32) -> PipelineConfig {
    let decoded = DecodedConfig { sets: bytes / 64, ways: 4, window: 16, latency };
    PipelineConfig { decoded, ..PipelineConfig::default() }
}

/// Instruction-cache requests of ten iterations of a loop of `bytes` bytes.
fn lines_requested(config: &PipelineConfig, bytes: u64) -> usize {
    let mut program = Program::new();
    for _ in 0..10 {
        (1..bytes / 4).for_each(|_| program.int(1, 0).flags = 0);
        program.branch(OpClass::Jump, 0, true, 0x1000);
    }
    let mut memory = Simple { log: Some(Vec::new()), ..Simple::new(100) };
    run(config, &program.ops, &mut memory);
    memory.log.unwrap().iter().filter(|(_, access)| access.kind == AccessKind::Fetch).count()
}

#[test]
fn code_that_fits_is_fetched_from_the_cache_once() {
    let none = PipelineConfig::default();
    let buffer = with_buffer(1 << 10, 1);
    assert_eq!(lines_requested(&none, 512), 10 * 8);
    assert_eq!(lines_requested(&buffer, 512), 8);
    assert_eq!(lines_requested(&buffer, 1024), 16);
    // Each window is evicted before the loop reaches it again.
    assert_eq!(lines_requested(&buffer, 2048), 10 * 32);
}

#[test]
fn a_hit_after_a_misprediction_skips_cache_and_decoder() {
    for (kind, latency) in [(CoreKind::OutOfOrder, 1), (CoreKind::OutOfOrder, 3), (CoreKind::InOrder, 1)] {
        let config = PipelineConfig { kind, ..with_buffer(1 << 10, latency) };
        let mut program = Program::new();
        // Runs through the target, jumps back, and returns to it by a branch that was never taken before.
        program.pc = 0x1400;
        (0..8).for_each(|_| program.int(1, 0).flags = 0);
        program.branch(OpClass::Jump, 0, true, 0x1000);
        (0..40).for_each(|_| program.int(1, 0).flags = 0);
        program.op(OpClass::IntMul, 5, [1, 0, 0]);
        program.branch(OpClass::Branch, 5, true, 0x1400);
        let branch = program.ops.len() - 1;
        (0..8).for_each(|_| program.int(2, 0).flags = 0);
        let mut core = Core::new(&config);
        let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[branch].prediction, Prediction::WrongDirection);
        let refetch = stages[branch].complete + u64::from(config.redirect_cycles);
        assert_eq!(stages[branch + 1].fetch, refetch);
        // From the cache, a line would arrive after one cycle and be decoded one cycle later.
        let ready = refetch + u64::from(latency) + u64::from(config.front_end_depth) - 1;
        assert_eq!(stages[branch + 1].dispatch, ready);
        assert_books_balance(&core);
    }
}

#[test]
fn buffered_instructions_bypass_the_decoders() {
    let mut program = Program::new();
    for _ in 0..200 {
        (0..15).for_each(|place| program.int(1 + place, 0).flags = 0);
        program.branch(OpClass::Jump, 0, true, 0x1000);
    }
    for (config, cycles) in [(PipelineConfig::default(), 8), (with_buffer(1 << 10, 1), 4)] {
        let narrow = PipelineConfig { decode_width: 2, ..config };
        let stages = run(&narrow, &program.ops, &mut Simple::new(100));
        assert_eq!(stages[16 * 150].commit - stages[16 * 50].commit, 100 * cycles);
    }
}

/// Half of a loop that is twice the buffer size comes from the cache, in groups of its own.
#[test]
fn instructions_from_buffer_and_cache_stay_in_order() {
    let mut program = Program::new();
    for round in 0..60u64 {
        (0..6).for_each(|_| program.int(1, 0).flags = 0);
        // Each round other code in between.
        program.branch(OpClass::Jump, 0, true, 0x4000 + round * 64);
        (0..3).for_each(|_| program.int(2, 0).flags = 0);
        program.branch(OpClass::Jump, 0, true, 0x1000);
    }
    let mut core = Core::new(&with_buffer(256, 2));
    let stages = watch(&mut core, &program.ops, &mut Simple::new(100));
    assert!(
        stages.windows(2).all(|pair| pair[0].dispatch <= pair[1].dispatch && pair[0].fetch <= pair[1].fetch)
    );
    assert_books_balance(&core);
    let restored = Core::new(&with_buffer(256, 2)).restore(core.save());
    assert!(restored.is_ok());
    assert!(Core::new(&with_buffer(512, 2)).restore(core.save()).is_err(), "another size");
    assert!(Core::new(&PipelineConfig::default()).restore(core.save()).is_err(), "no buffer");
}
