//! A file's records as a hart's blocks. What an instruction was comes before its accesses, and where it went with the instruction behind
//! them, so that each is held back until then.

use std::collections::BTreeMap;

use doorbell_qemu_trace::emit::{Emitter, Goes};
use doorbell_qemu_trace::instruction::{Decoded, Flow};
use doorbell_qemu_trace::stream::Access;
use doorbell_sim::memory::Walk;
use doorbell_sim::{Op, OpClass, PhysAddr};
use doorbell_trace::system::{Step, TraceWriter};

use crate::decode::{Decoder, Isa};
use crate::error::Wrong;
use crate::record::{Kind, Record, Sort, VERSION_INTERRUPTED, VERSIONS, file_type, marker};
use crate::tally::Tally;

/// Ops of a block at most, about.
const BLOCK_OPS: usize = 64;
/// Accesses of one instruction that are held back at most.
const HELD_ACCESSES: usize = 64;
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;
/// Addresses of the operating system have this bit.
const KERNEL_HALF: u64 = 1 << 63;

/// Processes by the numbers that address spaces have, in all files of a trace.
#[derive(Default)]
pub struct Spaces(BTreeMap<u64, u16>);

impl Spaces {
    fn of(&mut self, process: u64) -> Result<u16, Wrong> {
        let next = u16::try_from(self.0.len());
        let space = self.0.entry(process).or_insert(next.unwrap_or(u16::MAX));
        match next {
            Err(_) if *space == u16::MAX => Err(Wrong::Unfit("is of more than 65,535 processes")),
            _ => Ok(*space),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// An instruction that is not written yet.
struct Held {
    decoded: Decoded,
    sort: Sort,
    /// Where a marker says that it goes.
    target: Option<u64>,
    accesses: Vec<Access>,
    prefetches: Vec<(u64, u8)>,
    privileged: bool,
}

/// See the module.
pub struct Lane<'a> {
    to: &'a mut TraceWriter,
    hart: u16,
    spaces: &'a mut Spaces,
    tally: &'a mut Tally,
    version: u64,
    file_type: u64,
    decoder: Decoder,
    emitter: Emitter,
    /// Each thread's process.
    processes: BTreeMap<u64, u16>,
    thread: u64,
    space: u16,
    /// Within what the operating system did.
    in_kernel: bool,
    /// Where a trace begins that is filtered at first.
    is_filtered: bool,
    target: Option<u64>,
    held: Option<Held>,
    /// Where the next instruction should be; not behind a system call.
    expected: Option<u64>,
    ops: Vec<Op>,
    /// A footer came last.
    has_ended: bool,
}

impl<'a> Lane<'a> {
    pub fn new(to: &'a mut TraceWriter, hart: u16, spaces: &'a mut Spaces, tally: &'a mut Tally) -> Lane<'a> {
        Lane {
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
            held: None,
            expected: None,
            ops: Vec::new(),
            has_ended: false,
        }
    }

    /// The next record.
    pub fn see(&mut self, record: Record) -> Result<(), Wrong> {
        let Some(kind) = Kind::of(record.kind) else {
            return Err(Wrong::Damaged("a record has a type that there is not"));
        };
        if self.version == 0 && kind != Kind::Header {
            return Err(Wrong::Damaged("it does not begin with a header"));
        }
        self.has_ended = kind == Kind::Footer;
        match kind {
            Kind::Header => self.versioned(record.value),
            Kind::Marker => self.marker(&record),
            Kind::Thread => self.thread(record.value),
            Kind::Process => self.process(record.value),
            Kind::Encoding => self.decoder.encoding(&record),
            Kind::ThreadExit | Kind::Footer => self.gap(None),
            Kind::Bundle => Err(Wrong::Unfit(
                "is what DynamoRIO's tracer hands to a simulator beside it; record with -offline, and name what raw2trace makes of it",
            )),
            // What a filter let pass is no program.
            _ if self.is_filtered => Ok(()),
            Kind::Instruction(sort) => self.instruction(&record, sort),
            Kind::Round => self.round(&record),
            Kind::Load => self.access(&record, false),
            Kind::Store => self.access(&record, true),
            Kind::Prefetch { writes, code } => {
                let flags = (u8::from(writes) * Op::WRITES) | (u8::from(code) * Op::CODE);
                match &mut self.held {
                    Some(held) if held.prefetches.len() < HELD_ACCESSES => {
                        held.prefetches.push((record.value, flags));
                    }
                    _ => self.tally.stray += 1,
                }
                Ok(())
            }
            Kind::Beside => Ok(()),
        }
    }

    /// Behind the last record. Whether a footer was there.
    pub fn end(mut self) -> Result<bool, Wrong> {
        self.gap(None)?;
        self.close(false)?;
        Ok(self.has_ended)
    }

    /// What the file is of.
    pub fn isa(&self) -> Isa {
        self.decoder.isa()
    }

    fn versioned(&mut self, version: u64) -> Result<(), Wrong> {
        if !VERSIONS.contains(&version) {
            return Err(Wrong::Version(version));
        }
        self.version = version;
        Ok(())
    }

    fn typed(&mut self, bits: u64) -> Result<(), Wrong> {
        let is = |bit| bits & bit != 0;
        if is(file_type::TEMPLATES) {
            return Err(Wrong::Unfit(
                "has examples of system calls, to be put into other traces; name one of a program",
            ));
        }
        if is(file_type::FILTERED) && !is(file_type::FILTERED_AT_FIRST) {
            return Err(Wrong::Unfit(
                "was filtered as it was recorded (-L0_filter), so that most of the program is not in it; record it without a filter",
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

    fn marker(&mut self, record: &Record) -> Result<(), Wrong> {
        match record.size {
            marker::VERSION => return self.versioned(record.value),
            marker::FILE_TYPE => return self.typed(record.value),
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
                // Without an encoding nothing else says what the instruction was.
                if let Some(held) = &mut self.held
                    && held.decoded.class == OpClass::Int
                {
                    (held.decoded.class, held.decoded.flow) = (OpClass::Serialising, Flow::System);
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

    fn thread(&mut self, thread: u64) -> Result<(), Wrong> {
        let is_switch = self.tally.saw(self.hart, thread);
        if thread == self.thread {
            return Ok(());
        }
        self.gap(None)?;
        // The operating system was there between two threads.
        self.close(is_switch)?;
        self.thread = thread;
        self.space = self.processes.get(&thread).copied().unwrap_or(0);
        Ok(())
    }

    fn process(&mut self, process: u64) -> Result<(), Wrong> {
        let space = self.spaces.of(process)?;
        self.processes.insert(self.thread, space);
        if space != self.space {
            self.gap(None)?;
            self.close(false)?;
            self.space = space;
        }
        Ok(())
    }

    fn instruction(&mut self, record: &Record, sort: Sort) -> Result<(), Wrong> {
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
        self.held = Some(Held { decoded, sort, target, accesses, prefetches, privileged });
        Ok(())
    }

    /// A string instruction goes on; its rounds are one instruction.
    fn round(&mut self, record: &Record) -> Result<(), Wrong> {
        match &self.held {
            Some(held) if held.decoded.address == record.value => Ok(()),
            _ => self.instruction(record, Sort::Plain),
        }
    }

    fn access(&mut self, record: &Record, is_store: bool) -> Result<(), Wrong> {
        let (mut virt, mut left) = (record.value, u64::from(record.size));
        while left > 0 {
            if self.held.as_ref().is_some_and(|held| held.accesses.len() == HELD_ACCESSES) {
                self.write_round();
            }
            let Some(held) = &mut self.held else {
                self.tally.stray += 1;
                return Ok(());
            };
            // An access has one page; a large one is several.
            let within = if left > LINE_BYTES { LINE_BYTES } else { PAGE_BYTES };
            let size = left.min(within - virt % within);
            let (phys, size_bytes) = (virt, size as u8);
            held.accesses.push(Access {
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

    /// What follows did not follow in the program; what was interrupted would have gone on at `at`.
    fn gap(&mut self, at: Option<u64>) -> Result<(), Wrong> {
        self.write(at)?;
        self.expected = None;
        Ok(())
    }

    /// Some of an instruction's accesses, which has more.
    fn write_round(&mut self) {
        if let Some(held) = &mut self.held {
            self.emitter.privileged = held.privileged;
            self.emitter.emit(&held.decoded, &held.accesses, Goes::Again, &mut self.ops);
            held.accesses.clear();
        }
    }

    /// The instruction that was held back, if the next one is there.
    fn write(&mut self, next: Option<u64>) -> Result<(), Wrong> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let decoded = &held.decoded;
        self.emitter.privileged = held.privileged;
        for (virt, flags) in &held.prefetches {
            let privileged = u8::from(held.privileged) * Op::PRIVILEGED;
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
        let goes = goes(&held, next);
        self.emitter.emit(decoded, &held.accesses, goes, &mut self.ops);
        self.expected = match goes {
            _ if decoded.flow == Flow::System => None,
            Goes::To(target) => Some(target),
            _ => Some(decoded.behind()),
        };
        if decoded.class.is_branch() || self.ops.len() >= BLOCK_OPS {
            self.close(false)?;
        }
        Ok(())
    }

    /// Ends a block.
    fn close(&mut self, trapped: bool) -> Result<(), Wrong> {
        if self.ops.is_empty() && !trapped {
            return Ok(());
        }
        let step = Step { trapped, space: Some(self.space), thread: self.thread, ..Step::default() };
        self.to.block(self.hart, &step, &self.ops, &mut |_| Walk::default())?;
        self.ops.clear();
        Ok(())
    }
}

/// Where an instruction goes.
fn goes(held: &Held, next: Option<u64>) -> Goes {
    let decoded = &held.decoded;
    if !decoded.class.is_branch() {
        return Goes::On;
    }
    let told = held.target.or(match decoded.flow {
        Flow::Branch(target) | Flow::Direct(target) => Some(target),
        _ => None,
    });
    // What comes next, or by the marker of what has come between; or nobody knows.
    let target = told.or(next).unwrap_or(decoded.behind());
    let is_conditional = decoded.class == OpClass::Branch;
    match held.sort {
        Sort::Conditional(Some(taken)) => {
            if taken {
                Goes::To(target)
            } else {
                Goes::On
            }
        }
        _ if is_conditional => match next {
            Some(next) if next != decoded.behind() => Goes::To(next),
            _ => Goes::On,
        },
        _ => Goes::To(target),
    }
}
