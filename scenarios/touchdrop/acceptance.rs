//! Frames arrive in memory, none returns, and lost frames have a cause.

use doorbell_acceptance::programs::{measured_twice, median, prepared};
use doorbell_acceptance::{quiet, run_point};
use doorbell_sim::Bytes;

#[test]
fn touchdrop_delivers_frames_into_memory_and_sends_none() {
    let session = prepared("touchdrop", &["nic.rx_fifo=16KiB", "run.warmup=300us"]);
    let point = measured_twice(&session, 256);
    let port = &point.machine.ports()[0];
    assert_eq!(port.link_out.stats().frames, 0);
    assert_eq!(port.loadgen.stats().returned, point.machine.nic(0).stats().rx_delivered);
    // The latency is one-way, so it is less than a round trip.
    let one_way = median(&point);
    assert!(one_way > 500.0 && one_way < 1_500.0, "{one_way} ns");
    // Under overload the lost frames are those that the NIC dropped.
    let rate = "25Mpps".parse().expect("a rate");
    let point =
        quiet(|control| run_point(&session, rate, Bytes(256), control)).expect("the program runs").summary;
    let drops = point.drops.dma + point.drops.core + point.drops.tx;
    assert!(point.drop_rate > 0.1, "{}", point.drop_rate);
    assert_eq!(point.drops.guest, 0);
    // Frames of the window may be dropped shortly after it, and earlier frames within it.
    let lost = point.frames_offered - point.frames_delivered;
    assert!(drops.abs_diff(lost) < lost / 50, "{drops} dropped, {lost} lost");
}
