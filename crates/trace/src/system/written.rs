//! What the writer keeps of the shapes that it has written: what of a block is the same each time, and the last addresses.

use doorbell_sim::Op;

use super::bytes::put_difference;
use super::hart::{ADDRESSES, COLUMNS, TARGETS};
use super::shape::{Address, ShapeOp};

/// A shape that was written.
pub(super) struct Written {
    pub ops: Vec<Fixed>,
    pub trapped: bool,
}

/// What is asked of a shape that was written, each time.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub first_slot: u32,
    pub slots: u32,
    pub instructions: u32,
    pub ops: u32,
}

/// An op of a shape that has an address of its own each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub op: u16,
    pub address: Address,
    pub last: u64,
}

/// What of an op is the same each time.
pub(super) struct Fixed {
    pub pc: u64,
    pub rest: u64,
    /// Of a fixed target.
    pub target: u64,
    pub address: Address,
    pub fetched_physically: bool,
}

/// An op besides its addresses.
#[inline(always)]
fn rest(op: &Op) -> u64 {
    let [a, b, c] = op.sources;
    u64::from_le_bytes([op.class as u8, op.size, op.length, op.flags, op.destination, a, b, c])
}

impl Written {
    pub fn new(ops: &[Op], trapped: bool) -> Written {
        let fixed = |op: &Op| {
            let ShapeOp { address, fetched_physically, .. } = ShapeOp::of(op);
            let target = if address == Address::Target { op.virt } else { 0 };
            Fixed { pc: op.pc, rest: rest(op), target, address, fetched_physically }
        };
        Written { ops: ops.iter().map(fixed).collect(), trapped }
    }
}

impl Fixed {
    /// Whether an op is as this one.
    #[inline(always)]
    pub fn is(&self, op: &Op) -> bool {
        let address = match self.address {
            Address::None => op.virt | op.phys.0 == 0,
            Address::Target => op.virt == self.target,
            Address::ComputedTarget => true,
            Address::Mapped => op.virt != op.phys.0,
            Address::Physical => op.virt == op.phys.0 && op.virt != 0,
        };
        // The class, which says which of these it may be, is in the rest.
        (self.pc == op.pc)
            & (self.rest == rest(op))
            & address
            & (self.fetched_physically == (op.pc == op.fetch.0))
    }
}

/// Writes an address, which is told by its difference to the last one.
#[inline]
pub(super) fn put_address(columns: &mut [Vec<u8>; COLUMNS], slot: &mut Slot, virt: u64) {
    let column = if slot.address == Address::ComputedTarget { TARGETS } else { ADDRESSES };
    put_difference(&mut columns[column], virt, slot.last);
    slot.last = virt;
}

/// A shape's slots, of those of all.
#[inline]
pub(super) fn slots_of<'a>(sizes: &[Size], slots: &'a mut [Slot], shape: usize) -> &'a mut [Slot] {
    let Size { first_slot, slots: count, .. } = sizes[shape];
    &mut slots[first_slot as usize..][..count as usize]
}

/// What differs each time of ops: of 4096 at most.
pub(super) fn slots(ops: &[Op]) -> impl Iterator<Item = Slot> {
    let of = |(at, op): (usize, &Op)| match Address::of(op) {
        Address::None | Address::Target => None,
        address => Some(Slot { op: at as u16, address, last: 0 }),
    };
    ops.iter().enumerate().filter_map(of)
}
