//! Costs by guest function, as a table and as folded stacks.
//!
//! A *program* is what an address space was seen to run; the kernel, the firmware and idling (WFI) stand beside the programs. An
//! *object* is the file or module that a function is of.

use std::collections::{BTreeMap, HashMap};

use doorbell_machine::{BlockCost, Cost, Domain, Profile};
use doorbell_results::FunctionCost;
use doorbell_sim::PhysAddr;
use doorbell_symbols::{Mode, Place};

use super::names::Names;

/// Rows of the table in the summary.
pub const TABLE_ROWS: usize = 40;

/// All functions of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionTable {
    /// Every function, the most expensive first.
    pub functions: Vec<FunctionCost>,
    stacks: BTreeMap<String, u64>,
}

/// The places of what was executed, each looked up once.
struct Places<'a> {
    symbols: &'a mut dyn Names,
    known: HashMap<(u64, bool), Place>,
}

fn mode(domain: Domain) -> Mode {
    match domain {
        Domain::Firmware => Mode::Firmware,
        Domain::Kernel => Mode::Kernel,
        Domain::User(_) => Mode::User,
    }
}

impl Places<'_> {
    fn get(&mut self, domain: Domain, [virt, phys]: [u64; 2]) -> &Place {
        let symbols = &mut self.symbols;
        let user = matches!(domain, Domain::User(_));
        self.known.entry((phys, user)).or_insert_with(|| symbols.place(mode(domain), virt, PhysAddr(phys)))
    }
}

impl FunctionTable {
    /// Sums a profile up by function.
    pub fn new(profile: &Profile, symbols: &mut dyn Names) -> FunctionTable {
        let mut places = Places { symbols, known: HashMap::new() };
        let programs = programs(profile, &mut places);
        let program = |domain: Domain| match domain {
            Domain::Firmware => "firmware",
            Domain::Kernel => "kernel",
            Domain::User(space) => &programs[&space],
        };
        let mut rows: BTreeMap<(String, String, String), Cost> = BTreeMap::new();
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        for block in &profile.blocks {
            let domain = profile.nodes[block.node as usize].domain;
            let place = places.get(domain, [block.pc, block.fetch.0]).clone();
            let stack = stack(profile, block, program(domain), &place, &mut places);
            *stacks.entry(stack).or_default() += block.cost.cycles;
            rows.entry((program(domain).to_owned(), place.object, place.function))
                .or_default()
                .add(&block.cost);
        }
        if profile.idle_cycles > 0 {
            let cost = Cost { cycles: profile.idle_cycles, ..Cost::default() };
            rows.insert(("idle".into(), "idle".into(), "[idle]".into()), cost);
            stacks.insert("idle".into(), profile.idle_cycles);
        }
        let total: u64 = rows.values().map(|cost| cost.cycles).sum();
        let row = |((program, object, function), cost): ((String, String, String), Cost)| FunctionCost {
            program,
            object,
            function,
            cycles: cost.cycles,
            share: cost.cycles as f64 / total.max(1) as f64,
            instructions: cost.instructions,
            l1i_misses: cost.l1i_misses,
            l1d_misses: cost.l1d_misses,
            l2_misses: cost.l2_misses,
            llc_misses: cost.llc_misses,
        };
        let mut functions: Vec<FunctionCost> = rows.into_iter().map(row).collect();
        // Stable: of equals the first in the alphabet stays the first.
        functions.sort_by_key(|function| std::cmp::Reverse(function.cycles));
        FunctionTable { functions, stacks }
    }

    /// Folded stacks, as tools for flame graphs read them: frames from the program to the function, then cycles.
    pub fn folded(&self) -> String {
        let lines = self.stacks.iter().filter(|(_, cycles)| **cycles > 0);
        lines.map(|(stack, cycles)| format!("{stack} {cycles}\n")).collect()
    }
}

/// The program of each address space: of the files seen in it that are programs the most expensive, or else of all.
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

/// The frames of a block. A function that was jumped to stands above the one that it was jumped to from.
fn stack(profile: &Profile, block: &BlockCost, program: &str, leaf: &Place, places: &mut Places) -> String {
    let mut frames = vec![frame(&leaf.function)];
    let mut number = block.node;
    let mut node = profile.nodes[number as usize];
    while node.parent != number {
        let name = frame(&places.get(node.domain, node.entry).function);
        // The leaf is the function that was called last, unless that went on elsewhere by a jump.
        if frames.len() > 1 || frames[0] != name {
            frames.push(name);
        }
        (number, node) = (node.parent, profile.nodes[node.parent as usize]);
    }
    frames.push(frame(program));
    frames.reverse();
    frames.join(";")
}

/// A name as a frame: `;` parts frames.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
