//! Counters of a ring or mesh and of the slices on it.

doorbell_sim::stats! {
    /// All links together.
    pub struct FabricStats {
        /// Link traversals of requests and snoops.
        request_hops,
        /// Bytes of lines multiplied by the links traversed.
        byte_hops,
        /// Cycles for which requests and lines waited for a link.
        wait_cycles,
    }
}

doorbell_sim::stats! {
    /// One directed link between two stops.
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
        /// Requests and lines that arrived at the slice, from cores and devices.
        accesses,
        /// Cycles for which accesses waited for a port of the slice.
        port_wait_cycles,
    }
}
