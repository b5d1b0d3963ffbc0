//! Runs a [`Recorder`] on a separate thread, some thousand ops behind the decoder, in the same order.

use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};

use doorbell_sim::Op;
use doorbell_trace::Worker;
use doorbell_trace::system::TraceError;

use crate::event::{Event, ExecutedOps, Recorder};

/// Ops or items per batch, give or take a block.
const BATCH: usize = 1 << 13;
/// Capacity of the queue, in batches.
const WAITING: usize = 4;

enum Item {
    /// The next `ops` ops of the batch.
    Executed {
        ops: usize,
        instructions: u64,
        shape: Option<u32>,
        trapped: bool,
    },
    Event(Event),
}

#[derive(Default)]
struct Batch {
    ops: Vec<Op>,
    items: Vec<Item>,
}

impl Batch {
    /// Passes all items to a recorder, and empties the batch.
    fn deliver(&mut self, to: &mut impl Recorder) -> Result<(), TraceError> {
        let mut rest = &self.ops[..];
        for item in self.items.drain(..) {
            match item {
                Item::Executed { ops, instructions, shape, trapped } => {
                    let (ops, after) = rest.split_at(ops);
                    rest = after;
                    to.executed(&ExecutedOps { ops, instructions, shape, trapped })?;
                }
                Item::Event(event) => to.event(event)?,
            }
        }
        self.ops.clear();
        Ok(())
    }
}

/// Recorder front end of the thread.
pub(crate) struct Ahead<R> {
    batch: Batch,
    used: Receiver<Batch>,
    worker: Worker<Batch, R>,
}

impl<R: Recorder + Send + 'static> Ahead<R> {
    /// Starts the thread of a recorder.
    pub fn of(recorder: R) -> Result<Ahead<R>, TraceError> {
        let (back, used) = channel();
        let worker = Worker::start("trace writer", WAITING, move |batches| work(recorder, &batches, &back))?;
        Ok(Ahead { batch: Batch::default(), used, worker })
    }

    fn send(&mut self) -> Result<(), TraceError> {
        let next = self.used.try_recv().unwrap_or_default();
        self.worker.send(mem::replace(&mut self.batch, next))
    }

    fn send_if_full(&mut self) -> Result<(), TraceError> {
        let is_full = self.batch.ops.len() >= BATCH || self.batch.items.len() >= BATCH;
        if is_full { self.send() } else { Ok(()) }
    }

    /// Returns the recorder after it has received everything.
    pub fn finish(mut self) -> Result<R, TraceError> {
        self.send()?;
        let ended = self.worker.end()?;
        ended.ok_or_else(|| std::io::Error::other("the trace could not be completed").into())
    }
}

fn work<R: Recorder>(
    mut recorder: R,
    batches: &Receiver<Batch>,
    back: &Sender<Batch>,
) -> Result<R, TraceError> {
    for mut batch in batches {
        batch.deliver(&mut recorder)?;
        // The receiver is gone at the end.
        let _ = back.send(batch);
    }
    Ok(recorder)
}

impl<R: Recorder + Send + 'static> Recorder for Ahead<R> {
    fn executed(&mut self, executed: &ExecutedOps<'_>) -> Result<(), TraceError> {
        let ExecutedOps { ops, instructions, shape, trapped } = *executed;
        self.batch.ops.extend_from_slice(ops);
        self.batch.items.push(Item::Executed { ops: ops.len(), instructions, shape, trapped });
        self.send_if_full()
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        self.batch.items.push(Item::Event(event));
        self.send_if_full()
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Ps;

    use super::*;

    /// Collects all items, and fails at a wait of `fails_at`.
    #[derive(Default, Debug, PartialEq)]
    struct Collector {
        ops: Vec<Op>,
        items: Vec<(usize, u64, Option<u32>, bool)>,
        waits: Vec<(usize, u64)>,
        fails_at: Option<u64>,
    }

    impl Recorder for Collector {
        fn executed(&mut self, executed: &ExecutedOps<'_>) -> Result<(), TraceError> {
            self.ops.extend_from_slice(executed.ops);
            let ExecutedOps { ops, instructions, shape, trapped } = *executed;
            self.items.push((ops.len(), instructions, shape, trapped));
            Ok(())
        }

        fn event(&mut self, event: Event) -> Result<(), TraceError> {
            let Event::Waited(Ps(time)) = event else { panic!("{event:?}") };
            self.waits.push((self.items.len(), time));
            if self.fails_at == Some(time) { Err(std::io::Error::other("disk full").into()) } else { Ok(()) }
        }
    }

    /// Many blocks, some of them empty, with events between them.
    fn deliver(to: &mut impl Recorder) -> Result<(), TraceError> {
        for number in 0..40_000_u64 {
            let ops: Vec<Op> =
                (0..number % 5).map(|at| Op { pc: number * 8 + at, ..Op::default() }).collect();
            let shape = number.is_multiple_of(3).then_some(number as u32);
            to.executed(&ExecutedOps {
                ops: &ops,
                instructions: number % 4,
                shape,
                trapped: number % 7 == 0,
            })?;
            if number % 11 == 0 {
                to.event(Event::Waited(Ps(number)))?;
            }
        }
        Ok(())
    }

    #[test]
    fn items_arrive_in_order() {
        let mut direct = Collector::default();
        deliver(&mut direct).unwrap();
        let mut ahead = Ahead::of(Collector::default()).unwrap();
        deliver(&mut ahead).unwrap();
        assert_eq!(ahead.finish().unwrap(), direct);
    }

    #[test]
    fn recorder_errors_are_reported() {
        for fails_at in [0, 11 * 3000, 11 * 3636] {
            let collector = Collector { fails_at: Some(fails_at), ..Collector::default() };
            let mut ahead = Ahead::of(collector).unwrap();
            let result = deliver(&mut ahead).and_then(|()| ahead.finish().map(|_| ()));
            assert_eq!(result.unwrap_err().to_string(), "disk full");
        }
    }
}
