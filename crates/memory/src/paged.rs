//! An array with a value per line of RAM, allocated on first write: a table of pages, of which all-zero ones
//! are not allocated. RAM may be 128 GiB, of which a trace or guest touches little, on a host that does not
//! overcommit memory.

/// Values per page. A power of two, so that page number and offset are bits of the index.
const PAGE: usize = 1 << 12;

/// Saved values: runs of equal ones, each with its length.
pub(crate) type Runs<T> = Vec<(u32, T)>;

/// Sparse array; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Paged<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
    len: usize,
}

impl<T: Copy + Default + PartialEq> Paged<T> {
    /// An array of `len` zeros.
    pub fn new(len: usize) -> Paged<T> {
        Paged { pages: vec![None; len.div_ceil(PAGE)], len }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, index: usize) -> T {
        match &self.pages[index / PAGE] {
            Some(page) => page[index % PAGE],
            None => T::default(),
        }
    }

    /// Mutable reference to a value; allocates its page.
    #[inline]
    pub fn at(&mut self, index: usize) -> &mut T {
        let page = &mut self.pages[index / PAGE];
        if page.is_none() {
            *page = Some(zeros());
        }
        &mut page.as_mut().expect("it has just been allocated")[index % PAGE]
    }

    /// Sets all values to zero.
    pub fn clear(&mut self) {
        self.pages.fill(None);
    }

    /// The values in order, as slices; `None` is a slice of zeros.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, Option<&[T]>)> {
        let len = |number: usize| (self.len - number * PAGE).min(PAGE);
        let pages = self.pages.iter().enumerate();
        pages.map(move |(number, page)| (len(number), page.as_ref().map(|page| &page[..len(number)])))
    }

    /// Runs of equal values, in order.
    pub fn runs(&self) -> Runs<T> {
        let mut runs = Runs::new();
        let mut push = |len: usize, value: T| match runs.last_mut() {
            Some((count, last)) if *last == value => *count += len as u32,
            _ => runs.push((len as u32, value)),
        };
        for (len, piece) in self.pieces() {
            let Some(mut left) = piece else {
                push(len, T::default());
                continue;
            };
            while let Some(&value) = left.first() {
                let len = leading(left, value);
                push(len, value);
                left = &left[len..];
            }
        }
        runs
    }

    /// Sets all values, from runs of the array's length.
    pub fn restore(&mut self, runs: &Runs<T>) {
        self.clear();
        let mut first = 0;
        for (count, value) in runs {
            self.fill(first, *count as usize, *value);
            first += *count as usize;
        }
    }

    /// Writes `value` to `count` entries starting at `first`. For zero, the entries must already be zero.
    fn fill(&mut self, first: usize, count: usize, value: T) {
        if value != T::default() {
            (first..first + count).for_each(|index| *self.at(index) = value);
        }
    }
}

/// Number of values in runs.
pub(crate) fn length<T>(runs: &Runs<T>) -> u64 {
    runs.iter().map(|run| u64::from(run.0)).sum()
}

/// Number of leading values equal to `value`. Most of RAM has one value, so whole blocks are compared first.
fn leading<T: Copy + PartialEq>(values: &[T], value: T) -> usize {
    const BLOCK: usize = 256;
    let blocks = values.chunks_exact(BLOCK).take_while(|block| **block == [value; BLOCK]).count() * BLOCK;
    blocks + values[blocks..].iter().take_while(|other| **other == value).count()
}

#[cold]
fn zeros<T: Copy + Default>() -> Box<[T; PAGE]> {
    vec![T::default(); PAGE].into_boxed_slice().try_into().ok().expect("the vector has PAGE values")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_touched_pages_are_allocated() {
        // One per line of 128 GiB.
        let mut paged = Paged::<u64>::new(1 << 31);
        assert_eq!((paged.get(0), paged.get((1 << 31) - 1)), (0, 0));
        *paged.at(12_345) |= 2;
        *paged.at((1 << 31) - 1) = 7;
        assert_eq!((paged.get(12_345), paged.get(12_346), paged.get((1 << 31) - 1)), (2, 0, 7));
        assert_eq!(paged.pages.iter().flatten().count(), 2);
        paged.clear();
        assert_eq!((paged.get(12_345), paged.pages.iter().flatten().count()), (0, 0));
    }

    #[test]
    fn pieces_are_all_values_in_order() {
        let mut paged = Paged::<u8>::new(2 * PAGE + 5);
        paged.fill(PAGE + 3, PAGE, 9);
        paged.fill(0, PAGE, 0);
        let mut all = Vec::new();
        for (len, piece) in paged.pieces() {
            all.extend(piece.map_or(vec![0; len], <[u8]>::to_vec));
        }
        let expected = [vec![0; PAGE + 3], vec![9; PAGE], vec![0; 2]].concat();
        assert_eq!((all.len(), paged.len()), (2 * PAGE + 5, 2 * PAGE + 5));
        assert!(all == expected);
        assert!(paged.pages[0].is_none());
    }
}
