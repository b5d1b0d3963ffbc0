//! What an arrived frame can be, and the counters of everything sent and received.

use crate::frame::Mismatch;
use crate::responder::Answered;

doorbell_sim::stats! {
    /// What a generator has counted since it was made.
    pub struct LoadGenStats {
        /// Frames sent.
        sent,
        /// Frames that arrived at the generator, of any kind.
        received,
        /// Frames that came back unharmed, each counted once.
        returned,
        /// Frames that came back changed where they should not be, each counted once.
        corrupt,
        /// Corrupt frames that were longer or shorter than sent.
        corrupt_length,
        /// Corrupt frames with other addresses than expected.
        corrupt_addresses,
        /// Corrupt frames with a changed type, IPv4 or UDP header.
        corrupt_headers,
        /// Corrupt frames with a changed payload.
        corrupt_payload,
        /// Returned frames that came after a frame sent later (RFC 4737).
        reordered,
        /// Arrivals of a frame that had come back before.
        duplicates,
        /// Arrivals of a frame that is remembered no more (see `tracked_frames`), or an answer after its time-out.
        late,
        /// Arrivals of a frame of an earlier run.
        stale,
        /// Arrivals with a sequence number that was never sent.
        never_sent,
        /// Arrivals of another generator's frame, which is accounted for where it was sent.
        of_others,
        /// Own frames, of any of the kinds above, that arrived at another generator's port.
        elsewhere,
        /// Arrivals of a frame that no generator sent, or whose signature is damaged, and that was not answered.
        foreign,
        /// ARP requests answered.
        arp_answered,
        /// ICMP echo requests answered.
        echo_answered,
        /// Packets to the mirror's address sent back.
        mirrored,
        /// Arrivals with a bad FCS, of whosever frame.
        bad_fcs,
        /// Frames sent that are no part of the traffic and no answer.
        injected,
        /// ARP requests sent, to find the station that requests go to.
        arp_asked,
        /// ARP replies from that station.
        arp_replies,
        /// Requests given up because the answer took longer than `timeout` and others waited for their turn.
        timed_out,
        /// Frames given up because too many were sent after them.
        expired,
        /// Frames given up because a new run began.
        abandoned,
    }
}

/// What an arrived frame was, as [`LoadGenStats`] counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A frame of this run, back unharmed for the first time.
    Returned,
    /// A frame of this run, back for the first time, but changed.
    Corrupt(Mismatch),
    /// A frame that had come back before.
    Duplicate,
    /// A frame that is remembered or waited for no more.
    Late,
    /// A frame of an earlier run.
    Stale,
    /// A sequence number that was never sent.
    NeverSent,
    /// The frame of another generator, which this number names.
    OfOther(u32),
    /// The reply to our ARP request.
    ArpReply,
    /// A request, or a packet to the mirror: an answer was sent.
    Answered(Answered),
    /// Nobody's frame.
    Foreign,
    /// Its FCS is bad; nothing else was looked at.
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
            Arrival::OfOther(_) => &mut self.of_others,
            Arrival::ArpReply => &mut self.arp_replies,
            Arrival::Answered(Answered::Arp) => &mut self.arp_answered,
            Arrival::Answered(Answered::Echo) => &mut self.echo_answered,
            Arrival::Answered(Answered::Mirrored) => &mut self.mirrored,
            Arrival::Foreign => &mut self.foreign,
            Arrival::BadFcs => &mut self.bad_fcs,
        } += 1;
        self.count_mismatch(arrival);
    }

    /// Counts the arrival of an own frame at another generator's port.
    pub(crate) fn count_elsewhere(&mut self, arrival: Arrival) {
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

    /// Asserts that everything sent and received is counted exactly once, with so many frames outstanding.
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
