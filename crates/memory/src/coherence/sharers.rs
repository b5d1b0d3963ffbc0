//! Which harts' caches have a line: one bit a hart, for each line of RAM.
//!
//! It is what the private caches' tags say, kept the other way round, so that nobody has to look into all of them. Nothing is simulated by
//! it: what hardware knows, and how much of it, says [`super::directory`].

use crate::system::Private;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sharers {
    /// Pages of which no line is in a private cache stay unallocated.
    of: Vec<u64>,
}

impl Sharers {
    /// Nobody has any of so many lines.
    pub fn new(lines: u32) -> Sharers {
        Sharers { of: vec![0; lines as usize] }
    }

    /// The harts that have a line, a bit each.
    #[inline]
    pub fn of(&self, line: u32) -> u64 {
        self.of[line as usize]
    }

    /// A hart has a line now.
    #[inline]
    pub fn add(&mut self, line: u32, hart: usize) {
        self.of[line as usize] |= 1 << hart;
    }

    /// A hart has it no more. Returns whether nobody has.
    #[inline]
    pub fn remove(&mut self, line: u32, hart: usize) -> bool {
        let of = &mut self.of[line as usize];
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

    /// Every line that somebody has.
    pub fn lines(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.of).filter(|(_, of)| **of != 0).map(|(line, _)| line)
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
