//! Comparison of results: runs, searches and sweeps, in any combination.
//!
//! Points of a side are distinguished by the keys that vary within it: rate, frame size, any configuration
//! key. Points of two sides that agree in these keys are compared. Keys that differ between sides but vary
//! within none of them are the object of the comparison. Points that differ only in the seed are repetitions,
//! and are replaced by their mean.
//!
//! | File | Question it answers |
//! |---|---|
//! | `side` | what does a folder contain? |
//! | `figures` | which figures does a point have, with which uncertainty, and how are repetitions combined? |
//! | `judge` | which differences exceed the limit? |

mod figures;
mod judge;
mod side;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use doorbell_results::{
    ComparedFigure, ComparedPoint, ComparedValue, ComparedWords, Comparison, FigureDifference, UnmatchedPoint,
};

use figures::{Figures, pooled};
use side::{Point, Side};

pub(crate) use figures::student_97_5;
pub use judge::{CompareRequest, Share};

/// The key that distinguishes repetitions.
const SEED: &str = "run.seed";
/// Maximum number of sides; they are named A to Z.
const SIDES_MAX: usize = 26;

/// Why results cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The folder does not exist.
    #[error("{}: there is no such folder", path.display())]
    Missing {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The folder is not a result.
    #[error(
        "{} is not a result of run, trace run, search or sweep: it has neither a summary.json nor points/{}",
        path.display(), suggest_parts(inside)
    )]
    Foreign {
        /// Path of the folder.
        path: PathBuf,
        /// Sweep results inside it, as in a reproduction's folder.
        inside: Vec<PathBuf>,
    },
    /// The result is damaged or unreadable.
    #[error("{} is not a complete result: {problem}; repeat the command that created it", path.display())]
    Broken {
        /// Path of the folder.
        path: PathBuf,
        /// Description of the error.
        problem: String,
    },
    /// The folder is one load of a run with several loads.
    #[error("{} is one load of several, not a complete result; compare the whole run: {}", path.display(), above.display())]
    OneOfSeveral {
        /// Path of the folder.
        path: PathBuf,
        /// The run's folder.
        above: PathBuf,
    },
    /// None of the figures to be judged is present.
    #[error("there is nothing to judge: {0}")]
    NothingToJudge(String),
    /// No point has a counterpart.
    #[error("these results have no point in common. {0}")]
    NothingInCommon(String),
    /// A requested figure is missing, or the request is invalid.
    #[error("{0}")]
    Request(String),
}

/// Suggests the comparable parts of a folder, if there are any.
fn suggest_parts(inside: &[PathBuf]) -> String {
    let parts: Vec<String> = inside.iter().map(|part| part.display().to_string()).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("; its parts can be compared: {}", parts.join(", "))
    }
}

/// Compares results with the first one, which is the base.
pub fn compare(paths: &[PathBuf], request: &CompareRequest) -> Result<Comparison, CompareError> {
    if !(2..=SIDES_MAX).contains(&paths.len()) {
        return Err(CompareError::Request(format!(
            "compare needs 2 to {SIDES_MAX} results, and {} were given",
            paths.len()
        )));
    }
    let mut sides = Vec::new();
    for (path, letter) in paths.iter().zip('A'..) {
        let mut side = Side::read(path)?;
        side.facts.name = letter.to_string();
        sides.push(side);
    }
    inherit_member_keys(&mut sides);
    for side in &mut sides {
        side.points = pool_repetitions(std::mem::take(&mut side.points));
    }
    let varied = varied(&sides);
    let mut comparison = Comparison {
        sides: sides.iter().map(|side| side.facts.clone()).collect(),
        configuration: configuration(&sides, &varied),
        ran: differing(&sides.iter().map(|side| once(&side.ran)).collect::<Vec<_>>(), &BTreeSet::new()),
        notes: collect_notes(&sides),
        ..Comparison::default()
    };
    match_points(&sides, &varied, &mut comparison);
    if comparison.points.is_empty() {
        let of = |side: &Side| {
            let points = comparison.unmatched.iter().filter(|point| point.side == side.facts.name);
            let all: Vec<&str> = points.map(|point| point.at.as_str()).take(4).collect();
            format!("{} has {}", side.facts.name, all.join("; "))
        };
        let words: Vec<String> = sides.iter().map(of).collect();
        return Err(CompareError::NothingInCommon(words.join(". ")));
    }
    request.judge(&mut comparison)?;
    Ok(comparison)
}

/// A network's configuration contains only explicitly set keys of its members. A key set in one result is
/// compared with the inherited or default value in another.
fn inherit_member_keys(sides: &mut [Side]) {
    let of_members =
        |key: &&String| ["generator.", "node.", "switch."].iter().any(|kind| key.starts_with(kind));
    let points = || sides.iter().flat_map(|side| &side.points);
    let keys: BTreeSet<String> =
        points().flat_map(|point| point.config.keys().filter(of_members)).cloned().collect();
    for point in sides.iter_mut().flat_map(|side| &mut side.points) {
        for key in &keys {
            if !point.config.contains_key(key)
                && let Some(value) = point.of_member(key)
            {
                point.config.insert(key.clone(), value);
            }
        }
    }
}

/// Replaces points that differ only in the seed by one.
fn pool_repetitions(points: Vec<Point>) -> Vec<Point> {
    let key_of = |point: &Point| {
        let mut config = point.config.clone();
        config.remove(SEED);
        config
    };
    let mut groups: Vec<(BTreeMap<String, String>, Vec<Point>)> = Vec::new();
    for point in points {
        let own = key_of(&point);
        match groups
            .iter_mut()
            .find(|(key, all)| *key == own && all.iter().all(|one| one.config != point.config))
        {
            Some((_, all)) => all.push(point),
            None => groups.push((own, vec![point])),
        }
    }
    let pool = |(mut config, all): (BTreeMap<String, String>, Vec<Point>)| {
        let seeds: Vec<String> = all.iter().filter_map(|point| point.config.get(SEED).cloned()).collect();
        if !seeds.is_empty() {
            config.insert(SEED.to_owned(), seeds.join(", "));
        }
        let (repetitions, offered) = (all.len(), all[0].offered.clone());
        Point {
            config,
            offered,
            figures: pooled(all.into_iter().map(|point| point.figures).collect()),
            repetitions,
        }
    };
    groups.into_iter().map(pool).collect()
}

/// Keys that vary within a side and therefore distinguish its points. The seed does not count.
fn varied(sides: &[Side]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for side in sides {
        let values = values(side);
        keys.extend(values.into_iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| key.to_owned()));
    }
    keys.remove(SEED);
    keys
}

/// All values of each key on a side.
fn values(side: &Side) -> BTreeMap<&str, BTreeSet<Option<&str>>> {
    let keys: BTreeSet<&str> =
        side.points.iter().flat_map(|point| point.config.keys()).map(String::as_str).collect();
    let of = |key| side.points.iter().map(|point| point.config.get(key).map(String::as_str)).collect();
    keys.into_iter().map(|key| (key, of(key))).collect()
}

type ValueSets<'a> = BTreeMap<&'a str, BTreeSet<Option<&'a str>>>;

fn once(words: &BTreeMap<String, String>) -> ValueSets<'_> {
    words.iter().map(|(name, value)| (name.as_str(), BTreeSet::from([Some(value.as_str())]))).collect()
}

fn configuration(sides: &[Side], varied: &BTreeSet<String>) -> Vec<ComparedWords> {
    differing(&sides.iter().map(values).collect::<Vec<_>>(), varied)
}

/// Keys or names whose values are not the same on all sides.
fn differing(sides: &[ValueSets], but: &BTreeSet<String>) -> Vec<ComparedWords> {
    let names: BTreeSet<&str> = sides.iter().flat_map(|side| side.keys().copied()).collect();
    let mut all = Vec::new();
    for name in names.into_iter().filter(|name| !but.contains(*name)) {
        let value = |side: &ValueSets| {
            let values: Vec<&str> = side.get(name)?.iter().flatten().copied().collect();
            Some(values.join(", "))
        };
        let values: Vec<Option<String>> = sides.iter().map(value).collect();
        if values.iter().any(|value| *value != values[0]) {
            all.push(ComparedWords { name: name.to_owned(), values });
        }
    }
    all
}

/// Finds the counterparts of each point.
fn match_points(sides: &[Side], varied: &BTreeSet<String>, comparison: &mut Comparison) {
    let label = |point: &Point| -> Vec<Option<String>> {
        varied.iter().map(|key| point.config.get(key).cloned()).collect()
    };
    let mut labels: Vec<Vec<Option<String>>> = Vec::new();
    for point in sides.iter().flat_map(|side| &side.points) {
        let own = label(point);
        if !labels.contains(&own) {
            labels.push(own);
        }
    }
    for own in labels {
        let found: Vec<Option<&Point>> =
            sides.iter().map(|side| side.points.iter().find(|point| label(point) == own)).collect();
        let words = |(key, value): (&String, &Option<String>)| {
            format!("{key} {}", value.as_deref().unwrap_or("not set"))
        };
        let at = varied.iter().zip(&own).map(words).collect::<Vec<_>>().join(", ");
        let partners = found.iter().flatten().count();
        if found[0].is_some() && partners > 1 {
            comparison.points.push(compared(at.clone(), &found));
        }
        for (side, point) in sides.iter().zip(&found) {
            let alone = found[0].is_none() || partners == 1;
            // With three sides, one may lack a point that the others have.
            if point.is_some() == alone {
                let missing = if alone { "" } else { "nothing at " };
                let at = if at.is_empty() { "its only point".to_owned() } else { at.clone() };
                let unmatched =
                    UnmatchedPoint { side: side.facts.name.clone(), at: format!("{missing}{at}") };
                comparison.unmatched.push(unmatched);
            }
        }
    }
}

/// Compares a point on all sides that have it.
fn compared(at: String, found: &[Option<&Point>]) -> ComparedPoint {
    let mut names: Vec<&str> = Vec::new();
    let mut unique = BTreeSet::new();
    let points = || found.iter().flatten();
    for (name, _) in points().flat_map(|point| &point.figures.numbers) {
        if unique.insert(name.as_str()) {
            names.push(name);
        }
    }
    // Headline figures come first.
    names.sort_by_key(|name| {
        judge::HEADLINE.iter().position(|headline| headline == name).unwrap_or(usize::MAX)
    });
    let state = |figures: &Figures| (!figures.state.is_empty()).then(|| figures.state.clone());
    let states: Vec<Option<String>> = points().map(|point| state(&point.figures)).collect();
    let words: Vec<BTreeMap<String, String>> = found
        .iter()
        .map(|point| point.map_or_else(BTreeMap::new, |point| point.figures.words.iter().cloned().collect()))
        .collect();
    ComparedPoint {
        at,
        repetitions: found.iter().map(|point| point.map_or(0, |point| point.repetitions)).collect(),
        same_state: found.iter().all(Option::is_some)
            && states[0].is_some()
            && states.iter().all(|s| *s == states[0]),
        figures: names.into_iter().map(|name| figure(name, found)).collect(),
        words: differing(&words.iter().map(once).collect::<Vec<_>>(), &BTreeSet::new()),
    }
}

fn figure(name: &str, found: &[Option<&Point>]) -> ComparedFigure {
    let value = |point: &Option<&Point>| -> Option<ComparedValue> {
        let numbers = &point.as_ref()?.figures.numbers;
        numbers.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
    };
    let values: Vec<Option<ComparedValue>> = found.iter().map(value).collect();
    let base = values[0];
    let to_base = |other: &Option<ComparedValue>| Some(difference(&base?, other.as_ref()?));
    ComparedFigure {
        name: name.to_owned(),
        headline: judge::HEADLINE.contains(&name),
        of_host: name.starts_with("host_") || name.starts_with("cost."),
        differences: values[1..].iter().map(to_base).collect(),
        values,
    }
}

fn difference(base: &ComparedValue, other: &ComparedValue) -> FigureDifference {
    let difference = other.value - base.value;
    let outside = |(a, b): (doorbell_results::Interval, doorbell_results::Interval)| {
        !b.holds(base.value) && !a.holds(other.value)
    };
    FigureDifference {
        difference,
        relative: (base.value != 0.0)
            .then(|| difference / base.value.abs())
            .filter(|share| share.is_finite()),
        outside_both: base.interval.zip(other.interval).map(outside),
    }
}

fn collect_notes(sides: &[Side]) -> Vec<String> {
    let mut notes = Vec::new();
    for Side { facts, points, notes: own, .. } in sides {
        let name = &facts.name;
        notes.extend(facts.incomplete.iter().map(|problem| format!("{name} is not complete: {problem}")));
        notes.extend(own.iter().map(|note| format!("{name}: {note}")));
        for (point, why) in
            points.iter().filter_map(|point| Some((point, point.figures.not_steady.as_ref()?)))
        {
            let load =
                point.config.get("loadgen.traffic.rate").map_or(String::new(), |rate| format!(" at {rate}"));
            notes.push(format!(
                "{name}{load} is not steady: {why}; its figures are not valid for a steady load, measure for longer"
            ));
        }
        if points.iter().any(|point| point.figures.correlated) {
            notes.push(format!(
                "{name}: parts of its measurement are correlated, so its intervals are too narrow; measure for longer"
            ));
        }
    }
    let kinds: BTreeSet<bool> =
        sides.iter().flat_map(|side| &side.points).map(|point| point.config.contains_key("goal")).collect();
    if kinds.len() > 1 {
        notes.push(
            "A search is compared with a run: the search's figures are those at the highest rate that met its goal, and rates differ"
                .to_owned(),
        );
    }
    notes
}
