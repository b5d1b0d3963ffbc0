//! Lost frames by cause: by the causes of docs/drops.md, by the reason why FIFOs were full, and by the NICs'
//! reasons.

use serde::{Deserialize, Serialize};

/// Frames dropped by a full receive FIFO, by what the FIFO had waited for over time (docs/drops.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedFor {
    /// Software that did not return descriptors.
    pub core: u64,
    /// The same, because the transmit ring was full.
    pub tx: u64,
    /// Descriptor fetches.
    pub fetch: u64,
    /// The DMA path of frame data to memory.
    pub data: u64,
}

impl WaitedFor {
    /// The total.
    pub fn total(&self) -> u64 {
        self.core.saturating_add(self.tx).saturating_add(self.fetch).saturating_add(self.data)
    }

    /// The sum with another NIC's or point's figures.
    pub fn and(&self, other: &WaitedFor) -> WaitedFor {
        let sum = |pick: fn(&WaitedFor) -> u64| pick(self).saturating_add(pick(other));
        WaitedFor { core: sum(|w| w.core), tx: sum(|w| w.tx), fetch: sum(|w| w.fetch), data: sum(|w| w.data) }
    }
}

/// Frames that NICs dropped for reasons other than a full receive FIFO, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByNic {
    /// Longer than the receiver accepts (the MTU), or shorter than Ethernet's minimum.
    pub size: u64,
    /// Destination address rejected by the filters.
    pub address: u64,
    /// VLAN rejected by the filter.
    pub vlan: u64,
    /// Wrong frame check sequence.
    pub fcs: u64,
    /// Receiver or link off.
    pub off: u64,
}

impl ByNic {
    /// The total.
    pub fn total(&self) -> u64 {
        let ByNic { size, address, vlan, fcs, off } = *self;
        [size, address, vlan, fcs, off].into_iter().fold(0, u64::saturating_add)
    }

    /// The sum with another NIC's or point's figures.
    pub fn and(&self, other: &ByNic) -> ByNic {
        self.combined(other, u64::saturating_add)
    }

    /// Combines each number with the other's.
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

/// Frames of the measurement that did not come back, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// Receive FIFO full, attributed to DMA by the paper's rule (docs/drops.md).
    pub dma: u64,
    /// Receive FIFO full, attributed to the cores, which returned descriptors too slowly.
    pub core: u64,
    /// Receive FIFO full, attributed to transmission.
    pub tx: u64,
    /// Dropped by the NIC for any other reason; `nic` has most of them by reason, and `stats.json` all. For a
    /// trace played at the recorded pace, all drops of its NIC during recording.
    pub nic_other: u64,
    /// Lost on the link (configured faults).
    pub link: u64,
    /// Accepted by the NIC but not sent back: dropped by the guest's software. Derived, assuming a one-to-one
    /// forwarder.
    pub guest: u64,
    /// Lost with unknown cause, because the drain ended too early: the frames may still have been in flight
    /// (`run.drain`).
    #[serde(default)]
    pub unknown: u64,
    /// The frames of `dma`, `core` and `tx`, which follow the paper's rule, by what they had waited for.
    #[serde(default)]
    pub waited_for: WaitedFor,
    /// The frames of `nic_other`, by reason; the remaining ones were dropped by a reset, or were pause
    /// frames.
    #[serde(default)]
    pub nic: ByNic,
}

impl Drops {
    /// Frames that NICs dropped on arrival.
    pub fn at_nics(&self) -> u64 {
        self.dma + self.core + self.tx + self.nic_other
    }

    /// The frames of `nic_other` without a reason in `nic`: all of them in files of older versions.
    pub fn nic_rest(&self) -> u64 {
        self.nic_other.saturating_sub(self.nic.total())
    }

    /// The frames of `dma`, `core` and `tx` by what they waited for. Files of older versions only have the
    /// paper's rule, whose classes are used instead.
    pub fn by_wait(&self) -> WaitedFor {
        let WaitedFor { core, tx, fetch, data } = self.waited_for;
        let waited = self.waited_for.total();
        if waited == 0 && self.dma + self.tx > 0 {
            return WaitedFor { core: self.core, tx: self.tx, fetch: 0, data: self.dma };
        }
        // The others waited in no FIFO: their queue had no descriptors (SRRCTL.DROP_EN).
        let without_fifo = (self.dma + self.core + self.tx).saturating_sub(waited);
        WaitedFor { core: core + without_fifo, tx, fetch, data }
    }

    /// The sum of two.
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
