//! Frames that NICs, cables and switches lost in a window of load generators that measure frame by frame.
//!
//! NICs, cables and switches count by time: they lose frames within the window that were sent before it, which are none of the window's, and
//! some of the window's are lost behind its end, while those on their way are waited for. About as many are under way at either end, so that
//! what is lost behind the end, by cause, makes up for what the count within lacks, or has too many.

use doorbell_machine::{End, Network};
use doorbell_results::{ByNic, Drops, WaitedFor};

use crate::figures::nic_totals::{NicTotals, port_totals};

/// What has been lost so far.
pub(crate) struct Losses {
    /// By node and port.
    nics: Vec<Vec<NicTotals>>,
    /// On cables and in switches. What is damaged on its way to a NIC is the NIC's to drop.
    between: u64,
}

impl Losses {
    /// Until now.
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

    /// Since another look.
    pub fn since(&self, begin: &Losses) -> Lost {
        let node = |(now, begin): (&Vec<NicTotals>, &Vec<NicTotals>)| {
            let ports = now.iter().zip(begin).map(|(now, begin)| Drops { link: 0, ..now.since(begin) });
            ports.collect()
        };
        let by_port = self.nics.iter().zip(&begin.nics).map(node).collect();
        Lost { by_port, between: self.between - begin.between }
    }
}

/// What was lost from one look to another.
pub(crate) struct Lost {
    /// Frames that NICs dropped on arrival, by node and port.
    pub by_port: Vec<Vec<Drops>>,
    /// On cables and in switches.
    between: u64,
}

impl Lost {
    /// Frames that all NICs of a node dropped on arrival.
    pub fn by(&self, node: usize) -> Drops {
        self.by_port[node].iter().fold(Drops::default(), |drops, port| drops.and(port))
    }

    /// All of it, by cause.
    pub fn all(&self) -> Drops {
        let between = Drops { link: self.between, ..Drops::default() };
        (0..self.by_port.len()).fold(between, |all, node| all.and(&self.by(node)))
    }

    /// The same of a test node and a drive node, whose NIC's are a drive node's fault.
    pub fn with_drive(&self) -> Drops {
        let (link, nic_other) = (self.between, self.by(1).at_nics());
        self.by(0).and(&Drops { nic_other, link, ..Drops::default() })
    }
}

fn total(drops: &Drops) -> u64 {
    drops.at_nics() + drops.link
}

/// A part of each number, so many in all, which is no more than there is.
fn share<const N: usize>(of: [u64; N], amount: u64) -> [u64; N] {
    let (all, mut before, mut given) = (of.iter().sum::<u64>().max(1), 0, 0);
    of.map(|own| {
        before += own;
        let until = (u128::from(amount) * u128::from(before) / u128::from(all)) as u64;
        until - std::mem::replace(&mut given, until)
    })
}

/// A part of the frames that NICs dropped for each reason, with this total.
fn of_reasons(all: &ByNic, amount: u64) -> ByNic {
    let ByNic { size, address, vlan, fcs, off } = *all;
    let [size, address, vlan, fcs, off] = share([size, address, vlan, fcs, off], amount.min(all.total()));
    ByNic { size, address, vlan, fcs, off }
}

/// Of a window of which `lost` frames did not come back: what was counted `within` it, and `behind` its end until none was under way. What no
/// cause accounts for, the guests dropped.
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
    fn causes_add_up_to_what_was_lost_as_far_as_the_window_s_ends_can_account_for_it() {
        let waited = |core, fetch| WaitedFor { core, fetch, ..WaitedFor::default() };
        let within = Drops { dma: 500, core: 1200, waited_for: waited(1650, 50), ..Drops::default() };
        let behind = Drops { dma: 10, core: 30, link: 2, waited_for: waited(36, 4), ..Drops::default() };
        // Some of the window's frames were lost behind its end.
        let drops = of_window(&within, &behind, 1721);
        assert_eq!((drops.dma, drops.core, drops.link, drops.guest), (505, 1215, 1, 0));
        assert_eq!(drops.waited_for, waited(1668, 52));
        // Some that were lost within it had been sent before.
        let drops = of_window(&within, &behind, 1679);
        assert_eq!((drops.dma + drops.core, drops.guest), (1680, 0), "{drops:?}");
        // More than that the guests dropped, or the frames are others' as well.
        assert_eq!(of_window(&within, &behind, 1800), Drops { guest: 58, ..within.and(&behind) });
        assert_eq!(total(&of_window(&within, &behind, 0)), 1700 - 42 + 2, "nothing less than none is lost");
        assert_eq!(of_window(&within, &Drops::default(), 1701), Drops { guest: 1, ..within });
    }
}
