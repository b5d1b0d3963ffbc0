//! Which receive queue a frame goes to (§7.1, §8.11): the EtherType filters, then the SYN filter and the 5-tuple filters, whichever RFCTL puts
//! first, then RSS, then the default queue. Filters look at IPv4 alone. Not modelled: pools, VLAN priorities.

use super::E82576;
use super::QUEUES;
use super::bits::{filter, mrqc, rfctl, rxd};
use super::regs::Reg;
use crate::intel::chip::Regs;
use crate::parts::headers::{Headers, Network, Transport};
use crate::parts::toeplitz::{KEY_BYTES, Toeplitz};

/// What the hash was taken of, as descriptors say it.
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

/// The RSS key as software has written it, prepared when it is first needed. Not state.
#[derive(Clone, Debug, Default)]
pub(super) struct Hash(Option<Toeplitz>);

/// Derived from the registers, so it makes no difference.
impl PartialEq for Hash {
    fn eq(&self, _: &Hash) -> bool {
        true
    }
}

impl Hash {
    /// Software has written another key.
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

/// Where a frame goes, and what its descriptor says of why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steered {
    pub queue: usize,
    /// What the hash was taken of, and the hash.
    pub hash_type: u32,
    pub hash: u32,
    /// The packet's type as descriptors have it.
    pub packet_type: u32,
}

/// Chooses the queue of a frame whose headers were found.
pub(super) fn steer(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>, hash: &mut Hash) -> Steered {
    let mrqc = regs.get(Reg::Mrqc);
    let mut steered = Steered {
        queue: (mrqc >> mrqc::DEFAULT_SHIFT & 0b111) as usize,
        packet_type: packet_type(headers),
        ..Steered::default()
    };
    if mrqc & mrqc::MODE == mrqc::RSS {
        steered.queue = 0;
        if let Some((of, ports)) = hashed(headers, mrqc) {
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

/// The queues that the redirection table names, a bit each: none while RSS is off.
pub(super) fn rss_queues(regs: &Regs<E82576>) -> u32 {
    if regs.get(Reg::Mrqc) & mrqc::MODE != mrqc::RSS {
        return 0;
    }
    let entries = regs.array(Reg::Reta).iter().flat_map(|word| word.to_le_bytes());
    entries.fold(0, |bits, entry| bits | 1 << (entry & 0xf))
}

/// The packet's type for a descriptor (§7.1).
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

/// What of a packet is hashed, if anything: the type, and whether ports are. The first that MRQC has on counts.
fn hashed(headers: &Headers, mrqc: u32) -> Option<(u32, bool)> {
    let choices: &[(u32, u32, bool)] = match (headers.network?, headers.transport) {
        (Network::Ipv4, Some(Transport::Tcp)) => {
            &[(mrqc::TCP_IPV4, hash_type::TCP_IPV4, true), (mrqc::IPV4, hash_type::IPV4, false)]
        }
        (Network::Ipv4, Some(Transport::Udp)) => {
            &[(mrqc::UDP_IPV4, hash_type::UDP_IPV4, true), (mrqc::IPV4, hash_type::IPV4, false)]
        }
        (Network::Ipv4, _) => &[(mrqc::IPV4, hash_type::IPV4, false)],
        // The home address of a mobile node's options is not looked for: with them off or on, the header's addresses count.
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

/// The EtherType filter that fits: its number, and its queue if it names one.
fn ethertype_filter(headers: &Headers, regs: &Regs<E82576>) -> Option<(u32, Option<usize>)> {
    let fits = |entry: &u32| entry & filter::ETQF_ENABLE != 0 && *entry as u16 == headers.ethertype;
    let (number, entry) = (0..).zip(regs.array(Reg::Etqf)).find(|(_, entry)| fits(entry))?;
    let queue = (entry >> filter::ETQF_QUEUE_SHIFT & 0b111) as usize;
    Some((number, (entry & filter::ETQF_QUEUE_ENABLE != 0).then_some(queue)))
}

fn syn_filter(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>) -> Option<usize> {
    let entry = regs.get(Reg::Synqf);
    let on = entry & filter::SYNQF_ENABLE != 0 && headers.is_syn(bytes);
    on.then_some((entry >> filter::SYNQF_QUEUE_SHIFT & 0b111) as usize)
}

/// The queue of the 5-tuple filter that fits: of several the one with the highest priority (IMIR), of equals the first. They look at IPv4 alone.
fn tuple_filter(bytes: &[u8], headers: &Headers, regs: &Regs<E82576>) -> Option<usize> {
    let any = regs.array(Reg::Ftqf).iter().any(|entry| entry & filter::FTQF_QUEUE_ENABLE != 0);
    if !any || headers.network != Some(Network::Ipv4) {
        return None;
    }
    let addresses = headers.addresses(bytes);
    let ports = headers.ports(bytes);
    // Registers hold addresses and ports as they lie in frames.
    let word = |at: usize| {
        u32::from_le_bytes([addresses[at], addresses[at + 1], addresses[at + 2], addresses[at + 3]])
    };
    let port =
        |at: usize| ports.get(at..at + 2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])));
    let fits = |index: usize| {
        let entry = regs.at(Reg::Ftqf, index);
        let off = |bit: u32| entry & bit != 0;
        let imir = regs.at(Reg::Imir, index);
        off(filter::FTQF_QUEUE_ENABLE)
            && (off(filter::FTQF_ANY_PROTOCOL) || entry & 0xff == u32::from(headers.protocol))
            && (off(filter::FTQF_ANY_SOURCE) || regs.at(Reg::Saqf, index) == word(0))
            && (off(filter::FTQF_ANY_DESTINATION) || regs.at(Reg::Daqf, index) == word(4))
            && (off(filter::FTQF_ANY_SOURCE_PORT) || port(0) == Some(regs.at(Reg::Spqf, index) & 0xffff))
            && (imir & filter::IMIR_ANY_PORT != 0 || port(2) == Some(imir & 0xffff))
    };
    let priority = |index: &usize| regs.at(Reg::Imir, *index) >> filter::IMIR_PRIORITY_SHIFT;
    // Of equals the last one that is looked at.
    let index = (0..regs.array(Reg::Ftqf).len()).rev().filter(|index| fits(*index)).max_by_key(priority)?;
    Some((regs.at(Reg::Ftqf, index) >> filter::FTQF_QUEUE_SHIFT & 0xf) as usize)
}
