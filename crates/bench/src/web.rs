//! A web server between two nodes: Debian's nginx, and wrk as clients in a closed loop with connections that stay, over the kernel's stack.
//! What is counted are the requests that cross the cable and are acknowledged, all as long as each other.

use doorbell_machine::ConfigError;
use doorbell_results::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::moved::{Load, Transaction, is_more_than_talk};
use crate::nodes::NodeGuest;
use crate::options::Options;
use crate::run_up::RunUp;
use crate::transfer::{self, Transfers};
use crate::{cores, shards};

/// The files that there are, in bytes: a size of each of SPECweb99's four classes, and one more.
const FILES: [u32; 5] = [100, 1000, 10_000, 100_000, 1_000_000];
/// The port of the first server of several.
const PORT: u16 = 8100;

/// The clients' options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Cores, 1 to 8 (without this, one), each with an nginx on a port of its own (from 8100 on), a queue of the NIC that interrupts it, and
    /// a wrk whose connections come in by that queue. More than one needs as many harts, NICs of the model 82576, and
    /// `platform.interrupts = "aia"`, without which Linux gives a port one queue.
    #[serde(skip_serializing_if = "cores::is_one")]
    pub cores: u32,
    /// Connections to each server that stay open, each with one request under way (--connections), 1 to 256.
    pub connections: u32,
    /// Bytes of the file that is asked for: 100, 1000, 10000, 100000 or 1000000.
    pub file: u32,
}

impl Default for WebConfig {
    fn default() -> Self {
        WebConfig { cores: 1, connections: 16, file: 1000 }
    }
}

impl Options for WebConfig {
    const SECTION: &'static str = "web";

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        shards::check("web.cores", self.cores, config)?;
        if !(1..=256).contains(&self.connections) {
            let problem = format!("{} is not from 1 to 256", self.connections);
            return Err(ConfigError::new("web.connections", problem));
        }
        if !FILES.contains(&self.file) {
            let problem = format!("there is no file of {} bytes; there are {FILES:?}", self.file);
            return Err(ConfigError::new("web.file", problem));
        }
        Ok(())
    }
}

impl WebConfig {
    /// A request as wrk writes it, which names a port that is not 80; all of several servers have as many digits.
    fn request(&self) -> String {
        let port = if self.cores > 1 { format!(":{PORT}") } else { String::new() };
        format!("GET /{} HTTP/1.1\r\nHost: 10.0.0.2{port}\r\n\r\n", self.file)
    }
}

impl Transfers for WebConfig {
    fn load(&self) -> Load {
        let WebConfig { cores, connections, file } = self;
        let several = *cores > 1;
        Load {
            program: "wrk",
            name: format!("GET /{file}"),
            connections: connections * cores,
            depth: 1,
            start: RunUp {
                typed: match several {
                    true => format!("{connections} {file}"),
                    false => format!("--connections {connections} http://10.0.0.2/{file}"),
                },
                counted: 0,
                begun: is_more_than_talk,
                whole: several.then_some("web: all connections are made"),
            },
            protocol: Protocol::Tcp,
            in_parts: true,
            transaction: Some(Transaction { node: 1, bytes: self.request().len() as u64 }),
            failure: |_| None,
            servers: shards::ports(PORT, *cores, *cores),
        }
    }
}

/// What runs in the nodes: nginx in node 0, wrk in node 1; of several cores, one on each.
pub(crate) fn guests(config: &RunConfig) -> [NodeGuest; 2] {
    let cores = config.options::<WebConfig>().cores;
    if cores > 1 {
        let server = include_str!("../../../guest/scripts/web-servers");
        let client = include_str!("../../../guest/scripts/web-clients");
        let server = ("web-servers", server, "web: serving");
        return shards::guests(config, "servers", cores, server, ("web-clients", client, "web: waiting"));
    }
    let server = include_str!("../../../guest/scripts/web-server");
    let client = include_str!("../../../guest/scripts/web-client");
    let (server, client) = (("web-server", server, "web: serving"), ("web-client", client, "web: waiting"));
    transfer::guests(config, "servers", server, client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::resolve;

    #[test]
    fn requests_are_those_of_the_configuration_for_a_file_that_there_is() {
        let web = |set: &str| resolve("fast", &[set.to_owned()]).map_err(|error| error.to_string());
        let config = web("web.file=10000").unwrap();
        let load = config.options::<WebConfig>().load();
        assert_eq!(load.start.typed, "--connections 16 http://10.0.0.2/10000");
        assert_eq!(load.transaction.unwrap().bytes, 39);
        let four = ["web.cores=4", "platform.harts=4", "nic.model=82576", "platform.interrupts=aia"];
        let four = resolve("fast", &four.map(str::to_owned)).unwrap();
        let load = four.options::<WebConfig>().load();
        assert_eq!((&load.start.typed[..], load.connections), ("16 1000", 64));
        assert_eq!((load.servers.len(), &load.servers[3][..]), (4, &[8103][..]));
        assert_eq!(load.transaction.unwrap().bytes, 43);
        assert!(web("web.file=1024").unwrap_err().contains("web.file: there is no file of 1024 bytes"));
        assert!(web("web.connections=257").unwrap_err().contains("from 1 to 256"));
    }
}
