//! CSV tables of a load point: the measurement over time, per stream and per flow.

use std::fmt::Write;

use doorbell_loadgen::{BatchSummary, Flow, FlowHeaders, StreamResults, StreamSummary, TrafficConfig};
use doorbell_results::MemoryPart;

/// `batches.csv`: one row per part of the measurement.
pub(crate) fn batches(batches: &[BatchSummary]) -> String {
    let mut out = "begin_ns,offered,delivered,latency_ns_mean,latency_ns_p99\n".to_owned();
    for batch in batches {
        let _ = writeln!(out, "{},{}", over_time(batch), nanoseconds(batch.latency_ns_p99));
    }
    out
}

/// `memory.csv`: one row per part of the measurement and memory channel.
pub(crate) fn memory(parts: &[MemoryPart]) -> String {
    let mut out = "begin_ns,channel,read_gbps,write_gbps,read_latency_ns\n".to_owned();
    for part in parts {
        let MemoryPart { begin_ns, channel, read_gbps, write_gbps, .. } = part;
        let latency = nanoseconds(part.read_latency_ns);
        let _ = writeln!(out, "{begin_ns:.3},{channel},{read_gbps:.6},{write_gbps:.6},{latency}");
    }
    out
}

/// `streams.csv`: one row per stream and part of the measurement, until the stream ends.
pub(crate) fn streams(streams: &[StreamSummary]) -> String {
    let mut out = "stream,begin_ns,offered,delivered,latency_ns_mean\n".to_owned();
    for stream in streams {
        for batch in &stream.batches {
            let _ = writeln!(out, "{},{}", csv_field(&stream.name), over_time(batch));
        }
    }
    out
}

fn over_time(batch: &BatchSummary) -> String {
    let BatchSummary { begin_ns, offered, delivered, latency_ns_mean, .. } = batch;
    format!("{begin_ns:.3},{offered},{delivered},{}", nanoseconds(*latency_ns_mean))
}

fn nanoseconds(value: Option<f64>) -> String {
    value.map_or(String::new(), |ns| format!("{ns:.3}"))
}

/// `flows.csv`: one row per flow with at least one offered frame.
pub(crate) fn flows(traffic: &TrafficConfig, books: &[StreamResults]) -> String {
    let mut out =
        "stream,flow,source_mac,destination_mac,vlan,source_ip,destination_ip,source_port,destination_port,\
                   offered,delivered,corrupt,lost,reordered\n"
            .to_owned();
    for (config, book) in traffic.streams.iter().zip(books) {
        let (name, flows) = book.flows();
        if flows.is_empty() {
            continue;
        }
        let headers = FlowHeaders::new(traffic, config);
        for (number, book) in (0..).zip(flows).filter(|(_, book)| book.offered > 0) {
            let Flow { macs, addresses, ports, vlan } = headers.flow(number);
            let vlan = vlan.map_or(String::new(), |vlan| vlan.to_string());
            let _ = writeln!(
                out,
                "{},{number},{},{},{vlan},{},{},{},{},{},{},{},{},{}",
                csv_field(name),
                macs[0],
                macs[1],
                addresses[0],
                addresses[1],
                ports[0],
                ports[1],
                book.offered,
                book.delivered,
                book.corrupt,
                book.lost(),
                book.reordered
            );
        }
    }
    out
}

/// Text as one CSV field, quoted if necessary (RFC 4180).
pub fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_comma_quote_or_newline_are_quoted() {
        let fields = ["plain", "a,b", "say \"no\"", "two\nlines"].map(csv_field);
        assert_eq!(fields, ["plain", "\"a,b\"", "\"say \"\"no\"\"\"", "\"two\nlines\""]);
    }
}
