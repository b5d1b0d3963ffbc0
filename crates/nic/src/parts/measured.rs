//! Late drops of a measurement: frames accepted and then dropped, by a reset or by a queue that drops frames
//! when it has no descriptors.
//!
//! A frame dropped on arrival is counted in the measurement of its arrival time. An accepted frame may be
//! dropped at any later time, so frames of a measurement are marked on arrival. For observers only; not saved
//! in checkpoints.

use doorbell_sim::Ps;

use crate::stats::LateDrops;

/// Window of a measurement, and the late drops of its frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasurementWindow {
    /// The window contains frames whose last bit arrives later than `after` and not later than `until`.
    after: Ps,
    until: Ps,
    pub drops: LateDrops,
}

impl Default for MeasurementWindow {
    fn default() -> MeasurementWindow {
        MeasurementWindow { after: Ps::MAX, until: Ps::MAX, drops: LateDrops::default() }
    }
}

impl MeasurementWindow {
    /// Starts a window with frames that arrive later than `after`.
    pub fn begin(&mut self, after: Ps) {
        *self = MeasurementWindow { after, ..MeasurementWindow::default() };
    }

    /// Ends the window: frames that arrive later than `until` are outside.
    pub fn end(&mut self, until: Ps) {
        self.until = until;
    }

    /// Whether a frame that arrives from the link now is in the window.
    pub fn contains(&self, now: Ps) -> bool {
        self.after < now && now <= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_excludes_its_begin_and_includes_its_end() {
        let mut measured = MeasurementWindow::default();
        assert!(!measured.contains(Ps(7)));
        measured.begin(Ps(7));
        assert_eq!([7, 8, 1000].map(|now| measured.contains(Ps(now))), [false, true, true]);
        measured.end(Ps(900));
        assert_eq!([900, 901].map(|now| measured.contains(Ps(now))), [true, false]);
    }
}
