//! The fast path for one hart gives the same result as checks after each block.

use super::tests::{config, folder, played, polling};
use super::*;

/// All counts of a player.
fn counted(player: &Player) -> String {
    format!("{:?}", player.played())
}

#[test]
fn skipped_checks_between_blocks_do_not_change_results() {
    let folder = folder();
    for (number, (empty, batch)) in [(0, 1), (3, 1), (2000, 1), (40, 8)].into_iter().enumerate() {
        let plan = Plan::of(polling(&folder.path().join(number.to_string()), 40, empty, batch, true));
        for set in [&[][..], &["pcie.link_latency=3us"], &["core.frequency=1GHz", "pipeline.kind=in-order"]] {
            let machine = config(set);
            let player = played(&machine, &plan);
            let mut stepped = Player::new(&machine, &plan).unwrap();
            stepped.checks_after_each_block = true;
            assert!(!stepped.run(u64::MAX).unwrap());
            assert_eq!(
                counted(&player),
                counted(&stepped),
                "{empty} empty polls, {batch} per batch, {set:?}"
            );
            // Stops at the requested instruction counts.
            let mut parts = Player::new(&machine, &plan).unwrap();
            let mut asked = 0;
            while parts.run(asked).unwrap() {
                assert!(parts.done() >= asked && parts.done() < asked + 100, "{asked}");
                asked += 777;
            }
            assert_eq!(
                counted(&parts),
                counted(&stepped),
                "{empty} empty polls, {batch} per batch, in parts"
            );
        }
    }
}
