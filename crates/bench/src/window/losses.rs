//! Frames lost in NICs, cables and switches, attributed to a window whose generators follow each frame.
//!
//! NICs, cables and switches count by time. Their counts within the window include frames sent before it, and lack
//! the window's own frames that are lost after its end, during the drain. About as many frames are in flight at
//! either end. The losses after the end, by cause, therefore correct the counts within, which may be too low or
//! too high.

use doorbell_machine::{End, Network};
use doorbell_results::{ByNic, Drops, WaitedFor};

use crate::figures::nic_totals::{NicTotals, port_totals};

/// Loss counts so far.
pub(crate) struct Losses {
    /// By node and port.
    nics: Vec<Vec<NicTotals>>,
    /// Frames lost on cables and in switches. Frames corrupted on the way to a NIC are dropped, and counted, there.
    between: u64,
}

impl Losses {
    /// The counts at this time.
    pub fn of(network: &Network) -> Losses {
        let ends = network.config().links.iter().flat_map(|link| [link.ends[1], link.ends[0]]);
        let wires = network.wires().iter().zip(ends).map(|(wire, to)| {
            let stats = network.link(wire).stats();
            stats.lost + if matches!(to, End::Generator(_)) { stats.corrupted } else { 0 }
        });
        let in_switch = |switch: &doorbell_machine::Switch| {
            let outputs = switch.outputs().iter().map(|output| output.stats().dropped);
            outputs.sum::<u64>() + switch.stats().bad_fcs
        };
        let between = wires.sum::<u64>() + network.switches().map(in_switch).sum::<u64>();
        Losses { nics: network.nodes().map(port_totals).collect(), between }
    }

    /// Losses since the earlier counts `begin`.
    pub fn since(&self, begin: &Losses) -> Lost {
        let node = |(now, begin): (&Vec<NicTotals>, &Vec<NicTotals>)| {
            let ports = now.iter().zip(begin).map(|(now, begin)| Drops { link: 0, ..now.since(begin) });
            ports.collect()
        };
        let by_port = self.nics.iter().zip(&begin.nics).map(node).collect();
        Lost { by_port, between: self.between - begin.between }
    }
}

/// Losses between two times.
pub(crate) struct Lost {
    /// Frames that NICs dropped on arrival, by node and port.
    pub by_port: Vec<Vec<Drops>>,
    /// Frames lost on cables and in switches.
    between: u64,
}

impl Lost {
    /// Frames that all NICs of a node dropped on arrival.
    pub fn by(&self, node: usize) -> Drops {
        self.by_port[node].iter().fold(Drops::default(), |drops, port| drops.and(port))
    }

    /// All losses, by cause.
    pub fn all(&self) -> Drops {
        let between = Drops { link: self.between, ..Drops::default() };
        (0..self.by_port.len()).fold(between, |all, node| all.and(&self.by(node)))
    }

    /// All losses between a test node and a drive node. Drops by the drive node's NIC have one cause, `nic_other`.
    pub fn with_drive(&self) -> Drops {
        let (link, nic_other) = (self.between, self.by(1).at_nics());
        self.by(0).and(&Drops { nic_other, link, ..Drops::default() })
    }
}

fn total(drops: &Drops) -> u64 {
    drops.at_nics() + drops.link
}

/// Splits `amount` in proportion to the numbers `of`; `amount` must not exceed their sum.
fn share<const N: usize>(of: [u64; N], amount: u64) -> [u64; N] {
    let (all, mut before, mut given) = (of.iter().sum::<u64>().max(1), 0, 0);
    of.map(|own| {
        before += own;
        let until = (u128::from(amount) * u128::from(before) / u128::from(all)) as u64;
        until - std::mem::replace(&mut given, until)
    })
}

/// Splits `amount` in proportion to the frames that NICs dropped for each reason.
fn of_reasons(all: &ByNic, amount: u64) -> ByNic {
    let ByNic { size, address, vlan, fcs, off } = *all;
    let [size, address, vlan, fcs, off] = share([size, address, vlan, fcs, off], amount.min(all.total()));
    ByNic { size, address, vlan, fcs, off }
}

/// Drops by cause of a window that lost `lost` frames: counts `within` it, corrected by the counts `behind` its end,
/// during the drain. Frames without a cause count as dropped by the guests.
pub(crate) fn of_window(within: &Drops, behind: &Drops, lost: u64) -> Drops {
    let (counted, most) = (total(within), total(behind));
    let moved = lost.abs_diff(counted).min(most);
    let is_more = lost > counted;
    let change = |own: u64, by: u64| if is_more { own + by } else { own.saturating_sub(by) };
    let [dma, core, tx, nic_other, link] =
        share([behind.dma, behind.core, behind.tx, behind.nic_other, behind.link], moved);
    let WaitedFor { core: for_core, tx: for_tx, fetch, data } = behind.waited_for;
    let waited = share([for_core, for_tx, fetch, data], dma + core + tx);
    let own = &within.waited_for;
    let nic = within.nic.combined(&of_reasons(&behind.nic, nic_other), change);
    let drops = Drops {
        dma: change(within.dma, dma),
        core: change(within.core, core),
        tx: change(within.tx, tx),
        nic_other: change(within.nic_other, nic_other),
        link: change(within.link, link),
        guest: 0,
        unknown: 0,
        waited_for: WaitedFor {
            core: change(own.core, waited[0]),
            tx: change(own.tx, waited[1]),
            fetch: change(own.fetch, waited[2]),
            data: change(own.data, waited[3]),
        },
        nic,
    };
    Drops { guest: lost.saturating_sub(total(&drops)), ..drops }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_by_cause_add_up_to_the_lost_frames_within_the_correction_for_the_edges() {
        let waited = |core, fetch| WaitedFor { core, fetch, ..WaitedFor::default() };
        let within = Drops { dma: 500, core: 1200, waited_for: waited(1650, 50), ..Drops::default() };
        let behind = Drops { dma: 10, core: 30, link: 2, waited_for: waited(36, 4), ..Drops::default() };
        // Some of the window's frames were lost after its end.
        let drops = of_window(&within, &behind, 1721);
        assert_eq!((drops.dma, drops.core, drops.link, drops.guest), (505, 1215, 1, 0));
        assert_eq!(drops.waited_for, waited(1668, 52));
        // Some frames lost within the window had been sent before it.
        let drops = of_window(&within, &behind, 1679);
        assert_eq!((drops.dma + drops.core, drops.guest), (1680, 0), "{drops:?}");
        // The guests dropped the remaining frames.
        assert_eq!(of_window(&within, &behind, 1800), Drops { guest: 58, ..within.and(&behind) });
        assert_eq!(total(&of_window(&within, &behind, 0)), 1700 - 42 + 2, "counts do not become negative");
        assert_eq!(of_window(&within, &Drops::default(), 1701), Drops { guest: 1, ..within });
    }
}
