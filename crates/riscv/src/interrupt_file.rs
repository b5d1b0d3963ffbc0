//! An IMSIC interrupt file: pending and enable bits of the message-signalled interrupts of one privilege
//! level.
//!
//! Document: The RISC-V Advanced Interrupt Architecture 1.0, chapter "Incoming MSI Controller (IMSIC)".
//! Modelled: 255 identities, as in QEMU's `virt`, with pending and enable bits, threshold, and delivery
//! enable. Not modelled: the optional delivery from a PLIC or APLIC through the file, and guest interrupt
//! files of the hypervisor extension.

use serde::{Deserialize, Serialize};

/// The highest identity; the lowest is 1.
pub const IDENTITIES: u32 = 255;
const WORDS: usize = (IDENTITIES as usize + 1) / 64;
/// Register numbers in `miselect` and `siselect`.
const DELIVERY: u64 = 0x70;
const THRESHOLD: u64 = 0x72;
const PENDING: u64 = 0x80;
const ENABLED: u64 = 0xc0;
const LAST: u64 = 0xff;

/// An interrupt file of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLevel {
    /// The machine-mode file, which drives MEIP.
    Machine,
    /// The supervisor-mode file, which drives SEIP.
    Supervisor,
}

/// An interrupt file, which is also its saved form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InterruptFile {
    delivery: bool,
    threshold: u32,
    pending: [u64; WORDS],
    enabled: [u64; WORDS],
}

impl InterruptFile {
    /// Sets an identity pending. An identity that does not exist is ignored.
    pub fn receive(&mut self, identity: u32) -> bool {
        let exists = (1..=IDENTITIES).contains(&identity);
        if exists {
            self.pending[identity as usize / 64] |= 1 << (identity % 64);
        }
        exists
    }

    /// The pending and enabled identity with the highest priority (the lowest number), if it is below the
    /// threshold; 0 if there is none.
    pub fn top(&self) -> u32 {
        for word in 0..WORDS {
            let both = self.pending[word] & self.enabled[word];
            if both != 0 {
                let identity = 64 * word as u32 + both.trailing_zeros();
                return if self.threshold == 0 || identity < self.threshold { identity } else { 0 };
            }
        }
        0
    }

    /// Clears the pending bit of the top interrupt.
    pub fn claim(&mut self) {
        let top = self.top();
        self.pending[top as usize / 64] &= !(1 << (top % 64));
    }

    /// Whether the hart's external interrupt is raised.
    pub fn signals(&self) -> bool {
        self.delivery && self.top() != 0
    }

    /// Reads a register; `None` if it does not exist (odd array registers on RV64).
    pub fn register(&self, select: u64) -> Option<u64> {
        let word = |first: u64| ((select - first) / 2) as usize;
        match select {
            DELIVERY => Some(self.delivery.into()),
            THRESHOLD => Some(self.threshold.into()),
            0x71..PENDING => Some(0),
            PENDING..=LAST if !select.is_multiple_of(2) => None,
            PENDING..ENABLED => Some(self.pending.get(word(PENDING)).copied().unwrap_or(0)),
            ENABLED..=LAST => Some(self.enabled.get(word(ENABLED)).copied().unwrap_or(0)),
            _ => None,
        }
    }

    /// Writes a register; bits without an identity stay zero.
    pub fn set_register(&mut self, select: u64, value: u64) {
        let word = |first: u64| ((select - first) / 2) as usize;
        let (bits, word) = match select {
            DELIVERY => return self.delivery = value & 1 != 0,
            THRESHOLD => return self.threshold = value as u32 & IDENTITIES,
            PENDING..ENABLED => (&mut self.pending, word(PENDING)),
            ENABLED..=LAST => (&mut self.enabled, word(ENABLED)),
            _ => return,
        };
        if let Some(bits) = bits.get_mut(word) {
            // There is no identity 0.
            *bits = if word == 0 { value & !1 } else { value };
        }
    }

    /// Whether this is a valid state.
    pub fn is_valid(&self) -> bool {
        (self.pending[0] | self.enabled[0]) & 1 == 0 && self.threshold <= IDENTITIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delivering file with these identities enabled.
    fn file(enabled: &[u32]) -> InterruptFile {
        let mut file = InterruptFile::default();
        file.set_register(DELIVERY, 1);
        for identity in enabled {
            let select = ENABLED + 2 * u64::from(identity / 64);
            let old = file.register(select).unwrap();
            file.set_register(select, old | 1 << (identity % 64));
        }
        file
    }

    #[test]
    fn top_is_the_lowest_pending_enabled_identity_and_claim_clears_only_it() {
        let mut file = file(&[1, 63, 64, 255]);
        for identity in [255, 64, 2, 63] {
            assert!(file.receive(identity));
        }
        for expected in [63, 64, 255] {
            assert_eq!((file.top(), file.signals()), (expected, true));
            file.claim();
        }
        assert_eq!((file.top(), file.signals()), (0, false));
        file.claim();
        assert_eq!(file.register(PENDING), Some(1 << 2), "a disabled identity stays pending");
    }

    #[test]
    fn identities_that_do_not_exist_are_ignored() {
        let mut file = file(&[1]);
        assert!(![0, 256, 257, u32::MAX].into_iter().any(|identity| file.receive(identity)));
        for register in [PENDING, ENABLED] {
            file.set_register(register, u64::MAX);
            assert_eq!(file.register(register), Some(u64::MAX - 1));
            // Past the last identity.
            file.set_register(register + 8, u64::MAX);
            assert_eq!(file.register(register + 8), Some(0));
        }
    }

    #[test]
    fn a_threshold_passes_only_lower_identities() {
        let mut file = file(&[7, 8]);
        file.receive(8);
        for (threshold, top) in [(0, 8), (8, 0), (9, 8), (255, 8), (1, 0)] {
            file.set_register(THRESHOLD, threshold);
            assert_eq!((file.top(), file.signals()), (top, top != 0), "threshold {threshold}");
        }
        file.receive(7);
        file.set_register(THRESHOLD, 8);
        assert_eq!(file.top(), 7);
        file.claim();
        assert_eq!(file.top(), 0);
        assert_eq!(file.register(PENDING), Some(1 << 8), "a claim without a top interrupt clears nothing");
    }

    #[test]
    fn delivery_gates_the_signal_but_not_the_top() {
        let mut file = file(&[5]);
        file.receive(5);
        file.set_register(DELIVERY, 0);
        assert_eq!((file.top(), file.signals()), (5, false));
        // Optional delivery modes that this file does not implement.
        file.set_register(DELIVERY, 0x4000_0000);
        assert_eq!((file.register(DELIVERY), file.signals()), (Some(0), false));
    }

    #[test]
    fn a_state_with_nonexistent_identities_is_invalid() {
        let valid = |change: fn(&mut InterruptFile)| {
            let mut file = InterruptFile::default();
            change(&mut file);
            file.is_valid()
        };
        assert!(valid(|file| (file.pending[3], file.threshold) = (u64::MAX, IDENTITIES)));
        assert!(!valid(|file| file.pending[0] = 1));
        assert!(!valid(|file| file.enabled[0] = 1));
        assert!(!valid(|file| file.threshold = IDENTITIES + 1));
    }

    #[test]
    fn odd_array_registers_do_not_exist_and_reserved_ones_read_zero() {
        let mut file = file(&[5]);
        for select in (0x71..0x80).filter(|select| *select != THRESHOLD) {
            file.set_register(select, u64::MAX);
            assert_eq!(file.register(select), Some(0), "{select:#x}");
        }
        for select in 0x80..=0xff {
            assert_eq!(file.register(select).is_some(), select.is_multiple_of(2), "{select:#x}");
        }
        assert_eq!((file.register(0x6f), file.register(0x100)), (None, None));
    }
}
