//! Properties of every valid configuration and every op stream.

use crate::common::{Simple, assert_books_balance_but, random_config, random_ops, watch};
use doorbell_core::{
    Core, CoreKind, CoreState, DirectionPredictor, MemoryDependence, PipelineConfig, StoreDrain,
};
use doorbell_sim::memory::Walk;
use doorbell_sim::rng::Rng;
use doorbell_sim::stats::Stats;
use doorbell_sim::{CoreCycle, PhysAddr};
use proptest::prelude::*;

/// Any valid configuration.
fn any_config(seed: u64) -> PipelineConfig {
    let mut rng = Rng::stream(seed, "configuration");
    let mut config = random_config(&mut rng);
    let mut choose = |choices: u64| rng.below(choices);
    config.kind = [CoreKind::OutOfOrder, CoreKind::InOrder][choose(2) as usize];
    config.memory_dependence =
        [MemoryDependence::StoreSets, MemoryDependence::Wait, MemoryDependence::Perfect][choose(3) as usize];
    config.store_drain = [StoreDrain::InOrder, StoreDrain::OutOfOrder][choose(2) as usize];
    config.store_sets = 16 << choose(4);
    config.branch.direction =
        [DirectionPredictor::Bimodal, DirectionPredictor::BiMode, DirectionPredictor::Tage]
            [choose(3) as usize];
    config.branch.tage_tables = 2 + choose(11) as u32;
    config.branch.tage_history_max = 65 + choose(416) as u32;
    config.branch.tage_tag_bits = 6 + choose(10) as u32;
    config.branch.btb_entries = 16 << choose(6);
    config.branch.btb_ways = 1 << choose(5);
    config.branch.btb_set_shift = choose(7) as u32;
    config.branch.indirect_entries = [0, 16, 512][choose(3) as usize];
    config.branch.return_stack = 1 + choose(20) as u32;
    config.tlb.data_ways = 1 + choose(4) as u32;
    config.tlb.data_entries = config.tlb.data_ways << choose(4);
    config.tlb.instruction_ways = 1 + choose(3) as u32;
    config.tlb.instruction_entries = config.tlb.instruction_ways;
    config.tlb.second_entries = [0, 16][choose(2) as usize];
    config.tlb.walkers = 1 + choose(3) as u32;
    config.tlb.walk_cache = choose(5) as u32;
    config.units.divide_interval = 1 + choose(200) as u32;
    config.validate().unwrap();
    config
}

fn memory(seed: u64) -> Simple {
    let entries = [0x20000, 0x30000, 0x41100, 0, 0].map(PhysAddr);
    let walk =
        Walk { entries, levels: (seed % 4) as u8, page_bytes: 4096 << (seed % 3 * 9), ..Walk::default() };
    Simple { walk, ..Simple::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn stages_are_in_order_and_the_accounts_balance(seed in any::<u64>()) {
        let config = any_config(seed);
        let ops = random_ops(&mut Rng::stream(seed, "ops"), 300, true);
        let mut core = Core::new(&config);
        let mut memory = memory(seed);
        let mut rng = Rng::stream(seed, "interruptions");
        let (mut commit, mut dispatch, mut before, mut untimed) =
            (CoreCycle::ZERO, CoreCycle::ZERO, core.stats(), 0);
        for chunk in ops.chunks(1 + rng.below(60) as usize) {
            for stages in watch(&mut core, chunk, &mut memory) {
                prop_assert!(stages.fetch < stages.decode && stages.decode < stages.rename);
                prop_assert!(stages.rename < stages.dispatch && stages.dispatch <= stages.issue);
                prop_assert!(stages.issue <= stages.complete);
                prop_assert!(stages.commit > stages.complete || config.kind == CoreKind::InOrder);
                prop_assert!(stages.commit >= commit && stages.dispatch >= dispatch);
                (commit, dispatch) = (stages.commit, stages.dispatch);
            }
            prop_assert_eq!(core.now(), commit);
            match rng.below(7) {
                0 => core.trap(),
                1 => {
                    core.skip_to(commit + rng.below(5000));
                    commit = core.now();
                }
                2 => {
                    core.skip_untimed_to(commit + rng.below(5000));
                    untimed += core.now() - commit;
                    commit = core.now();
                }
                6 => core.flush_tlb(None, None),
                3 => core.set_address_space([None, Some(0), Some(1)][rng.below(3) as usize]),
                _ => {}
            }
            assert_books_balance_but(&core, untimed);
            // Counters only grow: `since` would overflow.
            let now = core.stats();
            let part = now.since(&before);
            let slots = part.books.top_down().total() + part.books.slots_idle;
            prop_assert_eq!(slots, u64::from(config.slots()) * part.books.slot_cycles);
            before = now;
        }
        prop_assert_eq!(core.stats().counts.ops, ops.len() as u64);
    }

    #[test]
    fn a_restored_core_continues_identically(seed in any::<u64>(), cut in 0usize..300) {
        let config = any_config(seed);
        let ops = random_ops(&mut Rng::stream(seed, "ops"), 300, true);
        let mut memory = memory(seed);
        let mut core = Core::new(&config);
        core.execute(&ops[..cut], &mut memory);
        let bytes = postcard::to_stdvec(&core.save()).unwrap();
        let mut other = Core::new(&config);
        other.restore(postcard::from_bytes::<CoreState>(&bytes).unwrap()).unwrap();
        let rest = [watch(&mut core, &ops[cut..], &mut memory), watch(&mut other, &ops[cut..], &mut memory)];
        prop_assert_eq!(&rest[0], &rest[1]);
        prop_assert_eq!(core.stats(), other.stats());
        let saved = [postcard::to_stdvec(&core.save()).unwrap(), postcard::to_stdvec(&other.save()).unwrap()];
        prop_assert!(saved[0] == saved[1]);
    }

    #[test]
    fn a_corrupt_state_is_rejected_or_harmless(seed in any::<u64>(), place in any::<prop::sample::Index>(), value in any::<u8>()) {
        let config = any_config(seed % 16);
        let ops = random_ops(&mut Rng::stream(seed, "ops"), 200, true);
        let mut memory = memory(seed);
        let mut core = Core::new(&config);
        core.execute(&ops, &mut memory);
        let mut bytes = postcard::to_stdvec(&core.save()).unwrap();
        let place = place.index(bytes.len());
        bytes[place] = value;
        let Ok(state) = postcard::from_bytes::<CoreState>(&bytes) else { return Ok(()) };
        let mut other = Core::new(&config);
        if other.restore(state).is_ok() {
            other.execute(&ops, &mut memory);
        }
    }
}

#[test]
fn a_state_of_another_core_is_rejected() {
    let one = PipelineConfig::default();
    let mut core = Core::new(&one);
    let others = [
        PipelineConfig { rob: 64, ..one.clone() },
        PipelineConfig { kind: CoreKind::InOrder, ..one.clone() },
        PipelineConfig { dispatch_width: 3, ..one.clone() },
    ];
    for other in others {
        let error = core.restore(Core::new(&other).save()).unwrap_err();
        assert!(error.contains("another"), "{error}");
    }
    core.restore(Core::new(&one).save()).unwrap();
}
