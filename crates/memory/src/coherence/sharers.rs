//! Sharers of each line of RAM: a bit per hart.
//!
//! An index of the private caches' tags, so that a probe need not search all of them. It models no hardware;
//! for the hardware's own record of sharers see [`super::directory`].

use crate::paged::Paged;
use crate::system::Private;

/// Sharer masks; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Sharers {
    of: Paged<u64>,
    /// Number of bits set.
    copies: u64,
}

impl Sharers {
    /// No sharers, for RAM of `lines` lines.
    pub fn new(lines: u32) -> Sharers {
        Sharers { of: Paged::new(lines as usize), copies: 0 }
    }

    /// Bit mask of the harts that have a line.
    #[inline]
    pub fn of(&self, line: u32) -> u64 {
        self.of.get(line as usize)
    }

    /// Adds a sharer.
    #[inline]
    pub fn add(&mut self, line: u32, hart: usize) {
        self.copies += 1;
        *self.of.at(line as usize) |= 1 << hart;
    }

    /// Removes a sharer. Returns whether none is left.
    #[inline]
    pub fn remove(&mut self, line: u32, hart: usize) -> bool {
        self.copies -= 1;
        let of = self.of.at(line as usize);
        *of &= !(1 << hart);
        *of == 0
    }

    /// Rebuilds the masks from the harts' tags.
    pub fn rebuild(&mut self, harts: &[Private]) {
        *self = Sharers::new(self.of.len() as u32);
        for (hart, private) in harts.iter().enumerate() {
            private.l2.tags.iter().for_each(|(_, line)| self.add(line, hart));
        }
    }

    /// Checks the masks against the harts' tags.
    pub fn check(&self, harts: &[Private]) -> Result<(), String> {
        let mut copies = 0;
        for (hart, private) in harts.iter().enumerate() {
            for (_, line) in private.l2.tags.iter() {
                copies += 1;
                if self.of(line) >> hart & 1 == 0 {
                    return Err(format!(
                        "line {line} is in a cache of hart {hart}, but not in the sharer masks"
                    ));
                }
            }
        }
        if copies != self.copies {
            return Err(format!("the sharer masks have {} copies, the private caches {copies}", self.copies));
        }
        Ok(())
    }
}

/// Indices of the set bits, in ascending order.
pub(crate) fn bits(mut of: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (of != 0).then(|| of.trailing_zeros() as usize);
        of &= of.wrapping_sub(1);
        lowest
    })
}
