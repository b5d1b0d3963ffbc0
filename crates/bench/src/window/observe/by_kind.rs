//! Costs by kind of CPU time. A block has the kind that the rules assign to its function, or else the kind of the
//! nearest caller that has one.

use std::collections::HashMap;

use doorbell_machine::{BlockCost, Cost, Domain, Profile};
use doorbell_results::{FunctionCost, HartKinds, KindCost, KindFigures, PointSummary, PortFigures};
use doorbell_symbols::Place;

use super::functions::{Places, below, mode};
use super::kinds::{KindRules, Match, Ran};
use crate::ratio::ratio;
use crate::store::tables::csv_field;
use doorbell_results::counters::INTERRUPTS;

/// Unit of the misses per kilobyte, in bytes.
const KB: f64 = 1024.0;

/// A kind's cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindSum {
    name: String,
    meaning: String,
    cost: Cost,
    unnamed_cycles: u64,
}

/// The costs of all kinds, in the rules' order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindTable(pub(super) Vec<KindSum>);

/// Other figures of a measurement, for rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered<'a> {
    /// Delivered bytes.
    pub bytes: u64,
    /// Counts of the ports.
    pub ports: &'a [PortFigures],
    /// Length of the measurement.
    pub seconds: f64,
}

impl<'a> Delivered<'a> {
    /// The figures of a run's test machine.
    pub fn of(point: &'a PointSummary) -> Delivered<'a> {
        Delivered { bytes: point.delivered_bytes(), ports: &point.ports, seconds: point.simulated_seconds }
    }
}

impl KindTable {
    /// A table without cycles.
    pub(super) fn new(rules: &KindRules) -> KindTable {
        let sum = |(name, meaning): (&str, &str)| KindSum {
            name: name.to_owned(),
            meaning: meaning.to_owned(),
            ..KindSum::default()
        };
        KindTable(rules.kinds().map(sum).collect())
    }

    /// Adds the cost of a function of this kind.
    pub(super) fn add(&mut self, kind: usize, unnamed: bool, cost: &Cost) {
        let sum = &mut self.0[kind];
        sum.cost.add(cost);
        sum.unnamed_cycles += if unnamed { cost.cycles } else { 0 };
    }

    /// All cycles.
    pub(super) fn cycles(&self) -> u64 {
        self.0.iter().map(|sum| sum.cost.cycles).sum()
    }

    /// A kind's name.
    pub(super) fn name(&self, kind: usize) -> &str {
        &self.0[kind].name
    }

    /// The figures of the summary.
    pub(crate) fn figures(&self, harts: &[KindTable], delivered: &Delivered<'_>) -> KindFigures {
        let counted = |name: &str| -> u64 { delivered.ports.iter().map(|port| port.value(name)).sum() };
        let (received, interrupts) = (counted("GPRC"), counted(INTERRUPTS));
        let of_hart = |(hart, table): (u32, &KindTable)| HartKinds {
            hart,
            cycles: table.cycles(),
            kinds: table.costs(delivered),
        };
        let misses: u64 = self.0.iter().map(|sum| sum.cost.llc_misses).sum();
        KindFigures {
            kinds: self.costs(delivered),
            cycles: self.cycles(),
            misses_per_kb: ratio(misses, delivered.bytes as f64 / KB),
            delivered_bytes: delivered.bytes,
            frames_received: received,
            frames_sent: counted("GPTC"),
            interrupts,
            frames_per_interrupt: ratio(received, interrupts),
            interrupts_per_second: ratio(interrupts, delivered.seconds).unwrap_or_default(),
            harts: if harts.len() > 1 { (0..).zip(harts).map(of_hart).collect() } else { Vec::new() },
        }
    }

    /// The kinds that have cycles.
    fn costs(&self, delivered: &Delivered<'_>) -> Vec<KindCost> {
        let all = self.cycles();
        let cost = |sum: &KindSum| KindCost {
            kind: sum.name.clone(),
            meaning: sum.meaning.clone(),
            cycles: sum.cost.cycles,
            share: sum.cost.cycles as f64 / all.max(1) as f64,
            instructions: sum.cost.instructions,
            llc_misses: sum.cost.llc_misses,
            misses_per_kb: ratio(sum.cost.llc_misses, delivered.bytes as f64 / KB),
            unnamed_cycles: sum.unnamed_cycles,
        };
        self.0.iter().filter(|sum| sum.cost != Cost::default()).map(cost).collect()
    }
}

/// CSV with a row per kind.
pub(crate) fn kinds_csv(figures: &KindFigures) -> String {
    let mut out = "kind,cycles,share,instructions,ipc,llc_misses,misses_per_kb,unnamed_cycles\n".to_owned();
    for cost in &figures.kinds {
        let ipc = cost.instructions as f64 / cost.cycles.max(1) as f64;
        let per_kb = cost.misses_per_kb.map_or(String::new(), |misses| format!("{misses:.6}"));
        let KindCost { kind, cycles, share, instructions, llc_misses, unnamed_cycles, .. } = cost;
        out += &format!(
            "{},{cycles},{share:.6},{instructions},{ipc:.4},{llc_misses},{per_kb},{unnamed_cycles}\n",
            csv_field(kind)
        );
    }
    out
}

/// CSV with a row per hart and kind.
pub(crate) fn harts_csv(figures: &KindFigures) -> String {
    let mut out = "hart,kind,cycles,share,instructions,ipc,llc_misses,unnamed_cycles\n".to_owned();
    for of in &figures.harts {
        for KindCost { kind, cycles, share, instructions, llc_misses, unnamed_cycles, .. } in &of.kinds {
            let ipc = *instructions as f64 / (*cycles).max(1) as f64;
            out += &format!(
                "{},{},{cycles},{share:.6},{instructions},{ipc:.4},{llc_misses},{unnamed_cycles}\n",
                of.hart,
                csv_field(kind)
            );
        }
    }
    out
}

/// Heads of a table of functions by kind.
pub(super) const FUNCTION_COLUMNS: &str =
    "kind,program,object,function,cycles,share,instructions,l1i_misses,l1d_misses,l2_misses,llc_misses\n";

/// A row of a function's cost by kind.
pub(super) fn function_row(kind: &str, row: &FunctionCost) -> String {
    let names = [kind, &row.program, &row.object, &row.function].map(csv_field);
    let FunctionCost { cycles, share, instructions, l1i_misses, l1d_misses, l2_misses, llc_misses, .. } = row;
    format!(
        "{},{cycles},{share:.8},{instructions},{l1i_misses},{l1d_misses},{l2_misses},{llc_misses}\n",
        names.join(",")
    )
}

/// Finds blocks' kinds.
pub(super) struct Kinds<'a> {
    pub rules: &'a KindRules,
    pub profile: &'a Profile,
    /// Cache of the rules' results that do not depend on the callers.
    matches: HashMap<(Domain, Place), Match>,
    /// The kind of each call tree node.
    nodes: HashMap<u32, usize>,
}

impl<'a> Kinds<'a> {
    pub fn new(rules: &'a KindRules, profile: &'a Profile) -> Kinds<'a> {
        Kinds { rules, profile, matches: HashMap::new(), nodes: HashMap::new() }
    }

    /// A block's kind, and whether its function has no symbol and matched no rule by name.
    pub fn of(
        &mut self,
        block: &BlockCost,
        place: &Place,
        program: &str,
        places: &mut Places<'_>,
    ) -> (usize, bool) {
        let found = self.classify(block.node, place, program, places);
        let kind = found.kind.unwrap_or_else(|| self.of_node(block.node, program, places));
        (kind, !found.by_name && is_unnamed(place))
    }

    /// The kind of the nearest function that has one, from this node towards the callers.
    fn of_node(&mut self, number: u32, program: &str, places: &mut Places<'_>) -> usize {
        let (mut kind, mut passed) = (None, Vec::new());
        for (at, node) in self.profile.ancestors(number) {
            kind = self.nodes.get(&at).copied();
            if kind.is_none() {
                passed.push(at);
                let place = places.get(node.domain, node.entry).clone();
                kind = self.classify(at, &place, program, places).kind;
            }
            if kind.is_some() {
                break;
            }
        }
        let kind = kind.unwrap_or_else(|| self.rules.other());
        self.nodes.extend(passed.into_iter().map(|node| (node, kind)));
        kind
    }

    /// Applies the rules to a function that runs in this node.
    fn classify(&mut self, node: u32, place: &Place, program: &str, places: &mut Places<'_>) -> Match {
        let domain = self.profile.nodes[node as usize].domain;
        let key = (domain, place.clone());
        if let Some(found) = self.matches.get(&key) {
            return *found;
        }
        let mut depends = false;
        let found = self.rules.classify(Ran { place, program, privilege: mode(domain) }, &mut || {
            depends = true;
            below(self.profile, node, place, places)
        });
        if !depends {
            self.matches.insert(key, found);
        }
        found
    }
}

/// Whether a function has no symbol, and is named by its location only.
fn is_unnamed(place: &Place) -> bool {
    let Place { object, function, .. } = place;
    let begins = function.strip_prefix(object.as_str()).is_some_and(|rest| rest.starts_with("+0x"));
    let bracketed =
        function.starts_with('[') && !["[firmware]", "[vdso]", "[idle]"].contains(&function.as_str());
    begins || bracketed
}
