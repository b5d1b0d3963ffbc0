//! Harts that drift apart: each waits for what its own devices write, however far another has come.

use doorbell_trace::system::{TraceFile, merge};

use super::tests::{config, folder, played, polling};
use super::*;

#[test]
fn a_merged_traces_harts_wait_for_their_own_devices_as_beside_each_other() {
    let folder = folder();
    let [slow, fast, both] = ["slow", "fast", "both"].map(|name| folder.path().join(name));
    let traces = [polling(&slow, 40, 2000, 1, true), polling(&fast, 40, 0, 1, true)];
    let machine = config(&["platform.harts=2", "platform.nics=2", "pcie.link_latency=1us"]);
    let [slow_too, fast_one] = traces;
    let alone = played(&machine, &Plan::of(fast_one).beside(slow_too)).played();
    assert!(alone.devices.waits >= 40, "{:?}", alone.devices);

    // The slow one's events stand before the fast one's in the file, and most of its instructions are still to come when that is over.
    let files = [slow, fast].map(|path| TraceFile::open(&path).unwrap());
    merge(&files, &both).unwrap();
    let merged = Plan::of(TraceInput::own(TraceFile::open(&both).unwrap()));
    let merged = played(&machine, &merged).played();
    assert_eq!(merged.devices.frames_in, 80);
    assert!(merged.devices.waits >= 80, "{:?}", merged.devices);
    let [slow, fast, alone] = [&merged.cores[0], &merged.cores[1], &alone.cores[0]].map(|core| core.0);
    assert!(fast < slow && fast.abs_diff(alone) * 100 < fast, "{slow} {fast} {alone}");
}
