//! Invariants of every result, on any machine: shares are in [0, 1], counts are not negative, and parts sum
//! to their whole. They are checked on the JSON that users read.

use serde_json::Value;

/// Names of shares that have no affix of shares.
const SHARES: [&str; 9] = [
    "forwarded_loads",
    "network_loads",
    "prefetch_accuracy",
    "software_prefetches_dropped",
    "used_by_core",
    "overwritten",
    "saturation",
    "saturation_is_bound",
    "most_saturated",
];
/// Suffixes of the names of shares.
const SUFFIXES: [&str; 4] = ["share", "_rate", "_busy", "_use"];
/// Groups whose shares sum to one, or to zero without cycles.
const TOP_DOWN: [&str; 2] = ["top-down", "top-down, level 2"];
/// Relative tolerance of floating-point comparisons.
const CLOSE: f64 = 1e-9;

/// Returns the violated invariants of one point of a summary; empty if it is consistent.
pub fn violations(point: &Value) -> Vec<String> {
    let mut violations = Vec::new();
    walk(point, &mut String::new(), &mut violations);
    losses(point, &mut violations);
    latencies(point, "", &mut violations);
    cores(point, &mut violations);
    queues(point, &mut violations);
    violations
}

fn is_share(name: &str) -> bool {
    SHARES.contains(&name) || SUFFIXES.iter().any(|end| name.ends_with(end)) || name.starts_with("from_")
}

/// Checks that no number is negative and that no share exceeds one.
fn walk(value: &Value, path: &mut String, violations: &mut Vec<String>) {
    let mut deeper = |name: &str, value: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(name);
        walk(value, path, violations);
        path.truncate(length);
    };
    match value {
        Value::Object(parts) => parts.iter().for_each(|(name, value)| deeper(name, value)),
        Value::Array(parts) => parts.iter().enumerate().for_each(|(n, value)| deeper(&n.to_string(), value)),
        Value::Number(number) => {
            let number = number.as_f64().expect("JSON has no other numbers");
            let name = path.rsplit('/').next().expect("a path has a last part");
            let in_shares = path.contains("/top-down") || is_share(name);
            // The confidence interval of a share may exceed one.
            let most =
                if in_shares && !path.contains("/confidence_95/") { 1.0 + CLOSE } else { f64::INFINITY };
            if !(0.0..=most).contains(&number) {
                violations.push(format!("{path} is {number}"));
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("no {name} in {of}"))
}

/// Checks that the drop causes sum to the lost frames, and that the offered rate matches the offered frames.
fn losses(point: &Value, violations: &mut Vec<String>) {
    let lost = number(point, "frames_offered") - number(point, "frames_delivered");
    let named: u64 = crate::dropped(&point["drops"]);
    let named = named as f64 + number(point, "frames_corrupt") + number(point, "frames_late");
    if named != lost {
        violations.push(format!("{lost} frames were lost, but {named} have a cause: {}", point["drops"]));
    }
    let (carried, offered) = (number(point, "offered_mpps"), number(point, "frames_offered"));
    let seconds = number(point, "simulated_seconds");
    if (carried * 1e6 * seconds - offered).abs() > CLOSE * offered {
        violations.push(format!("{carried} Mpps in {seconds} s are not {offered} frames"));
    }
}

/// Checks that percentiles increase, and that the mean is between the minimum and the maximum.
fn latencies(value: &Value, path: &str, violations: &mut Vec<String>) {
    match value {
        Value::Object(parts) => {
            let order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
            let found: Vec<f64> = order.iter().filter_map(|name| parts.get(*name)?.as_f64()).collect();
            let sorted = found.windows(2).all(|pair| pair[0] <= pair[1]);
            let bounds = ["min", "mean", "max"].map(|name| parts.get(name).and_then(Value::as_f64));
            let within = match bounds {
                [Some(min), Some(mean), Some(max)] => min <= mean + CLOSE * mean && mean <= max + CLOSE * max,
                _ => true,
            };
            let is_distribution = sorted && within;
            if !path.contains("confidence_95") && !is_distribution {
                violations.push(format!("{path} is not a distribution: {value}"));
            }
            parts.iter().for_each(|(name, value)| latencies(value, &format!("{path}/{name}"), violations));
        }
        Value::Array(parts) => {
            parts
                .iter()
                .enumerate()
                .for_each(|(n, value)| latencies(value, &format!("{path}/{n}"), violations));
        }
        _ => {}
    }
}

/// Checks that CPI stacks sum to each core's cycles, and that the cores sum to the machine.
fn cores(point: &Value, violations: &mut Vec<String>) {
    let Some(timing) = point.get("timing").filter(|timing| timing.is_object()) else { return };
    let empty = Vec::new();
    let cores = point["cores"].as_array().unwrap_or(&empty);
    for (of, groups) in
        std::iter::once(("all", timing)).chain(cores.iter().map(|core| ("a core", &core["figures"])))
    {
        for name in TOP_DOWN {
            let sum: f64 =
                groups[name].as_object().into_iter().flatten().filter_map(|(_, v)| v.as_f64()).sum();
            if sum != 0.0 && (sum - 1.0).abs() > CLOSE {
                violations.push(format!("{name} of {of} sums to {sum}"));
            }
        }
    }
    // Entries of multi-threaded cores are sums of their threads' entries.
    let harts: Vec<&Value> =
        cores.iter().filter(|core| core.get("thread").is_some() || core.get("core").is_none()).collect();
    let mut sums = [0.0; 3];
    for hart in &harts {
        let pace = &hart["figures"]["pace"];
        let (cycles, instructions) = (number(pace, "cycles"), number(pace, "instructions"));
        let stack = hart["figures"]["CPI stack"].as_object().into_iter().flatten();
        let stack: f64 = stack.filter_map(|(_, part)| part.as_f64()).sum::<f64>() * instructions;
        if instructions > 0.0 && (stack - cycles).abs() > CLOSE * cycles {
            violations.push(format!("hart {}: {cycles} cycles, but its CPI stack has {stack}", hart["hart"]));
        }
        let asleep = pace["asleep_share"].as_f64().unwrap_or(0.0) * cycles;
        for (sum, part) in sums.iter_mut().zip([cycles, instructions, cycles - asleep]) {
            *sum += part;
        }
    }
    let (frames, cost) = (number(point, "frames_delivered"), &timing["packet cost"]);
    for (name, sum) in [("instructions", sums[1]), ("cycles", sums[2])] {
        let Some(each) = cost[name].as_f64() else { continue };
        if (each * frames - sum).abs() > CLOSE * sum + 1e-6 {
            violations.push(format!("packets cost {} {name}, but the cores took {sum}", each * frames));
        }
    }
    let (ipc, own) = (number(point, "ipc"), sums[1] / sums[0]);
    if sums[0] > 0.0 && (ipc - own).abs() > CLOSE * own {
        violations.push(format!("the IPC is {ipc}, but {own} by the cores' counters"));
    }
}

/// Checks that the counters of a port's queues sum to the port's.
fn queues(point: &Value, violations: &mut Vec<String>) {
    for port in point["ports"].as_array().into_iter().flatten() {
        let groups = port["groups"].as_array().into_iter().flatten();
        let figures: Vec<(&str, f64)> = groups
            .flat_map(|group| group["figures"].as_array().into_iter().flatten())
            .map(|figure| (figure["name"].as_str().unwrap_or(""), number(figure, "value")))
            .collect();
        let queues: Vec<&Value> = port["queues"].as_array().into_iter().flatten().collect();
        let sum = |name: &str| {
            let all = queues.iter().flat_map(|queue| queue["figures"].as_array().into_iter().flatten());
            let own: Vec<f64> =
                all.filter(|figure| figure["name"] == *name).map(|figure| number(figure, "value")).collect();
            (!own.is_empty()).then(|| own.iter().sum::<f64>())
        };
        for name in
            ["rx_drop_dma", "rx_drop_core", "rx_drop_tx", "rx_drop_reset", "rx_descriptors", "tx_descriptors"]
        {
            let own = figures.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
            if let (Some(own), Some(sum)) = (own, sum(name))
                && own != sum
            {
                violations.push(format!("{name} is {own}, but its queues sum to {sum}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_inconsistency_is_reported() {
        let good = json!({
            "frames_offered": 10, "frames_delivered": 7, "frames_corrupt": 0, "frames_late": 1,
            "drops": {"dma": 1, "core": 0, "unknown": 1, "waited_for": {"core": 1}},
            "offered_mpps": 10.0, "simulated_seconds": 1e-6, "drop_rate": 0.3, "wire_share": 1.0,
            "latency_ns": {"min": 1.0, "mean": 2.0, "p50": 2.0, "max": 3.0}, "ipc": 0.5,
            "timing": {"packet cost": {"instructions": 5.0, "cycles": 10.0}, "top-down": {"a": 0.25, "b": 0.75}},
            "cores": [{"hart": 0, "frequency_ghz": 3.0, "figures": {
                "pace": {"cycles": 100.0, "instructions": 50.0, "asleep_share": 0.3}, "CPI stack": {"base": 1.0, "l1": 1.0}}}],
            "ports": [{"groups": [{"figures": [{"name": "rx_drop_core", "value": 3}]}],
                "queues": [{"figures": [{"name": "rx_drop_core", "value": 1}]}, {"figures": [{"name": "rx_drop_core", "value": 2}]}]}],
        });
        let good = {
            let mut good = good;
            good["timing"]["packet cost"] = json!({"instructions": 50.0 / 7.0, "cycles": 10.0});
            good
        };
        assert_eq!(violations(&good), Vec::<String>::new());
        for (path, wrong, message) in [
            ("/wire_share", json!(1.001), "/wire_share is 1.001"),
            ("/ipc", json!(-0.5), "/ipc is -0.5"),
            ("/drops/unknown", json!(0), "3 frames were lost, but 2 have a cause"),
            ("/simulated_seconds", json!(2e-6), "are not 10 frames"),
            ("/latency_ns/p50", json!(4.0), "/latency_ns is not a distribution"),
            ("/timing/top-down/a", json!(0.5), "top-down of all sums to 1.25"),
            ("/cores/0/figures/CPI stack/l1", json!(1.1), "hart 0: 100 cycles, but its CPI stack has 105"),
            ("/timing/packet cost/cycles", json!(11.0), "packets cost 77 cycles, but the cores took 70"),
            ("/ports/0/groups/0/figures/0/value", json!(4), "rx_drop_core is 4, but its queues sum to 3"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(path).unwrap() = wrong;
            let found = violations(&bad);
            assert!(found.iter().any(|violation| violation.contains(message)), "{path}: {found:?}");
        }
    }
}
