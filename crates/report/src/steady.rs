//! Steady state: how loads settled before they were measured, which measurements began too early, and which
//! were not steady.

use doorbell_results::{PointSummary, SizeSummary, Steady, SteadyPhase};

use crate::number::{NONE, duration_s, one_line, rate};

/// Maximum number of loads for which a note is shown.
pub(crate) const NOTES: usize = 3;
/// Mark of figures whose measurement is not confirmed to be steady.
const MARK: char = '*';

/// Duration of a phase, and whether it ended before the state was steady.
pub(crate) fn cell(phase: Option<&SteadyPhase>) -> String {
    let Some(phase) = phase else { return NONE.to_owned() };
    let steady = if phase.unmet().next().is_none() { "" } else { ", not steady" };
    format!("{}{steady}", duration_s(phase.seconds))
}

/// A figure with a mark if its measurement is not confirmed to be steady, padded if other points have a mark.
pub(crate) fn marked(points: &[&PointSummary], point: &PointSummary, figure: String) -> String {
    match (point.not_steady.is_some(), points.iter().any(|point| point.not_steady.is_some())) {
        (true, _) => format!("{figure}{MARK}"),
        (false, true) => format!("{figure} "),
        (false, false) => figure,
    }
}

/// Footnotes that explain the mark, one per marked load.
pub(crate) fn footnotes(points: &[&PointSummary]) -> Vec<String> {
    let mark = |point: &&PointSummary| {
        let why = one_line(point.not_steady.as_ref()?);
        Some(format!("{MARK} {} Mpps: not steady: {why}.", rate(point.offered_mpps)))
    };
    points.iter().filter_map(mark).collect()
}

/// Notes on the first few points that were measured before a steady state was confirmed, with the unmet criteria.
pub(crate) fn notes(points: &[&PointSummary]) -> Vec<String> {
    let steady = points.iter().filter_map(|point| Some((point, point.steady.as_ref()?)));
    let early: Vec<_> = steady.filter(|(_, steady)| steady.unmet_before().next().is_some()).collect();
    let mut notes = Vec::new();
    for (point, steady) in early.iter().take(NOTES) {
        let load = rate(point.offered_mpps);
        notes.push(format!(
            "At {load} Mpps the measurement began before its state was confirmed to be steady:"
        ));
        notes.extend(unmet(steady));
    }
    notes.extend(more_loads(early.len()));
    notes
}

/// A note on loads that have the same note, but are too many for one each.
pub(crate) fn more_loads(loads: usize) -> Option<String> {
    let more = loads.checked_sub(NOTES).filter(|more| *more > 0)?;
    Some(format!("The same applies to {more} more {}.", if more == 1 { "load" } else { "loads" }))
}

/// The same for all trials of a search, in one note.
pub(crate) fn trials_note(size: &SizeSummary) -> Option<String> {
    let early: Vec<String> = size
        .trials
        .iter()
        .filter(|trial| trial.steady.as_ref().is_some_and(|steady| steady.unmet_before().next().is_some()))
        .map(|trial| rate(trial.rate_mpps))
        .collect();
    (!early.is_empty()).then(|| {
        format!(
            "Started before the state was confirmed to be steady (run.warmup): {} Mpps.",
            early.join(", ")
        )
    })
}

fn unmet(steady: &Steady) -> Vec<String> {
    let phases = steady.before().flat_map(|(name, phase)| {
        phase.unmet().map(move |criterion| {
            let time = duration_s(phase.seconds);
            format!("  {name} of {time}, {}: {}.", criterion.name, criterion.seen)
        })
    });
    phases.collect()
}

#[cfg(test)]
mod tests {
    use doorbell_results::SteadyCriterion;

    use super::*;
    use crate::sample;

    fn phase(met: Option<bool>) -> SteadyPhase {
        let criterion = |name: &str, met| SteadyCriterion {
            name: name.to_owned(),
            met,
            seconds: met.filter(|met| *met).map(|_| 0.005),
            seen: "0.49 rounds".to_owned(),
        };
        SteadyPhase {
            asked: "auto".to_owned(),
            seconds: 0.01,
            criteria: vec![criterion("rings", met), criterion("caches", Some(true))],
        }
    }

    #[test]
    fn early_measurements_are_reported_with_the_unmet_criteria() {
        let mut summary = sample::loads();
        let texts = |summary: &crate::RunSummary| notes(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(texts(&summary), Vec::<String>::new(), "older files lack this");
        for point in &mut summary.points {
            point.steady = Some(Steady { warmup: Some(phase(Some(true))), ..Steady::default() });
        }
        assert_eq!(texts(&summary), Vec::<String>::new());
        summary.points[1].steady =
            Some(Steady { warmup: Some(phase(Some(false))), settle: Some(phase(None)), ..Steady::default() });
        let expected = [
            "At 4.000 Mpps the measurement began before its state was confirmed to be steady:",
            "  warm-up of 10.0 ms, rings: 0.49 rounds.",
            "  settling of 10.0 ms, rings: 0.49 rounds.",
        ];
        assert_eq!(texts(&summary), expected);
        for point in &mut summary.points {
            point.steady = Some(Steady { warmup: Some(phase(None)), ..Steady::default() });
        }
        assert_eq!(texts(&summary).last().map(String::as_str), Some("The same applies to 3 more loads."));
        assert_eq!(cell(summary.points[0].steady.as_ref().unwrap().warmup.as_ref()), "10.0 ms, not steady");
        assert_eq!([cell(Some(&phase(Some(true)))), cell(None)], ["10.0 ms", NONE]);
    }
}
