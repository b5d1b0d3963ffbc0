//! Arrays aligned to the host's cache lines, so that blocks of a line's length do not straddle two.

/// An array of numbers. The alignment affects speed only.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    items: Vec<T>,
    /// The first item in use.
    start: usize,
    length: usize,
    place: usize,
}

/// Bytes of a host cache line.
const HOST_LINE: usize = 64;
/// Bytes of a host page.
const HOST_PAGE: usize = 4096;

impl<T: Copy> Aligned<T> {
    /// `length` copies of `item`, starting at cache line `place` (modulo 64) of a host page. Arrays that are
    /// accessed one after the other with the same index get different places: if the addresses are equal
    /// within a page, processors take a load to depend on a recent store, and stall (4K aliasing).
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

    /// The same, mutable.
    #[inline]
    pub fn part_mut(&mut self, first: usize, count: usize) -> &mut [T] {
        &mut self.items[self.start + first..][..count]
    }

    /// A part of constant length.
    #[inline(always)]
    pub fn chunk<const N: usize>(&self, first: usize) -> &[T; N] {
        self.items[self.start + first..].first_chunk().expect("the array has padding after its items")
    }

    /// The same, mutable.
    #[inline(always)]
    pub fn chunk_mut<const N: usize>(&mut self, first: usize) -> &mut [T; N] {
        self.items[self.start + first..].first_chunk_mut().expect("the array has padding after its items")
    }

    /// One item.
    #[inline]
    pub fn one(&self, index: usize) -> &T {
        &self.items[self.start + index]
    }

    /// The same, mutable.
    #[inline]
    pub fn one_mut(&mut self, index: usize) -> &mut T {
        &mut self.items[self.start + index]
    }

    /// Bytes allocated on the host.
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
    fn an_array_and_its_copy_begin_at_the_given_line_of_a_host_page() {
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
