//! Block shapes: the part of a block that is equal in each execution. The part that differs (addresses,
//! targets of indirect jumps) is in separate columns.

use doorbell_sim::{Op, OpClass, PhysAddr};

use super::bytes::{Column, Malformed, put, put_difference};
use super::hart::PAGE_SHIFT;

/// Ops per block at most; a longer block is written as several.
pub const OPS_MAX: usize = 4096;

/// Kind of address in an op's `virt` and `phys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// No address.
    None,
    /// Fixed branch target.
    Target,
    /// Computed branch target.
    ComputedTarget,
    /// An access through the page table.
    Mapped,
    /// Access by a physical address.
    Physical,
}

impl Address {
    const ALL: [Address; 5] =
        [Address::None, Address::Target, Address::ComputedTarget, Address::Mapped, Address::Physical];

    /// Kind of an executed op's address.
    pub fn of(op: &Op) -> Address {
        match op.class {
            class if class.has_computed_target() => Address::ComputedTarget,
            class if class.is_branch() => Address::Target,
            _ if op.virt == 0 && op.phys.0 == 0 => Address::None,
            _ if op.virt == op.phys.0 => Address::Physical,
            _ => Address::Mapped,
        }
    }
}

/// An op of a shape.
#[derive(Clone, Copy, Debug)]
pub struct ShapeOp {
    /// The op, with the fields that differ each time set to zero.
    pub op: Op,
    /// Kind of its address.
    pub address: Address,
    /// Whether its instruction was fetched by physical address.
    pub fetched_physically: bool,
}

impl ShapeOp {
    /// Shape of an executed op.
    pub fn of(op: &Op) -> ShapeOp {
        let address = Address::of(op);
        let fetched_physically = op.pc == op.fetch.0;
        let virt = if address == Address::Target { op.virt } else { 0 };
        ShapeOp { op: Op { virt, phys: PhysAddr(0), fetch: PhysAddr(0), ..*op }, address, fetched_physically }
    }
}

/// The constant part of a block.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Its ops.
    pub ops: Vec<ShapeOp>,
    /// Whether an exception or interrupt was taken after it.
    pub trapped: bool,
}

impl Shape {
    /// Ops whose address differs each time: index and kind of address.
    pub fn differing(&self) -> impl Iterator<Item = (u16, Address)> {
        let differs = |of: &ShapeOp| !matches!(of.address, Address::None | Address::Target);
        let all = self.ops.iter().enumerate();
        all.filter(move |(_, of)| differs(of)).map(|(at, of)| (at as u16, of.address))
    }

    /// Returns whether an op accesses memory.
    pub fn is_memory(&self, at: u16) -> bool {
        self.ops[usize::from(at)].op.class.is_memory()
    }

    /// Page of each instruction fetched through translation, op by op.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.ops.iter().filter(|of| !of.fetched_physically).map(|of| of.op.pc >> PAGE_SHIFT)
    }

    /// Rebuilds the ops, without the addresses that differ. `pages` maps the code pages in order, without
    /// consecutive repeats.
    pub fn fetched_from(&self, pages: &[(u64, u64)], ops: &mut Vec<Op>) {
        let mut pages = pages.iter().peekable();
        ops.clear();
        ops.extend(self.ops.iter().map(|of| {
            if of.fetched_physically {
                return Op { fetch: PhysAddr(of.op.pc), ..of.op };
            }
            let page = of.op.pc >> PAGE_SHIFT;
            while pages.peek().is_some_and(|(known, _)| *known != page) {
                pages.next();
            }
            let frame = pages.peek().map_or(0, |(_, frame)| *frame);
            Op { fetch: PhysAddr((frame << PAGE_SHIFT) | (of.op.pc % (1 << PAGE_SHIFT))), ..of.op }
        }));
    }
}

fn expected_pc(before: Option<&Op>) -> u64 {
    before.map_or(0, |op| if op.ends_instruction() { op.next_pc() } else { op.pc })
}

impl Shape {
    /// Encodes the shape of executed ops.
    pub fn write(ops: &[Op], trapped: bool, to: &mut Vec<u8>) {
        put(to, (ops.len() as u64) << 1 | u64::from(trapped));
        let mut before: Option<Op> = None;
        for executed in ops {
            let ShapeOp { op, address, fetched_physically } = ShapeOp::of(executed);
            to.extend([op.class as u8, address as u8 | u8::from(fetched_physically) << 3]);
            to.extend([op.size, op.length, op.flags, op.destination]);
            to.extend(op.sources);
            let mut known = before;
            if let Some(known) = &mut known {
                // After a computed target, the shape does not contain the next instruction's address.
                known.virt = if ShapeOp::of(known).address == Address::Target { known.virt } else { 0 };
            }
            put_difference(to, op.pc, expected_pc(known.as_ref()));
            if address == Address::Target {
                put_difference(to, op.virt, op.pc);
            }
            before = Some(*executed);
        }
    }

    /// Decodes a shape.
    pub fn read(from: &mut Column) -> Result<Shape, Malformed> {
        let head = from.take()?;
        let (count, trapped) = ((head >> 1) as usize, head & 1 != 0);
        if count > OPS_MAX {
            return Err(Malformed);
        }
        let mut shape = Shape { ops: Vec::with_capacity(count), trapped };
        for _ in 0..count {
            let class = *OpClass::ALL.get(usize::from(from.byte()?)).ok_or(Malformed)?;
            let how = from.byte()?;
            let address = *Address::ALL.get(usize::from(how & 7)).ok_or(Malformed)?;
            let (size, length, flags, destination) = (from.byte()?, from.byte()?, from.byte()?, from.byte()?);
            let sources = [from.byte()?, from.byte()?, from.byte()?];
            let pc = from.take_difference(expected_pc(shape.ops.last().map(|before| &before.op)))?;
            let virt = if address == Address::Target { from.take_difference(pc)? } else { 0 };
            let op = Op { pc, virt, class, size, length, flags, destination, sources, ..Op::default() };
            shape.ops.push(ShapeOp { op, address, fetched_physically: how & 8 != 0 });
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_address_stands_at_its_number() {
        for (number, address) in Address::ALL.iter().enumerate() {
            assert_eq!(*address as usize, number);
        }
    }
}
