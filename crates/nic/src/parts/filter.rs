//! Which frames belong to this station: exact addresses, the multicast hash, broadcast, the
//! promiscuous modes (§13.5.1 to §13.5.3, §13.4.22), and the VLAN filter (§9.3, §13.5.4).

/// Bits of an entry's high word in the station table: valid, and which address is compared.
mod station {
    pub const AV: u32 = 1 << 31;
    pub const AS_SHIFT: u32 = 16;
}

/// Whom a frame is addressed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    Uni,
    Multi,
    Broad,
}

impl Cast {
    pub fn of(bytes: &[u8]) -> Cast {
        match bytes.get(..6) {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => Cast::Broad,
            Some([first, ..]) if first & 1 != 0 => Cast::Multi,
            _ => Cast::Uni,
        }
    }
}

/// What the filters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The frame passed by its exact address.
    Exact,
    /// It passed a filter that also passes others; software has to look again.
    Inexact,
    /// No address filter passed it.
    Address,
    /// The VLAN filter did not pass it.
    Vlan,
}

/// The filters as the registers set them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    /// Every broadcast frame passes.
    pub broadcast: bool,
    /// Every frame to a unicast address passes, or every other one.
    pub all_unicast: bool,
    pub all_multicast: bool,
    /// Which twelve bits of an address the hash takes: 0 to 3.
    pub hash_bits: u32,
    /// The station table's low and high words.
    pub stations: [&'a [u32]; 2],
    /// The same of a second table, of chips that have one.
    pub more_stations: [&'a [u32]; 2],
    /// A bit for each hash.
    pub hashes: &'a [u32],
    /// The VLAN filter, if it is on.
    pub vlans: Option<VlanFilter<'a>>,
    /// The type of VLAN tags.
    pub vlan_type: u32,
}

/// Which VLANs pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VlanFilter<'a> {
    /// What the tag's canonical form indicator must be, if anything.
    pub cfi: Option<bool>,
    /// A bit for each VLAN.
    pub members: &'a [u32],
}

/// The tag control information of a frame whose type is that of VLAN tags.
pub(crate) fn vlan_tag(bytes: &[u8], vlan_type: u32) -> Option<u16> {
    let [type_high, type_low, high, low] = *bytes.get(12..16)?.first_chunk()?;
    let tagged = u32::from(u16::from_be_bytes([type_high, type_low])) == vlan_type;
    tagged.then(|| u16::from_be_bytes([high, low]))
}

/// An address's entry in the station table.
pub(crate) fn station_entry([a, b, c, d, e, f]: [u8; 6]) -> (u32, u32) {
    (u32::from_le_bytes([a, b, c, d]), u32::from(u16::from_le_bytes([e, f])) | station::AV)
}

impl Filter<'_> {
    /// Whether a frame passes.
    pub fn verdict(&self, bytes: &[u8]) -> Verdict {
        let address = self.address(bytes);
        if address != Verdict::Address && !self.passes_vlan(bytes) { Verdict::Vlan } else { address }
    }

    fn address(&self, bytes: &[u8]) -> Verdict {
        let cast = Cast::of(bytes);
        if cast == Cast::Broad && self.broadcast || self.is_station(bytes) {
            return Verdict::Exact;
        }
        let inexact = match cast {
            Cast::Uni => self.all_unicast,
            Cast::Multi | Cast::Broad => self.all_multicast || self.passes_hash(bytes),
        };
        if inexact { Verdict::Inexact } else { Verdict::Address }
    }

    /// A valid entry of the station table matches: the destination, or the source if its AS field says 01b.
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

    /// Twelve bits of the address name a bit of the table.
    fn passes_hash(&self, bytes: &[u8]) -> bool {
        let shift = [4, 3, 2, 0][self.hash_bits as usize & 0b11];
        let last = u32::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let hash = last >> shift & 0xfff;
        self.hashes[(hash >> 5) as usize] >> (hash & 31) & 1 != 0
    }

    fn passes_vlan(&self, bytes: &[u8]) -> bool {
        let Some(vlans) = self.vlans else { return true };
        let Some(tag) = vlan_tag(bytes, self.vlan_type) else { return true };
        if vlans.cfi.is_some_and(|wanted| wanted != (tag >> 12 & 1 != 0)) {
            return false;
        }
        let id = usize::from(tag & 0xfff);
        vlans.members[id >> 5] >> (id & 31) & 1 != 0
    }
}
