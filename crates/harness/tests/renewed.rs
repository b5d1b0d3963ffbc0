//! A machine in the memory of another one is a new one.

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

/// All of the state, and what the state leaves out: how much was decoded and walked.
fn seen(machine: &Machine) -> impl PartialEq + std::fmt::Debug + Send + use<> {
    let harts: Vec<_> = machine.harts().iter().map(|hart| hart.stats()).collect();
    let touched: Vec<u64> = machine.ram().touched_pages().collect();
    (machine.section_hashes(), machine.state_hash(), format!("{harts:?}"), touched)
}

/// A case's machine at the start and after its run.
fn run(mut case: Case) -> [impl PartialEq + std::fmt::Debug + Send + use<>; 2] {
    let mut machine = case.build();
    let start = seen(&machine);
    case.run_segments(&mut machine);
    [start, seen(&machine)]
}

#[test]
fn a_machine_in_the_memory_of_another_is_as_new() {
    for number in 0..120 {
        // Each thread begins without any machines that are done with.
        let new = std::thread::spawn(move || run(case(number, "later"))).join().unwrap();
        run(case(number, "earlier"));
        assert_eq!(run(case(number, "later")), new, "case {number}");
    }
}
