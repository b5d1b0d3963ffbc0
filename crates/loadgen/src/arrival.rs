//! Classes of received frames, and the counters of everything sent and received.

use crate::frame::Mismatch;
use crate::responder::ReplyKind;

doorbell_sim::stats! {
    /// Counters of a generator since its creation.
    pub struct LoadGenStats {
        /// Frames sent.
        sent,
        /// Frames received, of any class.
        received,
        /// Test frames returned unchanged, each counted once.
        returned,
        /// Test frames returned with an unexpected change, each counted once.
        corrupt,
        /// Corrupt frames whose length differs from that sent.
        corrupt_length,
        /// Corrupt frames with unexpected MAC addresses.
        corrupt_addresses,
        /// Corrupt frames with a changed type, IPv4 or UDP header.
        corrupt_headers,
        /// Corrupt frames with a changed payload.
        corrupt_payload,
        /// Returned frames that came after a frame sent later (RFC 4737).
        reordered,
        /// Arrivals of a frame that had returned before.
        duplicates,
        /// Arrivals of a frame that is no longer tracked (see `tracked_frames`), or a reply after its
        /// timeout.
        late,
        /// Arrivals of a frame of an earlier run.
        stale,
        /// Arrivals with a sequence number that was never sent.
        never_sent,
        /// Arrivals of another generator's frame, which that generator accounts for.
        of_others,
        /// Own frames, of any class above, that arrived at another generator's port.
        elsewhere,
        /// Arrivals without a valid signature that were not answered.
        foreign,
        /// ARP requests answered.
        arp_answered,
        /// ICMP echo requests answered.
        echo_answered,
        /// Packets returned by the mirror.
        mirrored,
        /// Arrivals with a bad FCS, of any frame.
        bad_fcs,
        /// Frames sent that are neither traffic nor replies.
        injected,
        /// ARP requests sent to resolve the destination station.
        arp_asked,
        /// ARP replies from that station.
        arp_replies,
        /// Requests given up because their reply exceeded `timeout` while others waited.
        timed_out,
        /// Frames given up because their tracking slot was reused.
        expired,
        /// Frames given up because a new run began.
        abandoned,
    }
}

/// Class of a received frame, as counted in [`LoadGenStats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A frame of this run, returned unchanged for the first time.
    Returned,
    /// A frame of this run, returned for the first time, but changed.
    Corrupt(Mismatch),
    /// A frame that had returned before.
    Duplicate,
    /// A frame that is no longer tracked or was given up.
    Late,
    /// A frame of an earlier run.
    Stale,
    /// A sequence number that was never sent.
    NeverSent,
    /// A frame of the generator with this number.
    OtherGenerator(u32),
    /// The reply to our ARP request.
    ArpReply,
    /// A request, or a packet to the mirror: a reply was sent.
    Answered(ReplyKind),
    /// Not a test frame and not answered.
    Foreign,
    /// Bad FCS; not examined further.
    BadFcs,
}

impl LoadGenStats {
    /// Counts one arrival.
    pub(crate) fn count(&mut self, arrival: Arrival) {
        self.received += 1;
        *match arrival {
            Arrival::Returned => &mut self.returned,
            Arrival::Corrupt(_) => &mut self.corrupt,
            Arrival::Duplicate => &mut self.duplicates,
            Arrival::Late => &mut self.late,
            Arrival::Stale => &mut self.stale,
            Arrival::NeverSent => &mut self.never_sent,
            Arrival::OtherGenerator(_) => &mut self.of_others,
            Arrival::ArpReply => &mut self.arp_replies,
            Arrival::Answered(ReplyKind::Arp) => &mut self.arp_answered,
            Arrival::Answered(ReplyKind::Echo) => &mut self.echo_answered,
            Arrival::Answered(ReplyKind::Mirrored) => &mut self.mirrored,
            Arrival::Foreign => &mut self.foreign,
            Arrival::BadFcs => &mut self.bad_fcs,
        } += 1;
        self.count_mismatch(arrival);
    }

    /// Counts the arrival of an own frame at another generator's port.
    pub(crate) fn count_at_other_port(&mut self, arrival: Arrival) {
        self.count(arrival);
        self.received -= 1;
        self.elsewhere += 1;
    }

    fn count_mismatch(&mut self, arrival: Arrival) {
        if let Arrival::Corrupt(mismatch) = arrival {
            *match mismatch {
                Mismatch::Length => &mut self.corrupt_length,
                Mismatch::Addresses => &mut self.corrupt_addresses,
                Mismatch::Headers => &mut self.corrupt_headers,
                Mismatch::Payload => &mut self.corrupt_payload,
            } += 1;
        }
    }

    /// Asserts that everything sent and received is counted exactly once.
    pub(crate) fn assert_conservation(&self, outstanding: u64) {
        assert_eq!(
            self.sent,
            self.returned + self.corrupt + self.timed_out + self.expired + self.abandoned + outstanding,
            "frames sent are not all accounted for: {self:?}"
        );
        let answered = self.arp_replies + self.arp_answered + self.echo_answered + self.mirrored;
        let ours = self.returned + self.corrupt + self.duplicates + self.late + self.stale + self.never_sent;
        assert_eq!(
            self.received + self.elsewhere,
            ours + answered + self.of_others + self.foreign + self.bad_fcs,
            "frames received are not all accounted for: {self:?}"
        );
    }
}
