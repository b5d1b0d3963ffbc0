//! What each port is made of: `[nic]`, `[pcie]` and `[link]` hold for all, and what stands under `[port.1.nic]` and the like for
//! that port alone. A port's own keys are laid over everybody's, so each table may name as little as it likes.

use std::collections::BTreeMap;

use doorbell_nic::{MacAddress, NicConfig};
use doorbell_pcie::{LinkConfig as PcieConfig, Place};
use doorbell_wire::LinkConfig;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::config::ConfigError;
use crate::overlay::{self, laid_over};

/// Ports that have something of their own.
pub type PortTables = BTreeMap<PortNumber, PortTable>;

/// A port's number, as a key of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortNumber(pub usize);

impl TryFrom<String> for PortNumber {
    type Error = String;

    fn try_from(text: String) -> Result<PortNumber, String> {
        overlay::number(&text).map(PortNumber).ok_or_else(|| {
            format!(
                "\"{text}\" is no port's number; one port's own keys are such as port.0.nic.rx_fifo, those of all such as \
                 nic.rx_fifo"
            )
        })
    }
}

impl From<PortNumber> for String {
    fn from(PortNumber(number): PortNumber) -> String {
        number.to_string()
    }
}

/// What one port has of its own: any keys of these parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "nic, pcie, link and at")]
pub struct PortTable {
    /// Over `[nic]`. Its MAC address is this one NIC's.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub nic: Table,
    /// Over `[pcie]`.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub pcie: Table,
    /// Over `[link]`.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub link: Table,
    /// Where its NIC is, on the root bus ("03.0") or behind a bridge ("0:03.0") of `platform.bridges`; device N+1 of the root bus for
    /// port N, unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
}

/// A part of what each port has of its own, for those that have any of it.
pub(crate) fn with_any(own: &PortTables, part: impl Fn(&PortTable) -> PortTable) -> PortTables {
    let parts = own.iter().map(|(number, own)| (*number, part(own)));
    parts.filter(|(_, part)| *part != PortTable::default()).collect()
}

impl PortTable {
    /// What of it a guest can tell.
    pub(crate) fn visible(&self) -> PortTable {
        let mac = self.nic.get("mac").map(|mac| ("mac".to_owned(), mac.clone()));
        PortTable { nic: Table::from_iter(mac), at: self.at, ..PortTable::default() }
    }
}

/// A port as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Its NIC, whose MAC address is given.
    pub nic: NicConfig,
    /// Between the NIC and memory.
    pub pcie: PcieConfig,
    /// In front of the NIC, both ways.
    pub link: LinkConfig,
}

/// What holds for all ports, and what does not.
#[derive(Clone, Copy, Debug)]
pub struct PortsConfig<'a> {
    /// `[nic]`.
    pub nic: &'a NicConfig,
    /// `[pcie]`.
    pub pcie: &'a PcieConfig,
    /// `[link]`.
    pub link: &'a LinkConfig,
    /// `[port.N]`.
    pub own: &'a PortTables,
}

impl PortsConfig<'_> {
    /// Port `index`. An error names the key of the port's own tables.
    pub fn port(&self, index: usize) -> Result<PortConfig, ConfigError> {
        let (nic, pcie, link) = (self.nic.clone(), self.pcie.clone(), self.link.clone());
        let mut port = PortConfig { nic, pcie, link };
        if let Some(own) = self.own.get(&PortNumber(index)) {
            port.nic = laid_over(&port.nic, &own.nic, &format!("port.{index}.nic"))?;
            port.pcie = laid_over(&port.pcie, &own.pcie, &format!("port.{index}.pcie"))?;
            port.link = laid_over(&port.link, &own.link, &format!("port.{index}.link"))?;
        }
        let mac: MacAddress = port.nic.mac_of(index);
        port.nic.mac = Some(mac);
        Ok(port)
    }

    /// Where the NIC of port `index` is.
    pub fn place(&self, index: usize) -> Place {
        let own = self.own.get(&PortNumber(index)).and_then(|own| own.at);
        own.unwrap_or(default_place(index))
    }

    /// Checks what all have, and each of `count` ports.
    pub fn validate(&self, count: usize) -> Result<(), ConfigError> {
        let check = |prefix: &str, nic: &NicConfig, pcie: &PcieConfig, link: &LinkConfig| {
            pcie.validate().map_err(|e| ConfigError::below(&format!("{prefix}pcie"), &e))?;
            nic.validate().map_err(|e| ConfigError::new(format!("{prefix}nic"), e))?;
            link.validate().map_err(|e| ConfigError::new(format!("{prefix}link"), e))
        };
        check("", self.nic, self.pcie, self.link)?;
        for &PortNumber(index) in self.own.keys() {
            if index >= count {
                let problem = match count {
                    0 => "this machine has no NICs (platform.nics)".to_owned(),
                    1 => "this machine has one NIC (platform.nics), whose port is port.0".to_owned(),
                    _ => {
                        format!("this machine has {count} NICs (platform.nics): port.0 to port.{}", count - 1)
                    }
                };
                return Err(ConfigError::new(format!("port.{index}"), problem));
            }
            let PortConfig { nic, pcie, link } = self.port(index)?;
            check(&format!("port.{index}."), &nic, &pcie, &link)?;
        }
        Ok(())
    }
}

/// NICs stand behind the host bridge, in the order of their ports.
pub(crate) fn default_place(index: usize) -> Place {
    Place::root(index as u8 + 1)
}

#[cfg(test)]
mod tests {
    use doorbell_sim::{Bytes, Ps};

    use super::*;
    use crate::config::MachineConfig;
    use crate::machine::Machine;
    use crate::overlay::Overlay;

    fn with(assignments: &[&str]) -> Result<MachineConfig, ConfigError> {
        let mut overlay = Overlay::default();
        assignments.iter().try_for_each(|assignment| overlay.set(assignment))?;
        let config: MachineConfig = overlay.resolve()?;
        config.validate()?;
        Ok(config)
    }

    #[test]
    fn a_port_has_what_all_have_but_for_its_own() {
        let config = with(&[
            "platform.nics=3",
            "nic.rx_fifo=48KiB",
            "link.latency=2us",
            "port.1.nic.rx_fifo=64KiB",
            "port.1.link.rate=10Gbps",
            "port.2.nic.mac=02:00:00:00:00:07",
            "port.2.pcie.attached=on-die",
        ])
        .unwrap();
        let [one, two, three] = [0, 1, 2].map(|index| config.port(index));
        assert_eq!((one.nic.rx_fifo, two.nic.rx_fifo), (Some(Bytes(48 << 10)), Some(Bytes(64 << 10))));
        assert_eq!((two.link.rate.0, two.link.latency), (10_000_000_000, Ps::from_us(2)));
        assert_eq!((three.nic.rx_fifo, three.link.rate), (one.nic.rx_fifo, one.link.rate));
        assert_ne!(three.pcie, one.pcie);
        assert_eq!(three.nic.mac, Some(MacAddress([2, 0, 0, 0, 0, 7])));
        assert_ne!(one.nic.mac, two.nic.mac);
        let machine = Machine::new(config, 1).unwrap();
        assert_eq!(machine.nic(1).config().rx_fifo, two.nic.rx_fifo);
        assert_eq!(machine.ports()[1].link_in.config(), &two.link);
    }

    #[test]
    fn a_table_that_says_nothing_changes_nothing_that_a_guest_sees() {
        let plain = with(&["platform.nics=2"]).unwrap();
        let fifo = with(&["platform.nics=2", "port.1.nic.rx_fifo=64KiB"]).unwrap();
        assert_eq!(plain.guest_hash(), fifo.guest_hash());
        assert_eq!(plain.for_boot().guest_hash(), fifo.for_boot().guest_hash());
        assert_eq!(Table::try_from(fifo.for_boot()).unwrap().get("port"), None);
        let mac = with(&["platform.nics=2", "port.1.nic.mac=02:00:00:00:00:07"]).unwrap();
        assert_ne!(plain.guest_hash(), mac.guest_hash());
        assert_eq!(mac.for_boot().guest_hash(), mac.guest_hash());
    }

    #[test]
    fn a_nic_that_is_told_to_be_where_it_is_anyway_makes_no_other_guest() {
        let hash = |set: &[&str]| with(&[&["platform.nics=2"], set].concat()).unwrap().guest_hash();
        assert_eq!(hash(&[]), hash(&["port.1.at=02.0"]));
        assert_ne!(hash(&[]), hash(&["port.1.at=03.0"]));
    }

    #[test]
    fn what_timing_models_save_belongs_to_every_ports_own_way_to_memory() {
        let hash =
            |set: &[&str]| with(&[&["platform.nics=2"], set].concat()).unwrap().microarchitecture_hash();
        assert_eq!(hash(&[]), hash(&["port.1.nic.rx_fifo=64KiB", "port.0.link.latency=1us"]));
        assert_ne!(hash(&[]), hash(&["port.1.pcie.attached=on-die"]));
        assert_ne!(hash(&["port.0.pcie.attached=on-die"]), hash(&["port.1.pcie.attached=on-die"]));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_path_of_its_key() {
        for (wrong, key, problem) in [
            ("port.2.nic.rx_fifo=64KiB", "port.2", "port.0 to port.1"),
            ("port.01.nic.rx_fifo=64KiB", "port.01", "\"01\" is no port's number"),
            ("port.nic.rx_fifo=64KiB", "port.nic", "those of all such as nic.rx_fifo"),
            ("port.1=64KiB", "port.1", "expected nic, pcie, link and at"),
            ("port.1.nic.rx_fifi=64KiB", "port.1.nic.rx_fifi", "did you mean \"rx_fifo\"?"),
            ("port.1.nic.rx_fifo=64", "port.1.nic.rx_fifo", "unit"),
            ("port.1.link.latency=1000s", "port.1.link", "latency"),
            ("port.1.pcie.lanes=3", "port.1.pcie.lanes", "3"),
            ("port.1.nik.rx_fifo=64KiB", "port.1.nik", "did you mean \"nic\"?"),
        ] {
            let error = with(&["platform.nics=2", wrong]).unwrap_err();
            assert_eq!(error.key, key, "{wrong}: {error}");
            assert!(error.problem.contains(problem), "{wrong}: {error}");
        }
    }
}
