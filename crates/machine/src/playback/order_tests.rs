//! Harts of a merged trace that progress at different speeds: each waits for writes of its own devices only.

use doorbell_trace::system::{TraceFile, merge};

use super::observe_tests::merged;
use super::tests::{config, folder, played, polling, rate};
use super::*;

#[test]
fn harts_of_a_merged_trace_wait_only_for_their_own_devices() {
    let folder = folder();
    let [slow, fast, both] = ["slow", "fast", "both"].map(|name| folder.path().join(name));
    let traces = [polling(&slow, 40, 2000, 1, true), polling(&fast, 40, 0, 1, true)];
    let machine = config(&["platform.harts=2", "platform.nics=2", "pcie.link_latency=1us"]);
    let [slow_too, fast_one] = traces;
    let alone = played(&machine, &Plan::of(fast_one).with_neighbour(slow_too)).played();
    assert!(alone.devices.waits >= 40, "{:?}", alone.devices);

    // The slow part's events precede the fast part's in the file, and most of its instructions are left when
    // the fast part ends.
    let files = [slow, fast].map(|path| TraceFile::open(&path).unwrap());
    merge(&files, &both).unwrap();
    let merged = Plan::of(TraceInput::own(TraceFile::open(&both).unwrap()));
    let merged = played(&machine, &merged).played();
    assert_eq!(merged.devices.frames_in, 80);
    assert!(merged.devices.waits >= 80, "{:?}", merged.devices);
    let [slow, fast, alone] =
        [&merged.cores[0], &merged.cores[1], &alone.cores[0]].map(|core| core.0.number());
    assert!(fast < slow && fast.abs_diff(alone) * 100 < fast, "{slow} {fast} {alone}");
}

#[test]
fn frames_of_merged_parts_do_not_delay_each_other_at_a_rate() {
    let folder = folder();
    let [short, long, both] = ["short", "long", "both"].map(|name| folder.path().join(name));
    // At a rate, a frame of the second trace takes as long as hundreds of frames of the first.
    let traces = [polling(&short, 400, 3, 1, true), polling(&long, 20, 4000, 1, true)];
    let alone = traces.map(|trace| played(&config(&[]), &Plan::of(trace).at_pace(rate("2Mpps"))).played());
    assert_eq!(alone[0].devices.frames_dropped, 0, "{:?}", alone[0].devices);
    let files = [short, long].map(|path| TraceFile::open(&path).unwrap());
    merge(&files, &both).unwrap();
    let machine = config(&["platform.harts=2", "platform.nics=2"]);
    let merged = Plan::of(TraceInput::own(TraceFile::open(&both).unwrap())).at_pace(rate("2Mpps"));
    let merged = played(&machine, &merged).played();
    assert_eq!(merged.devices.frames_in, 420);
    assert!(merged.devices.frames_dropped <= alone[1].devices.frames_dropped, "{:?}", merged.devices);
    let [now, alone] = [merged.cores[0].0, alone[0].cores[0].0].map(CoreCycle::number);
    assert!(now.abs_diff(alone) * 50 < alone, "{now} {alone}");
}

#[test]
fn merged_parts_may_use_the_same_register_addresses() {
    let folder = folder();
    let trace = merged(folder.path(), [40, 41]);
    let cycles = ["1us", "20us"].map(|latency| {
        let slow = format!("port.1.pcie.link_latency={latency}");
        let machine =
            config(&["platform.harts=2", "platform.nics=2", "pipeline.device_stores=ordered", &slow]);
        let played = played(&machine, &Plan::of(trace.clone())).played();
        [played.cores[0].0, played.cores[1].0].map(CoreCycle::number)
    });
    let [before, behind] = cycles.map(|cycles| cycles[0]);
    assert!(
        before.abs_diff(behind) * 100 < before,
        "the first part does not use the second port: {cycles:?}"
    );
    assert!(cycles[1][1] > 2 * cycles[0][1], "{cycles:?}");
}
