//! Tests from a driver's view, and a comparison with a naive model.

use super::*;
use AccessSize::{B1, B4, B8};
use proptest::prelude::*;

const CLAIM_S: u64 = 0x20_1004;

fn plic() -> Plic {
    Plic::new(1)
}

fn set(plic: &mut Plic, offset: u64, value: u32) -> bool {
    plic.write(offset, B4, u64::from(value))
}

fn get(plic: &mut Plic, offset: u64) -> u32 {
    plic.read(offset, B4) as u32
}

/// Enables sources 10 and 33 for supervisor mode of hart 0.
fn with_two_sources() -> Plic {
    let mut plic = plic();
    for source in [10, 33] {
        set(&mut plic, source * 4, 1);
    }
    set(&mut plic, 0x2080, 1 << 10);
    set(&mut plic, 0x2084, 1 << 1);
    plic
}

#[test]
fn an_interrupt_is_raised_claimed_and_completed() {
    let mut plic = with_two_sources();
    assert!(plic.set_level(10, true));
    assert!(plic.take_lines_changed() && !plic.take_lines_changed());
    assert!(plic.line(1) && !plic.line(0));
    assert_eq!(get(&mut plic, 0x1000), 1 << 10);
    assert_eq!(get(&mut plic, CLAIM_S), 10);
    assert!(!plic.line(1));
    assert_eq!(get(&mut plic, 0x1000), 0);
    plic.set_level(10, false);
    assert!(!set(&mut plic, CLAIM_S, 10));
    assert_eq!(get(&mut plic, CLAIM_S), 0);
    assert_eq!((plic.stats.claims, plic.stats.empty_claims), (1, 1));
}

#[test]
fn a_level_that_is_still_high_on_completion_interrupts_again() {
    let mut plic = with_two_sources();
    plic.set_level(33, true);
    assert_eq!(get(&mut plic, CLAIM_S), 33);
    plic.set_level(33, false);
    plic.set_level(33, true);
    assert!(!plic.line(1), "the gateway is closed until completion");
    assert!(set(&mut plic, CLAIM_S, 33));
    assert!(plic.line(1));
}

#[test]
fn a_request_stays_pending_although_its_level_falls() {
    let mut plic = with_two_sources();
    plic.set_level(10, true);
    assert!(!plic.set_level(10, false));
    assert_eq!(get(&mut plic, CLAIM_S), 10);
}

#[test]
fn the_highest_priority_is_claimed_first_and_among_equals_the_lowest_number() {
    let mut plic = with_two_sources();
    plic.set_level(33, true);
    plic.set_level(10, true);
    set(&mut plic, 33 * 4, 2);
    assert_eq!(get(&mut plic, CLAIM_S), 33);
    assert_eq!(get(&mut plic, CLAIM_S), 10);
    for source in [33, 10] {
        set(&mut plic, CLAIM_S, source);
    }
    set(&mut plic, 10 * 4, 2);
    assert_eq!(get(&mut plic, CLAIM_S), 10);
}

#[test]
fn a_threshold_masks_priorities_up_to_its_value_but_not_the_claim() {
    let mut plic = with_two_sources();
    set(&mut plic, 10 * 4, 3);
    plic.set_level(10, true);
    assert!(set(&mut plic, 0x20_1000, 3));
    assert!(!plic.line(1));
    assert!(set(&mut plic, 0x20_1000, 2));
    assert!(plic.line(1));
    set(&mut plic, 0x20_1000, 7);
    assert_eq!(get(&mut plic, CLAIM_S), 10);
}

#[test]
fn priority_zero_never_interrupts() {
    let mut plic = with_two_sources();
    set(&mut plic, 10 * 4, 0);
    plic.set_level(10, true);
    assert!(!plic.line(1));
    assert_eq!(get(&mut plic, CLAIM_S), 0);
    assert!(set(&mut plic, 10 * 4, 1), "a nonzero priority raises the line");
}

#[test]
fn completing_a_source_that_is_not_enabled_or_claimed_is_ignored() {
    let mut plic = with_two_sources();
    plic.set_level(10, true);
    assert_eq!(get(&mut plic, CLAIM_S), 10);
    set(&mut plic, 0x2080, 0);
    for source in [10, 33, 0, 96, 127, 128, u32::MAX] {
        set(&mut plic, CLAIM_S, source);
    }
    assert_eq!(plic.stats.odd_completions, 7);
    set(&mut plic, 0x2080, 1 << 10);
    assert!(!plic.line(1), "source 10 is still in service");
    set(&mut plic, CLAIM_S, 10);
    assert!(plic.line(1));
}

#[test]
fn registers_keep_only_implemented_bits() {
    let mut plic = plic();
    for (offset, expected) in [
        (0, 0),
        (4, 7),
        (95 * 4, 7),
        (0x1000, 0),
        (0x2000, 0xffff_fffe),
        (0x2008, 0xffff_ffff),
        (0x200c, 0),
        (0x20_0000, 7),
    ] {
        set(&mut plic, offset, u32::MAX);
        assert_eq!(get(&mut plic, offset), expected, "{offset:#x}");
    }
    assert_eq!(plic.stats.undefined_accesses, 0);
}

#[test]
fn undefined_accesses_are_counted() {
    let mut plic = plic();
    for (offset, size) in [
        (96 * 4, B4),
        (0x1010, B4),
        (0x2100, B4),
        (0x2010, B4),
        (0x20_2000, B4),
        (0x20_0008, B4),
        (4, B8),
        (4, B1),
    ] {
        assert_eq!(plic.read(offset, size), 0);
        assert!(!plic.write(offset, size, u64::MAX));
    }
    assert_eq!(plic.stats.undefined_accesses, 16);
}

#[test]
fn a_saved_state_of_another_size_is_refused() {
    let mut plic = with_two_sources();
    plic.set_level(10, true);
    let state: Plic = postcard::from_bytes(&postcard::to_stdvec(&plic).unwrap()).unwrap();
    assert!(Plic::new(2).restore(state.clone()).is_err());
    let mut strange = state.clone();
    strange.pending[3] = 1 << 31;
    let mut copy = self::plic();
    assert!(copy.restore(strange).is_err());
    copy.restore(state).unwrap();
    assert!(copy.line(1));
    assert_eq!(get(&mut copy, CLAIM_S), 10);
}

/// The specification, one source and one context at a time, without cached state.
struct NaiveModel {
    priority: [u8; 128],
    level: [bool; 128],
    pending: [bool; 128],
    claimed: [bool; 128],
    enable: [[bool; 128]; 4],
    threshold: [u8; 4],
}

impl NaiveModel {
    fn gateways(&mut self) {
        for s in 1..=95 {
            self.pending[s] |= self.level[s] && !self.claimed[s];
        }
    }
    fn top(&self, context: usize) -> usize {
        let able = |s: &usize| self.pending[*s] && self.enable[context][*s] && self.priority[*s] > 0;
        (1..=95).filter(able).max_by_key(|s| (self.priority[*s], 1000 - s)).unwrap_or(0)
    }
    fn line(&self, context: usize) -> bool {
        let top = self.top(context);
        top != 0 && self.priority[top] > self.threshold[context]
    }
}

#[derive(Clone, Debug)]
enum Step {
    Level(u32, bool),
    Priority(u32, u32),
    Enable(usize, u32, bool),
    Threshold(usize, u32),
    Claim(usize),
    Complete(usize, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few sources, so that steps often affect the same ones.
    let source = prop::sample::select(vec![1u32, 10, 11, 31, 32, 33, 94, 95]);
    let step = prop_oneof![
        (source.clone(), any::<bool>()).prop_map(|(s, l)| Step::Level(s, l)),
        (source.clone(), 0u32..9).prop_map(|(s, p)| Step::Priority(s, p)),
        (0usize..4, source.clone(), any::<bool>()).prop_map(|(c, s, e)| Step::Enable(c, s, e)),
        (0usize..4, 0u32..9).prop_map(|(c, t)| Step::Threshold(c, t)),
        (0usize..4).prop_map(Step::Claim),
        (0usize..4, source).prop_map(|(c, s)| Step::Complete(c, s)),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn the_plic_agrees_with_a_naive_model(steps in steps()) {
        let mut plic = Plic::new(2);
        let none = [false; 128];
        let mut naive = NaiveModel {
            priority: [0; 128], level: none, pending: none, claimed: none, enable: [none; 4], threshold: [0; 4],
        };
        for step in steps {
            let before: Vec<bool> = (0..4).map(|c| naive.line(c)).collect();
            match step {
                Step::Level(s, level) => {
                    plic.set_level(s, level);
                    naive.level[s as usize] = level;
                }
                Step::Priority(s, p) => {
                    set(&mut plic, u64::from(s) * 4, p);
                    naive.priority[s as usize] = (p % 8) as u8;
                }
                Step::Enable(c, s, on) => {
                    let offset = 0x2000 + c as u64 * 0x80 + u64::from(s / 32) * 4;
                    let old = get(&mut plic, offset);
                    set(&mut plic, offset, if on { old | 1 << (s % 32) } else { old & !(1 << (s % 32)) });
                    naive.enable[c][s as usize] = on;
                }
                Step::Threshold(c, t) => {
                    set(&mut plic, 0x20_0000 + c as u64 * 0x1000, t);
                    naive.threshold[c] = (t % 8) as u8;
                }
                Step::Claim(c) => {
                    let top = naive.top(c);
                    prop_assert_eq!(get(&mut plic, 0x20_0004 + c as u64 * 0x1000) as usize, top);
                    if top != 0 {
                        naive.pending[top] = false;
                        naive.claimed[top] = true;
                    }
                }
                Step::Complete(c, s) => {
                    set(&mut plic, 0x20_0004 + c as u64 * 0x1000, s);
                    if naive.enable[c][s as usize] {
                        naive.claimed[s as usize] = false;
                    }
                }
            }
            naive.gateways();
            let after: Vec<bool> = (0..4).map(|c| naive.line(c)).collect();
            prop_assert_eq!((0..4).map(|c| plic.line(c)).collect::<Vec<_>>(), after.clone());
            prop_assert_eq!(plic.take_lines_changed(), before != after);
        }
    }
}
