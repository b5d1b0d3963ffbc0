//! Lists in which an entry is found by its number modulo their length, which is a power of two.
//!
//! They are asked for several entries an op. So that the host need not compare each place with the length, there is room for
//! [`MOST`] entries behind every list, of which those beyond its length are never touched.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The longest list.
pub(crate) const MOST: usize = 8192;

/// See the module.
#[derive(Debug)]
pub(crate) struct Modulo<T> {
    entries: Box<[T; MOST]>,
    mask: usize,
}

impl<T: Copy> Modulo<T> {
    /// So many entries at least, all alike.
    pub(crate) fn new(len: u64, entry: T) -> Modulo<T> {
        let len = (len as usize).next_power_of_two();
        assert!(len <= MOST, "validate() lets fewer through");
        let entries = vec![entry; MOST].into_boxed_slice();
        Modulo { entries: entries.try_into().ok().expect("as many as asked for"), mask: len - 1 }
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u64) -> &T {
        &self.entries[number as usize & self.mask & (MOST - 1)]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: u64) -> &mut T {
        &mut self.entries[number as usize & self.mask & (MOST - 1)]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, number: u64, entry: T) {
        *self.get_mut(number) = entry;
    }

    pub(crate) fn all(&self) -> &[T] {
        &self.entries[..=self.mask]
    }

    /// The list that has these entries.
    fn of(entries: &[T]) -> Result<Modulo<T>, &'static str> {
        match entries {
            [first, ..] if entries.len().is_power_of_two() && entries.len() <= MOST => {
                let mut list = Modulo::new(entries.len() as u64, *first);
                list.entries[..entries.len()].copy_from_slice(entries);
                Ok(list)
            }
            _ => Err("a list has an impossible length"),
        }
    }
}

impl<T: Copy> Clone for Modulo<T> {
    fn clone(&self) -> Modulo<T> {
        Modulo::of(self.all()).expect("this one has its length")
    }
}

impl<T: Copy + PartialEq> PartialEq for Modulo<T> {
    fn eq(&self, other: &Modulo<T>) -> bool {
        self.all() == other.all()
    }
}

impl<T: Copy + Eq> Eq for Modulo<T> {}

impl<T: Copy + Serialize> Serialize for Modulo<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.all().serialize(serializer)
    }
}

impl<'de, T: Copy + Deserialize<'de>> Deserialize<'de> for Modulo<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Modulo<T>, D::Error> {
        Modulo::of(&Vec::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Reads a list of cycles.
pub(crate) fn cycles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Modulo<u64>, D::Error> {
    Modulo::of(&crate::saved::cycles(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stands_until_its_place_comes_again() {
        let mut list = Modulo::new(5, 0);
        (0..20).for_each(|number| list.set(number, number));
        assert_eq!(list.all(), [16, 17, 18, 19, 12, 13, 14, 15]);
        assert_eq!((*list.get(12), *list.get(20)), (12, 12));
    }

    #[test]
    fn only_lists_of_a_length_that_can_be_are_read() {
        let list = Modulo::of(&[1, 2, 3, 4]).unwrap();
        assert_eq!((list.all(), *list.get(6)), (&[1, 2, 3, 4][..], 3));
        for length in [0, 3, 2 * MOST] {
            assert!(Modulo::of(&vec![0; length]).is_err(), "{length}");
        }
    }
}
