//! Scripts of cabled nodes: a server and its client.

use crate::plan::config::RunConfig;
use crate::plan::kernel::{KernelConfig, locations_to_rename};
use crate::testbed::nodes::NodeGuest;

/// Addresses of servers and clients.
pub(crate) const SERVER: &str = "10.0.0.2/24";
pub(crate) const CLIENT: &str = "10.0.0.3/24";

/// Script of a node; `name` is its file in `/scripts`.
pub(crate) struct Role {
    pub name: &'static str,
    pub lines: String,
    /// Text that it prints when it is ready.
    pub ready: &'static str,
}

/// The role of a script in the `guest` folder of the scenario, by its name and its ready text.
macro_rules! role {
    ($name:literal, $ready:expr) => {
        $crate::measure::roles::Role {
            name: $name,
            lines: include_str!(concat!("guest/", $name)).to_owned(),
            ready: $ready,
        }
    };
}
pub(crate) use role;

impl Role {
    /// Prepends lines to the script.
    pub fn after(self, lines: &str) -> Role {
        Role { lines: format!("{lines}\n{}", self.lines), ..self }
    }

    /// A node of this image whose `ports` ports have addresses from `address` on
    /// ([`KernelConfig::commands`]). The drivers are configured by the options of [`KernelConfig`]; `first`
    /// runs before the script.
    pub fn guest(self, config: &RunConfig, image: &str, address: &str, ports: u32, first: &str) -> NodeGuest {
        let kernel = config.options::<KernelConfig>();
        let commands = kernel.commands(address, &locations_to_rename(config, ports));
        let drivers: String = commands.iter().map(|command| format!("{command}\n")).collect();
        let address = if ports == 1 { format!(" doorbell.ip={address}") } else { String::new() };
        NodeGuest {
            image: image.to_owned(),
            words: format!("doorbell.app={}{address}{}", self.name, kernel.words(ports)),
            script: Some((self.name.to_owned(), drivers + first + &self.lines)),
            ready_marker: self.ready.to_owned(),
            ..NodeGuest::default()
        }
    }
}

/// A server and its client, with the same image.
pub(crate) struct Pair {
    pub image: &'static str,
    pub server: Role,
    pub client: Role,
}

impl Pair {
    /// Software of the nodes: the server in node 0, its client in node 1.
    pub fn guests(self, config: &RunConfig) -> Vec<NodeGuest> {
        let Pair { image, server, client } = self;
        let of = |role: Role, address: &str| role.guest(config, image, address, 1, "");
        vec![of(server, SERVER), of(client, CLIENT)]
    }

    /// Software of the nodes with the client as the test node: the client in node 0, its server in node 1.
    pub fn client_first(self, config: &RunConfig) -> Vec<NodeGuest> {
        let mut guests = self.guests(config);
        guests.reverse();
        guests
    }
}
