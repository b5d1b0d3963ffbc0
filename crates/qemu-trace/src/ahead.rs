//! A recorder on a thread of its own: whoever decodes goes on while it works, some thousand ops ahead. What is told comes there in the same
//! order.

use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use doorbell_sim::Op;
use doorbell_trace::system::TraceError;

use crate::event::{Event, Executed, Recorder};

/// Ops, or things told, of a batch, give or take a block.
const BATCH: usize = 1 << 13;
/// Batches that wait.
const WAITING: usize = 4;

enum Told {
    /// So many of the batch's ops.
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
    told: Vec<Told>,
}

impl Batch {
    /// Tells a recorder all of it, and is empty then.
    fn tell(&mut self, to: &mut impl Recorder) -> Result<(), TraceError> {
        let mut rest = &self.ops[..];
        for told in self.told.drain(..) {
            match told {
                Told::Executed { ops, instructions, shape, trapped } => {
                    let (ops, behind) = rest.split_at(ops);
                    rest = behind;
                    to.executed(&Executed { ops, instructions, shape, trapped })?;
                }
                Told::Event(event) => to.event(event)?,
            }
        }
        self.ops.clear();
        Ok(())
    }
}

/// See the module.
pub(crate) struct Ahead<R> {
    batch: Batch,
    /// `None` once there is nobody left to take them.
    to: Option<SyncSender<Batch>>,
    used: Receiver<Batch>,
    worker: Option<JoinHandle<Result<R, TraceError>>>,
}

impl<R: Recorder + Send + 'static> Ahead<R> {
    /// Before a recorder.
    pub fn of(recorder: R) -> Result<Ahead<R>, TraceError> {
        let (to, batches) = sync_channel(WAITING);
        let (back, used) = channel();
        let worker = thread::Builder::new().name("trace writer".to_owned());
        let worker = worker.spawn(move || work(recorder, &batches, &back))?;
        Ok(Ahead { batch: Batch::default(), to: Some(to), used, worker: Some(worker) })
    }

    fn send(&mut self) -> Result<(), TraceError> {
        let next = self.used.try_recv().unwrap_or_default();
        let batch = mem::replace(&mut self.batch, next);
        if self.to.as_ref().is_some_and(|to| to.send(batch).is_ok()) {
            return Ok(());
        }
        self.end().map(|_| ())?;
        Err(std::io::Error::other("the trace could not be written any further").into())
    }

    fn send_if_full(&mut self) -> Result<(), TraceError> {
        let is_full = self.batch.ops.len() >= BATCH || self.batch.told.len() >= BATCH;
        if is_full { self.send() } else { Ok(()) }
    }

    /// What the recorder came to, which ends with this.
    fn end(&mut self) -> Result<Option<R>, TraceError> {
        self.to = None;
        let Some(worker) = self.worker.take() else { return Ok(None) };
        worker.join().expect("the writer does not panic").map(Some)
    }

    /// The recorder, when it has been told everything.
    pub fn finish(mut self) -> Result<R, TraceError> {
        self.send()?;
        let ended = self.end()?;
        ended.ok_or_else(|| std::io::Error::other("the trace could not be written to its end").into())
    }
}

/// What was not finished is over, and what the recorder has begun with it.
impl<R> Drop for Ahead<R> {
    fn drop(&mut self) {
        self.to = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn work<R: Recorder>(
    mut recorder: R,
    batches: &Receiver<Batch>,
    back: &Sender<Batch>,
) -> Result<R, TraceError> {
    for mut batch in batches {
        batch.tell(&mut recorder)?;
        // Whoever has ended needs none.
        let _ = back.send(batch);
    }
    Ok(recorder)
}

impl<R: Recorder + Send + 'static> Recorder for Ahead<R> {
    fn executed(&mut self, executed: &Executed<'_>) -> Result<(), TraceError> {
        let Executed { ops, instructions, shape, trapped } = *executed;
        self.batch.ops.extend_from_slice(ops);
        self.batch.told.push(Told::Executed { ops: ops.len(), instructions, shape, trapped });
        self.send_if_full()
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        self.batch.told.push(Told::Event(event));
        self.send_if_full()
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Ps;

    use super::*;

    /// Keeps what it is told, and fails when it is told of a wait of so long.
    #[derive(Default, Debug, PartialEq)]
    struct Kept {
        ops: Vec<Op>,
        told: Vec<(usize, u64, Option<u32>, bool)>,
        waits: Vec<(usize, u64)>,
        fails_at: Option<u64>,
    }

    impl Recorder for Kept {
        fn executed(&mut self, executed: &Executed<'_>) -> Result<(), TraceError> {
            self.ops.extend_from_slice(executed.ops);
            let Executed { ops, instructions, shape, trapped } = *executed;
            self.told.push((ops.len(), instructions, shape, trapped));
            Ok(())
        }

        fn event(&mut self, event: Event) -> Result<(), TraceError> {
            let Event::Waited(Ps(time)) = event else { panic!("{event:?}") };
            self.waits.push((self.told.len(), time));
            if self.fails_at == Some(time) { Err(std::io::Error::other("disk full").into()) } else { Ok(()) }
        }
    }

    /// Many blocks, some of none, with events between them.
    fn tell(to: &mut impl Recorder) -> Result<(), TraceError> {
        for number in 0..40_000_u64 {
            let ops: Vec<Op> =
                (0..number % 5).map(|at| Op { pc: number * 8 + at, ..Op::default() }).collect();
            let shape = number.is_multiple_of(3).then_some(number as u32);
            to.executed(&Executed { ops: &ops, instructions: number % 4, shape, trapped: number % 7 == 0 })?;
            if number % 11 == 0 {
                to.event(Event::Waited(Ps(number)))?;
            }
        }
        Ok(())
    }

    #[test]
    fn everything_is_told_in_its_order() {
        let mut direct = Kept::default();
        tell(&mut direct).unwrap();
        let mut ahead = Ahead::of(Kept::default()).unwrap();
        tell(&mut ahead).unwrap();
        assert_eq!(ahead.finish().unwrap(), direct);
    }

    #[test]
    fn what_the_recorder_fails_with_is_what_is_said() {
        for fails_at in [0, 11 * 3000, 11 * 3636] {
            let kept = Kept { fails_at: Some(fails_at), ..Kept::default() };
            let mut ahead = Ahead::of(kept).unwrap();
            let told = tell(&mut ahead).and_then(|()| ahead.finish().map(|_| ()));
            assert_eq!(told.unwrap_err().to_string(), "disk full");
        }
    }
}
