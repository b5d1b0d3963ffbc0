//! Tests in the manner of a kernel that allocates vectors, and a comparison with a naive model.

use AccessSize::{B1, B2, B4, B8};
use proptest::prelude::*;

use super::*;
use crate::identity::MsiX;
use crate::testing::{everything, function};

/// Positions of the capabilities and vectors of [`everything`].
const MSI: u64 = 0x50;
const MSIX: u64 = 0x70;
const BAR: u8 = 4;
const TABLE: u64 = 0x1000;
const PENDING: u64 = 0x2000;
const VECTORS: u16 = 70;

fn space() -> ConfigSpace {
    ConfigSpace::new(everything())
}

fn with(capabilities: Vec<Capability>) -> ConfigSpace {
    ConfigSpace::new(FunctionIdentity { capabilities, ..function() })
}

fn entry(space: &mut ConfigSpace, vector: u64, message: Message, masked: bool) {
    let at = TABLE + 16 * vector;
    assert!(space.write_vectors(BAR, at, B8, message.address));
    assert!(space.write_vectors(BAR, at + 8, B4, message.data.into()));
    assert!(space.write_vectors(BAR, at + 12, B4, masked.into()));
}

#[test]
fn capabilities_are_linked_and_report_their_features() {
    let space = space();
    assert_eq!((space.read(0x34, B1), space.read(0x41, B1)), (0x40, 0x50));
    assert_eq!(space.read(MSI, B4), 0x0184_7005, "four messages requested, 64-bit addresses, masks");
    assert_eq!(space.read(MSIX, B4), 0x0045_0011, "70 vectors");
    assert_eq!((space.read(MSIX + 4, B4), space.read(MSIX + 8, B4)), (0x1004, 0x2004));
    let narrow = Capability::Msi { offset: 0x40, messages: 32, wide: false, masks: false };
    assert_eq!((with(vec![narrow]).read(0x40, B4), narrow.bytes()), (0x000a_0005, 10));
}

#[test]
fn messages_replace_the_pin_when_enabled() {
    let mut all = space();
    all.set_interrupt(true);
    all.write(MSI + 4, B8, 0x0000_0001_fee0_0123);
    all.write(MSI + 12, B2, 0x4041);
    assert_eq!((all.raise(1), all.interrupt_line()), (None, true));
    assert!(all.write(MSI + 2, B2, 0xffff).interrupt_changed);
    assert!(!all.interrupt_line());
    assert_eq!(all.read(MSI + 2, B2), 0x01a5, "only the four requested messages are allocated");
    let message = |data| Some(Message { address: 0x1_fee0_0120, data });
    assert_eq!([0, 1, 3, 6].map(|vector| all.raise(vector)), [0x4040, 0x4041, 0x4043, 0x4042].map(message));
    all.write(MSI + 2, B2, 1);
    assert_eq!(all.raise(3), message(0x4041), "with one message allocated, all vectors share it");
    assert!(all.write(MSIX + 2, B2, 0x8000).interrupt_changed == all.interrupt_line());
    assert_eq!(all.raise(0), None, "MSI-X is used, and its vectors are masked");
}

#[test]
fn the_interrupt_disable_bit_affects_only_the_pin() {
    let mut all = space();
    all.write(0x04, B2, 0x0406);
    all.write(MSIX + 2, B2, 0x8000);
    entry(&mut all, 5, Message { address: 0x8000_0000, data: 7 }, false);
    assert_eq!(all.raise(5), Some(Message { address: 0x8000_0000, data: 7 }));
}

#[test]
fn a_masked_vector_is_pending_until_it_is_unmasked_or_withdrawn() {
    let mut all = space();
    let message = Message { address: 0x8000_1000, data: 0xdead_beef };
    all.write(MSIX + 2, B2, 0x8000);
    entry(&mut all, 66, message, true);
    assert_eq!((all.raise(66), all.due_message()), (None, None));
    assert_eq!(all.read_vectors(BAR, PENDING + 8, B8), Some(4), "the second quadword");
    assert!(all.write_vectors(BAR, PENDING + 8, B8, 0), "the pending bits are read-only");
    assert_eq!(all.read_vectors(BAR, PENDING + 8, B1), Some(4));
    all.write(MSIX + 2, B2, 0xc000);
    assert!(all.write_vectors(BAR, TABLE + 16 * 66 + 12, B1, 0));
    assert_eq!(all.due_message(), None, "the whole function is masked");
    all.write(MSIX + 2, B2, 0x8000);
    assert_eq!([all.due_message(), all.due_message()], [Some(message), None]);
    all.write(MSIX + 2, B2, 0xc000);
    assert_eq!(all.raise(66), None);
    all.withdraw(66);
    all.write(MSIX + 2, B2, 0x8000);
    assert_eq!((all.due_message(), all.read_vectors(BAR, PENDING + 8, B8)), (None, Some(0)));
}

#[test]
fn msi_masks_and_pending_bits_follow_its_data_register() {
    for (wide, mask) in [(true, 0x10), (false, 0x0c)] {
        let mut space = with(vec![Capability::Msi { offset: 0x40, messages: 2, wide, masks: true }]);
        space.write(0x40 + mask, B4, u64::MAX);
        assert_eq!(space.read(0x40 + mask, B4), 3);
        space.write(0x42, B2, 0x11);
        assert_eq!((space.raise(1), space.read(0x44 + mask, B4)), (None, 2));
        space.write(0x44 + mask, B4, 0);
        assert_eq!(space.read(0x44 + mask, B1), 2, "software cannot clear a pending bit");
        space.write(0x40 + mask, B4, 1);
        assert_eq!(space.due_message().map(|message| message.data), Some(1));
        assert_eq!((space.due_message(), space.read(0x44 + mask, B4)), (None, 0));
        space.write(0x40 + mask, B4, 3);
        space.raise(0);
        space.withdraw(0);
        assert_eq!(space.read(0x44 + mask, B4), 0);
    }
}

#[test]
fn a_reset_masks_every_vector_and_clears_pending_bits() {
    let mut all = space();
    all.write(MSIX + 2, B2, 0x8000);
    all.raise(3);
    entry(&mut all, 9, Message { address: 1 << 40, data: 9 }, false);
    all.reset();
    assert_eq!(all.save_messages(), space().save_messages());
    all.write(MSIX + 2, B2, 0x8000);
    assert_eq!((all.due_message(), all.raise(9)), (None, None));
}

#[test]
fn accesses_outside_table_and_pending_bits_go_to_the_device() {
    let mut all = space();
    let end = TABLE + 16 * u64::from(VECTORS);
    for (bar, offset) in [(BAR, TABLE - 1), (BAR, end), (BAR, PENDING - 4), (BAR, PENDING + 16), (3, TABLE)] {
        assert_eq!(all.read_vectors(bar, offset, B4), None);
        assert!(!all.write_vectors(bar, offset, B4, 1));
    }
    assert!(all.write_vectors(BAR, end - 4, B8, u64::MAX), "bytes beyond the end are ignored");
    assert_eq!(all.read_vectors(BAR, end - 4, B8), Some(0xffff_ffff));
    assert_eq!(ConfigSpace::new(function()).read_vectors(0, 0, B4), None);
}

#[test]
fn saved_messages_restore_only_to_a_function_with_the_same_vectors() {
    let mut all = space();
    all.write(MSIX + 2, B2, 0x8000);
    all.raise(69);
    let state = all.save_messages().unwrap();
    let mut copy = space();
    copy.restore(all.save()).unwrap();
    copy.restore_messages(state.clone()).unwrap();
    entry(&mut copy, 69, Message { address: 0, data: 1 }, false);
    assert_eq!(copy.due_message(), Some(Message { address: 0, data: 1 }));
    for spoil in [
        |state: &mut MessagesState| state.pending[1] |= 1 << 6,
        |state: &mut MessagesState| state.msi = 1 << 4,
        |state: &mut MessagesState| state.table.truncate(16),
        |state: &mut MessagesState| state.pending.push(0),
    ] {
        let mut invalid = state.clone();
        spoil(&mut invalid);
        assert!(space().restore_messages(invalid).is_err());
    }
    assert_eq!(ConfigSpace::new(function()).save_messages(), None);
    assert!(ConfigSpace::new(function()).restore_messages(state).is_err());
}

#[test]
fn msix_structures_outside_their_registers_are_invalid() {
    let msix = MsiX { offset: 0x70, vectors: 256, table: (0, 0), pending: (0, 4096) };
    let problem = |msix| {
        FunctionIdentity { capabilities: vec![Capability::MsiX(msix)], ..function() }.problem().is_some()
    };
    assert!(!problem(msix));
    for wrong in [
        MsiX { pending: (0, 4088), ..msix },
        MsiX { table: (0, 4100), ..msix },
        MsiX { table: (0, (128 << 10) - 4088), ..msix },
        MsiX { pending: (1, 0), ..msix },
        MsiX { pending: (9, 0), ..msix },
        MsiX { vectors: 0, ..msix },
        MsiX { vectors: 2049, ..msix },
    ] {
        assert!(problem(wrong), "{wrong:?}");
    }
    let msi = |messages| {
        let msi = Capability::Msi { offset: 0x40, messages, wide: true, masks: true };
        FunctionIdentity { capabilities: vec![msi], ..function() }.problem().is_some()
    };
    assert_eq!([0, 1, 3, 32, 64].map(msi), [true, false, true, false, true]);
}

/// Actions of a driver and a device on vectors.
#[derive(Clone, Debug)]
enum Step {
    MsiX { enabled: bool, masked: bool },
    Mask { vector: u16, masked: bool },
    Raise(u16),
    Withdraw(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let vector = 0..VECTORS;
    prop_oneof![
        any::<(bool, bool)>().prop_map(|(enabled, masked)| Step::MsiX { enabled, masked }),
        (vector.clone(), any::<bool>()).prop_map(|(vector, masked)| Step::Mask { vector, masked }),
        vector.clone().prop_map(Step::Raise),
        vector.prop_map(Step::Withdraw),
    ]
}

proptest! {
    #[test]
    fn each_raised_vector_is_sent_once_pending_or_withdrawn(steps in prop::collection::vec(step(), 1..120)) {
        let mut space = space();
        for vector in 0..u64::from(VECTORS) {
            entry(&mut space, vector, Message { address: 0, data: vector as u32 }, true);
        }
        let (mut pending, mut masks) = ([false; VECTORS as usize], [true; VECTORS as usize]);
        let (mut on, mut all_masked) = (false, false);
        for step in steps {
            let mut sent = Vec::new();
            match step {
                Step::MsiX { enabled, masked } => {
                    (on, all_masked) = (enabled, masked);
                    space.write(MSIX + 2, B2, u64::from(enabled) << 15 | u64::from(masked) << 14);
                }
                Step::Mask { vector, masked } => {
                    masks[usize::from(vector)] = masked;
                    space.write_vectors(BAR, TABLE + 16 * u64::from(vector) + 12, B4, masked.into());
                }
                Step::Raise(vector) => {
                    pending[usize::from(vector)] |= on;
                    sent.extend(space.raise(vector));
                }
                Step::Withdraw(vector) => {
                    pending[usize::from(vector)] = false;
                    space.withdraw(vector);
                }
            }
            sent.extend(std::iter::from_fn(|| space.due_message()));
            let is_due = |vector: &usize| on && !all_masked && pending[*vector] && !masks[*vector];
            let due: Vec<usize> = (0..usize::from(VECTORS)).filter(is_due).collect();
            due.iter().for_each(|vector| pending[*vector] = false);
            prop_assert_eq!(sent.iter().map(|message| message.data as usize).collect::<Vec<_>>(), due);
            for (vector, pending) in pending.iter().enumerate() {
                let byte = space.read_vectors(BAR, PENDING + vector as u64 / 8, B1).unwrap();
                prop_assert_eq!(byte >> (vector % 8) & 1 != 0, *pending);
            }
        }
    }
}
