//! The NICs of QEMU that are known. Register numbers are those of their datasheets, section "Register descriptions".

/// A ring's tail, from its first register on.
const TAIL: u64 = 0x18;

/// What a model of NIC has of its own.
#[derive(Debug)]
pub struct NicModel {
    /// QEMU's name of the device.
    pub name: &'static str,
    /// QEMU's trace events that the plugin knows of it (`tools/qemu-trace/device.c`).
    pub events: &'static [&'static str],
    /// Address of the first receive ring's first register, the low half of where the ring lies.
    pub receive: u64,
    /// The same of the first transmit ring.
    pub transmit: u64,
    /// How far each further ring's registers are behind.
    pub ring_stride: u64,
    /// Rings of a kind.
    pub rings: u64,
}

/// Intel's 82574L.
pub const E1000E: NicModel = NicModel {
    name: "e1000e",
    events: &[
        "e1000e_core_write",
        "e1000e_rx_receive_iov",
        "e1000e_rx_descr",
        "e1000e_rx_desc_buff_write",
        "e1000e_rx_*written_to_guest",
        "e1000e_rx_flt_dropped",
        "e1000e_tx_descr",
        "e1000e_irq_*notify",
        "e1000e_irq_msi_notify_postponed",
        "e1000e_irq_msix_notify_postponed_vec",
        "e1000e_irq_msix_notify_vec",
    ],
    receive: 0x2800,
    transmit: 0x3800,
    ring_stride: 0x100,
    rings: 2,
};

/// Every model, in the order in which they are listed to the user.
pub const NICS: [&NicModel; 1] = [&E1000E];

impl NicModel {
    /// Whether for transmission, and which ring, if this register is a tail.
    pub fn doorbell(&self, offset: u64) -> Option<(bool, u8)> {
        let of = |first: u64| {
            let ring = offset.checked_sub(first + TAIL)?;
            let number = ring / self.ring_stride;
            (ring.is_multiple_of(self.ring_stride) && number < self.rings).then_some(number as u8)
        };
        of(self.receive).map(|ring| (false, ring)).or_else(|| of(self.transmit).map(|ring| (true, ring)))
    }
}
