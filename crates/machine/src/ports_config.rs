//! What each port is made of: `[nic]`, `[attach]`, `[pcie]` and `[link]` hold for all, and what stands under `[port.1.nic]` and the like for
//! that port alone. A port's own keys are laid over everybody's, so each table may name as little as it likes.

use std::collections::BTreeMap;

use doorbell_attach::{AttachConfig, AttachKind};
use doorbell_nic::{MacAddress, NicConfig};
use doorbell_pcie::{LinkConfig as PcieConfig, Place};
use doorbell_wire::LinkConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::config::ConfigError;
use crate::overlay::{laid_over, part_number};

/// Ports that have something of their own.
pub type PortTables = BTreeMap<PortNumber, PortTable>;

part_number! {
    /// A port's number, as a key of a configuration.
    PortNumber, "port", "nic.rx_fifo"
}

/// What one port has of its own: any keys of these parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "nic, attach, pcie, link and at")]
pub struct PortTable {
    /// Over `[nic]`. Its MAC address is this one NIC's.
    #[schemars(with = "NicConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub nic: Table,
    /// Over `[attach]`, or in its place if it names another kind.
    #[schemars(with = "AttachConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub attach: Table,
    /// Over `[pcie]`.
    #[schemars(with = "PcieConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub pcie: Table,
    /// Over `[link]`.
    #[schemars(with = "LinkConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub link: Table,
    /// Where its NIC is, on the root bus ("03.0") or behind a bridge ("0:03.0") of `platform.bridges`; device N+1 of the root bus for
    /// port N, unless given, or with `platform.ports_per_card` a function of the card's device. Ports at functions of one device share
    /// its attachment.
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
        let seen = ["mac", "model", "pause_frames"].into_iter();
        let seen = seen.filter_map(|key| Some((key.to_owned(), self.nic.get(key)?.clone())));
        PortTable { nic: Table::from_iter(seen), at: self.at, ..PortTable::default() }
    }
}

/// A port as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Its NIC, whose MAC address is given.
    pub nic: NicConfig,
    /// How it is attached to memory and cores.
    pub attach: AttachConfig,
    /// The link between them, if it is one of PCI Express.
    pub pcie: PcieConfig,
    /// In front of the NIC, both ways.
    pub link: LinkConfig,
}

/// What holds for all ports, and what does not.
#[derive(Clone, Copy, Debug)]
pub struct PortsConfig<'a> {
    /// `[nic]`.
    pub nic: &'a NicConfig,
    /// `[attach]`.
    pub attach: &'a AttachConfig,
    /// `[pcie]`.
    pub pcie: &'a PcieConfig,
    /// `[link]`.
    pub link: &'a LinkConfig,
    /// `[port.N]`.
    pub own: &'a PortTables,
    /// `platform.ports_per_card`.
    pub per_card: usize,
}

impl PortsConfig<'_> {
    /// What a port has that has nothing of its own.
    fn common(&self) -> PortConfig {
        PortConfig {
            nic: self.nic.clone(),
            attach: self.attach.clone(),
            pcie: self.pcie.clone(),
            link: self.link.clone(),
        }
    }

    /// Port `index`. An error names the key of the port's own tables.
    pub fn port(&self, index: usize) -> Result<PortConfig, ConfigError> {
        let mut port = self.common();
        if let Some(own) = self.own.get(&PortNumber(index)) {
            port.nic = laid_over(&port.nic, &own.nic, &format!("port.{index}.nic"))?;
            port.link = laid_over(&port.link, &own.link, &format!("port.{index}.link"))?;
        }
        let card = self.card(index);
        if let Some(own) = self.own.get(&PortNumber(card)) {
            port.attach = attached(&port.attach, &own.attach, &format!("port.{card}.attach"))?;
            port.pcie = laid_over(&port.pcie, &own.pcie, &format!("port.{card}.pcie"))?;
        }
        // Where all are told the same one, they count on from it: no two stations of a machine have the same.
        let is_own = self.own.get(&PortNumber(index)).is_some_and(|own| own.nic.contains_key("mac"));
        let mac: MacAddress = match port.nic.mac {
            Some(first) if !is_own => first.plus(index),
            _ => port.nic.mac_of(index),
        };
        port.nic.mac = Some(mac);
        Ok(port)
    }

    /// What port `index` has of its own, as the only port's.
    pub fn alone(&self, index: usize) -> PortTables {
        self.own.get(&PortNumber(index)).map(|own| (PortNumber(0), own.clone())).into_iter().collect()
    }

    /// Where the NIC of port `index` is.
    pub fn place(&self, index: usize) -> Place {
        let own = self.own.get(&PortNumber(index)).and_then(|own| own.at);
        own.unwrap_or(default_place(index, self.per_card))
    }

    /// The port whose attachment port `index` has: the first one at a function of the same PCI device, mostly itself.
    pub fn card(&self, index: usize) -> usize {
        let device = |port| Place { function: 0, ..self.place(port) };
        (0..index).find(|other| device(*other) == device(index)).unwrap_or(index)
    }

    /// A port that shares an attachment has none of its own.
    fn check_card(&self, index: usize, own: &PortTable) -> Result<(), ConfigError> {
        let card = self.card(index);
        for (key, table) in [("attach", &own.attach), ("pcie", &own.pcie)] {
            if card != index && !table.is_empty() {
                let (place, first) = (self.place(index), self.place(card));
                let problem = format!(
                    "port {index} ({place}) is a function of the same PCI device as port {card} ({first}) and shares its link: set \
                     port.{card}.{key}, or give port {index} a device of its own (port.{index}.at)"
                );
                return Err(ConfigError::new(format!("port.{index}.{key}"), problem));
            }
        }
        Ok(())
    }

    /// Checks what all have, and each of `count` ports.
    pub fn validate(&self, count: usize) -> Result<(), ConfigError> {
        let check = |prefix: &str, PortConfig { nic, attach, pcie, link }: &PortConfig| {
            attach.validate().map_err(|e| ConfigError::below(&format!("{prefix}attach"), &e))?;
            pcie.validate().map_err(|e| ConfigError::below(&format!("{prefix}pcie"), &e))?;
            nic.validate().map_err(|e| ConfigError::below(&format!("{prefix}nic"), &e.to_string()))?;
            link.validate().map_err(|e| ConfigError::new(format!("{prefix}link"), e))
        };
        check("", &self.common())?;
        for (&PortNumber(index), own) in self.own {
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
            self.check_card(index, own)?;
            let port = self.port(index)?;
            check(&format!("port.{index}."), &port)?;
            if port.attach.kind != AttachKind::Pcie && !own.pcie.is_empty() {
                let kind = port.attach.kind;
                let problem =
                    format!("port.{index}.attach.kind is \"{kind}\", which has no PCI Express link");
                return Err(ConfigError::new(format!("port.{index}.pcie"), problem));
            }
        }
        Ok(())
    }
}

/// NICs stand behind the host bridge, in the order of their ports, and those of one card at functions of one device.
pub(crate) fn default_place(index: usize, per_card: usize) -> Place {
    // Numbers of cards that there cannot be are refused.
    let per_card = per_card.max(1);
    Place { function: (index % per_card) as u8, ..Place::root((index / per_card) as u8 + 1) }
}

/// An attachment of another kind than everybody's has only keys of its own.
fn attached(all: &AttachConfig, own: &Table, path: &str) -> Result<AttachConfig, ConfigError> {
    let kind = Table::from_iter(own.get_key_value("kind").map(|(key, kind)| (key.clone(), kind.clone())));
    let of_kind = laid_over(&AttachConfig::default(), &kind, path)?;
    let base = if kind.is_empty() || of_kind.kind == all.kind { all } else { &of_kind };
    laid_over(base, own, path)
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
        let counted =
            with(&["platform.nics=3", "nic.mac=02:00:00:00:00:ff", "port.2.nic.mac=02:00:00:00:00:07"])
                .unwrap();
        let macs = [0, 1, 2].map(|port| counted.mac_of(port).to_string());
        assert_eq!(macs, ["02:00:00:00:00:ff", "02:00:00:00:01:00", "02:00:00:00:00:07"]);
        let machine = Machine::new(config, 1).unwrap();
        assert_eq!(machine.config().port(1).nic.rx_fifo, two.nic.rx_fifo);
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
        let pauses = ["nic.pause_frames=true", "port.1.nic.pause_frames=true"]
            .map(|set| with(&["platform.nics=2", set]).unwrap());
        for config in &pauses {
            assert_ne!(config.guest_hash(), plain.guest_hash(), "drivers see the partner's PAUSE");
            assert_eq!(config.for_boot().guest_hash(), config.guest_hash());
        }
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
    fn a_port_of_another_kind_of_attachment_has_none_of_everybodys_keys() {
        let all = ["platform.nics=2", "attach.kind=llc", "attach.clock=3GHz"];
        let kinds = |own: &[&str]| {
            let config = with(&[&all[..], own].concat()).unwrap();
            [0, 1].map(|index| config.port(index).attach)
        };
        let [llc, same] = kinds(&["port.1.attach.kind=llc", "port.1.attach.width=64B"]);
        assert_eq!((same.clock, same.width), (llc.clock, Some(Bytes(64))));
        let [_, other] = kinds(&["port.1.attach.kind=memory-bus", "port.1.attach.latency=2ns"]);
        assert_eq!((other.kind, other.clock), (AttachKind::MemoryBus, None));
        let [_, pcie] = kinds(&["port.1.attach.kind=pcie"]);
        assert_eq!(pcie, AttachConfig::default());
        let hash = |own: &[&str]| with(&[&all[..], own].concat()).unwrap().microarchitecture_hash();
        assert_ne!(hash(&[]), hash(&["port.1.attach.latency=2ns"]));
    }

    #[test]
    fn a_port_is_behind_as_many_bridges_as_its_place_says() {
        let set = [
            "platform.nics=2",
            "platform.bridges=[\"1e.0\", \"0:01.0\"]",
            "port.1.at=1:02.0",
            "pcie.bridge_latency=100ns",
        ];
        let machine = Machine::new(with(&set).unwrap(), 1).unwrap();
        let latency = |port| machine.attachment_of(machine.function_behind(port)).path().config().latency;
        assert_eq!(latency(1), latency(0) + Ps::from_ns(200));
    }

    #[test]
    fn ports_of_a_card_are_functions_of_one_device_and_share_its_attachment() {
        let set = ["platform.nics=16", "platform.ports_per_card=4", "port.4.pcie.lanes=4"];
        let config = with(&set).unwrap();
        let places = [0, 3, 4, 15].map(|port| config.ports().place(port).to_string());
        assert_eq!(places, ["01.0", "01.3", "02.0", "04.3"]);
        assert_eq!([3, 4, 7, 8].map(|port| config.port(port).pcie.lanes), [8, 4, 4, 8]);
        let machine = Machine::new(config, 1).unwrap();
        let firsts: Vec<&str> = machine.attachments().map(|(first, _)| first.name()).collect();
        assert_eq!(firsts, ["port0", "port4", "port8", "port12"]);
        let of = |port| std::ptr::from_ref(machine.attachment_of(machine.function_behind(port)));
        assert!(of(4) == of(7) && of(3) != of(4));
        let placed = with(&["platform.nics=3", "port.2.at=01.5"]).unwrap();
        assert_eq!([0, 1, 2].map(|port| placed.ports().card(port)), [0, 1, 0]);
        for (wrong, key, problem) in [
            ("platform.nics=17", "platform.nics", "0 to 16"),
            ("platform.ports_per_card=3", "platform.ports_per_card", "1, 2 or 4 ports"),
            (
                "port.5.pcie.lanes=4",
                "port.5.pcie",
                "(02.1) is a function of the same PCI device as port 4 (02.0)",
            ),
            (
                "port.1.attach=ocm",
                "port.1.attach",
                "set port.0.attach, or give port 1 a device of its own (port.1.at)",
            ),
            ("port.2.at=01.0", "port.2.at", "already used by another function"),
        ] {
            let error = with(&[&set[..2], &[wrong]].concat()).unwrap_err();
            assert_eq!(error.key, key, "{wrong}: {error}");
            assert!(error.problem.contains(problem), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_place_is_one_word_in_front_of_which_nothing_counts() {
        let config =
            with(&["platform.nics=3", "attach=ste", "port.1.attach=ocs", "port.2.attach=htd"]).unwrap();
        let [ste, ocs, htd] = [0, 1, 2].map(|index| config.port(index).attach);
        let stages = |attach: &AttachConfig| attach.stages.as_ref().map(Vec::len);
        assert_eq!((ste.kind, stages(&ste), stages(&htd)), (AttachKind::Bus, Some(2), Some(1)));
        assert_eq!((ocs.kind, stages(&ocs)), (AttachKind::LlcHeaders, None));
        assert_eq!(htd.register_latency, Some(Ps::from_ns(20)), "its own, not everybody's 35 ns");
        let mut file = Overlay::from_toml("a", "attach = \"hte\"").unwrap();
        file.set("attach.burst=128B").unwrap();
        let over: MachineConfig = file.resolve().unwrap();
        assert_eq!((over.attach.burst, stages(&over.attach)), (Some(Bytes(128)), Some(2)));
        file.merge_toml("b", "attach = \"occ\"").unwrap();
        let over: MachineConfig = file.resolve().unwrap();
        assert_eq!((over.attach.kind, over.attach.burst), (AttachKind::Llc, None));
        let unknown =
            Overlay::from_toml("c", "attach = \"far\"").unwrap().resolve::<MachineConfig>().unwrap_err();
        assert!(unknown.key == "attach" && unknown.problem.contains("ste, hte, htd"), "{unknown}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_path_of_its_key() {
        for (wrong, key, problem) in [
            ("port.2.nic.rx_fifo=64KiB", "port.2", "port.0 to port.1"),
            ("port.01.nic.rx_fifo=64KiB", "port.01", "\"01\" is no port's number"),
            ("port.nic.rx_fifo=64KiB", "port.nic", "those of all such as nic.rx_fifo"),
            ("port.1=64KiB", "port.1", "expected nic, attach, pcie, link and at"),
            ("port.1.nic.rx_fifi=64KiB", "port.1.nic.rx_fifi", "did you mean \"rx_fifo\"?"),
            ("port.1.nic.rx_fifo=64", "port.1.nic.rx_fifo", "unit"),
            ("port.1.link.latency=1000s", "port.1.link", "latency"),
            ("port.1.pcie.lanes=3", "port.1.pcie.lanes", "3"),
            ("attach.kind=bus", "attach.stages", "is missing"),
            ("attach=far", "attach", "known are ste, "),
            ("port.1.attach=LLC", "port.1.attach", "known are ste, "),
            ("attach.kind=isa", "attach.kind", "unknown variant `isa`"),
            (
                "attach.clock=1GHz",
                "attach.clock",
                "applies to kind \"memory-bus\", \"llc\", \"llc-headers\" only, not to \"pcie\"",
            ),
            ("port.1.attach.kind=isa", "port.1.attach.kind", "unknown variant `isa`"),
            ("port.1.attach.stages=[]", "port.1.attach.stages", "not to \"pcie\""),
            (
                "port.1.attach={kind=\"bus\",stages=[{width=\"0B\",clock=\"1GHz\"}]}",
                "port.1.attach.stages[0].width",
                "is 0B; it must be from 1B to 1KiB",
            ),
            ("port.1={attach={kind=\"llc\"},pcie={tags=8}}", "port.1.pcie", "has no PCI Express link"),
            ("pcie.bridge_latency=1ms", "pcie.bridge_latency", "at most 100us"),
            ("port.1.nik.rx_fifo=64KiB", "port.1.nik", "did you mean \"nic\"?"),
        ] {
            let error = with(&["platform.nics=2", wrong]).unwrap_err();
            assert_eq!(error.key, key, "{wrong}: {error}");
            assert!(error.problem.contains(problem), "{wrong}: {error}");
        }
    }
}
