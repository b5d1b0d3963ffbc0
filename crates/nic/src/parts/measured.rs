//! Accepted frames of a measurement that were dropped later: by a reset, or for lack of a descriptor in a
//! queue that does not wait for one.
//!
//! What is dropped on arrival belongs to a measurement by the time of its arrival. A frame that was accepted
//! may be dropped any time later, so that each is marked when it comes. An observer: no checkpoint keeps it.

use doorbell_sim::Ps;

use crate::stats::LateDrops;

/// Which frames are of the measurement, and what became of those that were dropped later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasurementWindow {
    /// Those whose last bit arrives later than the one time, and no later than the other.
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
    /// A measurement has the frames that arrive after this.
    pub fn begin(&mut self, after: Ps) {
        *self = MeasurementWindow { after, ..MeasurementWindow::default() };
    }

    /// It has none that arrive after this.
    pub fn end(&mut self, until: Ps) {
        self.until = until;
    }

    /// Whether it has a frame from the link that arrives now.
    pub fn contains(&self, now: Ps) -> bool {
        self.after < now && now <= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_has_what_arrives_after_its_begin_and_no_later_than_its_end() {
        let mut measured = MeasurementWindow::default();
        assert!(!measured.contains(Ps(7)));
        measured.begin(Ps(7));
        assert_eq!([7, 8, 1000].map(|now| measured.contains(Ps(now))), [false, true, true]);
        measured.end(Ps(900));
        assert_eq!([900, 901].map(|now| measured.contains(Ps(now))), [true, false]);
    }
}
