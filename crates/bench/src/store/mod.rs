//! What is kept on the host's disk: the cache, and folders of results.
//!
//! | File | Contents |
//! |---|---|
//! | `cache` | what the cache holds, and how it is removed |
//! | `folder` | a folder that results are written to |
//! | `paths` | where images, packages and checkpoints are |
//! | `results` | the result folder of a command |
//! | `sealed` | whether a folder is whole |
//! | `tables` | results as CSV |

pub(crate) mod cache;
pub(crate) mod folder;
pub(crate) mod paths;
pub(crate) mod results;
pub(crate) mod sealed;
pub(crate) mod tables;
