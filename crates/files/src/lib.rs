//! Operations on files shared by `doorbell` processes: result folders, checkpoints, images, finished points.
//!
//! This crate guarantees three properties. *Atomicity*: a file or folder is written under another name,
//! synced, and moved into place by one rename, so that a kill, a full disk or a second process leaves the old
//! or the new one. *Mutual exclusion*: locks are the operating system's (`flock`), end with their process in
//! any case, and leave no file. *Controllability*: each operation is a [`step`], at which a fault simulator
//! can delay it, fail it with a full disk, or kill the process ([`control`]). Without a controller, a step
//! costs one load.
//!
//! Files of a single process (a log, a capture in a folder that is not in place yet) need not use this crate.

#![forbid(unsafe_code)]

mod bounded;
pub mod control;
mod lock;
mod operations;
mod sha256;
mod use_lock;

pub use bounded::{
    CHECKPOINT_BYTES_MAX, GUEST_FILE_BYTES_MAX, TEXT_BYTES_MAX, open_regular, read_bounded, read_text,
};
pub use control::{pause, spawn, step};
pub use lock::Lock;
pub use operations::{
    Kind, copy_tree, create_folder, create_folders, kind, list, put_in_place, read, remove,
    remove_left_behind, remove_parts_in, rename, replace, sync_folder, sync_tree, temporary_name, write,
    written_at,
};
pub use use_lock::{Removal, UseLock, hold, is_held, remove_unheld};

pub use sha256::{hex, sha256, sha256_of};

#[cfg(test)]
mod files_tests;
