//! Loops on bare metal cost what the configuration implies; the table in the docs is what they print.

use std::sync::OnceLock;

use doorbell_acceptance::micro::{self, Group, Row};

/// Each group's rows, made once for all tests of this file.
fn rows(heading: &str) -> &'static [Row] {
    static ROWS: [OnceLock<Vec<Row>>; micro::GROUPS.len()] = [const { OnceLock::new() }; micro::GROUPS.len()];
    let place = micro::GROUPS.iter().position(|(name, _): &Group| *name == heading);
    let place = place.unwrap_or_else(|| panic!("there is no group {heading:?}"));
    ROWS[place].get_or_init(micro::GROUPS[place].1)
}

fn check(heading: &str, at_least: usize) {
    let rows = rows(heading);
    assert!(rows.len() >= at_least, "{heading} has {} rows", rows.len());
    let off: Vec<&Row> = rows.iter().filter(|row| !row.holds()).collect();
    assert!(off.is_empty(), "{heading}: {} rows are off their closed form:\n{off:#?}", off.len());
}

#[test]
fn a_chain_of_loads_costs_the_latencies_on_its_way() {
    check("Dependent loads", 22);
}

#[test]
fn a_stream_moves_what_ports_or_miss_registers_or_pins_let_through() {
    check("Streams", 20);
}

#[test]
fn a_page_that_the_tlb_does_not_know_costs_the_second_level_or_a_walk() {
    check("Address translation", 6);
}

#[test]
fn a_chain_of_operations_costs_latencies_and_independent_ones_their_interval() {
    check("Operations", 24);
}

#[test]
fn a_misprediction_costs_redirection_refill_and_resolution() {
    check("Branches", 40);
}

#[test]
fn stores_atomics_fences_and_csrs_cost_their_stages() {
    check("Store queue, atomics, fences, CSRs", 10);
}

#[test]
fn a_register_read_costs_its_round_trip_and_a_posted_write_only_a_credit() {
    check("A NIC's registers", 6);
}

#[test]
fn the_documented_tables_are_those_that_are_printed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/timing-validation.md");
    let document = std::fs::read_to_string(path).expect("docs/timing-validation.md");
    for (heading, _) in micro::GROUPS {
        let table = micro::rows_as_markdown(rows(heading));
        assert!(
            document.contains(&table),
            "{heading}: docs/timing-validation.md is not what `cargo run --release -p doorbell-acceptance --example \
             microbenchmarks` prints"
        );
    }
}
