//! Data on the host's disk: the cache, and result folders.
//!
//! | File | Contents |
//! |---|---|
//! | `cache` | contents of the cache, and their removal |
//! | `folder` | writing files to a result folder |
//! | `paths` | locations of images, packages and checkpoints |
//! | `results` | atomic replacement of a command's result folder |
//! | `sealed` | checksum list of a folder |
//! | `tables` | results as CSV |

pub(crate) mod cache;
pub(crate) mod folder;
pub(crate) mod paths;
pub(crate) mod results;
pub(crate) mod sealed;
pub(crate) mod tables;
