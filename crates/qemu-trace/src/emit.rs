//! Ops of an executed instruction: loads, then a computation, then stores; a branch comes last. An
//! instruction that only moves data needs no computation op. A locked read-modify-write is one atomic op. The
//! static part of the instruction is [`Decoded`]; accesses and branch target are given per execution.

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

use crate::instruction::{Decoded, LISTED_MAX, Order};
use crate::names::{FLAGS, JOINED, LOADED, Names, RESULT};
use crate::stream::Access;

/// Bytes moved per op by a repeated instruction, as in current cores; QEMU moves single elements.
const MERGED_BYTES_MAX: u8 = 32;
const LINE_BYTES: u64 = 64;
/// Fences before a store-release and after a load-acquire: bits of [`Op::fence`].
const BEFORE_STORES: u8 = 0b1011;
const BEHIND_LOADS: u8 = 0b1101;

/// Converts executed instructions to ops.
#[derive(Debug)]
pub struct Emitter {
    pub(crate) names: Names,
    /// Accesses of the current instruction, with adjacent ones merged.
    loads: Vec<Access>,
    stores: Vec<Access>,
    /// Privileged execution.
    pub privileged: bool,
}

/// Successor of an executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// The next instruction.
    Next,
    /// A branch target.
    Target(u64),
    /// The same instruction: a REP prefix has iterations left.
    Repeat,
}

impl Default for Emitter {
    fn default() -> Self {
        Emitter { names: Names::new(), loads: Vec::new(), stores: Vec::new(), privileged: true }
    }
}

impl Emitter {
    /// Appends the ops of an instruction that was executed with these accesses. The last op has the
    /// instruction's length, unless the instruction continues.
    pub fn emit(&mut self, decoded: &Decoded, accesses: &[Access], successor: Successor, ops: &mut Vec<Op>) {
        let privileged = u8::from(self.privileged) * Op::PRIVILEGED;
        let op =
            Op { pc: decoded.address, fetch: PhysAddr(decoded.physical), flags: privileged, ..Op::default() };
        self.join(accesses);
        // An exclusive load or store is half of an atomic access.
        match self.stores.first().or(self.loads.first()).copied() {
            Some(access) if decoded.is_atomic => self.atomic(decoded, &op, &access, ops),
            _ => self.several(decoded, &op, successor, ops),
        }
        if successor != Successor::Repeat
            && let Some(last) = ops.last_mut()
        {
            last.length = decoded.length;
        }
    }

    /// Merges accesses to adjacent bytes.
    fn join(&mut self, accesses: &[Access]) {
        self.loads.clear();
        self.stores.clear();
        for access in accesses {
            let others = if access.is_store { &mut self.stores } else { &mut self.loads };
            match others.last_mut() {
                Some(last) if is_neighbour(last, access) => {
                    // Downwards, as PUSH does, or upwards.
                    last.virt = last.virt.min(access.virt);
                    last.phys = last.phys.min(access.phys);
                    last.size += access.size;
                }
                _ => others.push(*access),
            }
        }
    }

    /// Sources of the computation op; additional ops join the excess if there are more than three.
    fn sources(
        &mut self,
        decoded: &Decoded,
        loaded: &[Register],
        op: &Op,
        ops: &mut Vec<Op>,
    ) -> [Register; 3] {
        let mut all = [0; 2 * LISTED_MAX + 2];
        let mut count = 0;
        // Without an access, the address registers are sources of the computation.
        let addresses =
            if loaded.is_empty() && !decoded.accesses_memory { decoded.address_registers.all() } else { &[] };
        for register in decoded.reads.all().iter().chain(addresses) {
            all[count] = self.names.read(*register);
            count += 1;
        }
        for register in loaded {
            all[count] = *register;
            count += 1;
        }
        while count > 3 {
            let sources = [all[count - 3], all[count - 2], all[count - 1]];
            ops.push(Op { class: OpClass::Int, sources, destination: JOINED, ..*op });
            all[count - 3] = JOINED;
            count -= 2;
        }
        [all[0], all[1], all[2]]
    }

    fn access(&mut self, decoded: &Decoded, op: &Op, access: &Access) -> Op {
        let class = match (access.is_io, access.is_store) {
            (true, _) => OpClass::Device,
            (false, true) => OpClass::Store,
            (false, false) => OpClass::Load,
        };
        let writes = u8::from(access.is_io && access.is_store) * Op::WRITES;
        let address = decoded.address_registers.all();
        let mut named = |at: usize| address.get(at).map_or(0, |register| self.names.read(*register));
        Op {
            class,
            virt: access.virt,
            phys: PhysAddr(access.phys),
            size: access.size,
            flags: op.flags | writes,
            sources: [named(0), named(1), 0],
            ..*op
        }
    }

    fn atomic(&mut self, decoded: &Decoded, op: &Op, access: &Access, ops: &mut Vec<Op>) {
        let data = self.sources(decoded, &[], op, ops);
        let class = if access.is_io { OpClass::Device } else { OpClass::Atomic };
        let acquires = decoded.flags | (u8::from(access.is_store) * Op::WRITES);
        let access = self.access(decoded, op, access);
        let destination = self.names.write(decoded.writes.all());
        let sources = [access.sources[0], data[0], data[1]];
        ops.push(Op { class, flags: access.flags | acquires, sources, destination, ..access });
        further(decoded, op, destination, ops);
    }

    /// Loads, then a computation, then stores; a branch comes last.
    fn several(&mut self, decoded: &Decoded, op: &Op, successor: Successor, ops: &mut Vec<Op>) {
        let is_branch = decoded.class.is_branch();
        let accesses = self.loads.len() + self.stores.len();
        let only_moves = decoded.is_move && accesses > 0 && decoded.class != OpClass::Serialising;
        let (loads, stores) = (std::mem::take(&mut self.loads), std::mem::take(&mut self.stores));
        let temporary = |at: usize| LOADED + at.min(1) as Register;
        let fence =
            |order: u8| Op { class: OpClass::Fence, flags: op.flags | order << Op::FENCE_SHIFT, ..*op };
        if decoded.order == Order::Releases {
            ops.push(fence(BEFORE_STORES));
        }
        // All addresses use register values from before the instruction.
        let first = ops.len();
        for (at, load) in loads.iter().enumerate() {
            let load = self.access(decoded, op, load);
            ops.push(Op { destination: temporary(at), ..load });
        }
        let ready: StoreAddress = match stores.first() {
            Some(store) => self.access(decoded, op, store).sources,
            None => [0; 3],
        };
        let fetched = [temporary(0), temporary(1)];
        let fetched = &fetched[..loads.len().min(2)];
        let mut data = match fetched.first() {
            Some(loaded) => *loaded,
            None => decoded.reads.all().first().map_or(0, |register| self.names.read(*register)),
        };
        // Second data register of a stored pair.
        let second = decoded.reads.all().get(1).filter(|_| only_moves && fetched.is_empty());
        let second = second.map_or(0, |register| self.names.read(*register));
        let mut result = None;
        if only_moves {
            let destination = self.names.write(decoded.writes.all());
            // The last load writes the result.
            if let Some(last) = ops[first..].last_mut().filter(|_| stores.is_empty()) {
                last.destination = destination;
            }
            if decoded.order == Order::Acquires {
                ops.push(fence(BEHIND_LOADS));
            }
            if !loads.is_empty() && stores.is_empty() {
                further(decoded, op, destination, ops);
            }
        } else {
            let sources = self.sources(decoded, fetched, op, ops);
            let written = self.names.write(decoded.writes.all());
            let keeps = written == 0 && !stores.is_empty() && !is_branch;
            let destination = if keeps { RESULT } else { written };
            let (virt, taken) = match successor {
                Successor::Target(target) if is_branch => (target, Op::TAKEN),
                _ => (0, 0),
            };
            let flags = op.flags | decoded.flags | taken;
            result = Some(Op { class: decoded.class, virt, flags, sources, destination, ..*op });
        }
        if let Some(result) = result.filter(|_| !is_branch) {
            data = result.destination;
            ops.push(result);
            further(decoded, op, result.destination, ops);
        }
        for store in &stores {
            let store = self.access(decoded, op, store);
            // A call's return address is a constant.
            let data = if is_branch { 0 } else { data };
            let third = if ready[1] == 0 { second } else { ready[1] };
            ops.push(Op { sources: [ready[0], data, third], ..store });
        }
        for register in decoded.updates.all() {
            let mut sources = [0; 3];
            for (source, part) in sources.iter_mut().zip(decoded.address_registers.all()) {
                *source = *part;
            }
            let destination = self.names.write(&[*register]);
            ops.push(Op { class: OpClass::Int, sources, destination, ..*op });
        }
        ops.extend(result.filter(|_| is_branch));
        (self.loads, self.stores) = (loads, stores);
    }
}

/// Address sources of a store.
type StoreAddress = [Register; 3];

/// Additional results: each register written other than the main result and the flags gets an op, as in most
/// current cores.
fn further(decoded: &Decoded, op: &Op, result: Register, ops: &mut Vec<Op>) {
    if decoded.class == OpClass::Serialising {
        return;
    }
    for register in decoded.writes.all() {
        if *register != FLAGS && *register != result {
            let sources = [result, 0, 0];
            ops.push(Op { class: OpClass::Int, sources, destination: *register, ..*op });
        }
    }
}

fn is_neighbour(last: &Access, access: &Access) -> bool {
    let follows = last.virt.wrapping_add(u64::from(last.size)) == access.virt;
    let before = access.virt.wrapping_add(u64::from(access.size)) == last.virt;
    let first = last.virt.min(access.virt);
    let size = last.size.saturating_add(access.size);
    let is_in_line = first % LINE_BYTES + u64::from(size) <= LINE_BYTES;
    (follows || before) && size <= MERGED_BYTES_MAX && is_in_line && !last.is_io && !access.is_io
}
