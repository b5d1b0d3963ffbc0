//! The members of a network in a configuration: tables by name. Keys that a node, cable or generator does not
//! set have the common values of the machine's tables, of `[link]` and of `[loadgen]`.

use std::path::PathBuf;

use doorbell_loadgen::LoadGenConfig;
use doorbell_machine::LinkConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

/// Sections of the members of a network.
pub(crate) const MEMBERS: [&str; 4] = ["node", "switch", "generator", "cable"];

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeTable {
    /// The node's own machine, a preset or a file; unset, the common one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The benchmark whose program runs in the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<String>,
    /// The image to boot: a built-in one or the path of a recipe. With `benchmark` it must extend the
    /// benchmark's own image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Host files that the node sees as virtio disks, after the image's own disk if it has one. In a file the
    /// paths are relative to the network file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<PathBuf>,
    /// Words for the kernel's command line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// The address of the first port, such as "10.0.0.2/24", for images that support it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Shell commands that the node runs, in the image `net` unless `image` is set. In a file `script_file`
    /// may name a script instead, with a path relative to the network file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Console text that marks the node as ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Console input that is typed when all nodes are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Any keys of the machine and its program, which override the common ones.
    #[serde(flatten)]
    #[schemars(skip)]
    pub keys: Table,
}

/// A load generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorTable {
    /// The node to send to, such as "server", or "server.1" for its second port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Any keys of `loadgen`.
    #[serde(flatten)]
    #[schemars(with = "LoadGenConfig")]
    pub keys: Table,
}

/// A cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CableTable {
    /// The two ends: nodes (with a port, as in "server.1"), switches or generators.
    pub between: Vec<String>,
    /// Any keys of `link`.
    #[serde(flatten)]
    #[schemars(with = "LinkConfig")]
    pub keys: Table,
}
