//! Configuration per port. `[nic]`, `[attach]`, `[pcie]` and `[link]` apply to all ports; `[port.1.nic]` and
//! the like override them for port 1. Each table may set any subset of the keys.

use std::collections::BTreeMap;

use doorbell_attach::{AttachConfig, AttachKind};
use doorbell_nic::NicConfig;
use doorbell_pcie::{LinkConfig as PcieConfig, Place};
use doorbell_wire::{LinkConfig, MacAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::config::{ConfigError, MachineConfig};
use crate::overlay::{part_number, with_overrides};

/// Overrides per port.
pub type PortTables = BTreeMap<PortNumber, PortTable>;

part_number! {
    /// Port number as a configuration key.
    PortNumber, "port", "nic.rx_fifo"
}

/// Overrides of one port: any keys of these tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "nic, attach, pcie, link and at")]
pub struct PortTable {
    /// Overrides of `[nic]`. A `mac` here is the address of this NIC alone.
    #[schemars(with = "NicConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub nic: Table,
    /// Overrides of `[attach]`, or its replacement if the kind differs.
    #[schemars(with = "AttachConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub attach: Table,
    /// Overrides of `[pcie]`.
    #[schemars(with = "PcieConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub pcie: Table,
    /// Overrides of `[link]`.
    #[schemars(with = "LinkConfig")]
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub link: Table,
    /// Place of its NIC: on the root bus ("03.0") or behind a bridge of `platform.bridges` ("0:03.0"). By
    /// default port N is device N+1 of the root bus or, with `platform.ports_per_card`, a function of its
    /// card's device. Ports at functions of one device share its attachment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
}

/// Selects a part of each port's overrides, and drops the ports for which nothing remains.
pub(crate) fn non_default_tables(own: &PortTables, part: impl Fn(&PortTable) -> PortTable) -> PortTables {
    let parts = own.iter().map(|(number, own)| (*number, part(own)));
    parts.filter(|(_, part)| *part != PortTable::default()).collect()
}

impl PortTable {
    /// The guest-visible overrides.
    pub(crate) fn visible(&self) -> PortTable {
        let visible = ["mac", "model", "pause_frames"].into_iter();
        let visible = visible.filter_map(|key| Some((key.to_owned(), self.nic.get(key)?.clone())));
        PortTable { nic: Table::from_iter(visible), at: self.at, ..PortTable::default() }
    }
}

/// Resolved configuration of one port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Its NIC, with a MAC address.
    pub nic: NicConfig,
    /// Attachment to memory and cores.
    pub attach: AttachConfig,
    /// PCI Express link of the attachment, if it has one.
    pub pcie: PcieConfig,
    /// Network link, both directions.
    pub link: LinkConfig,
}

/// Configuration of a machine's ports: common to all, and overrides per port.
#[derive(Clone, Copy, Debug)]
pub struct PortsConfig<'a>(pub(crate) &'a MachineConfig);

impl PortsConfig<'_> {
    /// Configuration of a port without overrides.
    fn common(&self) -> PortConfig {
        PortConfig {
            nic: self.0.nic.clone(),
            attach: self.0.attach.clone(),
            pcie: self.0.pcie.clone(),
            link: self.0.link.clone(),
        }
    }

    /// Resolves port `index`. An error names the key in the port's own tables.
    pub fn port(&self, index: usize) -> Result<PortConfig, ConfigError> {
        let mut port = self.common();
        if let Some(own) = self.0.port.get(&PortNumber(index)) {
            port.nic = with_overrides(&port.nic, &own.nic, &format!("port.{index}.nic"))?;
            port.link = with_overrides(&port.link, &own.link, &format!("port.{index}.link"))?;
        }
        let card = self.card(index);
        if let Some(own) = self.0.port.get(&PortNumber(card)) {
            port.attach = attach_config(&port.attach, &own.attach, &format!("port.{card}.attach"))?;
            port.pcie = with_overrides(&port.pcie, &own.pcie, &format!("port.{card}.pcie"))?;
        }
        // A common MAC address is that of port 0; the other ports count up from it, so that all are
        // different.
        let is_own = self.0.port.get(&PortNumber(index)).is_some_and(|own| own.nic.contains_key("mac"));
        let mac: MacAddr = match port.nic.mac {
            Some(first) if !is_own => first.plus(index),
            _ => port.nic.mac_of(index),
        };
        port.nic.mac = Some(mac);
        Ok(port)
    }

    /// Overrides of port `index`, as port 0 of a machine with one port.
    pub fn as_only_port(&self, index: usize) -> PortTables {
        self.0.port.get(&PortNumber(index)).map(|own| (PortNumber(0), own.clone())).into_iter().collect()
    }

    /// Place of the NIC of port `index`.
    pub fn place(&self, index: usize) -> Place {
        let own = self.0.port.get(&PortNumber(index)).and_then(|own| own.at);
        own.unwrap_or(default_place(index, self.0.platform.ports_per_card as usize))
    }

    /// Port whose attachment port `index` uses: the first one on the same PCI device, usually itself.
    pub fn card(&self, index: usize) -> usize {
        let device = |port| Place { function: 0, ..self.place(port) };
        (0..index).find(|other| device(*other) == device(index)).unwrap_or(index)
    }

    /// Rejects attachment overrides for a port that shares another port's attachment.
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

    /// Checks the common configuration and each of `count` ports.
    pub fn validate(&self, count: usize) -> Result<(), ConfigError> {
        let check = |prefix: &str, PortConfig { nic, attach, pcie, link }: &PortConfig| {
            attach.validate().map_err(|e| ConfigError::in_part(&format!("{prefix}attach"), &e))?;
            pcie.validate().map_err(|e| ConfigError::in_part(&format!("{prefix}pcie"), &e))?;
            nic.validate().map_err(|e| ConfigError::in_part(&format!("{prefix}nic"), &e.to_string()))?;
            link.validate().map_err(|e| ConfigError::new(format!("{prefix}link"), e))
        };
        check("", &self.common())?;
        for (&PortNumber(index), own) in &self.0.port {
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

/// Default place of a NIC: on the root bus in port order, with the ports of one card at functions of one
/// device.
pub(crate) fn default_place(index: usize, per_card: usize) -> Place {
    // Configurations that are not validated yet may contain 0.
    let per_card = per_card.max(1);
    Place { function: (index % per_card) as u8, ..Place::root((index / per_card) as u8 + 1) }
}

/// Attachment of a port: overrides of the common one, or of the defaults if the port has another kind.
fn attach_config(all: &AttachConfig, own: &Table, path: &str) -> Result<AttachConfig, ConfigError> {
    let kind = Table::from_iter(own.get_key_value("kind").map(|(key, kind)| (key.clone(), kind.clone())));
    let of_kind = with_overrides(&AttachConfig::default(), &kind, path)?;
    let base = if kind.is_empty() || of_kind.kind == all.kind { all } else { &of_kind };
    with_overrides(base, own, path)
}

#[cfg(test)]
mod tests {
    use doorbell_sim::{Bytes, Ps};

    use super::*;
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
    fn port_tables_override_common_values() {
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
        assert_eq!(three.nic.mac, Some(MacAddr([2, 0, 0, 0, 0, 7])));
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
    fn guest_hash_depends_only_on_guest_visible_overrides() {
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
            assert_ne!(
                config.guest_hash(),
                plain.guest_hash(),
                "drivers detect the link partner's PAUSE support"
            );
            assert_eq!(config.for_boot().guest_hash(), config.guest_hash());
        }
    }

    #[test]
    fn explicit_default_place_keeps_the_guest_hash() {
        let hash = |set: &[&str]| with(&[&["platform.nics=2"], set].concat()).unwrap().guest_hash();
        assert_eq!(hash(&[]), hash(&["port.1.at=02.0"]));
        assert_ne!(hash(&[]), hash(&["port.1.at=03.0"]));
    }

    #[test]
    fn microarchitecture_hash_includes_each_ports_attachment() {
        let hash =
            |set: &[&str]| with(&[&["platform.nics=2"], set].concat()).unwrap().microarchitecture_hash();
        assert_eq!(hash(&[]), hash(&["port.1.nic.rx_fifo=64KiB", "port.0.link.latency=1us"]));
        assert_ne!(hash(&[]), hash(&["port.1.pcie.attached=on-die"]));
        assert_ne!(hash(&["port.0.pcie.attached=on-die"]), hash(&["port.1.pcie.attached=on-die"]));
    }

    #[test]
    fn attachment_of_another_kind_inherits_no_common_keys() {
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
    fn each_bridge_above_a_port_adds_latency() {
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
            ("platform.nics=17", "platform.nics", "at most 16"),
            ("platform.ports_per_card=3", "platform.ports_per_card", "a power of two from 1 to 4"),
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
    fn placement_name_replaces_earlier_attachment_keys() {
        let config =
            with(&["platform.nics=3", "attach=ste", "port.1.attach=ocs", "port.2.attach=htd"]).unwrap();
        let [ste, ocs, htd] = [0, 1, 2].map(|index| config.port(index).attach);
        let stages = |attach: &AttachConfig| attach.stages.as_ref().map(Vec::len);
        assert_eq!((ste.kind, stages(&ste), stages(&htd)), (AttachKind::Bus, Some(2), Some(1)));
        assert_eq!((ocs.kind, stages(&ocs)), (AttachKind::LlcHeaders, None));
        assert_eq!(htd.register_latency, Some(Ps::from_ns(20)), "its own, not the common 35 ns");
        let mut file = Overlay::from_toml("a", "attach = \"hte\"").unwrap();
        file.set("attach.burst=128B").unwrap();
        let over: MachineConfig = file.resolve().unwrap();
        assert_eq!((over.attach.burst, stages(&over.attach)), (Some(Bytes(128)), Some(2)));
        file.merge(Overlay::from_toml("b", "attach = \"occ\"").unwrap().into_table());
        let over: MachineConfig = file.resolve().unwrap();
        assert_eq!((over.attach.kind, over.attach.burst), (AttachKind::Llc, None));
        let unknown =
            Overlay::from_toml("c", "attach = \"far\"").unwrap().resolve::<MachineConfig>().unwrap_err();
        assert!(unknown.key == "attach" && unknown.problem.contains("ste, hte, htd"), "{unknown}");
    }

    #[test]
    fn invalid_values_are_rejected_with_the_path_of_their_key() {
        for (wrong, key, problem) in [
            ("port.2.nic.rx_fifo=64KiB", "port.2", "port.0 to port.1"),
            ("port.01.nic.rx_fifo=64KiB", "port.01", "\"01\" is not a port number"),
            ("port.nic.rx_fifo=64KiB", "port.nic", "nic.rx_fifo for all"),
            ("port.1=64KiB", "port.1", "expected nic, attach, pcie, link and at"),
            ("port.1.nic.rx_fifi=64KiB", "port.1.nic.rx_fifi", "did you mean \"rx_fifo\"?"),
            ("port.1.nic.rx_fifo=64", "port.1.nic.rx_fifo", "unit"),
            ("port.1.link.latency=1000s", "port.1.link", "latency"),
            ("port.1.pcie.lanes=3", "port.1.pcie.lanes", "3"),
            ("attach.kind=bus", "attach.stages", "is missing"),
            ("attach=far", "attach", "use one of ste, "),
            ("port.1.attach=LLC", "port.1.attach", "use one of ste, "),
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
