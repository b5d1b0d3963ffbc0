//! A capture as a stream. Its packets are read once, filtered, truncated or padded, and their addresses
//! rewritten. They are then sent unchanged, at the capture's timestamps or by an arrival process, once or
//! repeatedly.
//!
//! These packets have no signature. When it returns, it is matched to the packets in flight by a hash of all
//! bytes after the MAC addresses, so a modified packet is not matched and counts as foreign. Among identical
//! packets in flight, the oldest one sent after the last returned one is chosen; its latency counts only if
//! the match was unique.

pub use doorbell_results::ReplayStats;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use doorbell_sim::{Frame, Ps};
use doorbell_wire::{Capture, LinkConfig, MacAddr, SyntheticHeader};
use xxhash_rust::xxh3::xxh3_64;

use super::config::StreamConfig;
use super::packet::{Layout, router_invariant_bytes};
use super::replay_config::{ReplayConfig, Stations, Truncated};
use crate::config::{Returned, TrafficConfig};
use crate::frame::{ADDRESS_BYTES, FCS_BYTES, Mismatch};

/// A packet as sent.
#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    /// Time since the first packet, in picoseconds.
    at: u64,
    /// Hash of the bytes that must return unchanged.
    content: u64,
}

/// A capture as sent.
#[derive(Debug)]
pub(crate) struct Replay {
    packets: Vec<Packet>,
    /// Duration of one pass.
    span: u64,
    pub(crate) stats: ReplayStats,
    returned: Returned,
    /// Hash of all packets and times.
    pub(crate) hash: u64,
}

impl Replay {
    /// Reads a validated stream's capture.
    pub(crate) fn read(
        path: &Path,
        stream: &StreamConfig,
        traffic: &TrafficConfig,
        link: &LinkConfig,
    ) -> Result<Replay, String> {
        let (capture, _) = Capture::read(path).map_err(|error| error.to_string())?;
        let returned = stream.returned.unwrap_or(traffic.returned);
        let replay = Replay::from_capture(capture, stream, traffic, link, returned);
        if replay.packets.is_empty() {
            let ReplayStats { filtered, oversize, truncated, other_links, .. } = replay.stats;
            return Err(format!(
                "{} has no packet to send: {filtered} excluded by replay.only, {oversize} too large, {truncated} \
                 truncated, {other_links} of link types other than Ethernet, Linux cooked, raw IP and BSD loopback",
                path.display()
            ));
        }
        Ok(replay)
    }

    fn from_capture(
        capture: Capture,
        stream: &StreamConfig,
        traffic: &TrafficConfig,
        link: &LinkConfig,
        returned: Returned,
    ) -> Replay {
        let config = stream.replay.clone().unwrap_or_default();
        let mut stats = ReplayStats {
            other_links: capture.other_links,
            incomplete: u64::from(capture.incomplete),
            fcs_removed: capture.fcs_removed,
            clipped: capture.clipped,
            ..ReplayStats::default()
        };
        let of_traffic = |address: MacAddr| (config.stations == Stations::Traffic).then_some(address);
        let destination = stream.destination.or(of_traffic(traffic.destination));
        let source = stream.source.or(of_traffic(traffic.source));
        let (mut packets, mut first, mut last) = (Vec::new(), None, 0u128);
        for packet in capture.packets {
            let (at, synthetic_header) = (packet.at, packet.synthetic_header);
            let Some(mut bytes) = resize_packet(packet.bytes, packet.original_len, &config, &mut stats)
            else {
                continue;
            };
            if let Some(made) = synthetic_header {
                put_header(&mut bytes, made, &config, traffic);
            }
            let Some(bytes) = filter_and_rewrite(bytes, destination, source, &config, &mut stats) else {
                continue;
            };
            stats.header_made += u64::from(synthetic_header.is_some());
            stats.backward += u64::from(at < last);
            last = last.max(at);
            let since = last - *first.get_or_insert(last);
            stats.length_ns = u64::try_from(since / u128::from(Ps::from_ns(1).0)).unwrap_or(u64::MAX);
            let content = content(&bytes, returned);
            packets.push(Packet { bytes, at: u64::try_from(since).unwrap_or(u64::MAX), content });
        }
        stats.packets = packets.len() as u64;
        let on_line = packets.iter().map(|packet| link.wire_bytes(packet.bytes.len())).sum::<u64>();
        let on_line = link.rate.time_for_bits(8 * on_line).0;
        let length = packets.last().map_or(0, |packet| packet.at);
        let mean = length / (stats.packets.max(2) - 1);
        let mut hashed = Vec::with_capacity(packets.len() * 2);
        packets.iter().for_each(|packet| hashed.extend([packet.at, xxh3_64(&packet.bytes)]));
        let hashed: Vec<u8> = hashed.iter().flat_map(|word| word.to_le_bytes()).collect();
        Replay {
            packets,
            span: length.saturating_add(mean).max(on_line),
            stats,
            returned,
            hash: xxh3_64(&hashed),
        }
    }

    /// Number of packets per pass.
    pub(crate) fn count(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Due time of packet `index` by the timestamps, over repeated passes; none if out of range.
    pub(crate) fn stamp(&self, index: u64) -> Option<u64> {
        let (times, place) = (index / self.count(), index % self.count());
        self.span.checked_mul(times)?.checked_add(self.packets[place as usize].at)
    }

    /// Duration of one pass by the timestamps.
    pub(crate) fn span(&self) -> Ps {
        Ps(self.span)
    }

    /// The lengths of the packets without FCS.
    pub(crate) fn lens(&self) -> Vec<usize> {
        self.packets.iter().map(|packet| packet.bytes.len()).collect()
    }

    fn packet(&self, index: u64) -> &Packet {
        &self.packets[(index % self.count()) as usize]
    }

    pub(crate) fn frame_len(&self, index: u64) -> usize {
        self.packet(index).bytes.len()
    }

    pub(crate) fn make(&self, index: u64, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(&self.packet(index).bytes);
    }

    /// Compares a returned packet with the one sent.
    pub(crate) fn check(&self, index: u64, bytes: &[u8], station: MacAddr) -> Result<(), Mismatch> {
        let sent = &self.packet(index).bytes;
        if bytes.len() != sent.len() {
            return Err(Mismatch::Length);
        }
        if !self.returned.addresses_are_right(sent, bytes, station) {
            return Err(Mismatch::Addresses);
        }
        let same = match self.returned {
            Returned::Routed => router_invariant_bytes(bytes) == router_invariant_bytes(sent),
            _ => bytes[ADDRESS_BYTES..] == sent[ADDRESS_BYTES..],
        };
        if same { Ok(()) } else { Err(Mismatch::Payload) }
    }
}

/// Sets the addresses of the Ethernet header of a packet captured without one.
fn put_header(bytes: &mut [u8], made: SyntheticHeader, config: &ReplayConfig, traffic: &TrafficConfig) {
    let destination = config.ethernet.destination.unwrap_or(traffic.destination);
    let source = config.ethernet.source.or(made.sender).unwrap_or(traffic.source);
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..ADDRESS_BYTES].copy_from_slice(&source.0);
}

/// Hash of the bytes of a packet that must return unchanged.
fn content(bytes: &[u8], returned: Returned) -> u64 {
    match returned {
        Returned::Routed => xxh3_64(&router_invariant_bytes(bytes)),
        _ => xxh3_64(bytes.get(ADDRESS_BYTES..).unwrap_or_default()),
    }
}

/// Pads the packet to the size to be sent; none if it is skipped.
fn resize_packet(
    mut bytes: Vec<u8>,
    original_len: u64,
    config: &ReplayConfig,
    stats: &mut ReplayStats,
) -> Option<Vec<u8>> {
    let is_truncated = (bytes.len() as u64) < original_len;
    stats.truncated += u64::from(is_truncated);
    if is_truncated && config.truncated == Truncated::Skip {
        return None;
    }
    let pad = is_truncated && config.truncated == Truncated::Pad;
    let length = if pad { original_len } else { bytes.len() as u64 };
    if length + FCS_BYTES as u64 > config.largest.0 {
        stats.oversize += 1;
        return None;
    }
    let least = Frame::MIN_BYTES_WITH_FCS - FCS_BYTES;
    stats.padded += u64::from(length < least as u64);
    bytes.resize((length as usize).max(least), 0);
    Some(bytes)
}

/// Rewrites the packet's addresses; none if the filter excludes it.
fn filter_and_rewrite(
    mut bytes: Vec<u8>,
    destination: Option<MacAddr>,
    source: Option<MacAddr>,
    config: &ReplayConfig,
    stats: &mut ReplayStats,
) -> Option<Vec<u8>> {
    let layout = Layout::parse(&bytes);
    if !config.only.admits(&layout, &bytes) {
        stats.filtered += 1;
        return None;
    }
    destination.into_iter().for_each(|address| bytes[..6].copy_from_slice(&address.0));
    source.into_iter().for_each(|address| bytes[6..ADDRESS_BYTES].copy_from_slice(&address.0));
    layout.rewrite([config.source_net, config.destination_net], &mut bytes);
    Some(bytes)
}

/// Captured packets in flight, by content. Not saved, because it follows from the frames in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapturedInFlight {
    /// Index into `sent` per content hash. Only looked up, never iterated.
    lists: Arc<HashMap<u64, usize>>,
    /// The hash variants to try for an arrived frame.
    modes: Vec<Returned>,
    /// Sequence numbers in flight, in order; may include returned or given-up ones.
    sent: Vec<VecDeque<u64>>,
}

impl CapturedInFlight {
    pub(crate) fn new<'a>(replays: impl Iterator<Item = &'a Replay>) -> CapturedInFlight {
        let (mut lists, mut modes) = (HashMap::new(), Vec::new());
        for replay in replays {
            for packet in &replay.packets {
                let next = lists.len();
                lists.entry(packet.content).or_insert(next);
            }
            if !modes.contains(&replay.returned) {
                modes.push(replay.returned);
            }
        }
        CapturedInFlight { sent: vec![VecDeque::new(); lists.len()], lists: Arc::new(lists), modes }
    }

    /// Records that a packet is sent, and drops earlier ones that are no longer in flight.
    pub(crate) fn sent(
        &mut self,
        replay: &Replay,
        index: u64,
        sequence: u64,
        is_awaited: impl Fn(u64) -> bool,
    ) {
        let Some(list) = self.lists.get(&replay.packet(index).content) else { return };
        let sent = &mut self.sent[*list];
        while sent.front().is_some_and(|sequence| !is_awaited(*sequence)) {
            sent.pop_front();
        }
        sent.push_back(sequence);
    }

    /// The frames in flight with this content, in order. `is_awaited` returns whether a number is in flight;
    /// others are dropped.
    pub(crate) fn candidates(&mut self, frame: &[u8], is_awaited: impl Fn(u64) -> bool) -> &[u64] {
        let lists = self.modes.iter().filter_map(|mode| self.lists.get(&content(frame, *mode)));
        let found = lists.copied().find(|list| {
            let sent = &mut self.sent[*list];
            sent.retain(|sequence| is_awaited(*sequence));
            !sent.is_empty()
        });
        found.map_or(&[], |list| self.sent[list].make_contiguous())
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
