//! Points of experiments on a cluster: a Slurm job array (version 20.11 or newer) with one task per point.
//! Each task runs this same command on a compute node. Only its files in the result folder, which all nodes
//! share, count as results.
//!
//! | File | Question it answers |
//! |---|---|
//! | `settings` | which options are passed to the cluster? |
//! | `slurm` | how are jobs submitted, and how is the queue queried? |
//! | `journal` | what was submitted, so that another process can continue after a kill? |
//! | `points` | what is each point's state, and what happens after a failure? |
//! | `watch` | what is submitted when, and how does it end? |
//!
//! Commands and their output follow the manual pages sbatch(1), squeue(1), sacct(1) and scontrol(1).

mod journal;
mod points;
mod settings;
mod slurm;
mod watch;

pub use journal::{Task, TaskList, failure_file};
pub use points::{ClusterExperiment, PointId};
pub use settings::Settings;
pub use slurm::Slurm;
pub use watch::{ClusterEvent, Job, measure};

use std::path::PathBuf;

/// Why points cannot be measured on a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A Slurm command is not installed.
    #[error(
        "there is no Slurm on this machine: the command {0} is not in PATH. Run this on a login node of the cluster \
         (often after `module load slurm`), or omit --on to measure on this machine"
    )]
    NoSlurm(&'static str),
    /// A Slurm command failed.
    #[error("{command} failed: {message}{hint}")]
    Slurm {
        /// The command.
        command: &'static str,
        /// Its error output.
        message: String,
        /// Advice, starting with a new line.
        hint: String,
    },
    /// The settings are invalid.
    #[error("{0}")]
    Settings(String),
    /// The file system does not support locks.
    #[error(
        "cannot lock {path}: {error}. Two commands must not submit the same points, so the results' folder needs a file system \
         with locks (flock): NFS, GPFS, or Lustre mounted with -o flock; choose one with --out"
    )]
    Lock {
        /// Path of the lock.
        path: PathBuf,
        /// Error of the system call.
        error: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {error}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        error: std::io::Error,
    },
}
