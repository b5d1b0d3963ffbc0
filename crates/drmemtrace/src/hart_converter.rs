//! Converts the records of a file to blocks of a hart. An instruction's accesses follow its record, and the
//! next instruction reveals its branch target, so each instruction is held back until then.

use std::collections::BTreeMap;

use doorbell_qemu_trace::emit::{Emitter, Successor};
use doorbell_qemu_trace::instruction::{Decoded, Flow};
use doorbell_qemu_trace::stream::Access;
use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, OpClass, PhysAddr};
use doorbell_trace::system::{Step, TraceWriter};

use crate::decode::{Decoder, Isa};
use crate::error::RecordError;
use crate::record::{BranchKind, Kind, Record, VERSION_INTERRUPTED, VERSIONS, file_type, marker};
use crate::tally::Tally;

/// Approximate limit of ops per block.
const BLOCK_OPS: usize = 64;
/// Limit of accesses held back per instruction.
const PENDING_ACCESSES_MAX: usize = 64;
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;
/// Set in addresses of the kernel.
const KERNEL_HALF: u64 = 1 << 63;

/// Address space numbers of processes, common to all files of a trace.
#[derive(Default)]
pub struct Spaces(BTreeMap<u64, u16>);

impl Spaces {
    fn of(&mut self, process: u64) -> Result<u16, RecordError> {
        let next = u16::try_from(self.0.len());
        let space = self.0.entry(process).or_insert(next.unwrap_or(u16::MAX));
        match next {
            Err(_) if *space == u16::MAX => Err(RecordError::Unfit("has more than 65,535 processes".into())),
            _ => Ok(*space),
        }
    }

    /// Number of address spaces.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// An instruction that is not written yet.
struct PendingInstruction {
    decoded: Decoded,
    sort: BranchKind,
    /// Branch target given by a marker.
    target: Option<u64>,
    accesses: Vec<Access>,
    prefetches: Vec<(u64, u8)>,
    privileged: bool,
}

/// Converter of a file; see the module.
pub struct HartConverter<'a> {
    to: &'a mut TraceWriter,
    hart: u16,
    spaces: &'a mut Spaces,
    tally: &'a mut Tally,
    version: u64,
    file_type: u64,
    decoder: Decoder,
    emitter: Emitter,
    /// Address space of each thread.
    processes: BTreeMap<u64, u16>,
    thread: u64,
    space: u16,
    /// Between markers of kernel execution.
    in_kernel: bool,
    /// In the filtered part at the beginning of a trace.
    is_filtered: bool,
    target: Option<u64>,
    pending: Option<PendingInstruction>,
    /// Expected address of the next instruction; `None` after a system call.
    expected: Option<u64>,
    ops: Vec<Op>,
    /// The last record was a footer.
    has_ended: bool,
}

impl<'a> HartConverter<'a> {
    pub fn new(
        to: &'a mut TraceWriter,
        hart: u16,
        spaces: &'a mut Spaces,
        tally: &'a mut Tally,
    ) -> HartConverter<'a> {
        HartConverter {
            to,
            hart,
            spaces,
            tally,
            version: 0,
            file_type: 0,
            decoder: Decoder::new(Isa::Unknown),
            emitter: Emitter::default(),
            processes: BTreeMap::new(),
            thread: 0,
            space: 0,
            in_kernel: false,
            is_filtered: false,
            target: None,
            pending: None,
            expected: None,
            ops: Vec::new(),
            has_ended: false,
        }
    }

    /// Handles a record.
    pub fn record(&mut self, record: Record) -> Result<(), RecordError> {
        let Some(kind) = Kind::of(record.kind) else {
            return Err(RecordError::Damaged("a record has an unknown type"));
        };
        if self.version == 0 && kind != Kind::Header {
            return Err(RecordError::Damaged("it does not begin with a header"));
        }
        self.has_ended = kind == Kind::Footer;
        match kind {
            Kind::Header => self.set_version(record.value),
            Kind::Marker => self.marker(&record),
            Kind::Thread => self.thread(record.value),
            Kind::Process => self.process(record.value),
            Kind::Encoding => self.decoder.encoding(&record),
            Kind::ThreadExit | Kind::Footer => self.gap(None),
            Kind::Bundle => Err(RecordError::Unfit(
                "is in DynamoRIO's online format; record with -offline, and name the output of raw2trace"
                    .into(),
            )),
            // The filtered part is not a program.
            _ if self.is_filtered => Ok(()),
            Kind::Instruction(sort) => self.instruction(&record, sort),
            Kind::NoFetch => self.no_fetch(&record),
            Kind::Load => self.access(&record, false),
            Kind::Store => self.access(&record, true),
            Kind::Prefetch { writes, code } => {
                let flags = (u8::from(writes) * Op::WRITES) | (u8::from(code) * Op::CODE);
                match &mut self.pending {
                    Some(pending) if pending.prefetches.len() < PENDING_ACCESSES_MAX => {
                        pending.prefetches.push((record.value, flags));
                    }
                    _ => self.tally.stray += 1,
                }
                Ok(())
            }
            Kind::Ignored => Ok(()),
        }
    }

    /// Ends the file; returns whether it had a footer.
    pub fn end(mut self) -> Result<bool, RecordError> {
        self.gap(None)?;
        self.close(false)?;
        Ok(self.has_ended)
    }

    /// Instruction set of the file.
    pub fn isa(&self) -> Isa {
        self.decoder.isa()
    }

    fn set_version(&mut self, version: u64) -> Result<(), RecordError> {
        if !VERSIONS.contains(&version) {
            return Err(RecordError::Unfit(format!(
                "has version {version} of the drmemtrace format, but versions 1 to 7 are supported; record it with \
                 another DynamoRIO"
            )));
        }
        self.version = version;
        Ok(())
    }

    fn set_file_type(&mut self, bits: u64) -> Result<(), RecordError> {
        let is = |bit| bits & bit != 0;
        if is(file_type::TEMPLATES) {
            return Err(RecordError::Unfit(
                "has system call templates for other traces; name the trace of a program".into(),
            ));
        }
        if is(file_type::FILTERED) && !is(file_type::FILTERED_AT_FIRST) {
            return Err(RecordError::Unfit(
                "was filtered during recording (-L0_filter) and lacks most of the program; record it without a filter".into(),
            ));
        }
        let isa = Isa::of(bits)?;
        if isa != self.decoder.isa() {
            self.gap(None)?;
            self.decoder = Decoder::new(isa);
        }
        self.is_filtered |= is(file_type::FILTERED);
        self.tally.without_data |= is(file_type::INSTRUCTIONS_ONLY);
        self.file_type = bits;
        Ok(())
    }

    fn marker(&mut self, record: &Record) -> Result<(), RecordError> {
        match record.size {
            marker::VERSION => return self.set_version(record.value),
            marker::FILE_TYPE => return self.set_file_type(record.value),
            marker::BRANCH_TARGET => self.target = Some(record.value),
            marker::KERNEL_EVENT | marker::HARDWARE_EVENT => {
                self.tally.events += 1;
                let at = Some(record.value).filter(|at| self.version >= VERSION_INTERRUPTED && *at != 0);
                self.gap(at)?;
                self.close(true)?;
            }
            marker::KERNEL_TRANSFER => {
                self.gap(None)?;
                self.close(true)?;
            }
            marker::SYSTEM_CALL => {
                self.tally.system_calls += 1;
                // Without an encoding, only the marker identifies the instruction.
                if let Some(pending) = &mut self.pending
                    && pending.decoded.class == OpClass::Int
                {
                    (pending.decoded.class, pending.decoded.flow) = (OpClass::Serialising, Flow::System);
                }
            }
            marker::SYSTEM_CALL_TRACE_START | marker::CONTEXT_SWITCH_START => {
                self.gap(None)?;
                self.in_kernel = true;
            }
            marker::SYSTEM_CALL_TRACE_END | marker::CONTEXT_SWITCH_END => {
                self.gap(None)?;
                self.in_kernel = false;
            }
            marker::FILTER_ENDPOINT => self.is_filtered = false,
            marker::PHYSICAL_ADDRESS => self.tally.physical += 1,
            _ => {}
        }
        Ok(())
    }

    fn thread(&mut self, thread: u64) -> Result<(), RecordError> {
        let is_switch = self.tally.run_thread(self.hart, thread);
        if thread == self.thread {
            return Ok(());
        }
        self.gap(None)?;
        // The kernel ran between the two threads.
        self.close(is_switch)?;
        self.thread = thread;
        self.space = self.processes.get(&thread).copied().unwrap_or(0);
        Ok(())
    }

    fn process(&mut self, process: u64) -> Result<(), RecordError> {
        let space = self.spaces.of(process)?;
        self.processes.insert(self.thread, space);
        if space != self.space {
            self.gap(None)?;
            self.close(false)?;
            self.space = space;
        }
        Ok(())
    }

    fn instruction(&mut self, record: &Record, sort: BranchKind) -> Result<(), RecordError> {
        self.write(Some(record.value))?;
        if self.expected.is_some_and(|expected| expected != record.value) {
            self.tally.jumps += 1;
            self.close(true)?;
        }
        self.expected = None;
        let (decoded, is_known) = self.decoder.decode(record, sort, self.space)?;
        self.tally.instructions += 1;
        self.tally.without_encoding += u64::from(!is_known);
        let is_whole_system = self.file_type & file_type::WHOLE_SYSTEM != 0;
        let privileged = self.in_kernel || is_whole_system && record.value & KERNEL_HALF != 0;
        self.tally.privileged += u64::from(privileged);
        let (target, accesses, prefetches) = (self.target.take(), Vec::new(), Vec::new());
        self.pending = Some(PendingInstruction { decoded, sort, target, accesses, prefetches, privileged });
        Ok(())
    }

    /// Another iteration of a string instruction; all iterations are one instruction.
    fn no_fetch(&mut self, record: &Record) -> Result<(), RecordError> {
        match &self.pending {
            Some(pending) if pending.decoded.address == record.value => Ok(()),
            _ => self.instruction(record, BranchKind::Plain),
        }
    }

    fn access(&mut self, record: &Record, is_store: bool) -> Result<(), RecordError> {
        let (mut virt, mut left) = (record.value, u64::from(record.size));
        while left > 0 {
            if self.pending.as_ref().is_some_and(|pending| pending.accesses.len() == PENDING_ACCESSES_MAX) {
                self.write_partial();
            }
            let Some(pending) = &mut self.pending else {
                self.tally.stray += 1;
                return Ok(());
            };
            // An access is within one page; large accesses are divided at cache lines.
            let within = if left > LINE_BYTES { LINE_BYTES } else { PAGE_BYTES };
            let size = left.min(within - virt % within);
            let (phys, size_bytes) = (virt, size as u8);
            pending.accesses.push(Access {
                instruction: 0,
                size: size_bytes,
                is_store,
                is_io: false,
                virt,
                phys,
            });
            virt = virt.wrapping_add(size);
            left -= size;
        }
        Ok(())
    }

    /// Ends sequential execution: the next instruction is not the program's successor. An interrupted program
    /// would have continued at `at`.
    fn gap(&mut self, at: Option<u64>) -> Result<(), RecordError> {
        self.write(at)?;
        self.expected = None;
        Ok(())
    }

    /// Writes some accesses of an instruction that has more.
    fn write_partial(&mut self) {
        if let Some(pending) = &mut self.pending {
            self.emitter.privileged = pending.privileged;
            self.emitter.emit(&pending.decoded, &pending.accesses, Successor::Repeat, &mut self.ops);
            pending.accesses.clear();
        }
    }

    /// Writes the pending instruction; `next` is the address of the next one, if known.
    fn write(&mut self, next: Option<u64>) -> Result<(), RecordError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let decoded = &pending.decoded;
        self.emitter.privileged = pending.privileged;
        for (virt, flags) in &pending.prefetches {
            let privileged = u8::from(pending.privileged) * Op::PRIVILEGED;
            self.ops.push(Op {
                pc: decoded.address,
                fetch: PhysAddr(decoded.physical),
                class: OpClass::Prefetch,
                virt: *virt,
                phys: PhysAddr(*virt),
                flags: flags | privileged,
                ..Op::default()
            });
        }
        let successor = successor(&pending, next);
        self.emitter.emit(decoded, &pending.accesses, successor, &mut self.ops);
        self.expected = match successor {
            _ if decoded.flow == Flow::System => None,
            Successor::Target(target) => Some(target),
            _ => Some(decoded.end()),
        };
        if decoded.class.is_branch() || self.ops.len() >= BLOCK_OPS {
            self.close(false)?;
        }
        Ok(())
    }

    /// Ends a block.
    fn close(&mut self, trapped: bool) -> Result<(), RecordError> {
        if self.ops.is_empty() && !trapped {
            return Ok(());
        }
        let step = Step { trapped, space: Some(self.space), thread: self.thread, ..Step::default() };
        self.to.block(self.hart, &step, &self.ops, &mut |_| Walk::default())?;
        self.ops.clear();
        Ok(())
    }
}

/// Successor of an instruction.
fn successor(pending: &PendingInstruction, next: Option<u64>) -> Successor {
    let decoded = &pending.decoded;
    if !decoded.class.is_branch() {
        return Successor::Next;
    }
    let known_target = pending.target.or(match decoded.flow {
        Flow::Branch(target) | Flow::Direct(target) => Some(target),
        _ => None,
    });
    // If the target is unknown, the branch goes to the next executed instruction, or to the address in the
    // marker of an interrupting event.
    let target = known_target.or(next).unwrap_or(decoded.end());
    let is_conditional = decoded.class == OpClass::Branch;
    match pending.sort {
        BranchKind::Conditional(Some(taken)) => {
            if taken {
                Successor::Target(target)
            } else {
                Successor::Next
            }
        }
        _ if is_conditional => match next {
            Some(next) if next != decoded.end() => Successor::Target(next),
            _ => Successor::Next,
        },
        _ => Successor::Target(target),
    }
}
