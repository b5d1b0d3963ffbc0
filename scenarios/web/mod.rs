//! Web server benchmark with two nodes: Debian's nginx or Apache, and wrk as closed-loop clients with
//! persistent connections, over the kernel's stack. Transactions are counted by the acknowledged requests on
//! the cable, which all have the same length.

use doorbell_machine::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::benchmark::{Benchmark, Nodes};
use crate::measure::kinds::{BETWEEN_NODES, KERNEL, TRANSFER};
use crate::measure::roles::{Pair, Role, role};
use crate::measure::shards;
use crate::measure::transfer::Transfers;
use crate::plan::config::RunConfig;
use crate::plan::cores;
use crate::plan::options::{self, Options, Section, Setting};
use crate::testbed::ramp::Ramp;
use crate::window::transfer_counts::{Load, Transaction};

/// The benchmark.
pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "web",
    summary: "nginx or Apache serves wrk in a second node over persistent connections",
    nodes: Nodes::transfer::<WebConfig>(),
    image: "servers",
    options: &[KERNEL, Section::of::<WebConfig>(), TRANSFER],
    ..BETWEEN_NODES
};

/// Sizes of the available files in bytes: one of each of SPECweb99's four classes, and one more.
const FILES: [u32; 5] = [100, 1000, 10_000, 100_000, 1_000_000];
/// Port of the first server, with several cores.
const PORT: u16 = 8100;
/// Bytes per directory of SPECweb99's mix: nine files of each of four classes.
const DIRECTORY_BYTES: u64 = 4_999_500;

/// The server program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebServer {
    /// nginx with one worker, which sends files by sendfile.
    #[default]
    Nginx,
    /// Apache with mpm_event, and Debian's numbers of processes and threads.
    Apache,
}

/// A mix of requested files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebMix {
    /// SPECweb99's distribution: four size classes of nine files each, and directories by Zipf's law.
    Specweb99,
}

doorbell_sim::config! {
    /// Options of the web server and its clients.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct WebConfig {
        /// The server.
        #[serde(skip_serializing_if = "options::is_default")]
        pub server: WebServer = WebServer::default(),
        /// Cores, 1 to 8 (1 if unset), each with its own nginx (ports from 8100 on), NIC queue and interrupt,
        /// and a wrk whose connections use that queue. More than one needs as many harts, NICs of the model
        /// 82576, and `platform.interrupts = "aia"`, without which Linux uses one queue per port.
        #[serde(skip_serializing_if = "cores::is_one")]
        pub cores: u32 = 1,
        /// Persistent connections per server, each with one request in flight (--connections), 1 to 256.
        pub connections: u32 = 16,
        /// Bytes of the requested file: 100, 1000, 10000, 100000 or 1000000.
        pub file: u32 = 1000,
        /// Requests a mix of files instead of one file.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mix: Option<WebMix> = None,
        /// Directories of the mix, 1 to 100 (8 if unset), each of 5 MB; together at most a quarter of
        /// `platform.ram`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub directories: Option<u32> = None,
        /// Percentage of the mix's requests for a dynamic page, which includes the file, 0 to 100 (30 if
        /// unset).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dynamic: Option<u32> = None,
    }
}

impl Options for WebConfig {
    const SECTION: &'static str = "web";

    fn required_settings(&self, config: &RunConfig) -> Vec<Setting> {
        shards::required_settings(self.cores, config)
    }

    fn validate(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let fail = |key: &str, problem: String| Err(ConfigError::new(format!("web.{key}"), problem));
        shards::check("web.cores", self.cores, config)?;
        if self.cores > 1 && (self.server != WebServer::Nginx || self.mix.is_some()) {
            return fail(
                "cores",
                format!("{}, but Apache and mixes support one core only; remove it", self.cores),
            );
        }
        options::check_range("web.connections", self.connections, 1..=256)?;
        if !FILES.contains(&self.file) {
            let problem = format!("there is no file of {} bytes; choose one of {FILES:?}", self.file);
            return fail("file", problem);
        }
        if self.mix.is_some() && self.file != WebConfig::default().file {
            return fail("file", "a mix has its own files; remove web.file or web.mix".to_owned());
        }
        let mix_only = [("directories", self.directories), ("dynamic", self.dynamic)];
        match self.mix {
            Some(WebMix::Specweb99) => self.check_mix(config),
            None => match mix_only.into_iter().find(|(_, value)| value.is_some()) {
                Some((key, _)) => fail(key, "it needs a mix; set web.mix=specweb99".to_owned()),
                None => Ok(()),
            },
        }
    }
}

impl WebConfig {
    fn check_mix(&self, config: &RunConfig) -> Result<(), ConfigError> {
        let (directories, ram) = (self.directories(), config.platform.ram);
        options::check_range("web.directories", directories, 1..=100)?;
        options::check_range("web.dynamic", self.dynamic(), 0..=100)?;
        let needed = u64::from(directories) * DIRECTORY_BYTES * 4;
        let problem = format!("{directories} of 5 MB exceed a quarter of {ram}");
        options::check_ram("web.directories", needed, problem, config)
    }

    fn directories(&self) -> u32 {
        self.directories.unwrap_or(8)
    }

    fn dynamic(&self) -> u32 {
        self.dynamic.unwrap_or(30)
    }

    /// The server's image and role.
    fn server(&self) -> (&'static str, Role) {
        const SERVING: &str = "web: serving";
        let (image, server) = match (self.server, self.mix) {
            (WebServer::Nginx, None) if self.cores > 1 => ("servers", role!("web-servers", SERVING)),
            (WebServer::Nginx, None) => ("servers", role!("web-server", SERVING)),
            (WebServer::Nginx, Some(_)) => ("servers", role!("web-mix-nginx", SERVING)),
            (WebServer::Apache, _) => ("apache", role!("web-apache", SERVING)),
        };
        match self.mix {
            Some(WebMix::Specweb99) => {
                let files = include_str!("guest/web-mix-files");
                let lines = format!("directories={}\n{files}{}", self.directories(), server.lines);
                (image, Role { lines, ..server })
            }
            None => (image, server),
        }
    }

    /// A request as wrk sends it; the Host header includes any port other than 80. All requests of a load
    /// have the same length, because ports, and paths of a mix, have the same number of characters.
    fn request(&self) -> String {
        let port = if self.cores > 1 { format!(":{PORT}") } else { String::new() };
        let path = match self.mix {
            Some(WebMix::Specweb99) => "f/00/0_1".to_owned(),
            None => self.file.to_string(),
        };
        format!("GET /{path} HTTP/1.1\r\nHost: 10.0.0.2{port}\r\n\r\n")
    }

    /// Line typed on the client's console.
    fn command(&self) -> String {
        let WebConfig { connections, file, .. } = self;
        match self.mix {
            Some(WebMix::Specweb99) => {
                let mix = format!("{} {}", self.directories(), self.dynamic());
                format!("--connections {connections} http://10.0.0.2/ -- {mix}")
            }
            None if self.cores > 1 => format!("{connections} {file}"),
            None => format!("--connections {connections} http://10.0.0.2/{file}"),
        }
    }
}

impl Transfers for WebConfig {
    fn load(&self) -> Load {
        let WebConfig { cores, connections, file, .. } = self;
        let name = match self.mix {
            Some(WebMix::Specweb99) => format!("GET, {} % dynamic", self.dynamic()),
            None => format!("GET /{file}"),
        };
        let all_started = (*cores > 1).then_some("web: all connections are made");
        let start = Ramp { all_started, ..Ramp::of_server(self.command()) };
        Load {
            connections: connections * cores,
            transaction: Some(Transaction { node: 1, bytes: self.request().len() as u64 }),
            servers: shards::ports(PORT, *cores, *cores),
            ..Load::tcp("wrk", name, start)
        }
    }

    /// nginx or Apache in node 0 and wrk in node 1, one of each per core.
    fn pair(&self) -> Pair {
        const WAITING: &str = "web: waiting";
        let (image, server) = self.server();
        let client = match self.mix {
            Some(_) => role!("web-mix-client", WAITING),
            None if self.cores > 1 => role!("web-clients", WAITING),
            None => role!("web-client", WAITING),
        };
        shards::on_cores(self.cores, Pair { image, server, client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::resolve;

    #[test]
    fn the_typed_line_and_the_request_length_follow_the_configuration() {
        let web_of = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
            resolve("fast", &set).map_err(|error| error.to_string())
        };
        let web = |set: &str| web_of(&[set]);
        let config = web("web.file=10000").unwrap();
        let load = config.options::<WebConfig>().load();
        assert_eq!(load.start.command, "--connections 16 http://10.0.0.2/10000");
        assert_eq!(load.transaction.unwrap().bytes, 39);
        let four = ["web.cores=4", "platform.harts=4", "nic.model=82576", "platform.interrupts=aia"];
        let four = resolve("fast", &four.map(str::to_owned)).unwrap();
        let load = four.options::<WebConfig>().load();
        assert_eq!((&load.start.command[..], load.connections), ("16 1000", 64));
        assert_eq!((load.servers.len(), &load.servers[3][..]), (4, &[8103][..]));
        assert_eq!(load.transaction.unwrap().bytes, 43);
        assert!(web("web.file=1024").unwrap_err().contains("web.file: there is no file of 1024 bytes"));
        let mix = web_of(&["web.mix=specweb99", "web.directories=12", "web.server=apache"]).unwrap();
        let load = mix.options::<WebConfig>().load();
        assert_eq!(load.start.command, "--connections 16 http://10.0.0.2/ -- 12 30");
        assert_eq!(load.transaction.unwrap().bytes, 42);
        let Pair { image, server, .. } = mix.options::<WebConfig>().pair();
        assert!(image == "apache" && server.lines.starts_with("directories=12\n"));
        assert!(web("web.connections=257").unwrap_err().contains("from 1 to 256"));
    }

    #[test]
    fn mixes_need_one_core_and_enough_ram_and_their_keys_need_a_mix() {
        let two = ["web.cores=2", "platform.harts=2", "nic.model=82576", "platform.interrupts=aia"];
        let rejected = |more: &[&str], message: &str| {
            let set: Vec<String> = more.iter().map(|&text| text.to_owned()).collect();
            let error = resolve("fast", &set).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        };
        rejected(&["web.directories=3"], "web.directories: it needs a mix; set web.mix=specweb99");
        rejected(&["web.dynamic=3"], "web.dynamic: it needs a mix");
        rejected(&["web.mix=specweb99", "web.dynamic=101"], "web.dynamic: 101 is not from 0 to 100");
        rejected(&["web.mix=specweb99", "web.directories=14"], "set platform.ram=320MiB");
        rejected(&["web.mix=specweb99", "web.directories=0"], "web.directories: 0 is not from 1 to 100");
        rejected(&["web.mix=specweb05"], "web.mix");
        rejected(
            &[&two[..], &["web.server=apache"]].concat(),
            "web.cores: 2, but Apache and mixes support one core only",
        );
        let before = resolve("fast", &[]).unwrap().to_toml();
        let own = before.split("[web]").nth(1).unwrap().split("[").next().unwrap();
        assert_eq!(own.trim(), "connections = 16\nfile = 1000", "unset options do not change the hash");
    }
}
