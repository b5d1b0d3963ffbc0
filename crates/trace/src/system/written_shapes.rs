//! Encoder state of the shapes already written: constant part and last addresses.

use doorbell_sim::Op;

use super::bytes::put_difference;
use super::hart::{ADDRESSES, COLUMNS, TARGETS};
use super::shape::{Address, ShapeOp};

/// A shape already written.
pub(super) struct WrittenShape {
    pub ops: Vec<FixedOp>,
    pub trapped: bool,
}

/// ShapeSize of a written shape.
#[derive(Clone, Copy)]
pub(super) struct ShapeSize {
    pub first_slot: u32,
    pub slots: u32,
    pub instructions: u32,
    pub ops: u32,
}

/// An op of a shape whose address differs each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub op: u16,
    pub address: Address,
    pub last: u64,
}

/// The constant part of an op.
pub(super) struct FixedOp {
    pub pc: u64,
    pub rest: u64,
    /// FixedOp branch target.
    pub target: u64,
    pub address: Address,
    pub fetched_physically: bool,
}

/// The op's fields apart from its addresses.
#[inline(always)]
fn rest(op: &Op) -> u64 {
    let [a, b, c] = op.sources;
    u64::from_le_bytes([op.class as u8, op.size, op.length, op.flags, op.destination, a, b, c])
}

impl WrittenShape {
    pub fn new(ops: &[Op], trapped: bool) -> WrittenShape {
        let fixed = |op: &Op| {
            let ShapeOp { address, fetched_physically, .. } = ShapeOp::of(op);
            let target = if address == Address::Target { op.virt } else { 0 };
            FixedOp { pc: op.pc, rest: rest(op), target, address, fetched_physically }
        };
        WrittenShape { ops: ops.iter().map(fixed).collect(), trapped }
    }
}

impl FixedOp {
    /// Returns whether an op has the same constant part.
    #[inline(always)]
    pub fn matches(&self, op: &Op) -> bool {
        let address = match self.address {
            Address::None => op.virt | op.phys.0 == 0,
            Address::Target => op.virt == self.target,
            Address::ComputedTarget => true,
            Address::Mapped => op.virt != op.phys.0,
            Address::Physical => op.virt == op.phys.0 && op.virt != 0,
        };
        // `rest` includes the class, which decides between these cases.
        (self.pc == op.pc)
            & (self.rest == rest(op))
            & address
            & (self.fetched_physically == (op.pc == op.fetch.0))
    }
}

/// Writes an address as its difference from the last one.
#[inline]
pub(super) fn put_address(columns: &mut [Vec<u8>; COLUMNS], slot: &mut Slot, virt: u64) {
    let column = if slot.address == Address::ComputedTarget { TARGETS } else { ADDRESSES };
    put_difference(&mut columns[column], virt, slot.last);
    slot.last = virt;
}

/// The slots of a shape.
#[inline]
pub(super) fn slots_of<'a>(sizes: &[ShapeSize], slots: &'a mut [Slot], shape: usize) -> &'a mut [Slot] {
    let ShapeSize { first_slot, slots: count, .. } = sizes[shape];
    &mut slots[first_slot as usize..][..count as usize]
}

/// Slots of the addresses that differ each time, of at most 4096 ops.
pub(super) fn slots(ops: &[Op]) -> impl Iterator<Item = Slot> {
    let of = |(at, op): (usize, &Op)| match Address::of(op) {
        Address::None | Address::Target => None,
        address => Some(Slot { op: at as u16, address, last: 0 }),
    };
    ops.iter().enumerate().filter_map(of)
}
