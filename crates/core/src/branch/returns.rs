//! The return stack: a ring; deep recursion overwrites the outermost returns.

use serde::{Deserialize, Serialize};

/// The return stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReturnStack {
    addresses: Vec<u64>,
    top: u32,
}

impl ReturnStack {
    pub(super) fn new(entries: u32) -> ReturnStack {
        ReturnStack { addresses: vec![0; entries as usize], top: 0 }
    }

    pub(super) fn push(&mut self, address: u64) {
        self.top = (self.top + 1) % self.addresses.len() as u32;
        self.addresses[self.top as usize] = address;
    }

    pub(super) fn pop(&mut self) -> u64 {
        let address = self.addresses[self.top as usize];
        let entries = self.addresses.len() as u32;
        self.top = (self.top + entries - 1) % entries;
        address
    }

    pub(super) fn is_compatible(&self, fresh: &ReturnStack) -> bool {
        self.addresses.len() == fresh.addresses.len() && (self.top as usize) < self.addresses.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_keeps_the_innermost_returns() {
        let mut stack = ReturnStack::new(4);
        (1..=6).for_each(|address| stack.push(address));
        assert_eq!([0; 4].map(|_| stack.pop()), [6, 5, 4, 3]);
    }
}
