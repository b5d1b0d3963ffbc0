//! What NICs and their links counted of the frames that they lost, by cause.

use doorbell_machine::{Machine, Port};
use doorbell_pcie::NetworkFunction;
use doorbell_pcie::network::{LateDrops, NicStats, WaitedDrops};
use doorbell_results::{ByNic, Drops, WaitedFor};

/// What the NICs counted, all together.
pub(crate) fn nic_totals(machine: &Machine) -> NicTotals {
    let ports = machine.ports().iter().zip(machine.nics());
    ports.fold(NicTotals::default(), |totals, (port, nic)| totals.with_port(port, nic))
}

/// Frames of the window that were dropped after they had been accepted, at all NICs.
pub(crate) fn late_drops(machine: &Machine) -> LateDrops {
    machine.nics().map(|nic| nic.late_drops()).fold(LateDrops::default(), |all, own| LateDrops {
        core: all.core + own.core,
        reset: all.reset + own.reset,
    })
}

/// What each of them counted.
pub(crate) fn port_totals(machine: &Machine) -> Vec<NicTotals> {
    let ports = machine.ports().iter().zip(machine.nics());
    ports.map(|(port, nic)| NicTotals::default().with_port(port, nic)).collect()
}

/// Frames that were lost at the NICs and on the links, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicTotals {
    pub dma: u64,
    pub core: u64,
    pub tx: u64,
    pub other: u64,
    /// Most of these, by reason.
    pub by_nic: ByNic,
    /// Frames that had been accepted and were dropped later, whenever they had come: these by a reset, which are in `other` too,
    pub reset: u64,
    /// and these, which are in `core` too, because their queue had no descriptor.
    pub no_descriptor: u64,
    /// On the way to a NIC, and from it.
    pub link_in: u64,
    pub link_out: u64,
    /// Frames that left for the NICs, whatever they were.
    pub sent: u64,
    /// Frames that came back when their generators no longer waited for them.
    pub late: u64,
    pub waited: WaitedDrops,
}

impl NicTotals {
    /// What this port counted as well.
    fn with_port(self, port: &Port, nic: &dyn NetworkFunction) -> NicTotals {
        self.with_way_in(port).with_nic(nic).with_way_back(port)
    }

    /// What this NIC counted as well.
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

    /// The same of frames that arrived since then, `late` being those of them that were dropped after they had been accepted, be it since
    /// this look. On the way back each frame says whether it is one of the window's: the number of these lost there.
    pub fn of_arrived(&self, begin: &NicTotals, late: &LateDrops, lost_behind: u64) -> Drops {
        let drops = self.since(begin);
        Drops {
            core: drops.core - (self.no_descriptor - begin.no_descriptor) + late.core,
            nic_other: drops.nic_other - (self.reset - begin.reset) + late.reset,
            link: self.link_in - begin.link_in + lost_behind,
            ..drops
        }
    }

    /// Frames lost since another look; what guests dropped is not known here.
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

    /// What was sent to this port's NIC and lost before it as well. A frame damaged there is the NIC's to drop.
    pub fn with_way_in(mut self, port: &Port) -> NicTotals {
        self.link_in += port.link_in.stats().lost;
        self.sent += port.link_in.stats().frames;
        self.late += port.loadgen.stats().late;
        self
    }

    /// What was lost behind this port's NIC as well; a frame damaged there is lost.
    pub fn with_way_back(mut self, port: &Port) -> NicTotals {
        self.link_out += port.link_out.stats().lost + port.link_out.stats().corrupted;
        self
    }
}
