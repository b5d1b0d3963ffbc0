//! Frames lost at NICs and links, by cause.

use doorbell_machine::{Machine, Port};
use doorbell_pcie::NetworkFunction;
use doorbell_pcie::network::{LateDrops, NicStats, WaitedDrops};
use doorbell_results::{ByNic, Drops, WaitedFor};

/// Losses at all ports, summed.
pub(crate) fn nic_totals(machine: &Machine) -> NicTotals {
    let ports = machine.ports().iter().zip(machine.nics());
    ports.fold(NicTotals::default(), |totals, (port, nic)| totals.with_port(port, nic))
}

/// Frames of the window that any NIC dropped after it had accepted them.
pub(crate) fn late_drops(machine: &Machine) -> LateDrops {
    machine.nics().map(|nic| nic.late_drops()).fold(LateDrops::default(), |all, own| LateDrops {
        core: all.core + own.core,
        reset: all.reset + own.reset,
    })
}

/// Losses at each port.
pub(crate) fn port_totals(machine: &Machine) -> Vec<NicTotals> {
    let ports = machine.ports().iter().zip(machine.nics());
    ports.map(|(port, nic)| NicTotals::default().with_port(port, nic)).collect()
}

/// Frames lost at NICs and links, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicTotals {
    pub dma: u64,
    pub core: u64,
    pub tx: u64,
    pub other: u64,
    /// Most frames of `other`, by reason.
    pub by_nic: ByNic,
    /// Accepted frames that a reset dropped later. Included in `other`, regardless of their arrival time.
    pub reset: u64,
    /// Accepted frames dropped later because their queue had no descriptor. Included in `core`, regardless of
    /// their arrival time.
    pub no_descriptor: u64,
    /// Frames lost on the link to the NIC.
    pub link_in: u64,
    /// Frames lost on the link from the NIC.
    pub link_out: u64,
    /// Frames of any kind sent to the NICs.
    pub sent: u64,
    /// Frames that returned after their generators had given them up.
    pub late: u64,
    pub waited: WaitedDrops,
}

impl NicTotals {
    /// Adds a port's losses: at its NIC, and on the link in both directions.
    fn with_port(self, port: &Port, nic: &dyn NetworkFunction) -> NicTotals {
        self.with_link_in(port).with_nic(nic).with_link_out(port)
    }

    /// Adds a NIC's losses.
    pub fn with_nic(mut self, nic: &dyn NetworkFunction) -> NicTotals {
        let s: &NicStats = nic.stats();
        self.dma += s.rx_drop_dma;
        self.core += s.rx_drop_core;
        self.tx += s.rx_drop_tx;
        let (waited, all) = (nic.waited_drops(), &mut self.waited);
        all.core += waited.core;
        all.tx += waited.tx;
        all.fetch += waited.fetch;
        all.data += waited.data;
        self.other +=
            s.rx_drop_address + s.rx_drop_vlan + s.rx_drop_fcs + s.rx_drop_undersize + s.rx_drop_oversize;
        self.other +=
            s.rx_drop_disabled + s.rx_drop_link_down + s.rx_drop_loopback + s.rx_drop_reset + s.rx_control;
        self.by_nic = self.by_nic.and(&ByNic {
            size: s.rx_drop_undersize + s.rx_drop_oversize,
            address: s.rx_drop_address,
            vlan: s.rx_drop_vlan,
            fcs: s.rx_drop_fcs,
            off: s.rx_drop_disabled + s.rx_drop_link_down,
        });
        self.reset += s.rx_drop_reset;
        self.no_descriptor += nic.queue_stats().iter().map(|queue| queue.rx_drop_no_descriptor).sum::<u64>();
        self
    }

    /// Losses of the frames that arrived since `begin`. `late` counts those of them that a NIC dropped after
    /// accepting them, possibly after this snapshot. `lost_after_nic` counts those lost on the link from the
    /// NIC, where each frame shows its window.
    pub fn losses_of_arrived(&self, begin: &NicTotals, late: &LateDrops, lost_after_nic: u64) -> Drops {
        let drops = self.since(begin);
        Drops {
            core: drops.core - (self.no_descriptor - begin.no_descriptor) + late.core,
            nic_other: drops.nic_other - (self.reset - begin.reset) + late.reset,
            link: self.link_in - begin.link_in + lost_after_nic,
            ..drops
        }
    }

    /// Frames lost since an earlier snapshot. Drops in guests are not counted here.
    pub fn since(&self, begin: &NicTotals) -> Drops {
        let (now, then) = (&self.waited, &begin.waited);
        Drops {
            dma: self.dma - begin.dma,
            core: self.core - begin.core,
            tx: self.tx - begin.tx,
            nic_other: self.other - begin.other,
            link: self.link_in - begin.link_in + self.link_out - begin.link_out,
            guest: 0,
            unknown: 0,
            waited_for: WaitedFor {
                core: now.core - then.core,
                tx: now.tx - then.tx,
                fetch: now.fetch - then.fetch,
                data: now.data - then.data,
            },
            nic: self.by_nic.combined(&begin.by_nic, |now, then| now - then),
        }
    }

    /// Adds frames sent to a port's NIC, and those lost on the link. The NIC itself counts frames that were
    /// corrupted there.
    pub fn with_link_in(mut self, port: &Port) -> NicTotals {
        self.link_in += port.link_in.stats().lost;
        self.sent += port.link_in.stats().frames;
        self.late += port.loadgen.stats().late;
        self
    }

    /// Adds frames lost on the link from a port's NIC, including corrupted ones.
    pub fn with_link_out(mut self, port: &Port) -> NicTotals {
        self.link_out += port.link_out.stats().lost + port.link_out.stats().corrupted;
        self
    }
}
