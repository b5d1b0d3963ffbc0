//! The host threads that run a network's members through a window. Within a window no member can notice another, so it does not
//! matter which thread runs which member, nor in which order.
//!
//! A window may be as short as some microseconds of host time, so threads wait for the next one by spinning; who has waited long
//! gives the core away in between. A window in which at most one member has something to do is the calling thread's alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use doorbell_sim::Ps;

use crate::network::member::Member;
use crate::run::{Limits, Outcome};

/// Looks at a shared number before a waiting thread gives its core away.
const SPINS: u32 = 2_000;
/// Of a claim, the bits that say which member is next; the window's number stands above them.
const MEMBER_BITS: u32 = 16;

/// What ended members' runs in a window, by member.
pub(crate) type Ended = Vec<(usize, Outcome)>;

/// A window, as threads share it.
#[derive(Default)]
struct Window {
    /// The window's number, and the member that nobody has claimed yet.
    claim: AtomicU64,
    until: AtomicU64,
    /// Members that were run.
    done: AtomicUsize,
    over: AtomicBool,
    ended: Mutex<Ended>,
}

/// Says at the end of a scope, however it ends, that no more windows come.
struct Dismiss<'a>(&'a Window);

impl Drop for Dismiss<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// Says at the end of a scope, however it ends, that a member was run.
struct Done<'a>(&'a Window);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

/// Calls `body` with something that runs all members up to a time, on so many threads.
pub(crate) fn with_threads<R>(
    threads: usize,
    members: &[Mutex<Member>],
    limits: &Limits,
    body: impl FnOnce(&mut dyn FnMut(Ps) -> Ended) -> R,
) -> R {
    let threads = threads.min(members.len());
    if threads < 2 {
        return body(&mut |until| alone(members, until, limits));
    }
    let window = Window { claim: AtomicU64::new(members.len() as u64), ..Window::default() };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                while !window.over.load(Ordering::Acquire) {
                    share(&window, members, limits);
                    wait(|| is_open(&window, members) || window.over.load(Ordering::Acquire));
                }
            });
        }
        let _dismiss = Dismiss(&window);
        body(&mut |until| {
            let busy = members.iter().filter(|member| lock(member).next_activity() < until).take(2).count();
            if busy < 2 {
                return alone(members, until, limits);
            }
            // All members of the window before were run, so nobody looks at these before the next one is open.
            window.until.store(until.0, Ordering::Relaxed);
            window.done.store(0, Ordering::Relaxed);
            let number = (window.claim.load(Ordering::Relaxed) >> MEMBER_BITS) + 1;
            window.claim.store(number << MEMBER_BITS, Ordering::Release);
            share(&window, members, limits);
            // Only threads that have claimed a member are waited for, and not those that the host lets wait.
            wait(|| window.done.load(Ordering::Acquire) == members.len());
            let mut ended =
                std::mem::take(&mut *window.ended.lock().expect("nobody panics while it holds this"));
            ended.sort_by_key(|(member, _)| *member);
            ended
        })
    })
}

/// One after the other.
fn alone(members: &[Mutex<Member>], until: Ps, limits: &Limits) -> Ended {
    let run = |(index, member): (usize, &Mutex<Member>)| {
        lock(member).run(until, limits).map(|outcome| (index, outcome))
    };
    members.iter().enumerate().filter_map(run).collect()
}

/// Whether there is a member that nobody has claimed.
fn is_open(window: &Window, members: &[Mutex<Member>]) -> bool {
    member_of(window.claim.load(Ordering::Acquire)) < members.len()
}

fn member_of(claim: u64) -> usize {
    (claim & ((1 << MEMBER_BITS) - 1)) as usize
}

/// Runs members that nobody has claimed until there are none. A window ends only when all of its members were run, so one who
/// has claimed a member is in that member's window.
fn share(window: &Window, members: &[Mutex<Member>], limits: &Limits) {
    let next = |claim: u64| (member_of(claim) < members.len()).then_some(claim + 1);
    while let Ok(claim) = window.claim.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
        let index = member_of(claim);
        let _done = Done(window);
        let until = Ps(window.until.load(Ordering::Relaxed));
        if let Some(outcome) = lock(&members[index]).run(until, limits) {
            window.ended.lock().expect("nobody panics while it holds this").push((index, outcome));
        }
    }
}

pub(crate) fn lock(member: &Mutex<Member>) -> std::sync::MutexGuard<'_, Member> {
    member.lock().expect("whoever panics with a member ends the run")
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
