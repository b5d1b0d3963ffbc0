//! Counters of lines shared by harts, and of the directory.

use crate::class::DataClass;

doorbell_sim::stats! {
    /// Lines that one core takes from others, each count also split by class.
    pub struct SharingStats {
        /// HIT: lines that came from another core's cache, unmodified there.
        hit,
        /// HIT of data that no device has touched.
        hit_other,
        /// HIT of instructions.
        hit_code,
        /// HIT of packet headers.
        hit_header,
        /// HIT of packet payload.
        hit_payload,
        /// HIT of receive descriptors.
        hit_rx_descriptor,
        /// HIT of transmit descriptors.
        hit_tx_descriptor,
        /// HITM: lines that came from another core's cache, modified there.
        hitm,
        /// HITM of data that no device has touched.
        hitm_other,
        /// HITM of instructions.
        hitm_code,
        /// HITM of packet headers.
        hitm_header,
        /// HITM of packet payload.
        hitm_payload,
        /// HITM of receive descriptors.
        hitm_rx_descriptor,
        /// HITM of transmit descriptors.
        hitm_tx_descriptor,
        /// Misses of lines that another core's store had invalidated, on a word written by others since.
        true_sharing,
        /// True sharing of data that no device has touched.
        true_sharing_other,
        /// True sharing of instructions.
        true_sharing_code,
        /// True sharing of packet headers.
        true_sharing_header,
        /// True sharing of packet payload.
        true_sharing_payload,
        /// True sharing of receive descriptors.
        true_sharing_rx_descriptor,
        /// True sharing of transmit descriptors.
        true_sharing_tx_descriptor,
        /// Misses of lines that another core's store had invalidated, on a word not written by others since.
        false_sharing,
        /// False sharing of data that no device has touched.
        false_sharing_other,
        /// False sharing of instructions.
        false_sharing_code,
        /// False sharing of packet headers.
        false_sharing_header,
        /// False sharing of packet payload.
        false_sharing_payload,
        /// False sharing of receive descriptors.
        false_sharing_rx_descriptor,
        /// False sharing of transmit descriptors.
        false_sharing_tx_descriptor,
        /// Lines obtained for writing from a core that had obtained them for writing from this one.
        ping_pong,
        /// Ping-pong of data that no device has touched.
        ping_pong_other,
        /// Ping-pong of instructions.
        ping_pong_code,
        /// Ping-pong of packet headers.
        ping_pong_header,
        /// Ping-pong of packet payload.
        ping_pong_payload,
        /// Ping-pong of receive descriptors.
        ping_pong_rx_descriptor,
        /// Ping-pong of transmit descriptors.
        ping_pong_tx_descriptor,
    }
}

doorbell_sim::stats! {
    /// Counters of the directory.
    pub struct DirectoryStats {
        /// Snoops sent to private caches.
        snoops,
        /// Snoops that returned the line.
        forwards,
        /// Lines whose copies were invalidated because the directory had no room to track them.
        back_invalidations,
        /// Copies invalidated by these back-invalidations.
        back_invalidated_copies,
        /// Back-invalidated lines that were dirty and went to the LLC.
        back_invalidated_dirty,
    }
}

/// Generates a method per kind that counts an event of the kind and of its class, with the counters in the
/// order of [`DataClass`].
macro_rules! kinds {
    ($($kind:ident: $other:ident $code:ident $header:ident $payload:ident $rx:ident $tx:ident;)*) => { impl SharingStats {$(
        #[doc = concat!("Counts `", stringify!($kind), "`.")]
        pub(crate) fn $kind(&mut self, class: DataClass) {
            self.$kind += 1;
            *match class {
                DataClass::Other => &mut self.$other,
                DataClass::Code => &mut self.$code,
                DataClass::Header => &mut self.$header,
                DataClass::Payload => &mut self.$payload,
                DataClass::RxDescriptor => &mut self.$rx,
                DataClass::TxDescriptor => &mut self.$tx,
            } += 1;
        }
    )*}};
}

kinds! {
    hit: hit_other hit_code hit_header hit_payload hit_rx_descriptor hit_tx_descriptor;
    hitm: hitm_other hitm_code hitm_header hitm_payload hitm_rx_descriptor hitm_tx_descriptor;
    true_sharing: true_sharing_other true_sharing_code true_sharing_header true_sharing_payload true_sharing_rx_descriptor true_sharing_tx_descriptor;
    false_sharing: false_sharing_other false_sharing_code false_sharing_header false_sharing_payload false_sharing_rx_descriptor false_sharing_tx_descriptor;
    ping_pong: ping_pong_other ping_pong_code ping_pong_header ping_pong_payload ping_pong_rx_descriptor ping_pong_tx_descriptor;
}
