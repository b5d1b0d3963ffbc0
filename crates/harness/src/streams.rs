//! Random traffic files: streams with any of their keys and with values that are usually nearly valid. A file
//! is refused with a message that names the file, a traffic key or a stream. Otherwise the machine sends its
//! frames, is saved in between, and continues like the restored one.

use std::fmt::Write;

use doorbell_machine::overlay::Overlay;
use doorbell_machine::{CheckpointFile, ConfigError, Machine, MachineConfig};
use doorbell_sim::Ps;

use crate::config::{NUMBERS, UNITS};
use crate::guest;
use crate::input::Input;
use crate::operations;
use crate::watchdog::Watchdog;

const STREAMS_MAX: u64 = 4;
const KEYS_MAX: u64 = 6;
const SAVED_AFTER: Ps = Ps::from_us(30);
const END: Ps = Ps::from_us(60);
const RUN_INSTRUCTIONS: u64 = 20_000;
const GUEST: &str = "streams";

/// Keys of a stream, each with valid, invalid and unusual values.
const VALUES: &[(&str, &[&str])] = &[
    ("name", &["\"a\"", "\"stream0\"", "\"\"", "3"]),
    (
        "rate",
        &[
            "\"1Mpps\"",
            "\"100%\"",
            "\"40Gbps-l1\"",
            "\"1pps\"",
            "\"2x\"",
            "\"18446744073709551615pps\"",
            "\"0.000001%\"",
        ],
    ),
    (
        "ramp",
        &[
            "{ to = \"9Mpps\", over = \"20us\" }",
            "{ to = \"1pps\", over = \"1ns\" }",
            "{ to = \"2x\", over = \"1s\" }",
            "{}",
        ],
    ),
    (
        "arrivals",
        &[
            "\"poisson\"",
            "\"constant\"",
            "\"lognormal\"",
            "{ uniform = { spread = 1 } }",
            "{ lognormal = { sigma = 5 } }",
            "{ pareto = { shape = 1.05 } }",
            "{ on-off = { on = \"1ps\", off = \"1ps\", lengths = \"poisson\", gaps = { pareto = { shape = 1.1 } } } }",
            "{ on-off = { on = \"5us\", off = \"5us\" } }",
            "{ bursts = { frames = 1048576 } }",
            "{ bursts = { frames = 3, gap = \"1000000s\", spacing = \"poisson\" } }",
            "{ uniform = { spread = -1 } }",
            "{ pareto = { shape = nan } }",
        ],
    ),
    (
        "size",
        &[
            "\"imix\"",
            "\"64B\"",
            "\"16KiB\"",
            "[\"7x64B\", \"1x9000B\"]",
            "\"genome:3aAz,A=70B,z=9KiB\"",
            "\"4097x64B\"",
            "[]",
        ],
    ),
    ("size_order", &["\"random\"", "\"rounds\"", "\"sorted\""]),
    (
        "vlans",
        &["[{ id = 1 }]", "[{ id = 4094, priority = 7 }, { id = 0 }]", "[{ id = 65536 }]", "[{}, {}, {}]"],
    ),
    ("network", &["\"ipv6\"", "\"ipv4\"", "\"ipx\""]),
    ("transport", &["\"tcp\"", "\"udp\"", "\"sctp\""]),
    ("dscp", &["63", "64", "-1"]),
    ("ttl", &["2", "255", "1", "256"]),
    ("source", &["\"02:00:00:00:00:09\"", "\"ff:ff:ff:ff:ff:ff\"", "\"\""]),
    ("source_ip", &["\"10.0.0.1\"", "\"2001:2::9\"", "\"::ffff:10.0.0.1\"", "\"10.0.0\""]),
    ("destination_ip", &["\"255.255.255.255\"", "\"ffff::ffff\""]),
    ("destination_port", &["0", "65535", "65536"]),
    (
        "sweeps",
        &[
            "[{ field = \"source-ip\", count = 65536 }]",
            "[{ field = \"destination-ip\", count = 4294967296, order = \"random\" }]",
            "[{ field = \"source-port\", count = 65536, order = \"decrement\", every = 18446744073709551615 }]",
            "[{ field = \"source-mac\", count = 7, step = 1000, order = { zipf = { skew = 10 } } }]",
            "[{ field = \"vlan\", count = 5, order = \"random\" }, { field = \"destination-mac\", count = 16777216 }]",
            "[{ field = \"vlan\", count = 4096, step = 18446744073709551615 }]",
            "[{ field = \"source-port\", count = 2, step = 9223372036854775808 }]",
        ],
    ),
    ("start_after", &["\"10us\"", "\"18446744073709551615ps\"", "\"1ps\""]),
    ("duration", &["\"20us\"", "\"0ps\"", "\"18446744073709551615ps\""]),
    ("frames", &["0", "1", "100", "9223372036854775807"]),
    ("returned", &["\"io\"", "\"routed\"", "\"macswap\"", "\"none\""]),
    ("speed", &["1"]),
];

/// A file with streams, or with random text.
fn file(input: &mut Input<'_>) -> String {
    let mut text = String::new();
    if input.u8().is_multiple_of(8) {
        while !input.is_empty() {
            let piece = input.pick(&[
                "[[streams]]\n",
                "[streams]\n",
                "rate",
                " = ",
                "\"",
                "\n",
                "{ ",
                " }",
                ",",
                "1",
                "\u{e9}",
                "#",
            ]);
            text.push_str(piece);
        }
        return text;
    }
    if input.flag() {
        let total =
            input.pick(&["2x", "0.1x", "5Mpps", "90%", "1Gbps-l1", "18446744073709551615pps", "1pps"]);
        let _ = writeln!(text, "total = \"{total}\"");
    }
    if input.u8().is_multiple_of(4) {
        let _ = writeln!(text, "outstanding = {}\nreturned = \"macswap\"", input.u8());
    }
    for _ in 0..1 + input.below(STREAMS_MAX) {
        text.push_str("[[streams]]\n");
        // Later keys may repeat one, which is refused.
        for _ in 0..input.below(KEYS_MAX) {
            let (key, values) = input.pick(VALUES);
            let value = match input.u8() % 8 {
                0 => format!("\"{}{}\"", input.pick(&NUMBERS), input.pick(&UNITS)),
                1 => input.value().to_string(),
                _ => input.pick(values).to_owned(),
            };
            let _ = writeln!(text, "{key} = {value}");
        }
        if !input.u8().is_multiple_of(4) {
            let _ = writeln!(text, "size = \"{}B\"", 102 + u64::from(input.u8()) * 8);
        }
    }
    text
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let text = file(&mut Input::new(bytes));
    let mut overlay = Overlay::default();
    overlay.set("loadgen.tracked_frames=1024").expect("the key is a path");
    let config = overlay
        .merge_toml_at("loadgen.traffic", "a file", &text)
        .and_then(|()| overlay.resolve::<MachineConfig>())
        .and_then(|config| config.validate().map(|()| config));
    match config {
        Err(error) => assert_locates_the_error(&error, &text),
        Ok(config) => run_machine(&MachineConfig { platform: guest::small_machine().platform, ..config }),
    }
}

fn assert_locates_the_error(error: &ConfigError, text: &str) {
    let message = error.to_string();
    let names = ["a file: ", "loadgen: ", "loadgen.traffic"];
    assert!(
        names.iter().any(|name| message.starts_with(name)),
        "\"{message}\" does not locate the error in\n{text}"
    );
}

/// Sends a configuration's traffic, saves and restores the machine in between, and compares the rest.
pub(crate) fn run_machine(config: &MachineConfig) {
    let build = || Machine::new(config.clone(), 1).expect("a validated configuration builds");
    let mut machine = build();
    machine.load(&guest::guest(operations::idle_program(), 1)).expect("the guest fits");
    machine.start_traffic(&config.loadgen.traffic).expect("validated traffic");
    machine.begin_window();
    guest::run_to(&mut machine, SAVED_AFTER, RUN_INSTRUCTIONS);
    let file =
        CheckpointFile::from_bytes(machine.checkpoint(GUEST, "").bytes().to_vec()).expect("a whole file");
    let mut restored = build();
    restored.restore(&file, GUEST).expect("the machine's own checkpoint");
    for machine in [&mut machine, &mut restored] {
        guest::run_to(machine, END, RUN_INSTRUCTIONS);
        machine.end_window();
        machine.check_conservation();
    }
    guest::assert_same(&machine, &restored, "the restored machine sends differently");
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::rng::Rng;

    #[test]
    fn random_files_are_often_valid_and_often_invalid() {
        let legal = (0..400u64).filter(|number| {
            let mut rng = Rng::stream(*number, "streams");
            let bytes: Vec<u8> = (0..100).map(|_| rng.next_u64() as u8).collect();
            let mut overlay = Overlay::default();
            let text = file(&mut Input::new(&bytes));
            overlay.merge_toml_at("loadgen.traffic", "a file", &text).is_ok()
                && overlay.resolve::<MachineConfig>().is_ok_and(|config| config.validate().is_ok())
        });
        let legal = legal.count();
        assert!((20..380).contains(&legal), "{legal} of 400");
    }
}
