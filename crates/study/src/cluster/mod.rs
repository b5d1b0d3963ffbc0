//! Points of experiments on a cluster: a job array of Slurm's (version 20.11 or newer), a task a point. A task is this same command on a
//! compute node; what it leaves in the results' folder, which all nodes see, is the only result that counts.
//!
//! | File | Question it answers |
//! |---|---|
//! | `settings` | what is asked of the cluster? |
//! | `slurm` | how are jobs submitted, and what does the queue say of them? |
//! | `journal` | what was submitted, for whoever goes on after a kill? |
//! | `points` | where is each point on its way, and what becomes of one that failed? |
//! | `watch` | what is submitted when, and how does it end? |
//!
//! The commands and their output are as the manual pages sbatch(1), squeue(1), sacct(1) and scontrol(1) have them.

mod journal;
mod points;
mod settings;
mod slurm;
mod watch;

pub use journal::{Task, TaskList, left_word};
pub use points::Share;
pub use settings::Settings;
pub use slurm::Slurm;
pub use watch::{Program, Told, measure};

use std::path::PathBuf;

/// Why points cannot be measured on a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A command of Slurm's is not there.
    #[error(
        "there is no Slurm on this machine: the command {0} is not in PATH. Start this on a login node of the cluster \
         (often after `module load slurm`), or leave out --on to measure here"
    )]
    NoSlurm(&'static str),
    /// A command of Slurm's failed.
    #[error("{command} failed: {said}{hint}")]
    Slurm {
        /// Which one.
        command: &'static str,
        /// What it said.
        said: String,
        /// What to do, from a new line on.
        hint: String,
    },
    /// What is asked of the cluster cannot be.
    #[error("{0}")]
    Settings(String),
    /// The file system has no locks.
    #[error(
        "cannot lock {path}: {error}. Two commands must not submit the same points, so the results' folder needs a file system \
         with locks (flock): NFS, GPFS, or Lustre mounted with -o flock; name one with --out"
    )]
    Lock {
        /// What was to be locked.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {error}")]
    Io {
        /// What failed.
        action: &'static str,
        /// Of which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}
