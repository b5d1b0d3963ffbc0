//! An executed instruction's ops: one, or several: its loads, then what it computes, then its stores; a branch comes last. One that only
//! moves needs no op between. A locked read-modify-write is one atomic op. What is known of the instruction is [`Decoded`]; what it
//! accessed and where it went comes with each execution.

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass, PhysAddr};

use crate::instruction::{Decoded, LISTED_MAX, Order};
use crate::names::{JOINED, LOADED, Names, RESULT};
use crate::stream::Access;

/// What an instruction with a REP prefix moves at a time, as those of today's cores do; QEMU does it by single elements.
const MERGED_BYTES_MAX: u8 = 32;
const LINE_BYTES: u64 = 64;
/// What a store that releases waits for, and what waits for a load that acquires: bits of [`Op::fence`].
const BEFORE_STORES: u8 = 0b1011;
const BEHIND_LOADS: u8 = 0b1101;

/// Makes ops.
#[derive(Debug)]
pub struct Emitter {
    names: Names,
    /// The accesses of an instruction, neighbours joined.
    loads: Vec<Access>,
    stores: Vec<Access>,
    ready: Vec<Op>,
    /// Of the privilege level.
    pub privileged: bool,
}

/// How an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// To the next one.
    On,
    /// To this address.
    To(u64),
    /// It is not over: it has a REP prefix.
    Again,
}

impl Default for Emitter {
    fn default() -> Self {
        Emitter {
            names: Names::new(),
            loads: Vec::new(),
            stores: Vec::new(),
            ready: Vec::new(),
            privileged: true,
        }
    }
}

impl Emitter {
    /// An instruction was executed, made these accesses and goes on there.
    pub fn emit(&mut self, decoded: &Decoded, accesses: &[Access], goes: Goes, mut put: impl FnMut(Op)) {
        let taken = u8::from(matches!(goes, Goes::To(_))) * Op::TAKEN;
        let privileged = u8::from(self.privileged) * Op::PRIVILEGED;
        let op = Op {
            pc: decoded.address,
            fetch: PhysAddr(decoded.physical),
            flags: privileged,
            length: if goes == Goes::Again { 0 } else { decoded.length },
            ..Op::default()
        };
        if accesses.is_empty() {
            let sources = self.sources(decoded, &[], &op, &mut put);
            let virt = if let Goes::To(target) = goes { target } else { 0 };
            let class = decoded.class;
            let flags = op.flags | decoded.flags | taken;
            let destination = self.names.write(decoded.writes.all());
            put(Op { class, virt, flags, sources, destination, ..op });
            return;
        }
        self.join(accesses);
        let parts = Parts { op, decoded, goes, taken };
        // One that only loads or only stores is half of a pair of exclusive ones.
        match self.stores.first().or(self.loads.first()).copied() {
            Some(access) if decoded.is_atomic => self.atomic(&parts, access, &mut put),
            _ => self.several(&parts, &mut put),
        }
    }

    /// Joins accesses to neighbouring bytes.
    fn join(&mut self, accesses: &[Access]) {
        self.loads.clear();
        self.stores.clear();
        for access in accesses {
            let others = if access.is_store { &mut self.stores } else { &mut self.loads };
            match others.last_mut() {
                Some(last) if is_neighbour(last, access) => {
                    // Downwards as PUSH does, or upwards.
                    last.virt = last.virt.min(access.virt);
                    last.phys = last.phys.min(access.phys);
                    last.size += access.size;
                }
                _ => others.push(*access),
            }
        }
    }

    /// What an op reads: up to three, or another op joins them first.
    fn sources(
        &self,
        decoded: &Decoded,
        loaded: &[Register],
        op: &Op,
        put: &mut impl FnMut(Op),
    ) -> [Register; 3] {
        let mut all = [0; 2 * LISTED_MAX];
        let mut count = 0;
        // Where there is no access, what an address is made of is computed with.
        let addresses =
            if loaded.is_empty() && !decoded.accesses_memory { decoded.address_registers.all() } else { &[] };
        let named = decoded.reads.all().iter().chain(addresses).map(|register| self.names.read(*register));
        for register in named.chain(loaded.iter().copied()) {
            all[count] = register;
            count += 1;
        }
        while count > 3 {
            let sources = [all[count - 3], all[count - 2], all[count - 1]];
            put(Op { class: OpClass::Int, sources, destination: JOINED, length: 0, ..*op });
            all[count - 3] = JOINED;
            count -= 2;
        }
        [all[0], all[1], all[2]]
    }

    fn access(&self, parts: &Parts, access: &Access) -> Op {
        let class = match (access.is_io, access.is_store) {
            (true, _) => OpClass::Device,
            (false, true) => OpClass::Store,
            (false, false) => OpClass::Load,
        };
        let writes = u8::from(access.is_io && access.is_store) * Op::WRITES;
        let address = parts.decoded.address_registers.all();
        let named = |at: usize| address.get(at).map_or(0, |register| self.names.read(*register));
        Op {
            class,
            virt: access.virt,
            phys: PhysAddr(access.phys),
            size: access.size,
            flags: parts.op.flags | writes,
            sources: [named(0), named(1), 0],
            length: 0,
            ..parts.op
        }
    }

    fn atomic(&mut self, parts: &Parts, access: Access, put: &mut impl FnMut(Op)) {
        let data = self.sources(parts.decoded, &[], &parts.op, put);
        let op = self.access(parts, &access);
        let class = if access.is_io { OpClass::Device } else { OpClass::Atomic };
        let acquires = parts.decoded.flags | (u8::from(access.is_store) * Op::WRITES);
        let destination = self.names.write(parts.decoded.writes.all());
        let sources = [op.sources[0], data[0], data[1]];
        let length = parts.op.length;
        put(Op { class, flags: op.flags | acquires, sources, destination, length, ..op });
    }

    /// Loads, then a result, then stores; a branch comes last.
    fn several(&mut self, parts: &Parts, put: &mut impl FnMut(Op)) {
        let decoded = parts.decoded;
        let is_branch = decoded.class.is_branch();
        let only_moves = decoded.is_move && decoded.class != OpClass::Serialising;
        let (loads, stores) = (std::mem::take(&mut self.loads), std::mem::take(&mut self.stores));
        // The stores' addresses are made of what was there before the instruction.
        let mut ready = std::mem::take(&mut self.ready);
        ready.extend(stores.iter().map(|store| self.access(parts, store)));
        let mut count = loads.len() + stores.len();
        let computes = !only_moves;
        count += usize::from(computes);
        let (order, updated) = (decoded.order, decoded.updates.all().first().copied());
        count += usize::from(order != Order::None) + usize::from(updated.is_some());
        let mut ended = |op: Op, put: &mut dyn FnMut(Op)| {
            count -= 1;
            put(Op { length: if count == 0 { parts.op.length } else { 0 }, ..op });
        };
        let fence = |order: u8| {
            let flags = parts.op.flags | order << Op::FENCE_SHIFT;
            Op { class: OpClass::Fence, flags, ..parts.op }
        };
        if order == Order::Releases {
            ended(fence(BEFORE_STORES), put);
        }
        let temporary = |at: usize| LOADED + at.min(1) as Register;
        for (at, load) in loads.iter().enumerate() {
            let op = self.access(parts, load);
            let is_result = only_moves && stores.is_empty() && at + 1 == loads.len();
            let destination = if is_result { self.names.write(decoded.writes.all()) } else { temporary(at) };
            ended(Op { destination, ..op }, put);
        }
        if order == Order::Acquires {
            ended(fence(BEHIND_LOADS), put);
        }
        let fetched = [temporary(0), temporary(1)];
        let fetched = &fetched[..loads.len().min(2)];
        let mut data = fetched
            .first()
            .copied()
            .unwrap_or_else(|| decoded.reads.all().first().map_or(0, |register| self.names.read(*register)));
        let computed = computes.then(|| {
            let sources = self.sources(decoded, fetched, &parts.op, put);
            let result = self.names.write(decoded.writes.all());
            let keeps = result == 0 && !stores.is_empty() && !is_branch;
            let destination = if keeps { RESULT } else { result };
            let virt = if let Goes::To(target) = parts.goes { target } else { 0 };
            let flags = parts.op.flags | decoded.flags | parts.taken;
            Op { class: decoded.class, virt, flags, sources, destination, ..parts.op }
        });
        if let Some(op) = computed.filter(|_| !is_branch) {
            data = op.destination;
            ended(op, put);
        }
        // Of a pair.
        let second = decoded.reads.all().get(1).filter(|_| only_moves && fetched.is_empty());
        let second = second.map_or(0, |register| self.names.read(*register));
        for store in ready.drain(..) {
            // A call's return address is known.
            let data = if is_branch { 0 } else { data };
            let third = if store.sources[1] == 0 { second } else { store.sources[1] };
            let sources = [store.sources[0], data, third];
            ended(Op { sources, ..store }, put);
        }
        if only_moves && !stores.is_empty() {
            // A string instruction's pointers, which go on by themselves.
            self.names.write(decoded.writes.all());
        }
        if let Some(register) = updated {
            let mut sources = [0; 3];
            for (source, part) in sources.iter_mut().zip(decoded.address_registers.all()) {
                *source = self.names.read(*part);
            }
            let destination = self.names.write(&[register]);
            ended(Op { class: OpClass::Int, sources, destination, ..parts.op }, put);
        }
        if let Some(op) = computed.filter(|_| is_branch) {
            ended(op, put);
        }
        (self.loads, self.stores, self.ready) = (loads, stores, ready);
    }
}

/// What all ops of an instruction have in common.
struct Parts<'a> {
    op: Op,
    decoded: &'a Decoded,
    goes: Goes,
    taken: u8,
}

fn is_neighbour(last: &Access, access: &Access) -> bool {
    let behind = last.virt.wrapping_add(u64::from(last.size)) == access.virt;
    let before = access.virt.wrapping_add(u64::from(access.size)) == last.virt;
    let first = last.virt.min(access.virt);
    let size = last.size.saturating_add(access.size);
    let is_in_line = first % LINE_BYTES + u64::from(size) <= LINE_BYTES;
    (behind || before) && size <= MERGED_BYTES_MAX && is_in_line && !last.is_io && !access.is_io
}
