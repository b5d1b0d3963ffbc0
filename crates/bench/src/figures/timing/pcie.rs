//! Figures of the NICs' PCI Express links.

use doorbell_machine::AttachKind;
use doorbell_pcie::link::LinkStats;
use doorbell_pcie::path::PathStats;
use doorbell_results::TimingFigures;
use doorbell_results::figures::PCIE;
use doorbell_sim::stats::Stats;

use super::span::View;
use crate::ratio::ratio;

/// The figures of all links together; those of links have no value if no NIC is attached by PCI Express.
pub(super) fn pcie(w: &View, frames: u64, g: &mut TimingFigures) {
    let attached = w.attached();
    let reads = PathStats::sum(attached.iter().map(|at| at.reads.clone()));
    let writes = PathStats::sum(attached.iter().map(|at| at.writes.clone()));
    let all = attached.iter().filter_map(|at| at.link.clone()).reduce(|sum, link| sum.plus(&link));
    let link = |of: fn(&LinkStats) -> u64| all.as_ref().map(of);
    // Counters and rate in Gbps of each NIC's link.
    let ports = w.config.all_ports().enumerate().filter(|(_, port)| port.attach.kind == AttachKind::Pcie);
    let links: Vec<(&LinkStats, f64)> = ports
        .filter_map(|(index, port)| {
            let at = attached.iter().find(|at| at.name == format!("port{index}"))?;
            Some((at.link.as_ref()?, port.pcie.encoded_rate().0 as f64 * 1e-9))
        })
        .collect();
    let rates: f64 = links.iter().map(|(_, rate)| rate).sum();
    // Bits from busy time within the measurement. They are not derived from packets, which are counted at
    // their request, possibly before the measurement.
    let bits = |busy_ps: fn(&LinkStats) -> u64| {
        let each = links.iter().map(|(link, rate)| busy_ps(link) as f64 * 1e-12 * rate);
        all.is_some().then(|| each.sum::<f64>())
    };
    let per_packet = |of: fn(&LinkStats) -> u64| ratio(link(of)?, frames);
    let gbps = |busy_ps: fn(&LinkStats) -> u64| ratio(bits(busy_ps)?, w.seconds());
    let share = |busy_ps: fn(&LinkStats) -> u64| ratio(bits(busy_ps)?, w.seconds() * rates);
    g.put(PCIE.up_tlps_per_packet, per_packet(|link| link.up_packets));
    g.put(PCIE.up_bytes_per_packet, per_packet(|link| link.up_bytes));
    g.put(PCIE.up_gbps, gbps(|link| link.up_busy_ps));
    g.put(PCIE.up_share, share(|link| link.up_busy_ps));
    g.put(PCIE.down_tlps_per_packet, per_packet(|link| link.down_packets));
    g.put(PCIE.down_bytes_per_packet, per_packet(|link| link.down_bytes));
    g.put(PCIE.down_gbps, gbps(|link| link.down_busy_ps));
    g.put(PCIE.down_share, share(|link| link.down_busy_ps));
    let waited = link(|link| link.posted_stall_ps);
    let waited = waited.and_then(|ps| ratio(ps as f64 * 1e-12, w.seconds() * links.len() as f64));
    g.put(PCIE.posted_wait_share, waited);
    g.put(PCIE.payload_bytes_per_packet, ratio(reads.payload_bytes + writes.payload_bytes, frames));
    g.put(PCIE.read_bytes_per_packet, ratio(reads.payload_bytes, frames));
    g.put(PCIE.written_bytes_per_packet, ratio(writes.payload_bytes, frames));
    let round_trip = all.as_ref().and_then(|all| ratio(all.round_trip_ps as f64 * 1e-3, all.read_requests));
    g.put(PCIE.read_round_trip_ns, round_trip);
    let packets = (reads.up_packets + writes.up_packets) as f64;
    let visible = all
        .as_ref()
        .and_then(|all| ratio(all.write_visible_ps as f64 * 1e-3, packets - all.read_requests as f64));
    g.put(PCIE.write_visible_ns, visible);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::timing::snapshot::AttachedCounts;
    use crate::figures::timing::{Span, TimingSnapshot};
    use doorbell_sim::Ps;

    #[test]
    fn mean_write_time_is_per_packet_not_per_line() {
        // Ten reads, and five write packets of four lines each, visible after 300 ns.
        let snapshot = |now, link, up_packets| {
            let writes = PathStats { up_packets, ..PathStats::default() };
            let link = Some(link);
            let port = AttachedCounts { name: "port0".into(), writes, link, ..AttachedCounts::default() };
            TimingSnapshot { now, threads: 1, attached: vec![port], ..TimingSnapshot::default() }
        };
        let link = LinkStats {
            up_packets: 15,
            read_requests: 10,
            round_trip_ps: 10_000_000,
            write_visible_ps: 5 * 300_000,
            full_line_writes: 20,
            up_busy_ps: 750_000,
            ..LinkStats::default()
        };
        let config = &crate::registry::defaults();
        let span = Span {
            begin: snapshot(Ps::ZERO, LinkStats::default(), 0),
            end: snapshot(Ps::from_us(1), link, 15),
            frames: 5,
            instructions: 0,
            config,
        };
        let mut group = TimingFigures::default();
        pcie(&View::of_all(&span), 5, &mut group);
        assert_eq!(group.get(PCIE.write_visible_ns), Some(300.0));
        assert_eq!(group.get(PCIE.read_round_trip_ns), Some(1000.0));
        assert_eq!((group.get(PCIE.up_share), group.get(PCIE.down_share)), (Some(0.75), Some(0.0)));
    }
}
