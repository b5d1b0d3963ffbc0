//! Which frames belong to this station: exact addresses, the multicast hash, broadcast, the
//! promiscuous modes (§13.5.1 to §13.5.3, §13.4.22), and the VLAN filter (§9.3, §13.5.4).

use crate::Nic;
use crate::bits::{rah, rctl};
use crate::counters::Cast;
use crate::regs::Reg;

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

/// Number of station addresses.
const STATIONS: usize = 16;

impl Nic {
    /// The tag control information of a frame whose type is VET's.
    pub(crate) fn vlan_tag(&self, bytes: &[u8]) -> Option<u16> {
        let [type_high, type_low, high, low] = *bytes.get(12..16)?.first_chunk()?;
        let tagged = u32::from(u16::from_be_bytes([type_high, type_low])) == self.regs.get(Reg::Vet);
        tagged.then(|| u16::from_be_bytes([high, low]))
    }

    pub(super) fn filter(&self, bytes: &[u8]) -> Verdict {
        let address = self.filter_address(bytes);
        if address != Verdict::Address && !self.passes_vlan(bytes) { Verdict::Vlan } else { address }
    }

    fn filter_address(&self, bytes: &[u8]) -> Verdict {
        let rctl = self.regs.get(Reg::Rctl);
        let cast = Cast::of(bytes);
        if cast == Cast::Broad && rctl & rctl::BAM != 0 || self.is_station(bytes) {
            return Verdict::Exact;
        }
        let inexact = match cast {
            Cast::Uni => rctl & rctl::UPE != 0,
            Cast::Multi | Cast::Broad => rctl & rctl::MPE != 0 || self.passes_hash(bytes, rctl),
        };
        if inexact { Verdict::Inexact } else { Verdict::Address }
    }

    /// A valid entry of the station table matches: the destination, or the source if its AS field says 01b.
    fn is_station(&self, bytes: &[u8]) -> bool {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (destination, source) = ((word(0), half(4)), (word(6), half(10)));
        (0..STATIONS).any(|i| {
            let high = self.regs.at(Reg::Rah, i);
            if high & rah::AV == 0 {
                return false;
            }
            let compared = match high >> 16 & 0b11 {
                0 => destination,
                1 => source,
                _ => return false,
            };
            compared == (self.regs.at(Reg::Ral, i), high & 0xffff)
        })
    }

    /// Twelve bits of the address, chosen by RCTL.MO, name a bit of the table.
    fn passes_hash(&self, bytes: &[u8], rctl: u32) -> bool {
        let shift = [4, 3, 2, 0][(rctl >> rctl::MO_SHIFT & 0b11) as usize];
        let last = u32::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let hash = last >> shift & 0xfff;
        self.regs.at(Reg::Mta, (hash >> 5) as usize) >> (hash & 31) & 1 != 0
    }

    fn passes_vlan(&self, bytes: &[u8]) -> bool {
        let rctl = self.regs.get(Reg::Rctl);
        if rctl & rctl::VFE == 0 {
            return true;
        }
        let Some(tag) = self.vlan_tag(bytes) else { return true };
        let cfi = tag >> 12 & 1 != 0;
        if rctl & rctl::CFIEN != 0 && cfi != (rctl & rctl::CFI != 0) {
            return false;
        }
        let id = usize::from(tag & 0xfff);
        self.regs.at(Reg::Vfta, id >> 5) >> (id & 31) & 1 != 0
    }
}
