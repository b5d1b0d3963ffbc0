//! Transmit descriptors at work: fetched, then jobs whose buffers are read piece by piece.

use std::collections::VecDeque;

use doorbell_sim::{Observed, TxStamps};
use serde::{Deserialize, Serialize};

use super::dma::{Dma, Read};

/// A descriptor on the chip that is not begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub words: [u64; 2],
    /// An observer's.
    pub stamps: TxStamps,
}

/// A descriptor whose buffer is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub words: [u64; 2],
    /// Bytes of its buffer.
    pub len: u32,
    /// Bytes not asked for yet.
    pub to_request: u32,
    /// Bytes not arrived yet.
    pub to_arrive: u32,
    #[serde(skip)]
    pub stamps: Observed<TxStamps>,
}

impl Job {
    /// Nothing of its buffer is asked for yet.
    pub fn new(Fetched { words, stamps }: Fetched, len: u32) -> Job {
        Job { words, len, to_request: len, to_arrive: len, stamps: Observed(stamps) }
    }
}

/// Whether a queue's saved jobs, of which so many at the front are asked for completely, can be, and its data
/// reads in flight are exactly the pieces that they wait for, in order.
pub(crate) fn are_consistent<Q: Copy + PartialEq>(
    jobs: &VecDeque<Job>,
    requested: u64,
    (of, dma): (Q, &Dma<Q>),
) -> bool {
    let requested = usize::try_from(requested).unwrap_or(usize::MAX);
    let possible = jobs.iter().enumerate().all(|(i, job)| {
        job.to_request <= job.to_arrive
            && job.to_arrive <= job.len
            && job.len < 1 << 20
            && (i >= requested || job.to_request == 0)
            && (i <= requested || job.to_request == job.len)
    });
    possible && requested <= jobs.len() && reads_fit(jobs, (of, dma))
}

fn reads_fit<Q: Copy + PartialEq>(jobs: &VecDeque<Job>, (of, dma): (Q, &Dma<Q>)) -> bool {
    let mut jobs = jobs.iter();
    let mut waited = 0u32;
    for read in dma.reads.kinds() {
        let Read::Data { queue, len, .. } = read else { continue };
        if *queue != of {
            continue;
        }
        while waited == 0 {
            let Some(job) = jobs.next() else { return false };
            waited = job.to_arrive.saturating_sub(job.to_request);
        }
        let Some(rest) = waited.checked_sub(*len) else { return false };
        waited = rest;
    }
    waited == 0 && jobs.all(|job| job.to_arrive == job.to_request)
}
