//! What is counted of lines that several harts use, and of a directory.

use crate::class::DataClass;

doorbell_sim::stats! {
    /// What one core takes from others, each also split by what the lines hold.
    pub struct SharingStats {
        /// HIT: lines that came from another core's cache, which had not written them.
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
        /// HITM: lines that came from another core's cache, which had written them.
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
        /// Misses of lines that another core's store had taken away, of a word that others had written since.
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
        /// Misses of lines that another core's store had taken away, of a word that nobody else had written since.
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
        /// Lines got for writing from a core that had got them so from this one.
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
    /// What a directory does.
    pub struct DirectoryStats {
        /// Snoops sent to private caches.
        snoops,
        /// Of these, such as brought the line.
        forwards,
        /// Lines whose copies were taken away because the directory had no room to track them.
        back_invalidations,
        /// Copies that were taken away so.
        back_invalidated_copies,
        /// Of those lines, written ones, which went to the LLC.
        back_invalidated_dirty,
    }
}

/// For each kind a method that counts one of it, and one of its class; the classes' counters in the order of [`DataClass`].
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
