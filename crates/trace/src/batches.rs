//! What a thread of its own makes ahead, some of it at once, and whoever uses it gives back to be filled again.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

/// See the module.
pub(crate) struct Batches<T> {
    filled: Receiver<T>,
    used: Sender<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Default + Send + 'static> Batches<T> {
    /// Of a thread that `fill`s one after another, of which so many wait at most, until it says that there are no more or nobody takes
    /// them. What it is given has been used before, or is new.
    pub fn new(
        thread: &str,
        ahead: usize,
        mut fill: impl FnMut(&mut T) -> bool + Send + 'static,
    ) -> io::Result<Batches<T>> {
        let (to, filled) = sync_channel(ahead);
        let (used, empty) = channel::<T>();
        let thread = thread::Builder::new().name(thread.to_owned()).spawn(move || {
            loop {
                let mut batch = empty.try_recv().unwrap_or_default();
                let more = fill(&mut batch);
                if to.send(batch).is_err() || !more {
                    return;
                }
            }
        })?;
        Ok(Batches { filled, used, thread: Some(thread) })
    }

    /// Takes the next, if there is one, in the place of the one before.
    pub fn next(&mut self, batch: &mut T) -> bool {
        // At the end nobody takes it any more.
        _ = self.used.send(std::mem::take(batch));
        match self.filled.recv() {
            Ok(next) => {
                *batch = next;
                true
            }
            Err(_) => {
                // One that broke off must not pass for one that came to the end.
                let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
                assert!(ended.is_ok(), "the thread that makes batches does not panic");
                false
            }
        }
    }
}
