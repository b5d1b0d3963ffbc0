//! QEMU's NIC models. Register numbers are those of the datasheets, section "Register descriptions".

/// Offset of the tail register from a ring's first one.
const TAIL: u64 = 0x18;

/// Trace events of QEMU that the plugin uses for all NICs (`tools/qemu-trace/device.c`): the models share
/// their code except for one event.
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

/// Differences between NIC models.
#[derive(Debug)]
pub struct NicModel {
    /// Name of the device in QEMU.
    pub name: &'static str,
    /// Address of the first receive ring's first register, the low half of its base address.
    pub receive: u64,
    /// The same for the first transmit ring.
    pub transmit: u64,
    /// Distance between the registers of consecutive rings.
    pub ring_stride: u64,
    /// Rings per direction.
    pub rings: u64,
    /// Alias addresses of the first rings' registers, if any.
    pub aliases: Option<Aliases>,
    /// Width of the length field in an extended transmit descriptor.
    pub length_bits: u32,
    /// Bit of that descriptor's second word that enables segmentation.
    pub segments: u32,
    /// Format of the context descriptor. If set, the first word has the Ethernet and IP header lengths, to
    /// which the third word's length is added. Otherwise the third word has the length of all headers.
    pub adds_headers: bool,
}

/// Alias addresses of the first rings' registers.
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

/// Intel's 82576. Each ring's registers occupy 64 bytes; those of the first four rings are also at the older
/// NICs' addresses (datasheet, 8.1.3.1), which Linux and DPDK use.
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

/// All models, in the order of user-visible lists.
pub const NICS: [&NicModel; 2] = [&E1000E, &IGB];

/// Model by name; the error lists all names.
pub fn nic(name: &str) -> Result<&'static NicModel, String> {
    NICS.into_iter().find(|nic| nic.name == name).ok_or_else(|| {
        let known = NICS.map(|nic| nic.name).join(", ");
        format!("NIC {name:?} of QEMU is not supported; choose one of {known}")
    })
}

impl NicModel {
    /// Primary address of a register.
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

    /// Returns whether the register is a ring's tail, that is, a doorbell.
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
    fn tail_registers_are_recognised_at_all_addresses() {
        for (offset, is_one) in
            [(0x2818, true), (0x3918, true), (0xc018, false), (0x3a18, false), (0x2810, false)]
        {
            assert_eq!(E1000E.is_tail(offset), is_one, "{offset:x}");
        }
        for offset in [0xc018, 0xc3d8, 0x2818, 0x2b18, 0xe018, 0xe3d8, 0x3818, 0x3b18] {
            assert!(IGB.is_tail(offset), "{offset:x}");
        }
        // A head, the register after the last ring, and the location of a fifth alias.
        for offset in [0xc010, 0xc418, 0x2c18, 0] {
            assert!(!IGB.is_tail(offset), "{offset:x}");
        }
    }

    #[test]
    fn unknown_nic_lists_the_supported_ones() {
        assert!(nic("virtio-net-pci").unwrap_err().ends_with("e1000e, igb"));
    }
}
