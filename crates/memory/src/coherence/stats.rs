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

/// Counts one of a kind and one of its class.
macro_rules! count {
    ($stats:ident, $class:ident, $all:ident: $($of:ident $field:ident),*) => {{
        $stats.$all += 1;
        *match $class {
            $(DataClass::$of => &mut $stats.$field,)*
        } += 1;
    }};
}

impl SharingStats {
    /// A line has come from another core's cache.
    pub(crate) fn transferred(&mut self, dirty: bool, class: DataClass) {
        if dirty {
            count!(self, class, hitm:
            Other hitm_other,
            Code hitm_code,
            Header hitm_header,
            Payload hitm_payload,
            RxDescriptor hitm_rx_descriptor,
            TxDescriptor hitm_tx_descriptor);
        } else {
            count!(self, class, hit:
            Other hit_other,
            Code hit_code,
            Header hit_header,
            Payload hit_payload,
            RxDescriptor hit_rx_descriptor,
            TxDescriptor hit_tx_descriptor);
        }
    }

    /// A line was missed that another core's store had taken away: truly shared, or not.
    pub(crate) fn missed(&mut self, truly: bool, class: DataClass) {
        if truly {
            count!(self, class, true_sharing:
            Other true_sharing_other,
            Code true_sharing_code,
            Header true_sharing_header,
            Payload true_sharing_payload,
            RxDescriptor true_sharing_rx_descriptor,
            TxDescriptor true_sharing_tx_descriptor);
        } else {
            count!(self, class, false_sharing:
            Other false_sharing_other,
            Code false_sharing_code,
            Header false_sharing_header,
            Payload false_sharing_payload,
            RxDescriptor false_sharing_rx_descriptor,
            TxDescriptor false_sharing_tx_descriptor);
        }
    }

    /// A line is back that the present owner had taken from this core.
    pub(crate) fn went_to_and_fro(&mut self, class: DataClass) {
        count!(self, class, ping_pong:
            Other ping_pong_other,
            Code ping_pong_code,
            Header ping_pong_header,
            Payload ping_pong_payload,
            RxDescriptor ping_pong_rx_descriptor,
            TxDescriptor ping_pong_tx_descriptor);
    }
}
