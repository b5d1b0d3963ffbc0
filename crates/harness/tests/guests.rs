//! Fuzzed guests in whole machines under traffic. Nothing panics, every frame is accounted for, a run in
//! pieces equals an uninterrupted run, and a restored machine continues as the saved one.

use doorbell_harness::guest::{self, Case};
use doorbell_harness::input::Input;
use doorbell_harness::operations::Profile;
use doorbell_harness::sweep;
use doorbell_nic::NicModel;
use doorbell_sim::Ps;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::rng::Rng;
use doorbell_sim::stats::Stats;

#[test]
fn device_accesses_do_not_panic() {
    sweep::random("mmio", 300, (64, 1300), |bytes| guest::run(Profile::Mmio, bytes));
    sweep::seeds("mmio", |bytes| guest::run(Profile::Mmio, bytes));
}

#[test]
fn configuration_space_accesses_do_not_panic() {
    sweep::random("config_space", 200, (64, 1000), |bytes| guest::run(Profile::ConfigSpace, bytes));
    sweep::seeds("config_space", |bytes| guest::run(Profile::ConfigSpace, bytes));
}

#[test]
fn programs_do_not_panic() {
    sweep::random("program", 300, (64, 1000), |bytes| guest::run(Profile::Program, bytes));
    sweep::seeds("guest_program", |bytes| guest::run(Profile::Program, bytes));
}

#[test]
fn disk_requests_do_not_panic() {
    sweep::random("disk", 200, (64, 1300), |bytes| guest::run(Profile::Disk, bytes));
    sweep::seeds("disk", |bytes| guest::run(Profile::Disk, bytes));
}

fn case(profile: Profile, number: u64) -> Case {
    let mut rng = Rng::stream(number, "determinism");
    let bytes: Vec<u8> = (0..700).map(|_| rng.next_u64() as u8).collect();
    Case::new(profile, &mut Input::new(&bytes))
}

#[test]
fn machines_with_the_same_inputs_reach_the_same_state() {
    for number in 0..20 {
        let hashes = [(); 2].map(|()| {
            let mut case = case(Profile::Mmio, number);
            let mut machine = case.build();
            case.run_segments(&mut machine);
            machine.state_hash()
        });
        assert_eq!(hashes[0], hashes[1], "case {number}");
    }
}

#[test]
fn run_in_pieces_of_any_length_equals_one_run() {
    for number in 0..20 {
        let machines = [1u64, 1_001, 333_667, 7_000_000].map(|piece_ns| {
            let mut machine = case(Profile::Mmio, number).build();
            let traffic = machine.config().loadgen.traffic.clone();
            machine.start_traffic(&traffic).unwrap();
            let end = Ps::from_us(20);
            // The shortest pieces only at the start, because they cost the most host time.
            let mut now = Ps::ZERO;
            while now < end {
                let piece = if now < Ps::from_us(1) { Ps(piece_ns * 1_000) } else { Ps::from_us(3) };
                now = Ps((now + piece).0.min(end.0));
                guest::run_to(&mut machine, now, u64::MAX);
            }
            machine
        });
        for machine in &machines[1..] {
            guest::assert_same(&machines[0], machine, "machines stopped at other times differ");
        }
    }
}

/// Checks the coverage of random programs: frames in both directions, interrupts, faults.
#[test]
fn random_guests_exercise_nic_exceptions_and_pci() {
    let (mut delivered, mut sent, mut exceptions, mut accesses, mut unclaimed) = (0, 0, 0, 0, 0);
    for number in 0..80 {
        let mut case = case(Profile::Mmio, number);
        let mut machine = case.build();
        case.run_segments(&mut machine);
        let stats = machine.harts()[0].stats();
        exceptions += stats.exceptions;
        accesses += stats.device_accesses;
        unclaimed += machine.stats().unclaimed_pci_accesses;
        delivered += machine.nics().map(|nic| nic.stats().rx_delivered).sum::<u64>();
        sent += machine.nics().map(|nic| nic.stats().tx_frames).sum::<u64>();
    }
    let reached = [delivered, sent, exceptions, accesses, unclaimed];
    assert!(reached.iter().all(|count| *count > 100), "{reached:?}");
}

/// The same for the other card, whose interrupt causes may have vectors of their own.
#[test]
fn random_guests_exercise_the_82576() {
    let (mut delivered, mut sent, mut interrupts, mut messages) = (0, 0, 0, 0);
    for number in 0..160 {
        let mut case = case(Profile::Mmio, number);
        let mut machine = case.build();
        if machine.config().port(0).nic.model != NicModel::E82576 {
            continue;
        }
        case.run_segments(&mut machine);
        for (nic, (_, attachment)) in machine.nics().zip(machine.attachments()) {
            delivered += nic.stats().rx_delivered;
            sent += nic.stats().tx_frames;
            interrupts += nic.stats().interrupts;
            messages += attachment.stats(DmaPurpose::Interrupt, DmaDirection::Write).requests;
        }
    }
    let reached = [delivered, sent, interrupts, messages];
    assert!(reached.iter().all(|count| *count > 20), "{reached:?}");
}

/// The same for disks: requests of every kind, invalid requests, broken rings.
#[test]
fn random_guests_exercise_the_disks() {
    let mut reached = None;
    for number in 0..400 {
        let mut case = case(Profile::Disk, number);
        let mut machine = case.build();
        case.run_segments(&mut machine);
        for stats in machine.disk_stats() {
            reached = Some(reached.map_or(stats.clone(), |all| stats.plus(&all)));
        }
    }
    let unseen: Vec<&str> =
        reached.unwrap().counters().iter().filter(|c| c.value < 2).map(|c| c.name).collect();
    // The host never fails to read the file.
    assert_eq!(unseen, ["host_failures"]);
}

/// Guests must find the interrupting function, enable its vectors and receive its messages in memory.
#[test]
fn random_guests_receive_interrupt_messages() {
    let (mut messages, mut landed) = (0, 0);
    for number in 0..60 {
        let mut case = case(Profile::ConfigSpace, number);
        let mut machine = case.build();
        case.run_segments(&mut machine);
        for (function, attachment) in
            machine.attachments().filter(|(function, _)| function.network().is_none())
        {
            let sent = attachment.stats(DmaPurpose::Interrupt, DmaDirection::Write).requests;
            messages += sent;
            landed +=
                sent.saturating_sub(function.dma_stats().outside_ram + function.dma_stats().not_bus_master);
        }
    }
    assert!(messages > 100 && landed > 30, "{messages} messages, {landed} of them to memory");
}
