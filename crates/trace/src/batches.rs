//! Batches produced ahead by a thread; the consumer returns used batches for reuse.
//!
//! Batches are passed in groups, because waking a waiting thread costs as much as simulating some thousand
//! instructions. The first batch is passed alone, so that the consumer can start.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

/// Batches per group, except for the first.
const GROUP: usize = 4;

/// Consumer side; see the module.
pub(crate) struct Batches<T> {
    filled: Receiver<Vec<T>>,
    used: Sender<Vec<T>>,
    /// The rest of the current group, the next batch last, and the used batches.
    group: Vec<T>,
    done: Vec<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Default + Send + 'static> Batches<T> {
    /// Starts a thread that calls `fill` for each batch, up to `groups_ahead` groups ahead. It ends when
    /// `fill` returns false or the consumer is dropped. `fill` gets a used batch or a new one.
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

    /// Replaces `batch` by the next one; `false` at the end.
    pub fn next(&mut self, batch: &mut T) -> bool {
        self.done.push(std::mem::take(batch));
        if self.group.is_empty() {
            // At the end, the producer is gone.
            _ = self.used.send(std::mem::take(&mut self.done));
            match self.filled.recv() {
                Ok(group) => self.group = group,
                Err(_) => {
                    // A panic of the producer must not look like the end.
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

    /// Batches of one number each, up to `last`.
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
    fn batches_arrive_in_order() {
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
    fn production_is_bounded_by_the_queue() {
        let made = Arc::new(AtomicU64::new(0));
        let count = made.clone();
        let fill = move |_: &mut Vec<u64>| count.fetch_add(1, Ordering::SeqCst) < u64::MAX;
        let mut batches = Batches::new("endless", 1, fill).unwrap();
        let mut batch = Vec::new();
        (0..1000).for_each(|_| assert!(batches.next(&mut batch)));
        drop(batches);
        // One group in use, one waiting, one being filled, and one not taken.
        assert!(made.load(Ordering::SeqCst) <= 1000 + 4 * GROUP as u64);
    }

    #[test]
    #[should_panic = "does not panic"]
    fn panic_of_the_producer_is_not_taken_for_the_end() {
        let fill = |_: &mut Vec<u64>| panic!("broken");
        Batches::<Vec<u64>>::new("broken", 1, fill).unwrap().next(&mut Vec::new());
    }
}
