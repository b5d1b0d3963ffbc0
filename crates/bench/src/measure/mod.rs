//! Measurements: a point of one machine, of nodes, of a script, of a played trace.
//!
//! | File | Contents |
//! |---|---|
//! | `benchmark` | what a benchmark is |
//! | `point` | one offered load of a machine |
//! | `measuring` | windows one after another until one is steady |
//! | `trial` | an offered load that a search looks at while it runs |
//! | `transfer` | transfers between nodes |
//! | `driven` | a machine that a second node drives |
//! | `script` | a user's script |
//! | `script_program` | a program that a script runs |
//! | `playback` | played traces |
//! | `point_files` | files of a point's result folder |
//! | `roles` | programs of nodes, as scripts |
//! | `shards` | servers on several cores |
//! | `node_profile` | the profile of a node |

pub(crate) mod benchmark;
pub(crate) mod driven;
pub(crate) mod measuring;
pub(crate) mod node_profile;
pub(crate) mod playback;
pub(crate) mod point;
pub(crate) mod point_files;
pub(crate) mod roles;
pub(crate) mod script;
pub(crate) mod script_program;
pub(crate) mod shards;
pub(crate) mod transfer;
pub(crate) mod trial;
