//! A machine built in the memory of another one equals a new one.

use doorbell_harness::guest::Case;
use doorbell_harness::input::Input;
use doorbell_harness::operations::Profile;
use doorbell_machine::Machine;
use doorbell_sim::rng::Rng;

fn case(number: u64, stream: &str) -> Case {
    let mut rng = Rng::stream(number, stream);
    let profile =
        [Profile::Mmio, Profile::ConfigSpace, Profile::Disk, Profile::Program][rng.below(4) as usize];
    let bytes: Vec<u8> = (0..600).map(|_| rng.next_u64() as u8).collect();
    Case::new(profile, &mut Input::new(&bytes))
}

/// The complete state, and state outside of snapshots: decoding and page-walk statistics.
fn full_state(machine: &Machine) -> impl PartialEq + std::fmt::Debug + Send + use<> {
    let harts: Vec<_> = machine.harts().iter().map(|hart| hart.stats()).collect();
    let touched: Vec<u64> = machine.ram().touched_pages().collect();
    (machine.section_hashes(), machine.state_hash(), format!("{harts:?}"), touched)
}

/// A case's machine at the start and after its run.
fn run(mut case: Case) -> [impl PartialEq + std::fmt::Debug + Send + use<>; 2] {
    let mut machine = case.build();
    let start = full_state(&machine);
    case.run_segments(&mut machine);
    [start, full_state(&machine)]
}

#[test]
fn machine_in_reused_memory_equals_a_new_one() {
    for number in 0..120 {
        // A new thread starts with an empty pool.
        let new = std::thread::spawn(move || run(case(number, "later"))).join().unwrap();
        run(case(number, "earlier"));
        assert_eq!(run(case(number, "later")), new, "case {number}");
    }
}
