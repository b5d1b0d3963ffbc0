//! Costs by guest function, as a table and as folded stacks.
//!
//! A *program* is the executable observed in an address space; the kernel, the firmware and idling (WFI) are listed
//! like programs. An *object* is the file or module that contains a function. Kinds of CPU time are in
//! [`by_kind`](super::by_kind).

use std::collections::{BTreeMap, HashMap};

use doorbell_machine::{BlockCost, Cost, Domain, Profile};
use doorbell_results::FunctionCost;
use doorbell_sim::PhysAddr;
use doorbell_symbols::{Mode, Place};

use super::by_kind::{FUNCTION_COLUMNS, KindTable, Kinds, function_row};
use super::kinds::KindRules;
use super::names::Names;

/// Rows of the table in the summary.
pub const TABLE_ROWS: usize = 40;

/// All functions of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionTable {
    /// Every function, the most expensive first.
    pub functions: Vec<FunctionCost>,
    /// All cycles by kind.
    pub kinds: KindTable,
    /// Cycles of each hart by kind.
    pub kinds_of_harts: Vec<KindTable>,
    by_kind: Vec<(String, FunctionCost)>,
    by_hart: Vec<(u32, String, FunctionCost)>,
    stacks: BTreeMap<String, u64>,
}

/// A function's full name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionName {
    program: String,
    object: String,
    function: String,
}

/// Costs of functions by kind.
type Rows = BTreeMap<FunctionName, BTreeMap<usize, Cost>>;

/// Symbol look-ups of executed code, cached.
pub(super) struct Places<'a> {
    symbols: &'a mut dyn Names,
    known: HashMap<(u64, bool), Place>,
}

pub(super) fn mode(domain: Domain) -> Mode {
    match domain {
        Domain::Firmware => Mode::Firmware,
        Domain::Kernel => Mode::Kernel,
        Domain::User(_) => Mode::User,
    }
}

impl Places<'_> {
    pub(super) fn get(&mut self, domain: Domain, [virt, phys]: [u64; 2]) -> &Place {
        let symbols = &mut self.symbols;
        let user = matches!(domain, Domain::User(_));
        self.known.entry((phys, user)).or_insert_with(|| symbols.place(mode(domain), virt, PhysAddr(phys)))
    }
}

impl FunctionTable {
    /// Sums a profile up by function and by kind.
    pub fn new(profile: &Profile, symbols: &mut dyn Names, rules: &KindRules) -> FunctionTable {
        let mut places = Places { symbols, known: HashMap::new() };
        let programs = programs(profile, &mut places);
        let program = |domain: Domain| match domain {
            Domain::Firmware => "firmware",
            Domain::Kernel => "kernel",
            Domain::User(space) => &programs[&space],
        };
        let (mut rows, mut rows_of_harts) = (Rows::new(), vec![Rows::new(); profile.harts.len()]);
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        let (mut kinds, mut finder) = (KindTable::new(rules), Kinds::new(rules, profile));
        let mut kinds_of_harts = vec![KindTable::new(rules); profile.harts.len()];
        let mut add = |hart: usize, name: FunctionName, kind: usize, unnamed: bool, cost: &Cost| {
            for (kinds, rows) in
                [(&mut kinds, &mut rows), (&mut kinds_of_harts[hart], &mut rows_of_harts[hart])]
            {
                kinds.add(kind, unnamed, cost);
                rows.entry(name.clone()).or_default().entry(kind).or_default().add(cost);
            }
        };
        for block in &profile.blocks {
            let domain = profile.nodes[block.node as usize].domain;
            let program = program(domain);
            let place = places.get(domain, [block.pc, block.fetch.0]).clone();
            let (kind, unnamed) = finder.of(block, &place, program, &mut places);
            let stack = stack(profile, block, program, &place, &mut places);
            *stacks.entry(stack).or_default() += block.cost.cycles;
            let Place { object, function, .. } = place;
            let name = FunctionName { program: program.to_owned(), object, function };
            add(block.hart as usize, name, kind, unnamed, &block.cost);
        }
        for (hart, idle) in
            profile.harts.iter().map(|hart| hart.idle).enumerate().filter(|(_, idle)| *idle > 0)
        {
            let cost = Cost { cycles: idle, ..Cost::default() };
            let [program, object, function] = ["idle", "idle", "[idle]"].map(str::to_owned);
            add(hart, FunctionName { program, object, function }, rules.idle(), false, &cost);
            *stacks.entry("idle".into()).or_default() += idle;
        }
        assert_eq!(kinds.cycles(), profile.watched_cycles(), "each cycle is of one kind");
        for (of, hart) in kinds_of_harts.iter().zip(&profile.harts) {
            assert_eq!(of.cycles(), hart.watched, "each cycle of a hart is of one kind");
        }
        let mut functions = Vec::new();
        for (name, costs) in &rows {
            let mut sum = Cost::default();
            costs.values().for_each(|cost| sum.add(cost));
            functions.push(function_cost(name, &sum, profile.watched_cycles()));
        }
        // Stable: functions with equal cycles stay in alphabetical order.
        functions.sort_by_key(|function| std::cmp::Reverse(function.cycles));
        let by_kind = sorted_by_kind(rows, &kinds, profile.watched_cycles());
        let by_hart = (0..).zip(rows_of_harts).zip(&profile.harts).flat_map(|((hart, rows), cycles)| {
            let rows = sorted_by_kind(rows, &kinds, cycles.watched);
            rows.into_iter().map(move |(kind, row)| (hart, kind, row))
        });
        FunctionTable { functions, by_kind, by_hart: by_hart.collect(), kinds, kinds_of_harts, stacks }
    }

    /// Every function by kind, as CSV.
    pub fn functions_csv(&self) -> String {
        let rows = self.by_kind.iter().map(|(kind, row)| function_row(kind, row));
        std::iter::once(FUNCTION_COLUMNS.to_owned()).chain(rows).collect()
    }

    /// The same per hart, if there are several.
    pub fn functions_of_harts_csv(&self) -> Option<String> {
        let rows = self.by_hart.iter().map(|(hart, kind, row)| format!("{hart},{}", function_row(kind, row)));
        let lines = std::iter::once(format!("hart,{FUNCTION_COLUMNS}")).chain(rows);
        (self.kinds_of_harts.len() > 1).then(|| lines.collect())
    }

    /// Folded stacks for flame graph tools: frames from the program to the function, then cycles.
    pub fn folded(&self) -> String {
        let lines = self.stacks.iter().filter(|(_, cycles)| **cycles > 0);
        lines.map(|(stack, cycles)| format!("{stack} {cycles}\n")).collect()
    }
}

/// Every function's costs by kind, the most expensive first.
fn sorted_by_kind(rows: Rows, kinds: &KindTable, all_cycles: u64) -> Vec<(String, FunctionCost)> {
    let each = |(name, costs): (FunctionName, BTreeMap<usize, Cost>)| {
        let row = |(kind, cost): (usize, Cost)| {
            (kinds.name(kind).to_owned(), function_cost(&name, &cost, all_cycles))
        };
        costs.into_iter().map(row).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = rows.into_iter().flat_map(each).collect();
    all.sort_by_key(|(_, function)| std::cmp::Reverse(function.cycles));
    all
}

fn function_cost(name: &FunctionName, cost: &Cost, all_cycles: u64) -> FunctionCost {
    FunctionCost {
        program: name.program.clone(),
        object: name.object.clone(),
        function: name.function.clone(),
        cycles: cost.cycles,
        share: cost.cycles as f64 / all_cycles.max(1) as f64,
        instructions: cost.instructions,
        l1i_misses: cost.l1i_misses,
        l1d_misses: cost.l1d_misses,
        l2_misses: cost.l2_misses,
        llc_misses: cost.llc_misses,
    }
}

/// The program of each address space: the executable with the most cycles in it, or else the file with the most.
fn programs(profile: &Profile, places: &mut Places) -> BTreeMap<u16, String> {
    let mut objects: BTreeMap<u16, BTreeMap<(bool, String), u64>> = BTreeMap::new();
    for block in &profile.blocks {
        let domain = profile.nodes[block.node as usize].domain;
        if let Domain::User(space) = domain {
            let place = places.get(domain, [block.pc, block.fetch.0]);
            let key = (place.is_program, place.object.clone());
            *objects.entry(space).or_default().entry(key).or_default() += block.cost.cycles;
        }
    }
    let most_expensive = |objects: BTreeMap<(bool, String), u64>| {
        let best = objects.into_iter().max_by_key(|((is_program, _), cycles)| (*is_program, *cycles));
        best.map_or_else(String::new, |((_, object), _)| object)
    };
    objects.into_iter().map(|(space, objects)| (space, most_expensive(objects))).collect()
}

/// The callers of a function that runs in a node, the nearest first. A function reached by a jump counts as called by
/// the function that jumped.
pub(super) fn below(profile: &Profile, number: u32, place: &Place, places: &mut Places<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for (at, node) in profile.ancestors(number) {
        let name = &places.get(node.domain, node.entry).function;
        // The node's own function is the running one, unless it has jumped to another function.
        if at != number || *name != place.function {
            names.push(name.clone());
        }
    }
    names
}

/// The folded stack of a block.
fn stack(profile: &Profile, block: &BlockCost, program: &str, leaf: &Place, places: &mut Places) -> String {
    let below = below(profile, block.node, leaf, places);
    let frames =
        [program].into_iter().chain(below.iter().rev().map(|name| &name[..])).chain([&leaf.function[..]]);
    frames.map(frame).collect::<Vec<String>>().join(";")
}

/// A name as a frame of a folded stack; `;` separates frames.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
