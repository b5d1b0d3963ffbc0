//! Resolves a request into a configuration and a plan, and holds the reference of all parameters.
//!
//! | File | Contents |
//! |---|---|
//! | `resolve` | layers of settings, to a configuration |
//! | `reference` | every parameter, with its meaning, range and default |
//! | `changes` | differences of a configuration from its preset |
//! | `network` | networks, from their file to their measurement |
//! | `planned` | a benchmark from its plan to its results |
//! | `booted` | identity and file name of a benchmark's boot checkpoint |
//! | `played` | the configuration of a played trace |

pub(crate) mod booted;
pub(crate) mod changes;
pub(crate) mod network;
pub(crate) mod planned;
pub(crate) mod played;
pub(crate) mod reference;
pub(crate) mod resolve;
