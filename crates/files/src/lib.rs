//! File operations on what several `doorbell` processes share: result folders, checkpoints, images, finished points.
//!
//! Three things are decided here, once. *Whole*: a file or folder is written under another name, made durable (fsync), and
//! put in place by one rename, so that a kill, a full disk or a second process leaves the old one or the new one. *One at a
//! time*: locks are the operating system's (`flock`), go with the process that holds them however it ends, and leave no file
//! behind. *Controllable*: each operation is a [`step`], at which a fault simulator can hold the process, refuse the
//! operation for want of space, or kill it ([`control`]). Without a controller a step costs one load.
//!
//! What a single process has for itself (a log, a capture while it grows in a folder that is not yet in place) need not go
//! through here.

#![forbid(unsafe_code)]

mod bounded;
pub mod control;
mod held;
mod lock;
mod operations;
mod sha256;

pub use bounded::{
    CHECKPOINT_BYTES_MAX, GUEST_FILE_BYTES_MAX, TEXT_BYTES_MAX, open_regular, read_bounded, read_text,
};
pub use control::{pause, spawn, step};
pub use held::{Held, Removal, hold, is_held, remove_unheld};
pub use lock::Lock;
pub use operations::{
    Kind, copy_tree, create_folder, create_folders, kind, list, put_in_place, read, remove,
    remove_left_behind, remove_parts_in, rename, replace, sync_folder, sync_tree, temporary_name, write,
    written_at,
};

pub use sha256::{hex, sha256, sha256_of};

#[cfg(test)]
mod files_tests;
