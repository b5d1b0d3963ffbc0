//! Lists indexed by a number modulo their length, a power of two.
//!
//! Each op accesses several entries. Every list has storage for [`MOST`] entries, so that the compiler can
//! omit bounds checks; entries beyond the length are never touched.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::saved::Number;

/// Maximum length.
pub(crate) const MOST: usize = 8192;

/// A list indexed modulo its length.
#[derive(Debug)]
pub(crate) struct Modulo<T> {
    entries: Box<[T; MOST]>,
    mask: usize,
}

impl<T: Copy> Modulo<T> {
    /// Creates a list of at least `len` equal entries.
    pub(crate) fn new(len: u64, entry: T) -> Modulo<T> {
        let len = (len as usize).next_power_of_two();
        assert!(len <= MOST, "validate() rejects longer lists");
        let entries = vec![entry; MOST].into_boxed_slice();
        Modulo { entries: entries.try_into().ok().expect("the vector has MOST entries"), mask: len - 1 }
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

    /// Creates a list with these entries.
    fn of(entries: &[T]) -> Result<Modulo<T>, &'static str> {
        match entries {
            [first, ..] if entries.len().is_power_of_two() && entries.len() <= MOST => {
                let mut list = Modulo::new(entries.len() as u64, *first);
                list.entries[..entries.len()].copy_from_slice(entries);
                Ok(list)
            }
            _ => Err("list length is not a power of two up to 8192"),
        }
    }
}

impl<T: Copy> Clone for Modulo<T> {
    fn clone(&self) -> Modulo<T> {
        Modulo::of(self.all()).expect("the length of an existing list is valid")
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
pub(crate) fn cycles<'de, D: Deserializer<'de>, T: Number<'de>>(
    deserializer: D,
) -> Result<Modulo<T>, D::Error> {
    Modulo::of(&crate::saved::cycles(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_overwritten_after_one_wrap() {
        let mut list = Modulo::new(5, 0);
        (0..20).for_each(|number| list.set(number, number));
        assert_eq!(list.all(), [16, 17, 18, 19, 12, 13, 14, 15]);
        assert_eq!((*list.get(12), *list.get(20)), (12, 12));
    }

    #[test]
    fn lists_of_invalid_length_are_rejected() {
        let list = Modulo::of(&[1, 2, 3, 4]).unwrap();
        assert_eq!((list.all(), *list.get(6)), (&[1, 2, 3, 4][..], 3));
        for length in [0, 3, 2 * MOST] {
            assert!(Modulo::of(&vec![0; length]).is_err(), "{length}");
        }
    }
}
