//! Results side by side: runs, searches and sweeps, whatever is compared with what.
//!
//! Points of a side are told apart by what varies within it: rate, frame size, any key of the configuration. Points of two sides that agree in
//! these are compared; what differs between the sides and varies within none of them is what they are compared for. Points that differ
//! in nothing but the seed are repetitions, and stand as their mean.
//!
//! | File | Question it answers |
//! |---|---|
//! | `side` | what is in a folder? |
//! | `figures` | which figures has a point, how sure are they, and what do repetitions say together? |
//! | `judge` | what differs by more than was allowed? |

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
pub use judge::{Share, Wanted};

/// What tells repetitions apart.
const SEED: &str = "run.seed";
/// More sides have no names.
const SIDES_MAX: usize = 26;

/// Why results cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// There is no such folder.
    #[error("{}: there is no such folder", path.display())]
    Missing {
        /// Its name.
        path: PathBuf,
    },
    /// The folder is not a result.
    #[error(
        "{} is no result of run, trace run, search or sweep: it has neither a summary.json nor points/{}",
        path.display(), told_of(inside)
    )]
    Foreign {
        /// Its name.
        path: PathBuf,
        /// Results of sweeps within, as a reproduction has them.
        inside: Vec<PathBuf>,
    },
    /// It is one, and cannot be read.
    #[error("{} is not a whole result: {problem}; make it again with the command that made it", path.display())]
    Broken {
        /// Its name.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// It is a load of a run of several.
    #[error("{} is one load of several, and no result of its own; compare the whole run: {}", path.display(), above.display())]
    OneOfSeveral {
        /// Its name.
        path: PathBuf,
        /// The run's folder.
        above: PathBuf,
    },
    /// No figure that would be judged is there.
    #[error("there is nothing to judge: {0}")]
    NothingToJudge(String),
    /// No point has a partner.
    #[error("no two of these have a point in common. {0}")]
    NothingInCommon(String),
    /// A figure that was asked for is not there, or what was asked for cannot be.
    #[error("{0}")]
    Asked(String),
}

/// That a folder's parts can be compared, if it has some.
fn told_of(inside: &[PathBuf]) -> String {
    let parts: Vec<String> = inside.iter().map(|part| part.display().to_string()).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("; its parts can be compared: {}", parts.join(", "))
    }
}

/// Compares results, the first of which is the base.
pub fn compare(paths: &[PathBuf], wanted: &Wanted) -> Result<Comparison, CompareError> {
    if !(2..=SIDES_MAX).contains(&paths.len()) {
        return Err(CompareError::Asked(format!(
            "2 to {SIDES_MAX} results are compared, and not {}",
            paths.len()
        )));
    }
    let mut sides = Vec::new();
    for (path, letter) in paths.iter().zip('A'..) {
        let mut side = Side::read(path)?;
        side.facts.name = letter.to_string();
        sides.push(side);
    }
    members_told(&mut sides);
    for side in &mut sides {
        side.points = repetitions_pooled(std::mem::take(&mut side.points));
    }
    let varied = varied(&sides);
    let mut comparison = Comparison {
        sides: sides.iter().map(|side| side.facts.clone()).collect(),
        configuration: configuration(&sides, &varied),
        ran: differing(&sides.iter().map(|side| once(&side.ran)).collect::<Vec<_>>(), &BTreeSet::new()),
        notes: notes(&sides),
        ..Comparison::default()
    };
    matched(&sides, &varied, &mut comparison);
    if comparison.points.is_empty() {
        let of = |side: &Side| {
            let points = comparison.unmatched.iter().filter(|point| point.side == side.facts.name);
            let all: Vec<&str> = points.map(|point| point.at.as_str()).take(4).collect();
            format!("{} has {}", side.facts.name, all.join("; "))
        };
        let words: Vec<String> = sides.iter().map(of).collect();
        return Err(CompareError::NothingInCommon(words.join(". ")));
    }
    wanted.judge(&mut comparison)?;
    Ok(comparison)
}

/// A network's configuration holds of its members what was said of each: what one result says of a member, and what holds without a word
/// in another, are compared.
fn members_told(sides: &mut [Side]) {
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

/// Points that differ in nothing but the seed become one.
fn repetitions_pooled(points: Vec<Point>) -> Vec<Point> {
    let rest = |point: &Point| {
        let mut config = point.config.clone();
        config.remove(SEED);
        config
    };
    let mut groups: Vec<(BTreeMap<String, String>, Vec<Point>)> = Vec::new();
    for point in points {
        let own = rest(&point);
        match groups
            .iter_mut()
            .find(|(known, all)| *known == own && all.iter().all(|one| one.config != point.config))
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

/// The keys that vary within a side, which tell its points apart. How often a point was repeated tells none.
fn varied(sides: &[Side]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for side in sides {
        let values = values(side);
        keys.extend(values.into_iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| key.to_owned()));
    }
    keys.remove(SEED);
    keys
}

/// Every value that a key has on a side.
fn values(side: &Side) -> BTreeMap<&str, BTreeSet<Option<&str>>> {
    let keys: BTreeSet<&str> =
        side.points.iter().flat_map(|point| point.config.keys()).map(String::as_str).collect();
    let of = |key| side.points.iter().map(|point| point.config.get(key).map(String::as_str)).collect();
    keys.into_iter().map(|key| (key, of(key))).collect()
}

type Known<'a> = BTreeMap<&'a str, BTreeSet<Option<&'a str>>>;

fn once(words: &BTreeMap<String, String>) -> Known<'_> {
    words.iter().map(|(name, value)| (name.as_str(), BTreeSet::from([Some(value.as_str())]))).collect()
}

fn configuration(sides: &[Side], varied: &BTreeSet<String>) -> Vec<ComparedWords> {
    differing(&sides.iter().map(values).collect::<Vec<_>>(), varied)
}

/// What is not the same on all sides.
fn differing(sides: &[Known], but: &BTreeSet<String>) -> Vec<ComparedWords> {
    let names: BTreeSet<&str> = sides.iter().flat_map(|side| side.keys().copied()).collect();
    let mut all = Vec::new();
    for name in names.into_iter().filter(|name| !but.contains(*name)) {
        let value = |side: &Known| {
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

/// Finds the partners of each point.
fn matched(sides: &[Side], varied: &BTreeSet<String>, comparison: &mut Comparison) {
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
            // Of three, one may miss what the others have.
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

/// A point on all sides that have it.
fn compared(at: String, found: &[Option<&Point>]) -> ComparedPoint {
    let mut names: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    let points = || found.iter().flatten();
    for (name, _) in points().flat_map(|point| &point.figures.numbers) {
        if known.insert(name.as_str()) {
            names.push(name);
        }
    }
    // What a person looks at first comes first.
    names.sort_by_key(|name| judge::HEADLINE.iter().position(|known| known == name).unwrap_or(usize::MAX));
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

fn notes(sides: &[Side]) -> Vec<String> {
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
                "{name}{load} is not steady: {why}; its figures belong to no load, measure for longer"
            ));
        }
        if points.iter().any(|point| point.figures.correlated) {
            notes.push(format!(
                "{name}: parts of its measurement depend on each other, so that its intervals are too narrow; measure for longer"
            ));
        }
    }
    let kinds: BTreeSet<bool> =
        sides.iter().flat_map(|side| &side.points).map(|point| point.config.contains_key("goal")).collect();
    if kinds.len() > 1 {
        notes.push(
            "A search stands beside a run: the search's figures are those at the highest rate that met its goal, and rates differ"
                .to_owned(),
        );
    }
    notes
}
