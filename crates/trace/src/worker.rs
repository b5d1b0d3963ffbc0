//! A thread that consumes a bounded queue.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::system::TraceError;

/// Sender's side of the thread; dropping it waits for the thread.
pub struct Worker<T, R> {
    /// `None` once the thread has ended.
    to: Option<SyncSender<T>>,
    thread: Option<JoinHandle<Result<R, TraceError>>>,
}

impl<T: Send + 'static, R: Send + 'static> Worker<T, R> {
    /// Starts a thread with a queue of at most `waiting` items, which ends with the sender.
    pub fn start(
        name: &str,
        waiting: usize,
        work: impl FnOnce(Receiver<T>) -> Result<R, TraceError> + Send + 'static,
    ) -> io::Result<Worker<T, R>> {
        let (to, items) = sync_channel(waiting);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(items))?;
        Ok(Worker { to: Some(to), thread: Some(thread) })
    }

    /// Queues an item. Fails with the thread's error, if it has ended.
    pub fn send(&mut self, item: T) -> Result<(), TraceError> {
        match &self.to {
            Some(to) if to.send(item).is_ok() => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// Ends the thread, which has ended early, and returns its error.
    pub fn failure(&mut self) -> TraceError {
        let further = || io::Error::other("writing the trace failed").into();
        self.end().err().unwrap_or_else(further)
    }

    /// Ends the thread after all items and returns its result; `None` if that was returned before.
    pub fn end(&mut self) -> Result<Option<R>, TraceError> {
        self.to = None;
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().expect("a worker does not panic").map(Some)
    }
}

impl<T, R> Drop for Worker<T, R> {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
