//! Host threads that run a network's members through a window. Within a window members do not affect each
//! other, so the assignment of members to threads and their order do not matter.
//!
//! A window may take only some microseconds of host time, so threads spin while waiting for the next one, and
//! yield after many spins. If at most one member has something to do in a window, the calling thread runs all
//! members.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use doorbell_sim::Ps;

use crate::network::member::Member;
use crate::run::{Limits, Outcome};

/// Polls of a shared variable before a waiting thread yields its host core.
const SPINS: u32 = 2_000;
/// Low bits of a claim, with the index of the next member; the window's number is in the bits above.
const MEMBER_BITS: u32 = 16;

/// Members whose runs ended in a window, with their outcomes.
pub(crate) type MemberOutcomes = Vec<(usize, Outcome)>;

/// Shared state of the present window.
#[derive(Default)]
struct Window {
    /// Number of the window, and index of the first unclaimed member.
    claim: AtomicU64,
    until: AtomicU64,
    /// Number of members that have run.
    done: AtomicUsize,
    over: AtomicBool,
    ended: Mutex<MemberOutcomes>,
}

/// Guard that dismisses the worker threads when dropped, also on a panic.
struct Dismiss<'a>(&'a Window);

impl Drop for Dismiss<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// Guard that counts a member as run when dropped, also on a panic.
struct MarkDone<'a>(&'a Window);

impl Drop for MarkDone<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

/// Calls `body` with a function that runs all members up to a given time on `threads` threads.
pub(crate) fn with_threads<R>(
    threads: usize,
    members: &[Mutex<Member>],
    limits: &Limits,
    body: impl FnOnce(&mut dyn FnMut(Ps) -> MemberOutcomes) -> R,
) -> R {
    let threads = threads.min(members.len());
    if threads < 2 {
        return body(&mut |until| run_serially(members, until, limits));
    }
    let window = Window { claim: AtomicU64::new(members.len() as u64), ..Window::default() };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                while !window.over.load(Ordering::Acquire) {
                    run_unclaimed(&window, members, limits);
                    wait(|| has_unclaimed(&window, members) || window.over.load(Ordering::Acquire));
                }
            });
        }
        let _dismiss = Dismiss(&window);
        body(&mut |until| {
            let busy = members.iter().filter(|member| lock(member).next_activity() < until).take(2).count();
            if busy < 2 {
                return run_serially(members, until, limits);
            }
            // All members of the previous window have run, so no thread reads these before the next window
            // opens.
            window.until.store(until.0, Ordering::Relaxed);
            window.done.store(0, Ordering::Relaxed);
            let number = (window.claim.load(Ordering::Relaxed) >> MEMBER_BITS) + 1;
            window.claim.store(number << MEMBER_BITS, Ordering::Release);
            run_unclaimed(&window, members, limits);
            // Waits only for threads that have claimed a member, not for those that the host has not
            // scheduled.
            wait(|| window.done.load(Ordering::Acquire) == members.len());
            let mut ended =
                std::mem::take(&mut *window.ended.lock().expect("no thread panics while holding this lock"));
            ended.sort_by_key(|(member, _)| *member);
            ended
        })
    })
}

/// Runs all members on the calling thread.
fn run_serially(members: &[Mutex<Member>], until: Ps, limits: &Limits) -> MemberOutcomes {
    let run = |(index, member): (usize, &Mutex<Member>)| {
        lock(member).run(until, limits).map(|outcome| (index, outcome))
    };
    members.iter().enumerate().filter_map(run).collect()
}

/// Whether an unclaimed member is left.
fn has_unclaimed(window: &Window, members: &[Mutex<Member>]) -> bool {
    member_of(window.claim.load(Ordering::Acquire)) < members.len()
}

fn member_of(claim: u64) -> usize {
    (claim & ((1 << MEMBER_BITS) - 1)) as usize
}

/// Claims and runs members until all are claimed. A window ends only after all its members have run, so a
/// claimed member always belongs to the present window.
fn run_unclaimed(window: &Window, members: &[Mutex<Member>], limits: &Limits) {
    let next = |claim: u64| (member_of(claim) < members.len()).then_some(claim + 1);
    while let Ok(claim) = window.claim.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
        let index = member_of(claim);
        let _done = MarkDone(window);
        let until = Ps(window.until.load(Ordering::Relaxed));
        if let Some(outcome) = lock(&members[index]).run(until, limits) {
            window.ended.lock().expect("no thread panics while holding this lock").push((index, outcome));
        }
    }
}

pub(crate) fn lock(member: &Mutex<Member>) -> std::sync::MutexGuard<'_, Member> {
    member.lock().expect("a panic while a member runs ends the whole run")
}

fn wait(is_there: impl Fn() -> bool) {
    let mut spins = 0;
    while !is_there() {
        spins += 1;
        match spins < SPINS {
            true => std::hint::spin_loop(),
            false => std::thread::yield_now(),
        }
    }
}
