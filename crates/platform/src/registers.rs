//! Register tables: each device lists its registers once. Decoding, reset values, the reference listing and
//! the no-overlap test are derived from that list.

use doorbell_sim::AccessSize;

/// Access types of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    ReadWrite,
    /// Writes are ignored.
    ReadOnly,
    /// Reads return zero.
    WriteOnly,
    /// Reading has a side effect.
    ReadHasEffect,
    /// Reading and writing have different side effects.
    BothHaveEffects,
}

impl Access {
    /// Whether the register can be read.
    pub const fn readable(self) -> bool {
        !matches!(self, Access::WriteOnly)
    }

    /// Whether the register can be written.
    pub const fn writable(self) -> bool {
        !matches!(self, Access::ReadOnly | Access::ReadHasEffect)
    }
}

/// A register, or an array of equal registers.
#[derive(Clone, Copy, Debug)]
pub struct Register<R: 'static> {
    /// The device's own name for it in code.
    pub id: R,
    /// The name in the manual.
    pub name: &'static str,
    /// Offset of the first element.
    pub offset: u64,
    /// Size of an element in bytes.
    pub bytes: u64,
    /// Number of elements, at most.
    pub count: u64,
    /// Distance between elements in bytes.
    pub stride: u64,
    /// The value after reset.
    pub reset: u64,
    /// Access type.
    pub access: Access,
    /// Document and section.
    pub section: &'static str,
}

impl<R> Register<R> {
    /// A single register.
    #[allow(clippy::too_many_arguments)]
    pub const fn one(
        id: R,
        name: &'static str,
        offset: u64,
        bytes: u64,
        reset: u64,
        access: Access,
        section: &'static str,
    ) -> Self {
        Register { id, name, offset, bytes, count: 1, stride: bytes, reset, access, section }
    }

    /// An array of `count` such registers, `stride` bytes apart.
    pub const fn array(self, count: u64, stride: u64) -> Self
    where
        R: Copy,
    {
        Register { count, stride, ..self }
    }

    /// The end of the last element.
    pub const fn end(&self) -> u64 {
        self.offset + (self.count - 1) * self.stride + self.bytes
    }
}

/// The target of an access in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<R> {
    /// The register.
    pub id: R,
    /// Index in an array.
    pub index: usize,
    /// The first accessed byte of the register.
    pub byte: u64,
    /// The accessed bits of the register.
    pub mask: u64,
}

impl<R> Hit<R> {
    /// The accessed part of a register's value.
    pub fn extract(&self, value: u64) -> u64 {
        (value & self.mask) >> (8 * self.byte)
    }

    /// The register's value after the accessed part was replaced.
    pub fn merge(&self, old: u64, written: u64) -> u64 {
        (old & !self.mask) | ((written << (8 * self.byte)) & self.mask)
    }
}

/// Finds the register of which an access covers all bytes or a part. `None` if the access is not aligned to
/// its size or crosses the register's end.
pub fn find<R: Copy>(table: &[Register<R>], offset: u64, size: AccessSize) -> Option<Hit<R>> {
    if !offset.is_multiple_of(size.bytes()) {
        return None;
    }
    table.iter().find_map(|register| {
        if offset < register.offset || offset >= register.end() {
            return None;
        }
        let index = (offset - register.offset) / register.stride;
        let byte = (offset - register.offset) % register.stride;
        let inside = byte + size.bytes() <= register.bytes;
        inside.then(|| Hit { id: register.id, index: index as usize, byte, mask: size.mask() << (8 * byte) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [Register<u8>; 2] = [
        Register::one(0, "A", 0, 4, 0, Access::ReadWrite, "-").array(3, 8),
        Register::one(1, "B", 0x20, 8, 0, Access::ReadWrite, "-"),
    ];

    #[test]
    fn an_access_finds_the_element_and_the_bytes_it_covers() {
        let hit = find(&TABLE, 0x10, AccessSize::B4).unwrap();
        assert_eq!((hit.id, hit.index, hit.byte), (0, 2, 0));
        let hit = find(&TABLE, 0x24, AccessSize::B4).unwrap();
        assert_eq!((hit.id, hit.byte), (1, 4));
        assert_eq!(hit.extract(0x1122_3344_5566_7788), 0x1122_3344);
        assert_eq!(hit.merge(0x1122_3344_5566_7788, 0xaabb_ccdd), 0xaabb_ccdd_5566_7788);
    }

    #[test]
    fn holes_crossings_and_unaligned_accesses_find_no_register() {
        assert!(find(&TABLE, 0x4, AccessSize::B4).is_none(), "the hole between elements");
        assert!(find(&TABLE, 0x0, AccessSize::B8).is_none(), "wider than the register");
        assert!(find(&TABLE, 0x22, AccessSize::B4).is_none(), "unaligned");
        assert!(find(&TABLE, 0x18, AccessSize::B4).is_none(), "past the array");
    }
}
