//! Device writes of a trace that are not in memory yet. A block stalls on such a write if it accesses one of
//! its lines and ran after the write when recorded.

use std::collections::VecDeque;

use doorbell_sim::memory::LINE_BYTES;
use doorbell_sim::{Op, PhysAddr, Ps};

/// Identifies a write by its hart and its number among the writes of that hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteId {
    hart: u16,
    number: u64,
}

#[derive(Debug)]
struct Write {
    /// First instruction of its hart that could see the write, and the minimum of it and those of later
    /// writes.
    visible: u64,
    from: u64,
    /// First and last cache line.
    lines: (u64, u64),
    /// Completion time, once started, and the completion time if it took as long as recorded.
    done: Option<Ps>,
    as_recorded: Ps,
}

impl Write {
    fn touched_by(&self, ops: &[Op]) -> bool {
        let (first, last) = self.lines;
        let in_lines = |op: &Op| {
            let line = op.phys.0 / LINE_BYTES;
            op.class.is_memory() && first <= line && line <= last
        };
        ops.iter().any(in_lines)
    }
}

/// Writes recorded after instructions of one hart, the oldest first.
#[derive(Default)]
struct HartWrites {
    writes: VecDeque<Write>,
    first: u64,
    /// Number of writes started, if they start in order.
    started: u64,
}

/// Whether a block may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It may begin.
    No,
    /// It may begin at this time.
    Until(Ps),
    /// It waits for a write that has not started.
    NotStarted,
}

/// Pending writes of all harts.
pub(super) struct Pending {
    harts: Vec<HartWrites>,
}

impl Pending {
    /// Creates an empty list for `harts` harts.
    pub fn new(harts: usize) -> Pending {
        Pending { harts: (0..harts).map(|_| HartWrites::default()).collect() }
    }

    /// Adds a write that has not started. To be called in recorded order.
    pub fn expect_write(&mut self, hart: u16, visible: u64, addr: PhysAddr, len: u32) -> WriteId {
        let writes_of = &mut self.harts[usize::from(hart)];
        // A later write may be visible earlier than the ones before it.
        for write in writes_of.writes.iter_mut().rev().take_while(|write| write.from > visible) {
            write.from = visible;
        }
        let lines = (addr.0 / LINE_BYTES, (addr.0 + u64::from(len.max(1)) - 1) / LINE_BYTES);
        writes_of.writes.push_back(Write { visible, from: visible, lines, done: None, as_recorded: Ps::MAX });
        WriteId { hart, number: writes_of.first + writes_of.writes.len() as u64 - 1 }
    }

    /// Records that a write has started. It completes at `done`, and with its recorded duration at
    /// `as_recorded`.
    pub fn start(&mut self, id: WriteId, done: Ps, as_recorded: Ps) {
        let writes_of = &mut self.harts[usize::from(id.hart)];
        let write = &mut writes_of.writes[(id.number - writes_of.first) as usize];
        (write.done, write.as_recorded) = (Some(done), as_recorded);
        writes_of.started = writes_of.started.max(id.number + 1);
    }

    /// Instruction count at which a hart can first see a write that is not in memory.
    pub fn first_visible(&self, hart: usize) -> u64 {
        self.harts[hart].writes.front().map_or(u64::MAX, |write| write.from)
    }

    /// Removes the writes that are in memory at `now`.
    #[inline]
    pub fn settle(&mut self, now: Ps) {
        for writes_of in &mut self.harts {
            while writes_of.writes.front().is_some_and(|write| write.done.is_some_and(|done| done <= now)) {
                writes_of.writes.pop_front();
                writes_of.first += 1;
            }
        }
    }

    /// Whether a hart at `position` may begin these ops at `now`. It waits for its own writes that it saw
    /// when recorded. It waits for another hart's write only if that is late: it would be in memory with its
    /// recorded duration. Other unfinished writes came after the block when recorded, too.
    #[inline]
    pub fn wait(&self, hart: usize, position: u64, now: Ps, ops: &[Op]) -> Wait {
        let mut until = None;
        for (of, writes_of) in self.harts.iter().enumerate() {
            if of != hart {
                until = until.max(writes_of.late(now, ops));
                continue;
            }
            for write in writes_of.writes.iter().take_while(|write| write.from <= position) {
                if write.visible > position
                    || write.done.is_some_and(|done| done <= now)
                    || !write.touched_by(ops)
                {
                    continue;
                }
                match write.done {
                    None => return Wait::NotStarted,
                    done => until = until.max(done),
                }
            }
        }
        until.map_or(Wait::No, Wait::Until)
    }
}

impl HartWrites {
    fn late(&self, now: Ps, ops: &[Op]) -> Option<Ps> {
        let started = self.writes.iter().take((self.started - self.first.min(self.started)) as usize);
        let is_late = |write: &Write| write.as_recorded <= now && write.done.is_some_and(|done| done > now);
        let late = started.filter(|write| is_late(write) && write.touched_by(ops));
        late.filter_map(|write| write.done).max()
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::OpClass;

    use super::*;

    fn load(addr: u64) -> [Op; 1] {
        [Op { class: OpClass::Load, phys: PhysAddr(addr), size: 8, ..Op::default() }]
    }

    #[test]
    fn block_waits_only_for_writes_that_it_saw() {
        let mut pending = Pending::new(2);
        let (now, addr) = (Ps(1000), PhysAddr(0x8000_0100));
        let id = pending.expect_write(0, 50, addr, 128);
        for line in [0x8000_0100, 0x8000_0178] {
            assert_eq!(pending.wait(0, 49, now, &load(line)), Wait::No, "too early to see it");
            assert_eq!(pending.wait(0, 50, now, &load(line)), Wait::NotStarted);
        }
        for line in [0x8000_00f8, 0x8000_0180] {
            assert_eq!(pending.wait(0, 50, now, &load(line)), Wait::No, "another line");
        }
        let mut elsewhere = load(0x8000_0100);
        elsewhere[0].class = OpClass::Int;
        assert_eq!(pending.wait(0, 50, now, &elsewhere), Wait::No, "no memory access");
        assert_eq!(
            pending.wait(1, 50, now, &load(addr.0)),
            Wait::No,
            "another hart's write that has not started"
        );
        pending.start(id, Ps(2000), Ps(1800));
        assert_eq!(pending.wait(1, 50, Ps(1799), &load(addr.0)), Wait::No, "preceded it when recorded too");
        assert_eq!(pending.wait(1, 50, Ps(1800), &load(addr.0)), Wait::Until(Ps(2000)));
        assert_eq!(pending.wait(0, 50, Ps(1799), &load(addr.0)), Wait::Until(Ps(2000)));
        for hart in 0..2 {
            assert_eq!(pending.wait(hart, 50, Ps(1999), &load(addr.0)), Wait::Until(Ps(2000)));
            assert_eq!(pending.wait(hart, 50, Ps(2000), &load(addr.0)), Wait::No);
        }
        pending.settle(Ps(2000));
        assert!(pending.harts[0].writes.is_empty());
    }

    #[test]
    fn later_write_with_earlier_visibility_is_waited_for() {
        let mut pending = Pending::new(1);
        let first = pending.expect_write(0, 100, PhysAddr(0x1000), 64);
        let second = pending.expect_write(0, 40, PhysAddr(0x2000), 64);
        assert_eq!(pending.wait(0, 50, Ps(0), &load(0x1000)), Wait::No);
        assert_eq!(pending.wait(0, 50, Ps(0), &load(0x2000)), Wait::NotStarted);
        pending.start(second, Ps(5), Ps(5));
        assert_eq!(pending.wait(0, 50, Ps(0), &load(0x2000)), Wait::Until(Ps(5)));
        pending.settle(Ps(5));
        assert_eq!(pending.wait(0, 100, Ps(5), &load(0x2000)), Wait::No);
        assert_eq!(pending.wait(0, 100, Ps(5), &load(0x1000)), Wait::NotStarted);
        pending.start(first, Ps(6), Ps(6));
        pending.settle(Ps(6));
        assert_eq!(pending.harts[0].first, 2);
    }
}
