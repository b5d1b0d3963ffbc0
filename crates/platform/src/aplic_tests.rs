use super::*;
use crate::map::{self, RegionId};
use DomainLevel::{Machine, Supervisor};

const B4: AccessSize = AccessSize::B4;
const DOMAINCFG: u64 = 0;
const MSIADDRCFG: u64 = 0x1bc0;
const SETIP: u64 = 0x1c00;
const SETIPNUM: u64 = 0x1cdc;
const IN_CLRIP: u64 = 0x1d00;
const CLRIPNUM: u64 = 0x1ddc;
const SETIE: u64 = 0x1e00;
const SETIENUM: u64 = 0x1edc;
const CLRIE: u64 = 0x1f00;
const CLRIENUM: u64 = 0x1fdc;
const SETIPNUM_LE: u64 = 0x2000;
const GENMSI: u64 = 0x3000;

fn sourcecfg(source: u64) -> u64 {
    4 * source
}

fn target(source: u64) -> u64 {
    GENMSI + 4 * source
}

/// An APLIC set up as by firmware: files one page apart, all sources delegated.
fn aplic() -> Aplic {
    let mut aplic = Aplic::default();
    let files = [RegionId::ImsicMachine, RegionId::ImsicSupervisor].map(|id| map::get(id).base >> 12);
    for (value, offset) in [files[0], 4 << 12, files[1], 0].into_iter().zip([0, 4, 8, 12]) {
        aplic.write(Machine, MSIADDRCFG + offset, B4, value);
    }
    for source in 1..=u64::from(APLIC_SOURCES) {
        aplic.write(Machine, sourcecfg(source), B4, 1 << 10);
    }
    aplic
}

/// Like [`aplic`], with source 10 in the supervisor's domain in this mode, enabled, with identity 77 of hart
/// 3 as target.
fn with_source(mode: u64) -> Aplic {
    let mut aplic = aplic();
    aplic.write(Supervisor, sourcecfg(10), B4, mode);
    aplic.write(Supervisor, target(10), B4, 3 << 18 | 77);
    aplic.write(Supervisor, SETIENUM, B4, 10);
    aplic.write(Supervisor, DOMAINCFG, B4, 1 << 8);
    aplic
}

const MESSAGE: AplicMessage = AplicMessage { address: 0x2800_3000, data: 77 };

#[test]
fn a_wire_change_sends_one_message_in_each_mode_and_software_can_request_another() {
    for (mode, rest) in [(4, false), (5, true), (6, false), (7, true)] {
        let mut aplic = aplic();
        aplic.set_level(10, rest);
        aplic.write(Supervisor, sourcecfg(10), B4, mode);
        aplic.write(Supervisor, target(10), B4, 3 << 18 | 77);
        aplic.write(Supervisor, SETIENUM, B4, 10);
        aplic.write(Supervisor, DOMAINCFG, B4, 1 << 8);
        assert_eq!(aplic.take_message(), None, "mode {mode}");
        for _ in 0..2 {
            aplic.set_level(10, !rest);
            assert_eq!((aplic.take_message(), aplic.take_message()), (Some(MESSAGE), None), "mode {mode}");
            assert_eq!(aplic.read(Supervisor, IN_CLRIP, B4), 1 << 10);
            // Software requests another message: always possible for an edge, and for a level while it is
            // active.
            aplic.write(Supervisor, SETIPNUM, B4, 10);
            assert_eq!(aplic.take_message(), Some(MESSAGE));
            aplic.set_level(10, rest);
            assert_eq!((aplic.take_message(), aplic.read(Supervisor, IN_CLRIP, B4)), (None, 0));
            aplic.write(Supervisor, SETIPNUM, B4, 10);
            assert_eq!(aplic.take_message(), (mode < 6).then_some(MESSAGE), "mode {mode}, wire at rest");
        }
    }
}

#[test]
fn a_falling_level_clears_its_pending_bit_but_an_edge_stays_pending() {
    for (mode, left) in [(4, 1 << 10), (6, 0)] {
        let mut aplic = with_source(mode);
        aplic.write(Supervisor, DOMAINCFG, B4, 0);
        aplic.set_level(10, true);
        assert_eq!(aplic.read(Supervisor, SETIP, B4), 1 << 10);
        aplic.set_level(10, false);
        assert_eq!(aplic.read(Supervisor, SETIP, B4), left, "mode {mode}");
    }
}

#[test]
fn a_message_needs_its_enable_bit_and_an_enabled_domain_and_can_be_cleared() {
    let mut aplic = with_source(4);
    aplic.write(Supervisor, CLRIENUM, B4, 10);
    aplic.set_level(10, true);
    assert_eq!(aplic.take_message(), None);
    aplic.write(Supervisor, SETIE, B4, 1 << 10);
    aplic.write(Supervisor, DOMAINCFG, B4, 0);
    assert_eq!(aplic.take_message(), None);
    aplic.write(Supervisor, DOMAINCFG, B4, u64::MAX);
    assert_eq!(aplic.read(Supervisor, DOMAINCFG, B4), 0x8000_0104);
    assert_eq!(aplic.take_message(), Some(MESSAGE));
    for (offset, value) in [(CLRIPNUM, 10), (IN_CLRIP, 1 << 10)] {
        aplic.write(Supervisor, DOMAINCFG, B4, 0);
        aplic.write(Supervisor, SETIPNUM_LE, B4, 10);
        aplic.write(Supervisor, offset, B4, value);
        aplic.write(Supervisor, DOMAINCFG, B4, 1 << 8);
        assert_eq!(aplic.take_message(), None, "{offset:#x}");
    }
    aplic.write(Supervisor, CLRIE, B4, 1 << 10);
    assert_eq!(aplic.read(Supervisor, SETIE, B4), 0);
}

#[test]
fn a_source_moves_between_domains_without_residual_state() {
    let mut aplic = with_source(6);
    aplic.set_level(10, true);
    // The root takes it back.
    aplic.write(Machine, sourcecfg(10), B4, 6);
    for offset in [sourcecfg(10), target(10), SETIP, SETIE, IN_CLRIP] {
        assert_eq!(aplic.read(Supervisor, offset, B4), 0, "{offset:#x}");
    }
    assert_eq!(aplic.read(Machine, SETIP, B4), 1 << 10, "its wire is active");
    aplic.write(Supervisor, sourcecfg(10), B4, 6);
    assert_eq!(aplic.read(Supervisor, sourcecfg(10), B4), 0, "it is not delegated to the child");
    aplic.write(Machine, target(10), B4, 2 << 18 | 5);
    aplic.write(Machine, SETIENUM, B4, 10);
    aplic.write(Machine, DOMAINCFG, B4, 1 << 8);
    assert_eq!(aplic.take_message(), Some(AplicMessage { address: 0x2400_2000, data: 5 }));
    aplic.write(Machine, sourcecfg(10), B4, 1 << 10);
    for offset in [target(10), SETIP, SETIE, IN_CLRIP] {
        assert_eq!(aplic.read(Machine, offset, B4), 0, "{offset:#x}");
    }
    // A leaf cannot delegate.
    aplic.write(Supervisor, sourcecfg(10), B4, 6);
    aplic.write(Supervisor, sourcecfg(10), B4, 1 << 10 | 6);
    assert_eq!(aplic.read(Supervisor, sourcecfg(10), B4), 0);
}

#[test]
fn a_detached_source_has_no_wire_and_an_inactive_one_ignores_writes() {
    let mut aplic = with_source(1);
    aplic.set_level(10, true);
    assert_eq!((aplic.take_message(), aplic.read(Supervisor, IN_CLRIP, B4)), (None, 0));
    aplic.write(Supervisor, SETIP, B4, u64::MAX);
    assert_eq!(aplic.take_message(), Some(MESSAGE));
    assert_eq!(aplic.take_message(), None, "no other source is active");
    for reserved in [2, 3, 0] {
        aplic.write(Supervisor, sourcecfg(10), B4, reserved);
        assert_eq!(aplic.read(Supervisor, sourcecfg(10), B4), 0);
    }
    for (offset, value) in [(SETIENUM, 10), (SETIE, 1 << 10), (SETIPNUM, 10), (target(10), 7)] {
        aplic.write(Supervisor, offset, B4, value);
    }
    for offset in [SETIE, SETIP, target(10)] {
        assert_eq!(aplic.read(Supervisor, offset, B4), 0, "{offset:#x}");
    }
}

#[test]
fn genmsi_sends_even_from_a_disabled_domain_and_after_source_messages() {
    let mut aplic = with_source(4);
    aplic.set_level(10, true);
    aplic.write(Supervisor, GENMSI, B4, 1 << 18 | 1 << 12 | 9);
    assert_eq!(aplic.read(Supervisor, GENMSI, B4), 1 << 18 | 9);
    assert_eq!(aplic.take_message(), Some(MESSAGE));
    assert_eq!(aplic.take_message(), Some(AplicMessage { address: 0x2800_1000, data: 9 }));
    assert_eq!(aplic.take_message(), None);
    aplic.write(Machine, GENMSI, B4, 6 << 18 | 2);
    assert_eq!(aplic.take_message(), Some(AplicMessage { address: 0x2400_6000, data: 2 }));
}

#[test]
fn message_addresses_combine_group_and_hart_and_can_be_locked() {
    let mut aplic = Aplic::default();
    // Base 0x5_0000_0000: two group bits at bit 30, three hart bits at bit 14 (M) and 13 (S).
    let high = 6 << 24 | 2 << 20 | 2 << 16 | 3 << 12;
    for (offset, value) in [(0, 0x50_0000), (4, high), (8, 0x60_0000), (12, 1 << 20 | 1)] {
        aplic.write(Machine, MSIADDRCFG + offset, B4, value);
        assert_eq!(aplic.read(Machine, MSIADDRCFG + offset, B4), value);
        aplic.write(Supervisor, MSIADDRCFG + offset, B4, value);
        assert_eq!(aplic.read(Supervisor, MSIADDRCFG + offset, B4), 0, "the child has none");
    }
    aplic.write(Machine, GENMSI, B4, (2 << 3 | 5) << 18 | 1);
    let address = 0x5_0000_0000 | 2 << 30 | 5 << 14;
    assert_eq!(aplic.take_message(), Some(AplicMessage { address, data: 1 }));
    aplic.write(Supervisor, GENMSI, B4, (7 << 5 | 2 << 3 | 5) << 18 | 1);
    let address = 1 << 44 | 0x6_0000_0000 | 2 << 30 | 5 << 13;
    assert_eq!(aplic.take_message(), Some(AplicMessage { address, data: 1 }));
    aplic.write(Machine, MSIADDRCFG + 4, B4, 1 << 31);
    for offset in [0, 4, 8, 12] {
        let before = aplic.read(Machine, MSIADDRCFG + offset, B4);
        aplic.write(Machine, MSIADDRCFG + offset, B4, 0);
        assert_eq!(aplic.read(Machine, MSIADDRCFG + offset, B4), before);
    }
}

#[test]
fn only_whole_register_words_are_accepted() {
    let mut aplic = with_source(4);
    for (offset, size) in
        [(0, AccessSize::B1), (0, AccessSize::B8), (2, B4), (0x1000, B4), (0x2004, B4), (0x4000, B4)]
    {
        aplic.write(Supervisor, offset, size, 0);
        assert_eq!(aplic.read(Supervisor, offset, size), 0, "{offset:#x}");
    }
    assert_eq!(aplic.stats.undefined_accesses, 12);
    assert_eq!(aplic.read(Supervisor, DOMAINCFG, B4), 0x8000_0104);
    // Sources that do not exist.
    for source in [97, 1023] {
        aplic.write(Machine, sourcecfg(source), B4, 6);
        assert_eq!(aplic.read(Machine, sourcecfg(source), B4), 0);
    }
}

#[test]
fn a_saved_aplic_continues_and_an_inconsistent_state_is_refused() {
    let mut aplic = with_source(6);
    aplic.write(Supervisor, DOMAINCFG, B4, 0);
    aplic.set_level(10, true);
    let mut other = Aplic::default();
    other.restore(aplic.clone()).unwrap();
    assert_eq!(other, aplic);
    other.write(Supervisor, DOMAINCFG, B4, 1 << 8);
    assert_eq!(other.take_message(), Some(MESSAGE));
    let changes: [fn(&mut Aplic); 9] = [
        |a| a.level[0] = 1,
        |a| a.level[WORDS - 1] = 2,
        |a| a.addresses[3] = 1 << 31,
        |a| a.domains[1].pending[0] = 1 << 11,
        |a| a.domains[0].enable[1] = 1,
        |a| a.domains[1].source[5] = 2,
        |a| a.domains[1].source[5] = DELEGATE,
        |a| a.domains[0].source[10] = 4,
        |a| a.domains[0].target.truncate(5),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut state = aplic.clone();
        change(&mut state);
        assert!(Aplic::default().restore(state).is_err(), "change {number}");
    }
}
