//! Linux on several harts: all harts run work, CPU hotplug works, and the NIC passes its driver's self-test.
//! Runs are reproducible, also from a checkpoint.

use doorbell_acceptance::long;
use doorbell_acceptance::net_guest::{PATIENCE, boot, run};
use doorbell_machine::{Limits, Machine, Outcome};
use doorbell_sim::Ps;

const WORK: &str = "nproc > /tmp/count
echo \"harts $(cat /tmp/count)\"
cat /proc/interrupts
for hart in $(seq 0 $(($(cat /tmp/count) - 1))); do
    taskset -c $hart sh -c 'seq 1 2000 | sha256sum' > /tmp/sum.$hart &
done
wait
echo \"sums $(cat /tmp/sum.* | sort -u | wc -l)\"
iperf3 -s -D -I /tmp/pid --forceflush > /tmp/server
usleep 100000
iperf3 -c 127.0.0.1 -n 2M -P 4 > /tmp/client && echo 'iperf3 ok'
echo 0 > /sys/devices/system/cpu/cpu1/online && echo \"without one: $(nproc)\"
echo 1 > /sys/devices/system/cpu/cpu1/online && echo \"again: $(nproc)\"
ping -n -q -c 20 -i 0.001 -s 1400 10.0.0.254
grep -E 'procs_running|cpu[0-9]' /proc/stat
";

fn machine(harts: u32, script: &str) -> Machine {
    boot(&[&format!("platform.harts={harts}")], "doorbell.app=ours loglevel=6", script, &[])
}

#[test]
#[ignore = "long: make test-long runs it"]
fn linux_runs_work_on_all_harts_and_supports_hotplug() {
    for harts in [2, 4, 8, 64] {
        let mut machine = machine(harts, WORK);
        let console = run(&mut machine);
        let again = format!("again: {harts}");
        let without = format!("without one: {}", harts - 1);
        let count = format!("harts {harts}");
        for expected in [
            count.as_str(),
            "sums 1",
            "iperf3 ok",
            &without,
            &again,
            "20 received, 0% packet loss",
            "doorbell: exit 0",
        ] {
            assert!(console.contains(expected), "no \"{expected}\" with {harts} harts:\n{console}");
        }
        for hart in machine.harts() {
            assert!(hart.instructions() > 1_000_000, "a hart ran only {} instructions", hart.instructions());
        }
    }
}

#[test]
#[ignore = "long: make test-long runs it"]
fn the_nic_passes_its_drivers_self_test_on_two_harts() {
    let mut machine = boot(&["platform.harts=2"], "doorbell.app=nic-check", "", &[]);
    let console = run(&mut machine);
    assert!(console.contains("nic-check: all ok"), "{console}");
}

#[test]
#[ignore = "long: make test-long runs it"]
fn a_run_on_several_harts_is_reproducible_also_from_a_checkpoint() {
    let end = |mut machine: Machine| {
        run(&mut machine);
        (machine.instructions(), machine.now(), machine.state_hash())
    };
    let straight = end(machine(2, WORK));
    let mut first = machine(2, WORK);
    first.console.watch(Some("doorbell: start ours"));
    assert_eq!(first.run(&Limits { on_marker: true, ..Limits::until(PATIENCE) }), Outcome::Marker);
    first.console.watch(None);
    let middle = first.now() + Ps(1_234_567_891);
    assert_eq!(first.run(&Limits::until(middle)), Outcome::Time);
    let checkpoint = first.checkpoint("net", "test");
    let mut second = Machine::new(first.config().clone(), 1).expect("the machine can be built");
    second.restore(&checkpoint, "net").expect("the checkpoint fits");
    if long() {
        assert_eq!(end(first), straight, "after a stop");
    }
    assert_eq!(end(second), straight, "from the checkpoint");
}
