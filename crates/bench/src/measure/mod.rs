//! Measurements of one machine, of nodes, of a script, and of a played trace.
//!
//! | File | Contents |
//! |---|---|
//! | `benchmark` | definition of a benchmark |
//! | `kinds` | kinds of benchmarks: entries on which others are based |
//! | `point` | one offered load on one machine |
//! | `measuring` | repeated windows until one is steady |
//! | `trial` | an offered load that a search samples while it runs |
//! | `transfer` | transfers between nodes |
//! | `driven` | a machine whose load comes from a drive node |
//! | `script` | a user's script |
//! | `script_program` | validation of a script file |
//! | `playback` | played traces |
//! | `point_files` | files of a point in its result folder |
//! | `roles` | server and client scripts of nodes |
//! | `shards` | servers on several cores |
//! | `nodes_run` | common parts of measurements of nodes |

pub(crate) mod benchmark;
pub(crate) mod driven;
pub(crate) mod kinds;
pub(crate) mod measuring;
pub(crate) mod nodes_run;
pub(crate) mod playback;
pub(crate) mod point;
pub(crate) mod point_files;
pub(crate) mod roles;
pub(crate) mod script;
pub(crate) mod script_program;
pub(crate) mod shards;
pub(crate) mod transfer;
pub(crate) mod trial;
