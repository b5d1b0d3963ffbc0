//! Receive queue selection (§7.1, §8.11): by EtherType filters, then the SYN filter and the 5-tuple filters
//! in the order that RFCTL selects, then RSS, then the default queue. 5-tuple filters only match IPv4. Not
//! modelled: pools, VLAN priorities.

use super::E82576;
use super::QUEUES;
use super::bits::{filter, mrqc, rfctl, rxd};
use super::regs::Reg;
use crate::intel::chip::Regs;
use crate::parts::headers::{Headers, Network, Transport};
use crate::parts::toeplitz::{KEY_BYTES, Toeplitz};

/// RSS types in descriptors: the fields that were hashed.
mod hash_type {
    pub const TCP_IPV4: u32 = 1;
    pub const IPV4: u32 = 2;
    pub const TCP_IPV6: u32 = 3;
    pub const IPV6_EX: u32 = 4;
    pub const IPV6: u32 = 5;
    pub const TCP_IPV6_EX: u32 = 6;
    pub const UDP_IPV4: u32 = 7;
    pub const UDP_IPV6: u32 = 8;
    pub const UDP_IPV6_EX: u32 = 9;
}

/// RSS key as look-up tables, computed when first needed. Not saved.
#[derive(Clone, Debug, Default)]
pub(super) struct Hash(Option<Toeplitz>);

/// The tables are derived from the registers, so they are ignored.
impl PartialEq for Hash {
    fn eq(&self, _: &Hash) -> bool {
        true
    }
}

impl Hash {
    /// Discards the tables, because software has written the key.
    pub fn invalidate(&mut self) {
        self.0 = None;
    }

    fn key(&mut self, regs: &Regs<E82576>) -> &Toeplitz {
        self.0.get_or_insert_with(|| {
            let mut key = [0; KEY_BYTES];
            for (bytes, word) in key.chunks_exact_mut(4).zip(regs.array(Reg::Rssrk)) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            Toeplitz::new(key)
        })
    }
}

/// Selected queue, and the descriptor fields that report the selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steered {
    pub queue: usize,
    /// RSS type, and hash.
    pub hash_type: u32,
    pub hash: u32,
    /// Packet type as in descriptors.
    pub packet_type: u32,
}

/// Selects the queue of a frame with these headers.
pub(super) fn steer(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>, hash: &mut Hash) -> Steered {
    let mrqc = regs.get(Reg::Mrqc);
    let mut steered = Steered {
        queue: (mrqc >> mrqc::DEFAULT_SHIFT & 0b111) as usize,
        packet_type: packet_type(headers),
        ..Steered::default()
    };
    if mrqc & mrqc::MODE == mrqc::RSS {
        steered.queue = 0;
        if let Some((of, ports)) = hash_input(headers, mrqc) {
            let ports = if ports { headers.ports(bytes) } else { &[] };
            (steered.hash_type, steered.hash) = (of, hash.key(regs).hash([headers.addresses(bytes), ports]));
            let entry = (steered.hash & 0x7f) as usize;
            steered.queue = (regs.at(Reg::Reta, entry / 4) >> (8 * (entry % 4)) & 0xf) as usize;
        }
    }
    if let Some((number, queue)) = ethertype_filter(headers, regs) {
        steered.packet_type = rxd::TYPE_ETQF | number;
        steered.queue = queue.unwrap_or(steered.queue);
        if queue.is_some() {
            return steered;
        }
    }
    let (syn, tuple) = (syn_filter(bytes, headers, regs), tuple_filter(bytes, headers, regs));
    let chosen = if regs.has(Reg::Rfctl, rfctl::SYNQFP) { syn.or(tuple) } else { tuple.or(syn) };
    steered.queue = chosen.unwrap_or(steered.queue) % QUEUES;
    steered
}

/// Queues in the redirection table, one bit per queue; zero while RSS is off.
pub(super) fn rss_queues(regs: &Regs<E82576>) -> u32 {
    if regs.get(Reg::Mrqc) & mrqc::MODE != mrqc::RSS {
        return 0;
    }
    let entries = regs.array(Reg::Reta).iter().flat_map(|word| word.to_le_bytes());
    entries.fold(0, |bits, entry| bits | 1 << (entry & 0xf))
}

/// Packet type for a descriptor (§7.1).
fn packet_type(headers: &Headers) -> u32 {
    let network = match (headers.network, headers.extended) {
        (None, _) => 0,
        (Some(Network::Ipv4), false) => rxd::TYPE_IPV4,
        (Some(Network::Ipv4), true) => rxd::TYPE_IPV4 | rxd::TYPE_IPV4_EX,
        (Some(Network::Ipv6), false) => rxd::TYPE_IPV6,
        (Some(Network::Ipv6), true) => rxd::TYPE_IPV6 | rxd::TYPE_IPV6_EX,
    };
    let transport = match headers.transport {
        None => 0,
        Some(Transport::Tcp) => rxd::TYPE_TCP,
        Some(Transport::Udp) => rxd::TYPE_UDP,
        Some(Transport::Sctp) => rxd::TYPE_SCTP,
    };
    network | transport
}

/// RSS type of a packet, and whether its ports are hashed; `None` if it is not hashed. The first type that
/// MRQC enables applies.
fn hash_input(headers: &Headers, mrqc: u32) -> Option<(u32, bool)> {
    let choices: &[(u32, u32, bool)] = match (headers.network?, headers.transport) {
        (Network::Ipv4, Some(Transport::Tcp)) => {
            &[(mrqc::TCP_IPV4, hash_type::TCP_IPV4, true), (mrqc::IPV4, hash_type::IPV4, false)]
        }
        (Network::Ipv4, Some(Transport::Udp)) => {
            &[(mrqc::UDP_IPV4, hash_type::UDP_IPV4, true), (mrqc::IPV4, hash_type::IPV4, false)]
        }
        (Network::Ipv4, _) => &[(mrqc::IPV4, hash_type::IPV4, false)],
        // Home addresses in options are not evaluated: the `EX` types use the addresses of the IPv6 header as
        // well.
        (Network::Ipv6, Some(Transport::Tcp)) => &[
            (mrqc::TCP_IPV6_EX, hash_type::TCP_IPV6_EX, true),
            (mrqc::TCP_IPV6, hash_type::TCP_IPV6, true),
            (mrqc::IPV6_EX, hash_type::IPV6_EX, false),
            (mrqc::IPV6, hash_type::IPV6, false),
        ],
        (Network::Ipv6, Some(Transport::Udp)) => &[
            (mrqc::UDP_IPV6_EX, hash_type::UDP_IPV6_EX, true),
            (mrqc::UDP_IPV6, hash_type::UDP_IPV6, true),
            (mrqc::IPV6_EX, hash_type::IPV6_EX, false),
            (mrqc::IPV6, hash_type::IPV6, false),
        ],
        (Network::Ipv6, _) => {
            &[(mrqc::IPV6_EX, hash_type::IPV6_EX, false), (mrqc::IPV6, hash_type::IPV6, false)]
        }
    };
    choices.iter().find(|(bit, ..)| mrqc & bit != 0).map(|(_, of, ports)| (*of, *ports))
}

/// Number of the matching EtherType filter, and its queue if it selects one.
fn ethertype_filter(headers: &Headers, regs: &Regs<E82576>) -> Option<(u32, Option<usize>)> {
    let matches = |entry: &u32| entry & filter::ETQF_ENABLE != 0 && *entry as u16 == headers.ethertype;
    let (number, entry) = (0..).zip(regs.array(Reg::Etqf)).find(|(_, entry)| matches(entry))?;
    let queue = (entry >> filter::ETQF_QUEUE_SHIFT & 0b111) as usize;
    Some((number, (entry & filter::ETQF_QUEUE_ENABLE != 0).then_some(queue)))
}

fn syn_filter(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>) -> Option<usize> {
    let entry = regs.get(Reg::Synqf);
    let on = entry & filter::SYNQF_ENABLE != 0 && headers.is_syn(bytes);
    on.then_some((entry >> filter::SYNQF_QUEUE_SHIFT & 0b111) as usize)
}

/// Queue of the matching 5-tuple filter with the highest priority (IMIR); among equal priorities, the first
/// one. Filters only match IPv4.
fn tuple_filter(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>) -> Option<usize> {
    let any = regs.array(Reg::Ftqf).iter().any(|entry| entry & filter::FTQF_QUEUE_ENABLE != 0);
    if !any || headers.network != Some(Network::Ipv4) {
        return None;
    }
    let addresses = headers.addresses(bytes);
    let ports = headers.ports(bytes);
    // Registers contain addresses and ports in the byte order of frames.
    let word = |at: usize| {
        u32::from_le_bytes([addresses[at], addresses[at + 1], addresses[at + 2], addresses[at + 3]])
    };
    let port =
        |at: usize| ports.get(at..at + 2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])));
    let matches = |index: usize| {
        let entry = regs.at(Reg::Ftqf, index);
        let has = |bit: u32| entry & bit != 0;
        let imir = regs.at(Reg::Imir, index);
        has(filter::FTQF_QUEUE_ENABLE)
            && (has(filter::FTQF_ANY_PROTOCOL) || entry & 0xff == u32::from(headers.protocol))
            && (has(filter::FTQF_ANY_SOURCE) || regs.at(Reg::Saqf, index) == word(0))
            && (has(filter::FTQF_ANY_DESTINATION) || regs.at(Reg::Daqf, index) == word(4))
            && (has(filter::FTQF_ANY_SOURCE_PORT) || port(0) == Some(regs.at(Reg::Spqf, index) & 0xffff))
            && (imir & filter::IMIR_ANY_PORT != 0 || port(2) == Some(imir & 0xffff))
    };
    let priority = |index: &usize| regs.at(Reg::Imir, *index) >> filter::IMIR_PRIORITY_SHIFT;
    // `max_by_key` returns the last of equal maxima, hence the reverse order.
    let index =
        (0..regs.array(Reg::Ftqf).len()).rev().filter(|index| matches(*index)).max_by_key(priority)?;
    Some((regs.at(Reg::Ftqf, index) >> filter::FTQF_QUEUE_SHIFT & 0xf) as usize)
}
