//! Transmit descriptors in progress: fetched ones, and jobs whose buffers are read piece by piece.

use std::collections::VecDeque;

use doorbell_sim::{Observed, TxStamps};
use serde::{Deserialize, Serialize};

use super::dma::{Dma, Read};

/// A fetched descriptor that is not being processed yet.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub words: [u64; 2],
    /// For observers only.
    #[serde(skip)]
    pub stamps: TxStamps,
}

/// A descriptor whose buffer is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub words: [u64; 2],
    /// Length of its buffer in bytes.
    pub len: u32,
    /// Bytes not requested yet.
    pub to_request: u32,
    /// Bytes not received yet.
    pub to_arrive: u32,
    #[serde(skip)]
    pub stamps: Observed<TxStamps>,
}

impl Job {
    /// Creates a job; none of its buffer is requested yet.
    pub fn new(Fetched { words, stamps }: Fetched, len: u32) -> Job {
        Job { words, len, to_request: len, to_arrive: len, stamps: Observed(stamps) }
    }
}

/// Whether a queue's saved jobs are valid, with the first `requested` of them requested completely, and the
/// queue's data reads in flight are exactly the pieces that they wait for, in order.
pub(crate) fn are_consistent<Q: Copy + PartialEq>(
    jobs: &VecDeque<Job>,
    requested: usize,
    of: Q,
    dma: &Dma<Q>,
) -> bool {
    let valid = jobs.iter().enumerate().all(|(i, job)| {
        job.to_request <= job.to_arrive
            && job.to_arrive <= job.len
            && job.len < 1 << 20
            && (i >= requested || job.to_request == 0)
            && (i <= requested || job.to_request == job.len)
    });
    valid && requested <= jobs.len() && reads_match(jobs, of, dma)
}

fn reads_match<Q: Copy + PartialEq>(jobs: &VecDeque<Job>, of: Q, dma: &Dma<Q>) -> bool {
    let mut jobs = jobs.iter();
    let mut awaited = 0u32;
    for read in dma.reads.kinds() {
        let Read::Data { queue, len, .. } = read else { continue };
        if *queue != of {
            continue;
        }
        while awaited == 0 {
            let Some(job) = jobs.next() else { return false };
            awaited = job.to_arrive.saturating_sub(job.to_request);
        }
        let Some(rest) = awaited.checked_sub(*len) else { return false };
        awaited = rest;
    }
    awaited == 0 && jobs.all(|job| job.to_arrive == job.to_request)
}
