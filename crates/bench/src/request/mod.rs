//! From what is asked for to a plan, and the reference of what can be asked for.
//!
//! | File | Contents |
//! |---|---|
//! | `resolve` | layers of settings, to a configuration |
//! | `reference` | every parameter, with its meaning, range and default |
//! | `changes` | in what a configuration differs from its preset |
//! | `network` | networks, from their file to their measurement |
//! | `planned` | a benchmark from its plan to its results |
//! | `booted` | which boot a benchmark goes on from |
//! | `played` | the configuration of a played trace |

pub(crate) mod booted;
pub(crate) mod changes;
pub(crate) mod network;
pub(crate) mod planned;
pub(crate) mod played;
pub(crate) mod reference;
pub(crate) mod resolve;
