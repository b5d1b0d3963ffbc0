//! Receive filters: exact addresses, the multicast hash, broadcast and the promiscuous modes (§13.5.1 to
//! §13.5.3, §13.4.22), and the VLAN filter (§9.3, §13.5.4).

/// Bits in the high word of a station table entry: valid (AV), and address to compare (AS).
mod station {
    pub const AV: u32 = 1 << 31;
    pub const AS_SHIFT: u32 = 16;
}

/// Kind of a destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    Uni,
    Multi,
    Broad,
}

impl Cast {
    pub fn of_frame(bytes: &[u8]) -> Cast {
        match bytes.get(..6) {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => Cast::Broad,
            Some([first, ..]) if first & 1 != 0 => Cast::Multi,
            _ => Cast::Uni,
        }
    }
}

/// Result of the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Passed: station address or accepted broadcast.
    Exact,
    /// Passed by the hash or a promiscuous mode; software must check the address.
    Inexact,
    /// Rejected by the address filters.
    Address,
    /// Rejected by the VLAN filter.
    Vlan,
}

/// Filter settings from the registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    /// Accept all broadcast frames.
    pub broadcast: bool,
    /// Accept all unicast frames; accept all multicast and broadcast frames.
    pub all_unicast: bool,
    pub all_multicast: bool,
    /// Selection of the twelve address bits for the hash, 0 to 3.
    pub hash_bits: u32,
    /// Low and high words of the station table.
    pub stations: [&'a [u32]; 2],
    /// Low and high words of a second station table, for chips that have one.
    pub more_stations: [&'a [u32]; 2],
    /// Hash table, one bit per hash.
    pub hashes: &'a [u32],
    /// VLAN filter, if enabled.
    pub vlans: Option<VlanFilter<'a>>,
    /// EtherType of VLAN tags.
    pub vlan_type: u32,
}

/// Settings of the VLAN filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VlanFilter<'a> {
    /// Required canonical form indicator of the tag; `None` if it is not compared.
    pub cfi: Option<bool>,
    /// One bit per VLAN.
    pub members: &'a [u32],
}

/// Tag control information of a frame with a VLAN tag.
pub(crate) fn vlan_tag(bytes: &[u8], vlan_type: u32) -> Option<u16> {
    let [type_high, type_low, high, low] = *bytes.get(12..16)?.first_chunk()?;
    let tagged = u32::from(u16::from_be_bytes([type_high, type_low])) == vlan_type;
    tagged.then(|| u16::from_be_bytes([high, low]))
}

/// Low and high words of an address's entry in the station table.
pub(crate) fn station_entry([a, b, c, d, e, f]: [u8; 6]) -> (u32, u32) {
    (u32::from_le_bytes([a, b, c, d]), u32::from(u16::from_le_bytes([e, f])) | station::AV)
}

impl Filter<'_> {
    /// Applies the filters to a frame.
    pub fn verdict(&self, bytes: &[u8]) -> Verdict {
        let address = self.address(bytes);
        if address != Verdict::Address && !self.passes_vlan(bytes) { Verdict::Vlan } else { address }
    }

    fn address(&self, bytes: &[u8]) -> Verdict {
        let cast = Cast::of_frame(bytes);
        if cast == Cast::Broad && self.broadcast || self.is_station(bytes) {
            return Verdict::Exact;
        }
        let inexact = match cast {
            Cast::Uni => self.all_unicast,
            Cast::Multi | Cast::Broad => self.all_multicast || self.passes_hash(bytes),
        };
        if inexact { Verdict::Inexact } else { Verdict::Address }
    }

    /// Whether a valid entry of the station tables matches the destination, or the source if its AS field is
    /// 01b.
    fn is_station(&self, bytes: &[u8]) -> bool {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (destination, source) = ((word(0), half(4)), (word(6), half(10)));
        let [[low, high], [more_low, more_high]] = [self.stations, self.more_stations];
        low.iter().zip(high).chain(more_low.iter().zip(more_high)).any(|(low, high)| {
            if high & station::AV == 0 {
                return false;
            }
            let compared = match high >> station::AS_SHIFT & 0b11 {
                0 => destination,
                1 => source,
                _ => return false,
            };
            compared == (*low, high & 0xffff)
        })
    }

    /// Whether the hash table has the bit that twelve bits of the destination address select.
    fn passes_hash(&self, bytes: &[u8]) -> bool {
        let shift = [4, 3, 2, 0][self.hash_bits as usize & 0b11];
        let last = u32::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let hash = last >> shift & 0xfff;
        self.hashes[(hash >> 5) as usize] >> (hash & 31) & 1 != 0
    }

    fn passes_vlan(&self, bytes: &[u8]) -> bool {
        let Some(vlans) = self.vlans else { return true };
        let Some(tag) = vlan_tag(bytes, self.vlan_type) else { return true };
        if vlans.cfi.is_some_and(|required| required != (tag >> 12 & 1 != 0)) {
            return false;
        }
        let id = usize::from(tag & 0xfff);
        vlans.members[id >> 5] >> (id & 31) & 1 != 0
    }
}
