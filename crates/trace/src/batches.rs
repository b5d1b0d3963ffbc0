//! What a thread of its own makes ahead, some of it at once, and whoever uses it gives back to be filled again.
//!
//! Batches are handed over in groups, as a thread that waits has to be woken for each hand-over, which costs as much as some thousand
//! instructions that are priced. The first is handed over alone, so that whoever uses it can begin.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

/// Batches of a group but the first.
const GROUP: usize = 4;

/// See the module.
pub(crate) struct Batches<T> {
    filled: Receiver<Vec<T>>,
    used: Sender<Vec<T>>,
    /// What is left of a group, the next one last, and what of it has been used.
    group: Vec<T>,
    done: Vec<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Default + Send + 'static> Batches<T> {
    /// Of a thread that `fill`s one after another, of which so many groups wait at most, until it says that there are no more or nobody
    /// takes them. What it is given has been used before, or is new.
    pub fn new(
        thread: &str,
        groups_ahead: usize,
        mut fill: impl FnMut(&mut T) -> bool + Send + 'static,
    ) -> io::Result<Batches<T>> {
        let (to, filled) = sync_channel(groups_ahead);
        let (used, empty) = channel::<Vec<T>>();
        let thread = thread::Builder::new().name(thread.to_owned()).spawn(move || {
            let (mut count, mut more) = (1, true);
            while more {
                let mut group = empty.try_recv().unwrap_or_default();
                group.resize_with(count, T::default);
                let filled = group.iter_mut().position(|batch| {
                    more = fill(batch);
                    !more
                });
                group.truncate(filled.map_or(count, |last| last + 1));
                group.reverse();
                if to.send(group).is_err() {
                    return;
                }
                count = GROUP;
            }
        })?;
        Ok(Batches { filled, used, group: Vec::new(), done: Vec::new(), thread: Some(thread) })
    }

    /// Takes the next, if there is one, in the place of the one before.
    pub fn next(&mut self, batch: &mut T) -> bool {
        self.done.push(std::mem::take(batch));
        if self.group.is_empty() {
            // At the end nobody takes it any more.
            _ = self.used.send(std::mem::take(&mut self.done));
            match self.filled.recv() {
                Ok(group) => self.group = group,
                Err(_) => {
                    // One that broke off must not pass for one that came to the end.
                    let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
                    assert!(ended.is_ok(), "the thread that makes batches does not panic");
                    return false;
                }
            }
        }
        *batch = self.group.pop().expect("a group has a batch");
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Batches of one number each, up to a last one.
    fn up_to(last: u64) -> Batches<Vec<u64>> {
        let mut number = 0;
        let fill = move |batch: &mut Vec<u64>| {
            batch.clear();
            batch.push(number);
            number += 1;
            number <= last
        };
        Batches::new("numbers", 1, fill).unwrap()
    }

    #[test]
    fn all_batches_come_in_order_wherever_a_group_ends() {
        for last in 0..4 * GROUP as u64 {
            let mut batches = up_to(last);
            let mut batch = Vec::new();
            for number in 0..=last {
                assert!(batches.next(&mut batch), "{number} of {last}");
                assert_eq!(batch, [number]);
            }
            assert!(!batches.next(&mut batch));
        }
    }

    #[test]
    fn no_more_are_made_than_are_taken_and_may_wait() {
        let made = Arc::new(AtomicU64::new(0));
        let count = made.clone();
        let fill = move |_: &mut Vec<u64>| count.fetch_add(1, Ordering::SeqCst) < u64::MAX;
        let mut batches = Batches::new("endless", 1, fill).unwrap();
        let mut batch = Vec::new();
        (0..1000).for_each(|_| assert!(batches.next(&mut batch)));
        drop(batches);
        // A group in use, one that waits, one that is filled, and one that nobody took.
        assert!(made.load(Ordering::SeqCst) <= 1000 + 4 * GROUP as u64);
    }

    #[test]
    #[should_panic = "does not panic"]
    fn a_thread_that_breaks_off_is_not_taken_for_one_that_came_to_the_end() {
        let fill = |_: &mut Vec<u64>| panic!("broken");
        Batches::<Vec<u64>>::new("broken", 1, fill).unwrap().next(&mut Vec::new());
    }
}
