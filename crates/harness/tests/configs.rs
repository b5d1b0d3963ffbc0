//! Configurations, traffic files and traces that nobody tried.

use doorbell_harness::{capture, champsim, config, streams, sweep, trace};

#[test]
fn a_configuration_is_refused_by_key_or_runs() {
    sweep::random("configs", 3000, (16, 96), config::run);
    sweep::seeds("config", config::run);
}

#[test]
fn a_traffic_file_is_refused_by_name_or_sends_and_goes_on_from_a_checkpoint() {
    sweep::random("streams", 1500, (16, 200), streams::run);
    sweep::seeds("streams", streams::run);
}

#[test]
fn a_capture_is_refused_by_name_or_sent() {
    sweep::random("captures", 600, (16, 200), capture::run);
    sweep::seeds("capture", capture::run);
}

#[test]
fn a_trace_is_refused_by_name_or_becomes_ops() {
    sweep::random("traces", 2000, (16, 600), champsim::run);
    sweep::seeds("champsim", champsim::run);
}

#[test]
fn a_trace_of_our_own_is_refused_or_can_be_read_cut_merged_and_played() {
    sweep::random("own traces", 300, (16, 600), trace::run);
    sweep::random("drmemtrace", 300, (16, 600), trace::drmemtrace::run);
    sweep::seeds("trace", trace::run);
}
