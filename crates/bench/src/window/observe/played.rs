//! What was watched of a played trace, as people can read it.

use doorbell_machine::Watched;

use super::names::RecordedNames;
use super::{FunctionTable, Observe, Observed, konata, perfetto, place_of};
use crate::testbed::traces::NamedTrace;

/// Makes files of what was watched. Names of functions lie beside the trace, if whoever recorded it left them.
pub(crate) fn digest_played(observe: &Observe, trace: &NamedTrace, watched: Option<Watched>) -> Observed {
    let mut observed = Observed { watched: watched.unwrap_or_default(), ..Observed::default() };
    if observe.timeline.is_some() {
        observed.files.push(("timeline.perfetto", perfetto(&[], &observed.watched.activity)));
    }
    if !observe.profile && observe.pipeline.is_none() {
        return observed;
    }
    let text = std::fs::read_to_string(RecordedNames::beside(&trace.path)).unwrap_or_default();
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
