//! What is counted of a ring or mesh and of the slices on it.

doorbell_sim::stats! {
    /// All links together.
    pub struct FabricStats {
        /// Links that requests and snoops took, summed.
        request_hops,
        /// Bytes of lines over links, summed over the links that they took.
        byte_hops,
        /// Cycles for which requests and lines waited for a link.
        wait_cycles,
    }
}

doorbell_sim::stats! {
    /// One link between two stops, one way.
    pub struct LinkStats {
        /// Requests and snoops.
        requests,
        /// Bytes of lines.
        bytes,
        /// Cycles for which requests and lines waited for it.
        wait_cycles,
    }
}

doorbell_sim::stats! {
    /// One slice of the LLC.
    pub struct SliceStats {
        /// Requests and lines that came to it, of cores and devices.
        accesses,
        /// Cycles for which they waited for a port.
        port_wait_cycles,
    }
}
