//! The members of a network as a configuration holds them: tables by name. What a node, a cable or a generator does not say of its
//! own is as for all: in the tables of the machine, in `[link]` and in `[loadgen]`.

use std::path::PathBuf;

use doorbell_loadgen::LoadGenConfig;
use doorbell_machine::LinkConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeTable {
    /// The preset that it starts from, if not that of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The benchmark whose program runs in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<String>,
    /// The image that it boots: a built-in one or the path of a recipe. Of a benchmark it must extend the benchmark's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Files of the host's that it has as virtio disks, behind the image's own if it has one. In a file they are beside the network's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<PathBuf>,
    /// Words for the kernel's command line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// The address of its first port, such as "10.0.0.2/24", where the image takes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Lines of shell that run in it, in the image `net` unless it has another. In a file `script_file` may name a file with them
    /// instead, beside the network's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// What its console shows when it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// What is typed on its console when all nodes are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Anything that the machine and its program can be told, over what all nodes are told.
    #[serde(flatten)]
    #[schemars(skip)]
    pub keys: Table,
}

/// A load generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorTable {
    /// The node to which it sends, such as "server", or "server.1" for its second port.
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
    /// The two that it joins: nodes (with a port, as "server.1"), switches or generators.
    pub between: Vec<String>,
    /// Any keys of `link`.
    #[serde(flatten)]
    #[schemars(with = "LinkConfig")]
    pub keys: Table,
}
