//! Readable files of the observations of a played trace.

use doorbell_machine::WatchReport;

use super::names::RecordedNames;
use super::{FunctionTable, Observe, Observed, konata, perfetto, place_of};
use crate::testbed::traces::NamedTrace;

/// Converts the raw data into files. Function names come from the trace's symbol file, if there is one.
pub(crate) fn digest_played(observe: &Observe, trace: &NamedTrace, watched: Option<WatchReport>) -> Observed {
    let mut observed = Observed { watched: watched.unwrap_or_default(), ..Observed::default() };
    if observe.timeline.is_some() {
        observed.files.push(("timeline.perfetto", perfetto(&[], &observed.watched.activity)));
    }
    if !observe.profile && observe.pipeline.is_none() {
        return observed;
    }
    let text = std::fs::read_to_string(RecordedNames::path_for(&trace.path)).unwrap_or_default();
    let mut names = RecordedNames::from_text(&text);
    if let Some(profile) = &observed.watched.profile {
        let table = FunctionTable::new(profile, &mut names, &observe.rules());
        observed.take_up(table);
    }
    if observe.pipeline.is_some() {
        let log = konata(&observed.watched.pipeline, |op| place_of(op, &mut names));
        observed.files.push(("pipeline.konata", log));
    }
    observed
}
