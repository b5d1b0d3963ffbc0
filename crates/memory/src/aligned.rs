//! Arrays that begin with a line of the host's memory, so that blocks of a line's length do not lie across two.

/// An array of numbers. Where it begins changes nothing but speed.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    items: Vec<T>,
    /// The first item in use.
    start: usize,
    length: usize,
    place: usize,
}

/// Bytes of a line of the host's memory.
const HOST_LINE: usize = 64;
/// Bytes of its pages.
const HOST_PAGE: usize = 4096;

impl<T: Copy> Aligned<T> {
    /// `length` items, all of them `item`, that begin in line `place` of a page of the host (64 go round). Arrays that are used
    /// one after the other at the same index begin in different ones: processors take a load for one of data that were
    /// just stored if the addresses are alike within a page, and wait.
    pub fn new(length: usize, item: T, place: usize) -> Aligned<T> {
        let items = vec![item; length + (HOST_PAGE + HOST_LINE) / size_of::<T>()];
        let first = (items.as_ptr() as usize).wrapping_neg().wrapping_add(place * HOST_LINE) % HOST_PAGE;
        Aligned { items, start: first / size_of::<T>(), length, place }
    }

    /// `count` items from `first` on.
    #[inline]
    pub fn part(&self, first: usize, count: usize) -> &[T] {
        &self.items[self.start + first..][..count]
    }

    /// The same, to change.
    #[inline]
    pub fn part_mut(&mut self, first: usize, count: usize) -> &mut [T] {
        &mut self.items[self.start + first..][..count]
    }

    /// A part whose length is known.
    #[inline(always)]
    pub fn chunk<const N: usize>(&self, first: usize) -> &[T; N] {
        self.items[self.start + first..].first_chunk().expect("there is more room than there are items")
    }

    /// The same, to change.
    #[inline(always)]
    pub fn chunk_mut<const N: usize>(&mut self, first: usize) -> &mut [T; N] {
        self.items[self.start + first..].first_chunk_mut().expect("there is more room than there are items")
    }

    /// One item.
    #[inline]
    pub fn one(&self, index: usize) -> &T {
        &self.items[self.start + index]
    }

    /// The same, to change.
    #[inline]
    pub fn one_mut(&mut self, index: usize) -> &mut T {
        &mut self.items[self.start + index]
    }

    /// Bytes on the host.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.items.len() * size_of::<T>()
    }
}

impl<T: Copy> Clone for Aligned<T> {
    fn clone(&self) -> Aligned<T> {
        let mut copy = Aligned::new(self.length, self.items[0], self.place);
        let length = self.length;
        copy.part_mut(0, length).copy_from_slice(self.part(0, length));
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_begins_at_its_place_in_a_page_of_the_host_and_so_does_its_copy() {
        for length in [0, 1, 16, 1000] {
            let mut array = Aligned::new(length, 7u32, 5);
            if length > 0 {
                *array.one_mut(length - 1) = 8;
            }
            let copy = array.clone();
            assert_eq!(copy.part(0, length), array.part(0, length));
            for array in [array, copy] {
                assert_eq!(array.part(0, length).as_ptr() as usize % HOST_PAGE, 5 * HOST_LINE);
            }
        }
    }
}
