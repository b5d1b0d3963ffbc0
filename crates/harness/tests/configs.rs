//! Random configurations, traffic files and traces.

use doorbell_harness::{capture, champsim, config, streams, sweep, trace};

#[test]
fn configuration_is_refused_by_key_or_runs() {
    sweep::random("configs", 3000, (16, 96), config::run);
    sweep::seeds("config", config::run);
}

#[test]
fn traffic_file_is_refused_by_name_or_runs_and_restores() {
    sweep::random("streams", 1500, (16, 200), streams::run);
    sweep::seeds("streams", streams::run);
}

#[test]
fn capture_is_refused_by_name_or_sent() {
    sweep::random("captures", 600, (16, 200), capture::run);
    sweep::seeds("capture", capture::run);
}

#[test]
fn champsim_trace_is_refused_by_name_or_converted() {
    sweep::random("traces", 2000, (16, 600), champsim::run);
    sweep::seeds("champsim", champsim::run);
}

#[test]
fn doorbell_trace_is_refused_or_supports_all_operations() {
    sweep::random("own traces", 300, (16, 600), trace::run);
    sweep::random("drmemtrace", 300, (16, 600), trace::drmemtrace::run);
    sweep::seeds("trace", trace::run);
}
