//! Dictionary of recorded blocks. Most blocks are executed repeatedly and differ only in their access
//! addresses and indirect jump target. Their ops are therefore assembled once, and a repetition is emitted as
//! a number plus its addresses. The recorder sets the period, called *era* ([`Allowance`]), in which number
//! and addresses suffice; all addresses must be on pages that were recorded in the same era. These
//! repetitions are deferred and emitted together.

use std::collections::HashMap;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::numbered::{head, number_of};
use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{Allowance, Op as TimedOp, OpClass, OpSource, Ram};

use super::access_log::{AccessLog, DEFERRED_WORDS, NO_ERA};
use super::key::{Key, SLOTS};
use super::{Block, BlockOps};
use crate::hart::Hart;
use crate::mmu::PAGE_MASK;
use crate::tlb::UNRECORDED;

/// Maximum number of dictionary entries; later blocks are always emitted in full.
const NUMBERS: usize = 1 << 16;
/// Entries of the table of recorded pages, indexed by the page number's low bits. It is larger than the TLB,
/// so that a page that returns to the TLB is not recorded again.
const PAGES: usize = 1 << 13;

/// A dictionary entry. Its ops are stored separately, because they are accessed less often.
struct DictEntry {
    /// The era in which it was last emitted in full.
    era: u64,
    /// Index of its first memory access, and the number of accesses.
    first: u32,
    accesses: u32,
}

/// Data of a recently emitted block, compared on each execution.
#[derive(Clone, Copy, Default)]
struct RecentBlock {
    key: Key,
    /// The era in which it was last emitted in full.
    era: u64,
    /// The head word of its numbered form.
    head: u64,
}

/// A block's key and its slot in the table of recent blocks.
#[derive(Clone, Copy)]
pub(super) struct KeySlot {
    pub key: Key,
    pub slot: usize,
}

impl KeySlot {
    /// For a block that was executed completely (`whole`) or partially.
    #[inline(always)]
    pub fn new(key: Key, whole: bool) -> KeySlot {
        KeySlot { key, slot: key.slot(whole) }
    }
}

/// The context that a hart executes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExecContext {
    pub space: Option<u16>,
    pub privileged: bool,
}

/// A recorded page: its virtual page and host addend in the TLB, and the era in which it was recorded.
#[derive(Clone, Copy, Default, PartialEq)]
struct RecordedPage {
    page: u64,
    addend: u64,
    era: u64,
}

/// The era of privileged or unprivileged execution, from a recorder's era.
fn era_within(era: u64, privileged: bool) -> u64 {
    era << 1 | u64::from(privileged)
}

fn slot(virt: u64) -> usize {
    (virt / PAGE_BYTES) as usize % PAGES
}

/// The block dictionary of one hart.
pub struct BlockDictionary {
    blocks: Vec<DictEntry>,
    /// The ops of each block, as last emitted in full.
    ops: Vec<Vec<TimedOp>>,
    /// Indices of the ops that access memory, for all blocks consecutively.
    accesses: Vec<u16>,
    /// Numbers by key and privilege.
    numbers: HashMap<(Key, bool), u32>,
    /// Recently emitted blocks, by key slot.
    recent: Box<[RecentBlock; SLOTS]>,
    /// Ops of a block without a number.
    pub(super) scratch: Vec<TimedOp>,
    allowance: Allowance,
    /// The hart's access log while it runs, so that deferred blocks are in the log that the hart writes.
    pub(super) access_log: Box<AccessLog>,
    /// Number of deferred instructions, and their thread.
    deferred_instructions: u64,
    deferred_thread: u64,
    /// The address space that the allowance applies to, once a block in it was emitted in full.
    space: Option<Option<u16>>,
    /// The context that the hart executes in.
    executing: ExecContext,
    /// Generation of the block cache that the keys refer to.
    generation: u32,
    /// Maximum number of deferred words.
    words_max: usize,
    /// Recorded pages. Most look-ups are answered by [the TLB entry](crate::tlb::TlbEntry::recorded_era)
    /// instead.
    pages: Box<[RecordedPage; PAGES]>,
    /// No hart has run with it yet, so that eras in TLB entries are invalid.
    pub(super) is_new: bool,
}

impl Default for BlockDictionary {
    fn default() -> BlockDictionary {
        let recent = vec![RecentBlock::default(); SLOTS].into_boxed_slice();
        BlockDictionary {
            blocks: Vec::new(),
            ops: Vec::new(),
            accesses: Vec::new(),
            numbers: HashMap::new(),
            recent: recent.try_into().unwrap_or_else(|_| unreachable!("the vector has SLOTS entries")),
            scratch: Vec::new(),
            allowance: Allowance::default(),
            access_log: Box::default(),
            deferred_instructions: 0,
            deferred_thread: 0,
            space: None,
            executing: ExecContext::default(),
            generation: 0,
            words_max: 0,
            pages: Box::new([RecordedPage::default(); PAGES]),
            is_new: true,
        }
    }
}

impl BlockDictionary {
    /// Sets what may be emitted by number from the next run on.
    pub fn set_allowance(&mut self, allowance: Allowance) {
        if allowance.era != self.allowance.era {
            self.space = None;
        }
        self.allowance = allowance;
    }

    /// Sets the context of the hart with this log.
    pub(super) fn set_context(&mut self, within: ExecContext, log: &mut AccessLog) {
        self.executing = within;
        self.update_era(log);
    }

    /// The hart's execution context.
    pub(super) fn context(&self) -> ExecContext {
        self.executing
    }

    /// Sets the log's required era: the allowance's, if that applies to the current address space.
    fn update_era(&mut self, log: &mut AccessLog) {
        let ExecContext { space, privileged } = self.executing;
        let applies = self.space == Some(space) && self.allowance.era != UNRECORDED;
        log.set_era(if applies { era_within(self.allowance.era, privileged) } else { NO_ERA });
        self.words_max = self.allowance.words.min(DEFERRED_WORDS);
    }

    /// Whether the keys refer to this generation.
    #[inline(always)]
    pub(super) fn is_generation(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Sets the generation; entries of another one are dropped.
    pub(super) fn set_generation(&mut self, generation: u32) {
        if self.generation != generation {
            self.numbers.clear();
            self.recent.fill(RecentBlock::default());
            self.generation = generation;
        }
    }

    /// Defers a repeated block if number and addresses suffice: the block and all pages that it accessed were
    /// recorded in full in this era.
    #[inline(always)]
    pub(super) fn defer(&mut self, hart: &mut Hart, at: KeySlot) -> bool {
        let (recent, log) = (&self.recent[at.slot % SLOTS], &hart.access_log);
        let is_recorded = (recent.key == at.key) & (recent.era == log.era()) & log.all_recorded();
        if !is_recorded || self.deferred_thread != hart.thread() {
            return false;
        }
        let target = hart.pc;
        hart.access_log.defer(recent.head, target, at.key.is_indirect());
        self.deferred_instructions += at.key.count();
        true
    }

    /// Checks whether a block in the dictionary may be deferred. If so, it is entered in the table that
    /// [`defer`](BlockDictionary::defer) checks.
    pub(super) fn try_defer(&mut self, number: u32, hart: &mut Hart, at: KeySlot) -> bool {
        let now = hart.access_log.era();
        if self.blocks[number as usize].era != now {
            return false;
        }
        for nth in 0..hart.access_log.addresses().len() {
            let virt = hart.access_log.address(nth);
            let entry = hart.tlb_entry_mut(virt);
            let page = RecordedPage { page: virt & PAGE_MASK, addend: entry.addend, era: now };
            if entry.load_tag != page.page || self.pages[slot(virt)] != page {
                return false;
            }
            entry.recorded_era = now;
        }
        hart.access_log.mark_recorded();
        self.remember(number, at);
        true
    }

    /// Whether the deferred blocks belong to another thread.
    #[inline]
    pub(super) fn is_other_thread(&self, thread: u64) -> bool {
        self.deferred_thread != thread
    }

    /// Whether no more may be deferred in `log`.
    #[inline(always)]
    pub(super) fn is_full(&self, log: &AccessLog) -> bool {
        self.deferred_instructions >= self.allowance.instructions || log.deferred_words() >= self.words_max
    }

    /// The deferred blocks.
    pub fn deferred(&self) -> Option<Block<'_>> {
        self.deferred_in(&self.access_log)
    }

    /// Like [`deferred`](BlockDictionary::deferred), for the running hart with this log.
    pub(super) fn deferred_in<'a>(&self, log: &'a AccessLog) -> Option<Block<'a>> {
        (log.deferred_words() > 0).then_some(Block {
            ops: BlockOps::Numbered(log.deferred()),
            instructions: self.deferred_instructions,
            trapped: false,
            space: self.space.flatten(),
            thread: self.deferred_thread,
            number: None,
            fence: None,
        })
    }

    /// Clears the deferred blocks after the caller has emitted them.
    pub fn deferred_emitted(&mut self, allowance: Allowance) {
        self.access_log.clear_deferred();
        self.deferred_instructions = 0;
        self.set_allowance(allowance);
    }

    /// Like [`deferred_emitted`](BlockDictionary::deferred_emitted), for the running hart with this log.
    pub(super) fn clear_deferred(&mut self, log: &mut AccessLog, allowance: Allowance) {
        log.clear_deferred();
        self.deferred_instructions = 0;
        self.set_allowance(allowance);
        self.update_era(log);
    }

    /// Sets the thread of the deferred blocks.
    pub(super) fn set_thread(&mut self, thread: u64) {
        self.deferred_thread = thread;
    }

    /// Records that the last block was emitted in full, in this address space; `allowance` applies to the
    /// next one. If its era is a new one, the recorder may have dropped older pages and blocks. `numbered` is
    /// the block's number and slot.
    pub(super) fn block_emitted(
        &mut self,
        numbered: Option<(u32, KeySlot)>,
        hart: &mut Hart,
        space: Option<u16>,
        allowance: Allowance,
    ) {
        let same_era = allowance.era == self.allowance.era && allowance.era != UNRECORDED;
        (self.allowance, self.space) = (allowance, Some(space));
        self.update_era(&mut hart.access_log);
        let Some((number, at)) = numbered.filter(|_| same_era) else { return };
        let (block, era) = (&mut self.blocks[number as usize], hart.access_log.era());
        block.era = UNRECORDED;
        for access in &self.accesses[block.first as usize..][..block.accesses as usize] {
            let TimedOp { virt, phys, .. } = self.ops[number as usize][usize::from(*access)];
            // Unknown addresses, or an address whose translation does not match the address space.
            if (virt, phys.0) == (0, 0) || (virt == phys.0) != space.is_none() {
                return;
            }
            let entry = hart.tlb_entry_mut(virt);
            if entry.load_tag == virt & PAGE_MASK {
                entry.recorded_era = era;
                self.pages[slot(virt)] = RecordedPage { page: entry.load_tag, addend: entry.addend, era };
            }
        }
        block.era = era;
        self.remember(number, at);
    }

    /// The number of a block, if it has one; `now` is the era.
    pub(super) fn find(&self, at: KeySlot, now: u64) -> Option<u32> {
        let recent = &self.recent[at.slot % SLOTS];
        if recent.key == at.key && recent.era == now {
            return Some(number_of(recent.head));
        }
        self.numbers.get(&(at.key, self.executing.privileged)).copied()
    }

    /// Enters a block in the table of recent blocks.
    fn remember(&mut self, number: u32, KeySlot { key, slot }: KeySlot) {
        let DictEntry { era, accesses, .. } = self.blocks[number as usize];
        let head = head(number, accesses + u32::from(key.is_indirect()));
        self.recent[slot % SLOTS] = RecentBlock { key, era, head };
    }

    /// The ops of a repeated block with a number, with their new addresses. None if an access crosses a line,
    /// which changes the ops.
    #[inline]
    pub(super) fn repeated_ops(&mut self, number: u32, hart: &Hart, ram: &Ram) -> Option<&[TimedOp]> {
        let (block, ops) = (&self.blocks[number as usize], &mut self.ops[number as usize]);
        let accesses = &self.accesses[block.first as usize..][..block.accesses as usize];
        for (nth, access) in accesses.iter().enumerate() {
            let op = &mut ops[usize::from(*access)];
            op.virt = hart.access_log.address(nth);
            if op.virt % LINE_BYTES + u64::from(op.size) > LINE_BYTES {
                return None;
            }
            op.phys = hart.physical(ram, op.virt);
        }
        if let Some(last) = ops.last_mut().filter(|op| op.class.is_branch()) {
            last.virt = hart.pc;
        }
        Some(ops)
    }

    /// Assigns a number to the block in `scratch`, which logged `logged` addresses, if it qualifies.
    #[cold]
    pub(super) fn assign_number(&mut self, key: Key, logged: usize) -> Option<u32> {
        // A prefetch may become another op next time; an access with unknown addresses is handled apart.
        let is_odd = |op: &TimedOp| {
            op.class == OpClass::Prefetch
                || op.length == 0
                || op.class.is_memory() && (op.virt, op.phys.0) == (0, 0)
        };
        // A disallowed prefetch has become another op: more addresses were logged than ops access memory.
        let accesses = (0..).zip(&self.scratch).filter(|(_, op)| op.class.is_memory()).map(|(at, _)| at);
        let is_simple = accesses.clone().count() == logged && !self.scratch.iter().any(is_odd);
        if self.blocks.len() == NUMBERS || !is_simple || self.scratch.len() as u64 != key.count() {
            return None;
        }
        let computes = self.scratch.last().is_some_and(|op| op.class.has_computed_target());
        assert_eq!(computes, key.is_indirect(), "a block that ends with an indirect jump exits by it");
        let number = self.blocks.len() as u32;
        let first = self.accesses.len();
        self.accesses.extend(accesses);
        let (first, accesses) = (first as u32, logged as u32);
        self.blocks.push(DictEntry { era: UNRECORDED, first, accesses });
        self.ops.push(self.scratch.clone());
        self.numbers.insert((key, self.executing.privileged), number);
        Some(number)
    }
}
