//! Where lost frames were lost: by the causes of docs/drops.md, by what full FIFOs waited for, and by the NICs' reasons.

use serde::{Deserialize, Serialize};

/// What frames that a full receive FIFO dropped had waited for, over time (docs/drops.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedFor {
    /// Software that gave no descriptors back.
    pub core: u64,
    /// The same, the transmit ring being full.
    pub tx: u64,
    /// Fetches of descriptors.
    pub fetch: u64,
    /// The path of data to memory.
    pub data: u64,
}

impl WaitedFor {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.core.saturating_add(self.tx).saturating_add(self.fetch).saturating_add(self.data)
    }

    /// With those of another NIC or point.
    pub fn and(&self, other: &WaitedFor) -> WaitedFor {
        let sum = |pick: fn(&WaitedFor) -> u64| pick(self).saturating_add(pick(other));
        WaitedFor { core: sum(|w| w.core), tx: sum(|w| w.tx), fetch: sum(|w| w.fetch), data: sum(|w| w.data) }
    }
}

/// Frames that NICs dropped for another reason than a full receive FIFO, by that reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByNic {
    /// Longer than the receiver takes (the MTU), or shorter than Ethernet has.
    pub size: u64,
    /// To an address that the filters do not pass.
    pub address: u64,
    /// With a VLAN that the filter does not pass.
    pub vlan: u64,
    /// With a wrong frame check sequence.
    pub fcs: u64,
    /// While the receiver or the link was off.
    pub off: u64,
}

impl ByNic {
    /// All of them.
    pub fn total(&self) -> u64 {
        let ByNic { size, address, vlan, fcs, off } = *self;
        [size, address, vlan, fcs, off].into_iter().fold(0, u64::saturating_add)
    }

    /// With those of another NIC or point.
    pub fn and(&self, other: &ByNic) -> ByNic {
        self.combined(other, u64::saturating_add)
    }

    /// Each number combined with the other's.
    pub fn combined(&self, other: &ByNic, by: impl Fn(u64, u64) -> u64) -> ByNic {
        ByNic {
            size: by(self.size, other.size),
            address: by(self.address, other.address),
            vlan: by(self.vlan, other.vlan),
            fcs: by(self.fcs, other.fcs),
            off: by(self.off, other.off),
        }
    }
}

/// Where the frames of the measurement that did not come back were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// RX FIFO full, and blamed on DMA by the paper's rule (docs/drops.md).
    pub dma: u64,
    /// The same, blamed on the cores, which returned descriptors too slowly.
    pub core: u64,
    /// The same, blamed on transmission.
    pub tx: u64,
    /// Dropped by the NIC for any other reason; `nic` has most by that reason, and `stats.json` each. Of a trace that is played as
    /// recorded, all that its NIC dropped then.
    pub nic_other: u64,
    /// Lost on the link (configured faults).
    pub link: u64,
    /// Accepted by the NIC and not sent back: dropped by the guest's software. Derived, the forwarder being one-to-one.
    pub guest: u64,
    /// Lost, and the drain ended too early to know to what: they may have been on their way still (`run.drain`).
    #[serde(default)]
    pub unknown: u64,
    /// The frames of `dma`, `core` and `tx`, which go by the paper's rule, by what they had waited for.
    #[serde(default)]
    pub waited_for: WaitedFor,
    /// The frames of `nic_other`, by reason; others were dropped by a reset, or were pause frames.
    #[serde(default)]
    pub nic: ByNic,
}

/// Frames that a NIC had no room for, by what they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByWait {
    /// For software, which gave no descriptors; with those of queues that drop at once where they have none.
    pub core: u64,
    /// For room in a transmit ring.
    pub tx: u64,
    /// For fetches of descriptors.
    pub fetch: u64,
    /// For the data path to memory.
    pub data: u64,
}

impl Drops {
    /// Frames that NICs dropped on arrival.
    pub fn at_nics(&self) -> u64 {
        self.dma + self.core + self.tx + self.nic_other
    }

    /// The frames of `nic_other` for which `nic` has no reason: all of them in files of older versions.
    pub fn nic_rest(&self) -> u64 {
        self.nic_other.saturating_sub(self.nic.total())
    }

    /// The frames of `dma`, `core` and `tx` by what they waited for. Files of older versions have the paper's rule only, whose
    /// classes then stand for these.
    pub fn by_wait(&self) -> ByWait {
        let WaitedFor { core, tx, fetch, data } = self.waited_for;
        let waited = self.waited_for.total();
        if waited == 0 && self.dma + self.tx > 0 {
            return ByWait { core: self.core, tx: self.tx, fetch: 0, data: self.dma };
        }
        // The others waited in no FIFO: their queue had no descriptors (SRRCTL.DROP_EN).
        let in_none = (self.dma + self.core + self.tx).saturating_sub(waited);
        ByWait { core: core + in_none, tx, fetch, data }
    }

    /// These and others.
    #[must_use]
    pub fn and(&self, other: &Drops) -> Drops {
        Drops {
            dma: self.dma + other.dma,
            core: self.core + other.core,
            tx: self.tx + other.tx,
            nic_other: self.nic_other + other.nic_other,
            link: self.link + other.link,
            guest: self.guest + other.guest,
            unknown: self.unknown + other.unknown,
            waited_for: self.waited_for.and(&other.waited_for),
            nic: self.nic.and(&other.nic),
        }
    }
}
