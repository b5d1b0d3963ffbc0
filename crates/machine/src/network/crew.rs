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

/// What ended members' runs in a window, by member.
pub(crate) type Ended = Vec<(usize, Outcome)>;

/// A window, as threads share it.
struct Window {
    /// Counted up when a window begins.
    number: AtomicU64,
    until: AtomicU64,
    /// The member that nobody has taken yet.
    next: AtomicUsize,
    /// Threads that are still at it, the calling one apart.
    busy: AtomicUsize,
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

/// Says at the end of a scope, however it ends, that this thread is done with a window.
struct Done<'a>(&'a Window);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
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
    let window = Window {
        number: AtomicU64::new(0),
        until: AtomicU64::new(0),
        next: AtomicUsize::new(0),
        busy: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        ended: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| work(&window, members, limits));
        }
        let _dismiss = Dismiss(&window);
        body(&mut |until| {
            let busy = members.iter().filter(|member| lock(member).next_activity() < until).take(2).count();
            if busy < 2 {
                return alone(members, until, limits);
            }
            window.until.store(until.0, Ordering::Relaxed);
            window.next.store(0, Ordering::Relaxed);
            window.busy.store(threads - 1, Ordering::Relaxed);
            window.number.fetch_add(1, Ordering::Release);
            share(&window, members, until, limits);
            wait(|| window.busy.load(Ordering::Acquire) == 0);
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

/// A thread's life.
fn work(window: &Window, members: &[Mutex<Member>], limits: &Limits) {
    let mut seen = 0;
    loop {
        let is_over = || window.over.load(Ordering::Acquire);
        wait(|| window.number.load(Ordering::Acquire) != seen || is_over());
        if is_over() {
            return;
        }
        seen += 1;
        let _done = Done(window);
        share(window, members, Ps(window.until.load(Ordering::Relaxed)), limits);
    }
}

/// Runs members that nobody has taken until there are none.
fn share(window: &Window, members: &[Mutex<Member>], until: Ps, limits: &Limits) {
    loop {
        let index = window.next.fetch_add(1, Ordering::Relaxed);
        let Some(member) = members.get(index) else { return };
        if let Some(outcome) = lock(member).run(until, limits) {
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
