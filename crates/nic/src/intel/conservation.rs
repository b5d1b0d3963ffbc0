//! Conservation laws of the counters, asserted at the end of every run.

use doorbell_pcie::NetworkFunction as _;

use super::{Chip, Controller};
use crate::stats::QueueStats;

impl<C: Chip> Controller<C> {
    /// Asserts that every frame is accounted for, in both directions and in each queue.
    pub(super) fn assert_conservation(&self) {
        self.stats.check_conservation(self.in_flight(), &self.name);
        for (queue, counted) in self.queue_stats.iter().enumerate() {
            let looped = counted.rx_looped_drop_full + counted.rx_looped_drop_disabled;
            let at_arrival = counted.rx_fifo_full + counted.rx_drop_disabled + looped;
            let full = counted.rx_drop_dma + counted.rx_drop_core + counted.rx_drop_tx;
            let dropped_later = counted.rx_drop_no_descriptor + counted.rx_looped_drop_no_descriptor;
            let accepted = counted.rx_delivered + dropped_later + counted.rx_drop_reset;
            assert_eq!(
                (counted.rx_offered, counted.rx_frames, full),
                (
                    counted.rx_frames + at_arrival,
                    accepted + self.rx.frames_of(queue),
                    counted.rx_fifo_full + counted.rx_drop_no_descriptor,
                ),
                "{}: frames of receive queue {queue} do not add up: {counted:?}",
                self.name
            );
            assert_eq!(
                counted.tx_frames,
                counted.tx_left + counted.tx_drop_reset + self.tx.frames_of(queue),
                "{}: frames of transmit queue {queue} do not add up: {counted:?}",
                self.name
            );
        }
        self.assert_queue_sums();
    }

    /// Asserts that the per-queue counters add up to the NIC's counters of the same name.
    fn assert_queue_sums(&self) {
        let all = &self.stats;
        let sum = |counter: fn(&QueueStats) -> u64| self.queue_stats.iter().map(counter).sum::<u64>();
        let sums = [
            ("rx_delivered", sum(|queue| queue.rx_delivered), all.rx_delivered),
            ("rx_delivered_bytes", sum(|queue| queue.rx_delivered_bytes), all.rx_delivered_bytes),
            ("rx_drop_dma", sum(|queue| queue.rx_drop_dma), all.rx_drop_dma),
            ("rx_drop_core", sum(|queue| queue.rx_drop_core), all.rx_drop_core),
            ("rx_drop_tx", sum(|queue| queue.rx_drop_tx), all.rx_drop_tx),
            (
                "rx_looped_drop_full",
                sum(|queue| queue.rx_looped_drop_full + queue.rx_looped_drop_no_descriptor),
                all.rx_looped_drop_full,
            ),
            ("rx_drop_reset", sum(|queue| queue.rx_drop_reset), all.rx_drop_reset),
            ("rx_fifo_full", sum(|queue| queue.rx_fifo_full), all.rx_fifo_full),
            ("rx_descriptors", sum(|queue| queue.rx_descriptors), all.rx_descriptors),
            ("tx_frames", sum(|queue| queue.tx_frames), all.tx_frames),
            ("tx_descriptors", sum(|queue| queue.tx_descriptors), all.tx_descriptors),
            ("tx_left", sum(|queue| queue.tx_left), all.tx_sent + all.tx_looped_back),
            ("tx_drop_reset", sum(|queue| queue.tx_drop_reset), all.tx_drop_reset),
            ("tx_drop_oversize", sum(|queue| queue.tx_drop_oversize), all.tx_drop_oversize),
            ("tx_drop_empty", sum(|queue| queue.tx_drop_empty), all.tx_drop_empty),
            ("tx_malformed", sum(|queue| queue.tx_malformed), all.tx_malformed),
        ];
        for (name, queues, card) in sums {
            assert_eq!(queues, card, "{}: {name} of all queues does not add up to the NIC's", self.name);
        }
    }
}
