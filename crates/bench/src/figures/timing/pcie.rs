//! Figures of the PCI Express links by which NICs are attached.

use doorbell_machine::AttachKind;

use super::figures::{Filling, over};
use super::span::View;

pub(super) fn pcie(w: &View) -> Filling {
    let mut g = Filling::new("PCI Express");
    let frames = w.frames as f64;
    // Where no NIC is attached by PCI Express there is no link to say anything of.
    let has_link = w.has("link.up_packets");
    let link = |name: &str| has_link.then(|| w.n(&format!("link.{name}")));
    // What they carry each second, by the paths of their counters.
    let ports = w.config.ports().enumerate().filter(|(_, port)| port.attach.kind == AttachKind::Pcie);
    let links: Vec<(String, f64)> = ports
        .map(|(index, port)| (format!("port{index}.pcie_link"), port.pcie.encoded_rate().0 as f64 * 1e-9))
        .filter(|(path, _)| w.has(&format!("{path}.up_packets")))
        .collect();
    let rates: f64 = links.iter().map(|(_, rate)| rate).sum();
    for (way, meaning) in [("up", "from the NIC"), ("down", "to the NIC")] {
        let n = |what: &str| link(&format!("{way}_{what}"));
        g.put(
            format!("{way}_tlps_per_packet"),
            n("packets").and_then(|packets| over(packets, frames)),
            format!("transaction-layer packets {meaning} a delivered packet"),
        );
        g.put(
            format!("{way}_bytes_per_packet"),
            n("bytes").and_then(|bytes| over(bytes, frames)),
            format!("their bytes, headers and framing included, {meaning} a delivered packet"),
        );
        // What a link takes time for within the measurement; packets are counted when they are asked for, which may be before.
        let bits = has_link.then(|| {
            let each = links.iter().map(|(path, rate)| w.n(&format!("{path}.{way}_busy_ps")) * 1e-12 * rate);
            each.sum::<f64>()
        });
        g.put(
            format!("{way}_gbps"),
            bits.and_then(|bits| over(bits, w.seconds())),
            format!("Gbps on the link {meaning}, acknowledgements and flow control included"),
        );
        g.put(
            format!("{way}_share"),
            bits.and_then(|bits| over(bits, w.seconds() * rates)),
            format!("share of what the NICs' links can carry {meaning} that is on them"),
        );
    }
    g.put(
        "posted_wait_share",
        link("posted_stall_ps").and_then(|ps| over(ps * 1e-12, w.seconds() * links.len() as f64)),
        "share of the time in which a write from the NIC that could have left waited for posted credits (pcie.posted_headers, \
         pcie.posted_data); one waits at a time",
    );
    g.put(
        "payload_bytes_per_packet",
        over(w.n("pcie.payload_bytes"), frames),
        "bytes of data and descriptors moved by DMA, both ways, a delivered packet",
    );
    g.put(
        "read_bytes_per_packet",
        over(w.n("dma_reads.payload_bytes"), frames),
        "those of them that the NIC reads: frames to send and descriptors",
    );
    g.put(
        "written_bytes_per_packet",
        over(w.n("dma_writes.payload_bytes"), frames),
        "those of them that the NIC writes: received frames and descriptors",
    );
    g.put(
        "read_round_trip_ns",
        link("round_trip_ps").zip(link("read_requests")).and_then(|(ps, reads)| over(ps * 1e-3, reads)),
        "from a DMA read request to the end of its completions, on average",
    );
    g.put(
        "write_visible_ns",
        link("write_visible_ps")
            .zip(link("read_requests"))
            .and_then(|(ps, reads)| over(ps * 1e-3, w.n("pcie.up_packets") - reads)),
        "from a DMA write's first byte on the link until it is visible, a packet of the link",
    );
    g
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::timing::{Moment, Span};
    use doorbell_sim::Ps;

    #[test]
    fn a_write_s_mean_time_is_of_packets_and_not_of_lines() {
        // Ten reads, and five writes of a whole packet of four lines, each of them visible after 300 ns.
        let grown = [
            ("link.up_packets", 15),
            ("link.read_requests", 10),
            ("link.round_trip_ps", 10_000_000),
            ("link.write_visible_ps", 5 * 300_000),
            ("link.full_line_writes", 20),
            ("pcie.up_packets", 15),
            ("port0.pcie_link.up_busy_ps", 750_000),
        ];
        let others = ["up_bytes", "up_dllp_bytes", "down_packets", "down_bytes", "down_dllp_bytes"];
        let others = others.map(|name| format!("link.{name}")).into_iter();
        let bytes = ["pcie", "dma_reads", "dma_writes"].map(|group| format!("{group}.payload_bytes"));
        let none = others.chain(bytes).chain(["link.posted_stall_ps".to_owned()]);
        let busy = ["up_packets", "up_busy_ps", "down_busy_ps"].map(|name| format!("port0.pcie_link.{name}"));
        let none = none.chain(busy);
        let zero: BTreeMap<String, u64> =
            none.chain(grown.map(|(name, _)| name.to_owned())).map(|name| (name, 0)).collect();
        let mut counts = zero.clone();
        counts.extend(grown.map(|(name, value)| (name.to_owned(), value)));
        let moment = |now, counts| Moment { now, own: 0, books: Vec::new(), counts };
        let config = &crate::scenarios::registry::defaults();
        let span = Span {
            begin: moment(Ps::ZERO, zero),
            end: moment(Ps::from_us(1), counts),
            frames: 5,
            instructions: 0,
            config,
        };
        let group = pcie(&View::of_all(&span)).done();
        let value = |name: &str| group.figures.iter().find(|figure| figure.name == name).unwrap().value;
        assert_eq!(value("write_visible_ns"), Some(300.0));
        assert_eq!(value("read_round_trip_ns"), Some(1000.0));
        assert_eq!((value("up_share"), value("down_share")), (Some(0.75), Some(0.0)));
    }
}
