//! Classifies drops at a full receive FIFO by the state machine of "Userspace Networking in gem5" (ISPASS
//! 2024), kept per NIC. Three conditions are sampled at each arrival. The class of a drop depends on them at
//! this arrival and the previous one.

use serde::{Deserialize, Serialize};

/// Conditions at a frame's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalState {
    /// The frame does not fit into the receive FIFO.
    pub rx_fifo_full: bool,
    /// No descriptor is cached, being fetched or left to fetch.
    pub rx_ring_full: bool,
    /// (TDT + 1) mod N = TDH.
    pub tx_ring_full: bool,
}

/// Cause of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropClass {
    /// DMA could not empty the FIFO in time.
    Dma,
    /// The cores did not return descriptors in time.
    Core,
    /// Transmission did not free buffers in time.
    Tx,
}

/// Class of a frame that does not fit into the FIFO, from the states at the previous arrival and now.
pub fn classify(previous: ArrivalState, now: ArrivalState) -> DropClass {
    let bits = |s: ArrivalState| (s.rx_fifo_full, s.rx_ring_full, s.tx_ring_full);
    match (bits(previous), bits(now)) {
        ((false, true, false), _) => DropClass::Core,
        ((false, true, true), (true, true, true)) => DropClass::Tx,
        ((false, true, true), _) => DropClass::Core,
        (_, (_, false, _)) => DropClass::Dma,
        (_, (_, true, false)) => DropClass::Core,
        (_, (_, true, true)) => DropClass::Tx,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bits: u8) -> ArrivalState {
        ArrivalState { rx_fifo_full: bits & 4 != 0, rx_ring_full: bits & 2 != 0, tx_ring_full: bits & 1 != 0 }
    }

    #[test]
    fn classes_match_the_paper() {
        use DropClass::{Core, Dma, Tx};
        // Rows: previous state, 000 to 111. Columns: current state, 100, 101, 110, 111.
        let table = [
            [Dma, Dma, Core, Tx],
            [Dma, Dma, Core, Tx],
            [Core, Core, Core, Core],
            [Core, Core, Core, Tx],
            [Dma, Dma, Core, Tx],
            [Dma, Dma, Core, Tx],
            [Dma, Dma, Core, Tx],
            [Dma, Dma, Core, Tx],
        ];
        for (previous, row) in table.iter().enumerate() {
            for (now, class) in row.iter().enumerate() {
                assert_eq!(
                    classify(state(previous as u8), state(4 + now as u8)),
                    *class,
                    "{previous:03b} {now:02b}"
                );
            }
        }
    }
}
