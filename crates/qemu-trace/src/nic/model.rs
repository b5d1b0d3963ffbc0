//! The NICs of QEMU that are known. Register numbers are those of their datasheets, section "Register descriptions".

/// A ring's tail, from its first register on.
const TAIL: u64 = 0x18;

/// QEMU's trace events that the plugin knows of all NICs (`tools/qemu-trace/device.c`): they share their code but for one event.
pub const EVENTS: [&str; 12] = [
    "e1000e_core_write",
    "e1000e_rx_receive_iov",
    "e1000e_rx_descr",
    "e1000e_rx_desc_buff_write",
    "igb_rx_desc_buff_write",
    "e1000e_rx_*written_to_guest",
    "e1000e_rx_flt_dropped",
    "e1000e_tx_descr",
    "e1000e_irq_*notify",
    "e1000e_irq_msi_notify_postponed",
    "e1000e_irq_msix_notify_postponed_vec",
    "e1000e_irq_msix_notify_vec",
];

/// What a model of NIC has of its own.
#[derive(Debug)]
pub struct NicModel {
    /// QEMU's name of the device.
    pub name: &'static str,
    /// Address of the first receive ring's first register, the low half of where the ring lies.
    pub receive: u64,
    /// The same of the first transmit ring.
    pub transmit: u64,
    /// How far each further ring's registers are behind.
    pub ring_stride: u64,
    /// Rings of a kind.
    pub rings: u64,
    /// Other addresses of the first rings' registers, if they have some.
    pub aliases: Option<Aliases>,
    /// Bits of the length in a transmit descriptor that is no legacy one.
    pub length_bits: u32,
    /// Bit of such a descriptor's second word: the NIC is to cut the data into frames.
    pub segments: u32,
    /// Of a context, the first word has the lengths of the Ethernet and the IP header, to which what the third has is added; else the third
    /// has the length of all headers.
    pub adds_headers: bool,
}

/// Where registers of the first rings are, too.
#[derive(Debug)]
pub struct Aliases {
    receive: u64,
    transmit: u64,
    ring_stride: u64,
    rings: u64,
}

/// Intel's 82574L.
pub const E1000E: NicModel = NicModel {
    name: "e1000e",
    receive: 0x2800,
    transmit: 0x3800,
    ring_stride: 0x100,
    rings: 2,
    aliases: None,
    length_bits: 20,
    segments: 1 << 26,
    adds_headers: false,
};

/// Intel's 82576. Its rings' registers are where each has 64 bytes; those of the first four are also where older NICs had them
/// (datasheet, 8.1.3.1). Linux and DPDK use those for them.
pub const IGB: NicModel = NicModel {
    name: "igb",
    receive: 0xc000,
    transmit: 0xe000,
    ring_stride: 0x40,
    rings: 16,
    aliases: Some(Aliases { receive: 0x2800, transmit: 0x3800, ring_stride: 0x100, rings: 4 }),
    length_bits: 16,
    segments: 1 << 31,
    adds_headers: true,
};

/// Every model, in the order in which they are listed to the user.
pub const NICS: [&NicModel; 2] = [&E1000E, &IGB];

/// One of them by its name, or what to say.
pub fn nic(name: &str) -> Result<&'static NicModel, String> {
    NICS.into_iter().find(|nic| nic.name == name).ok_or_else(|| {
        let known = NICS.map(|nic| nic.name).join(", ");
        format!("QEMU's {name:?} is no NIC whose DMA is known: {known}")
    })
}

impl NicModel {
    /// A register's own address, whichever of its addresses this is.
    pub fn register(&self, offset: u64) -> u64 {
        let Some(aliases) = &self.aliases else { return offset };
        for (alias, own) in [(aliases.receive, self.receive), (aliases.transmit, self.transmit)] {
            let from_first = offset.wrapping_sub(alias);
            let (ring, register) = (from_first / aliases.ring_stride, from_first % aliases.ring_stride);
            if ring < aliases.rings && register < self.ring_stride {
                return own + ring * self.ring_stride + register;
            }
        }
        offset
    }

    /// Whether this register is the tail of a ring: a doorbell.
    pub fn is_tail(&self, offset: u64) -> bool {
        [self.receive, self.transmit].into_iter().any(|first| {
            self.register(offset).checked_sub(first + TAIL).is_some_and(|place| {
                place.is_multiple_of(self.ring_stride) && place / self.ring_stride < self.rings
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_doorbells_at_all_their_addresses() {
        for (offset, is_one) in
            [(0x2818, true), (0x3918, true), (0xc018, false), (0x3a18, false), (0x2810, false)]
        {
            assert_eq!(E1000E.is_tail(offset), is_one, "{offset:x}");
        }
        for offset in [0xc018, 0xc3d8, 0x2818, 0x2b18, 0xe018, 0xe3d8, 0x3818, 0x3b18] {
            assert!(IGB.is_tail(offset), "{offset:x}");
        }
        // A head, the register behind the last ring, and where a fifth alias would be.
        for offset in [0xc010, 0xc418, 0x2c18, 0] {
            assert!(!IGB.is_tail(offset), "{offset:x}");
        }
    }

    #[test]
    fn an_unknown_nic_lists_the_known_ones() {
        assert!(nic("virtio-net-pci").unwrap_err().ends_with("e1000e, igb"));
    }
}
