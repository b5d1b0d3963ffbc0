//! Which harts' caches have a line: one bit a hart, for each line of RAM.
//!
//! It is what the private caches' tags say, kept the other way round, so that nobody has to look into all of them. Nothing is simulated by
//! it: what hardware knows, and how much of it, says [`super::directory`].

use crate::paged::Paged;
use crate::system::Private;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sharers {
    of: Paged<u64>,
    /// How many bits are set.
    copies: u64,
}

impl Sharers {
    /// Nobody has any of so many lines.
    pub fn new(lines: u32) -> Sharers {
        Sharers { of: Paged::new(lines as usize), copies: 0 }
    }

    /// The harts that have a line, a bit each.
    #[inline]
    pub fn of(&self, line: u32) -> u64 {
        self.of.get(line as usize)
    }

    /// A hart has a line now.
    #[inline]
    pub fn add(&mut self, line: u32, hart: usize) {
        self.copies += 1;
        *self.of.at(line as usize) |= 1 << hart;
    }

    /// A hart has it no more. Returns whether nobody has.
    #[inline]
    pub fn remove(&mut self, line: u32, hart: usize) -> bool {
        self.copies -= 1;
        let of = self.of.at(line as usize);
        *of &= !(1 << hart);
        *of == 0
    }

    /// As the harts' tags say.
    pub fn rebuild(&mut self, harts: &[Private]) {
        *self = Sharers::new(self.of.len() as u32);
        for (hart, private) in harts.iter().enumerate() {
            private.l2.tags.iter().for_each(|(_, line)| self.add(line, hart));
        }
    }

    /// Says what of it the harts' tags do not say. Nothing looks at lines that nobody has.
    pub fn check(&self, harts: &[Private]) -> Result<(), String> {
        let mut copies = 0;
        for (hart, private) in harts.iter().enumerate() {
            for (_, line) in private.l2.tags.iter() {
                copies += 1;
                if self.of(line) >> hart & 1 == 0 {
                    return Err(format!("line {line} is in a cache of hart {hart}, and nobody knows of it"));
                }
            }
        }
        if copies != self.copies {
            return Err(format!("{} lines are known to be in private caches, and {copies} are", self.copies));
        }
        Ok(())
    }
}

/// The numbers of the bits that are set, from the lowest on.
pub(crate) fn bits(mut of: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (of != 0).then(|| of.trailing_zeros() as usize);
        of &= of.wrapping_sub(1);
        lowest
    })
}
