//! redis between two nodes: Debian's redis-server, and redis-benchmark as closed-loop clients, over the
//! kernel's stack. Transactions are counted by the responses on the cable, which all have the same length.

use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::measure::kinds::{BETWEEN_NODES, KERNEL, TRANSFER};
use crate::measure::roles::{Pair, role};
use crate::measure::shards;
use crate::measure::transfer::Transfers;
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Section, Setting};
use crate::testbed::ramp::Ramp;
use crate::window::transfer_counts::{Load, Transaction};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "redis",
    summary: "redis-server answers GETs or SETs of redis-benchmark in a second node, optionally pipelined",
    nodes: Nodes::transfer::<RedisConfig>(),
    image: "servers",
    options: &[KERNEL, Section::of::<RedisConfig>(), TRANSFER],
    ..BETWEEN_NODES
};

/// Maximum size of all values with their keys, which the guest's memory holds in addition to its programs.
const STORE_MAX: u64 = 32 << 20;
/// Memory per key: the key and redis' overhead per value.
const KEY_BYTES: u64 = 128;
/// Bytes of the response to a SET: `+OK`, CR and LF.
const STORED_BYTES: u64 = 5;
/// Port of the first server.
const PORT: u16 = 6379;

/// The clients' command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RedisCommand {
    /// Reads the value of a key.
    #[default]
    Get,
    /// Stores a value under a key.
    Set,
}

doorbell_sim::config! {
    /// Options of redis and its clients.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct RedisConfig {
        /// The clients' command (-t): GET or SET.
        pub command: RedisCommand = RedisCommand::Get,
        /// Cores, 1 to 8 (1 if unset), each with its own redis-server (ports from 6379 on), NIC queue and
        /// interrupt, and a redis-benchmark whose connections use that queue. More than one needs as many
        /// harts, NICs of the model 82576, and `platform.interrupts = "aia"`, without which Linux uses one
        /// queue per port.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
        /// Clients per server, each with its own connection (-c), 1 to 256.
        pub clients: u32 = 50,
        /// Requests that a client sends in one batch before it waits for all responses (-P), 1 to 128.
        pub pipeline: u32 = 1,
        /// Bytes per value (-d), 1 to 65536.
        pub value: u32 = 3,
        /// Keys per server, one chosen at random for each request (-r), 1 to 1000000. All values, plus 128
        /// bytes each, take at most 32 MiB.
        pub keys: u32 = 1000,
    }
}

impl Options for RedisConfig {
    const SECTION: &'static str = "redis";

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        shards::required_settings(self.cores, config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        shards::check("redis.cores", self.cores, config)?;
        for (key, value, most) in [
            ("clients", self.clients, 256),
            ("pipeline", self.pipeline, 128),
            ("value", self.value, 65_536),
            ("keys", self.keys, 1_000_000),
        ] {
            options::check_range(format!("redis.{key}"), value, 1..=most)?;
        }
        let keys = u64::from(self.cores) * u64::from(self.keys);
        let store = keys * (u64::from(self.value) + KEY_BYTES);
        let problem = format!("{keys} values of {} bytes are more than 32 MiB", self.value);
        options::reject_if(store > STORE_MAX, "redis.keys", problem)?;
        Ok(())
    }
}

impl RedisConfig {
    fn name(&self) -> &'static str {
        match self.command {
            RedisCommand::Get => "GET",
            RedisCommand::Set => "SET",
        }
    }

    /// Bytes of a response (RESP, version 2). A value is preceded by its length, and both end with CR and LF.
    fn response_bytes(&self) -> u64 {
        match self.command {
            RedisCommand::Get => {
                let digits = self.value.to_string().len() as u64;
                1 + digits + 2 + u64::from(self.value) + 2
            }
            RedisCommand::Set => STORED_BYTES,
        }
    }
}

impl Transfers for RedisConfig {
    fn load(&self) -> Load {
        let RedisConfig { cores, clients, pipeline, value, keys, .. } = self;
        let several = *cores > 1;
        // With several cores, the script waits for this number of clients before it starts those of the next
        // core.
        let client_count = if several { format!("{clients} ") } else { String::new() };
        let command = format!(
            "{value} {keys} {client_count}-t {} -c {clients} -P {pipeline} -d {value} -r {keys}",
            self.name().to_lowercase()
        );
        let all_started = several.then_some("redis: all clients are connected");
        let start = Ramp { all_started, ..Ramp::of_server(command) };
        Load {
            connections: clients * cores,
            depth: *pipeline,
            transaction: Some(Transaction { node: 0, bytes: self.response_bytes() }),
            servers: shards::ports(PORT, *cores, *cores),
            ..Load::tcp("redis-benchmark", self.name().to_owned(), start)
        }
    }

    /// redis-server in node 0 and redis-benchmark in node 1, one of each per core.
    fn pair(&self) -> Pair {
        let (server, client) = match self.cores {
            1 => (
                role!("redis-server", "Ready to accept connections"),
                role!("redis-client", "redis: waiting"),
            ),
            _ => (role!("redis-servers", "redis: serving"), role!("redis-clients", "redis: waiting")),
        };
        shards::on_cores(self.cores, Pair { image: "servers", server, client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::resolve;

    fn redis(set: &[&str]) -> Result<RedisConfig, String> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let config = resolve("fast", &set).map_err(|error| error.to_string())?;
        Ok(config.options::<RedisConfig>().clone())
    }

    #[test]
    fn the_typed_line_and_the_response_length_follow_the_configuration() {
        let own =
            redis(&["redis.value=100", "redis.pipeline=16", "redis.clients=8", "redis.keys=10"]).unwrap();
        assert_eq!(own.load().start.command, "100 10 -t get -c 8 -P 16 -d 100 -r 10");
        // "$100", CR LF, the value, CR LF.
        assert_eq!(own.response_bytes(), 4 + 2 + 100 + 2);
        // 128 requests in flight at a million per second: 128 µs round trip.
        assert_eq!(own.load().round_trip_us(1e6), Some(128.0));
        assert_eq!(redis(&["redis.command=SET"]).unwrap().response_bytes(), 5);
        let machine = ["platform.harts=2", "nic.model=82576", "platform.interrupts=aia"];
        let two = redis(&[&machine[..], &["redis.cores=2", "redis.clients=8"]].concat()).unwrap().load();
        assert_eq!(two.start.command, "3 1000 8 -t get -c 8 -P 1 -d 3 -r 1000");
        assert_eq!((two.connections, two.servers), (16, vec![vec![6379], vec![6380]]));
    }

    #[test]
    fn out_of_range_options_are_rejected() {
        for (set, message) in [
            ("redis.clients=0", "redis.clients: 0 is not from 1 to 256"),
            ("redis.pipeline=129", "redis.pipeline: 129 is not from 1 to 128"),
            ("redis.keys=1000000", "redis.keys: 1000000 values of 3 bytes are more than 32 MiB"),
            ("redis.command=DEL", "redis.command"),
        ] {
            let error = redis(&[set]).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
