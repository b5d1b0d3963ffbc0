//! A capture as a stream: its packets are read once, filtered, cut or padded and their addresses rewritten; then they are sent
//! with their own bytes, by the capture's stamps or as an arrival process says, once or again and again.
//!
//! Such a packet has no signature. It is recognised when it comes back by its content behind the MAC addresses, all of it,
//! among those on their way; so one that was changed is not recognised, and is foreign. Of several alike on their way, those
//! sent after the last one that came back come first, the oldest of them; its latency counts only if there was no other
//! that it could have been.

pub use doorbell_results::ReplayStats;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use doorbell_sim::{Frame, Ps};
use doorbell_wire::{Capture, LinkConfig, MacAddr, MadeHeader};
use xxhash_rust::xxh3::xxh3_64;

use super::config::StreamConfig;
use super::packet::{Layout, without_hops};
use super::replay_config::{ReplayConfig, Stations, Truncated};
use crate::config::{Returned, TrafficConfig};
use crate::frame::{ADDRESS_BYTES, FCS_BYTES, Mismatch};

/// A packet as it is sent.
#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    /// When, from the first one, in picoseconds.
    at: u64,
    /// A hash of what of it must come back.
    content: u64,
}

/// A capture as it is sent.
#[derive(Debug)]
pub(crate) struct Replay {
    packets: Vec<Packet>,
    /// How long one time lasts.
    span: u64,
    pub(crate) stats: ReplayStats,
    returned: Returned,
    /// Of all that is sent and when.
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
        let replay = Replay::of(capture, stream, traffic, link, returned);
        if replay.packets.is_empty() {
            let ReplayStats { filtered, oversize, truncated, other_links, .. } = replay.stats;
            return Err(format!(
                "{} has no packet to send: {filtered} are left out by replay.only, {oversize} too large, {truncated} \
                 truncated, {other_links} of links other than Ethernet, Linux cooked, raw IP and BSD loopback",
                path.display()
            ));
        }
        Ok(replay)
    }

    fn of(
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
        let stations = (
            stream.destination.or(of_traffic(traffic.destination)),
            stream.source.or(of_traffic(traffic.source)),
        );
        let (mut packets, mut first, mut last) = (Vec::new(), None, 0u128);
        for packet in capture.packets {
            let (at, made_header) = (packet.at, packet.made_header);
            let Some(mut bytes) = shaped(packet.bytes, packet.original_len, &config, &mut stats) else {
                continue;
            };
            if let Some(made) = made_header {
                put_header(&mut bytes, made, &config, traffic);
            }
            let Some(bytes) = addressed(bytes, stations, &config, &mut stats) else { continue };
            stats.header_made += u64::from(made_header.is_some());
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

    /// How many packets one time has.
    pub(crate) fn count(&self) -> u64 {
        self.packets.len() as u64
    }

    /// When packet `index` is due by the stamps, again and again; none if no run lasts so long.
    pub(crate) fn stamp(&self, index: u64) -> Option<u64> {
        let (times, place) = (index / self.count(), index % self.count());
        self.span.checked_mul(times)?.checked_add(self.packets[place as usize].at)
    }

    /// How long one time lasts by the stamps.
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

    /// Compares what came back with what was sent.
    pub(crate) fn check(&self, index: u64, bytes: &[u8], station: MacAddr) -> Result<(), Mismatch> {
        let sent = &self.packet(index).bytes;
        if bytes.len() != sent.len() {
            return Err(Mismatch::Length);
        }
        if !self.returned.addresses_are_right(sent, bytes, station) {
            return Err(Mismatch::Addresses);
        }
        let same = match self.returned {
            Returned::Routed => without_hops(bytes) == without_hops(sent),
            _ => bytes[ADDRESS_BYTES..] == sent[ADDRESS_BYTES..],
        };
        if same { Ok(()) } else { Err(Mismatch::Payload) }
    }
}

/// Fills in the addresses of a header that the packet was recorded without.
fn put_header(bytes: &mut [u8], made: MadeHeader, config: &ReplayConfig, traffic: &TrafficConfig) {
    let destination = config.ethernet.destination.unwrap_or(traffic.destination);
    let source = config.ethernet.source.or(made.sender).unwrap_or(traffic.source);
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..ADDRESS_BYTES].copy_from_slice(&source.0);
}

/// A hash of what of a packet must come back as it was.
fn content(bytes: &[u8], returned: Returned) -> u64 {
    match returned {
        Returned::Routed => xxh3_64(&without_hops(bytes)),
        _ => xxh3_64(bytes.get(ADDRESS_BYTES..).unwrap_or_default()),
    }
}

/// The packet with the size that it is sent with, unless it is left out.
fn shaped(
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

/// The packet with the addresses that it is sent with, unless the filter leaves it out.
fn addressed(
    mut bytes: Vec<u8>,
    (destination, source): (Option<MacAddr>, Option<MacAddr>),
    config: &ReplayConfig,
    stats: &mut ReplayStats,
) -> Option<Vec<u8>> {
    let layout = Layout::of(&bytes);
    if !config.only.admits(&layout, &bytes) {
        stats.filtered += 1;
        return None;
    }
    destination.into_iter().for_each(|address| bytes[..6].copy_from_slice(&address.0));
    source.into_iter().for_each(|address| bytes[6..ADDRESS_BYTES].copy_from_slice(&address.0));
    layout.rewrite([config.source_net, config.destination_net], &mut bytes);
    Some(bytes)
}

/// The packets of captures that are on their way, by content. Nothing here is saved: it follows from what is in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnTheirWay {
    /// Which list a content has. Only looked up, never walked through.
    lists: Arc<HashMap<u64, usize>>,
    /// How returned packets of each list are looked at.
    modes: Vec<Returned>,
    /// The sequence numbers of those on their way, in order; those that came back or were given up may be among them.
    sent: Vec<VecDeque<u64>>,
}

impl OnTheirWay {
    pub(crate) fn new<'a>(replays: impl Iterator<Item = &'a Replay>) -> OnTheirWay {
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
        OnTheirWay { sent: vec![VecDeque::new(); lists.len()], lists: Arc::new(lists), modes }
    }

    /// Notes that a packet is sent. Those before it that are not awaited any more are forgotten.
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

    /// The frames that a frame may be, in order. `is_awaited` says which are still on their way; others are forgotten.
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
