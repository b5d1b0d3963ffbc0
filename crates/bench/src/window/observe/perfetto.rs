//! A timeline in Chrome's trace event JSON, which Perfetto opens: a process per port, a track per stage and a slice per
//! packet. A stage in which packets overlap has as many tracks as concurrent packets. The cores' instructions per cycle
//! and idle time are counters with a point per microsecond. Time is in microseconds, exact to the picosecond, from the
//! due time of the first packet.

use std::fmt::Write;

use doorbell_loadgen::{PacketStamps, STAGES};
use doorbell_machine::Activity;
use doorbell_sim::Ps;
use serde_json::json;

/// Track numbers reserved per stage.
const LANES: usize = 10_000;
/// Length of the timeline without packets.
const EMPTY_TIMELINE: Ps = Ps::from_ms(1);
/// Process number of the cores' counters.
const CORES: usize = 1_000;

/// Microseconds, exactly.
fn micros(time: Ps) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}

/// The text of a timeline.
pub fn perfetto(ports: &[Vec<PacketStamps>], activity: &[Activity]) -> String {
    let times = || ports.iter().flatten().flat_map(|packet| packet.times);
    // Frames that do not return, such as requests, have no stages; the timeline then has only the cores.
    let measured = activity.first().map_or(Ps::ZERO, |activity| activity.begin);
    let begin = times().min().unwrap_or(measured);
    let end = times().max().unwrap_or(measured + EMPTY_TIMELINE);
    let mut events = Vec::new();
    for (port, packets) in ports.iter().enumerate().filter(|(_, packets)| !packets.is_empty()) {
        name("process_name", port + 1, 0, &format!("packets of port {port}"), &mut events);
        for (number, stage) in STAGES.iter().enumerate() {
            stage_tracks(port + 1, number, stage.name, packets, begin, &mut events);
        }
    }
    if !activity.is_empty() {
        name("process_name", CORES, 0, "cores", &mut events);
    }
    for (hart, activity) in activity.iter().enumerate() {
        counters(hart, activity, begin, end, &mut events);
    }
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
}

fn name(what: &str, pid: usize, tid: usize, name: &str, events: &mut Vec<String>) {
    events.push(json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}).to_string());
}

/// A stage's slices, on the smallest number of tracks without overlap.
fn stage_tracks(
    pid: usize,
    stage: usize,
    title: &str,
    packets: &[PacketStamps],
    begin: Ps,
    events: &mut Vec<String>,
) {
    let mut slices: Vec<(Ps, Ps, &PacketStamps)> =
        packets.iter().map(|packet| (packet.times[stage], packet.times[stage + 1], packet)).collect();
    slices.sort_by_key(|(from, to, packet)| (*from, *to, packet.sequence));
    let mut lanes: Vec<Ps> = Vec::new();
    for (from, to, &PacketStamps { sequence, queues, hart, .. }) in slices {
        let free = lanes.iter().position(|until| *until <= from);
        let lane = free.unwrap_or(lanes.len());
        let tid = (stage + 1) * LANES + lane;
        if free.is_none() {
            lanes.push(Ps::ZERO);
            name("thread_name", pid, tid, &format!("{:02} {title}", stage + 1), events);
            let sort = json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}});
            events.push(sort.to_string());
        }
        lanes[lane] = to;
        let mut event = String::new();
        let _ = write!(
            event,
            "{{\"ph\":\"X\",\"name\":\"packet {sequence}\",\"cat\":\"{title}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\
             \"args\":{{\"packet\":{sequence},\"stage\":{},\"rx_queue\":{},\"tx_queue\":{}{}}}}}",
            micros(from - begin),
            micros(to - from),
            stage + 1,
            queues[0],
            queues[1],
            hart.map(|hart| format!(",\"hart\":{hart}")).unwrap_or_default()
        );
        events.push(event);
    }
}

/// A hart's counters between the first and the last packet time.
fn counters(hart: usize, activity: &Activity, begin: Ps, end: Ps, events: &mut Vec<String>) {
    let mut at = activity.begin;
    for (instructions, idle) in &activity.steps {
        if at >= begin && at <= end {
            let cycles = activity.step_cycles as f64;
            let ts = micros(at - begin);
            let [ipc, idle] = [*instructions as f64 / cycles, 100.0 * *idle as f64 / cycles];
            for (name, value) in [("IPC", ipc), ("idle %", idle)] {
                events.push(format!(
                    "{{\"ph\":\"C\",\"name\":\"hart{hart} {name}\",\"pid\":{CORES},\"tid\":0,\"ts\":{ts},\"args\":{{\"{name}\":{value:.4}}}}}"
                ));
            }
        }
        at += activity.step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_packets_get_separate_tracks_and_times_are_exact() {
        let packet = |sequence, due: u64| {
            let times = std::array::from_fn(|stage| Ps(due + 1_000_001 * stage as u64));
            PacketStamps { sequence, times, queues: [3, 2], hart: Some(1) }
        };
        let packets = vec![packet(1, 5_000_000), packet(2, 5_500_000), packet(3, 6_000_001)];
        let trace: serde_json::Value = serde_json::from_str(&perfetto(&[packets], &[])).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        let track = |packet: u64| {
            let slice = events.iter().find(|event| event["args"]["packet"] == packet).expect("a slice");
            (slice["tid"].as_u64().expect("a number"), slice["ts"].as_f64(), slice["dur"].as_f64())
        };
        let args = &events.iter().find(|event| event["args"]["packet"] == 1).expect("a slice")["args"];
        assert_eq!(args, &json!({"packet": 1, "stage": 1, "rx_queue": 3, "tx_queue": 2, "hart": 1}));
        assert_eq!(track(1), (10_000, Some(0.0), Some(1.000001)));
        assert_eq!(track(2), (10_001, Some(0.5), Some(1.000001)));
        // The first packet's track becomes free at this time.
        assert_eq!(track(3), (10_000, Some(1.000001), Some(1.000001)));
        let names = events.iter().filter(|event| event["name"] == "thread_name").count();
        assert_eq!(names, 2 * STAGES.len());
    }
}
