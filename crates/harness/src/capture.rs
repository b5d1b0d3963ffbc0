//! Random captures: pcap and pcapng files with some packets, possibly with changed bytes, truncated or
//! compressed. A file is refused with a message that names it. Otherwise a stream sends its packets, filtered
//! and rewritten, is saved in between, and continues.

use std::io::Write;

use doorbell_machine::MachineConfig;
use doorbell_machine::overlay::Overlay;

use crate::guest;
use crate::input::Input;
use crate::streams::run_machine;
use crate::watchdog::Watchdog;

const PACKETS_MAX: u64 = 20;
const CHANGES_MAX: u64 = 6;
/// Ethernet (with an FCS), and link types without an Ethernet header.
const LINKS: [u32; 8] = [1, 1, 1, 0x2400_0001, 0, 101, 113, 276];
/// Replay settings, to cover all code paths.
const REPLAYS: &[&str] = &[
    "replay = { times = 0 }",
    "replay = { speed = 1000000, times = 3, stations = \"traffic\" }",
    "replay = { timing = \"rate\", truncated = \"cut\", largest = \"100B\" }\narrivals = \"poisson\"\nrate = \"100%\"",
    "replay = { source_net = \"10.0.0.0/8\", destination_net = \"2001:2::/32\", truncated = \"skip\" }\nreturned = \"routed\"",
    "replay = { ethernet = { source = \"02:00:00:00:00:09\" } }",
    "replay = { only = { protocol = \"udp\", port = 53 } }",
    "replay = { only = { net = \"::/0\" }, times = 2 }\nduration = \"30us\"",
];

/// A packet of some kind: plausible header bytes, then random ones.
fn packet(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    let kinds: [&[u8]; 6] = [
        &[
            8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 53, 0, 26, 1,
            1,
        ],
        &[8, 0, 0x4f, 0, 0, 20, 0, 0, 0x20, 1, 64, 6],
        &[0x81, 0, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 9, 44, 64, 0x20, 1, 0, 2],
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &[0x88, 0xa8],
        &[],
    ];
    bytes.extend(input.pick(&kinds));
    bytes.resize(bytes.len() + input.u8() as usize, input.u8());
    bytes
}

fn pcap(input: &mut Input<'_>) -> Vec<u8> {
    let magic = input.pick(&[0xa1b2_c3d4u32, 0xa1b2_3c4d, 0xa1b2_cd34]);
    let mut file = Vec::new();
    let link = input.pick(&LINKS);
    for word in [magic, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend(word.to_le_bytes());
    }
    for n in 0..1 + input.below(PACKETS_MAX) as u32 {
        let packet = packet(input);
        let length = packet.len() as u32;
        for word in [7, n * u32::from(input.u8()), length, length + u32::from(input.u8() / 200)] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

fn pcapng(input: &mut Input<'_>) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [&[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0][..], &[input.u8(), 0, 0, 0], &[0; 4]].concat();
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for _ in 0..1 + input.below(PACKETS_MAX) {
        let mut packet = packet(input);
        let length = packet.len() as u32;
        packet.resize(packet.len().next_multiple_of(4), 0);
        let words = [0, u32::from(input.u8() / 250), input.u32() >> (input.u8() % 32), length, length];
        let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.extend(block(6, &[head, packet].concat()));
    }
    file
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let mut input = Input::new(bytes);
    let mut file = if input.flag() { pcap(&mut input) } else { pcapng(&mut input) };
    for _ in 0..input.below(CHANGES_MAX) {
        let at = input.below(file.len() as u64) as usize;
        file[at] = input.u8();
    }
    if input.u8().is_multiple_of(8) {
        file.truncate(input.below(file.len() as u64) as usize);
    }
    if input.u8().is_multiple_of(8) {
        file = zstd::encode_all(file.as_slice(), 1).expect("writing to memory does not fail");
    }
    let mut kept = tempfile::NamedTempFile::new().expect("a temporary file");
    kept.write_all(&file).expect("a temporary file can be written");
    let text = format!("[[streams]]\ncapture = {:?}\n{}\n", kept.path(), input.pick(REPLAYS));
    let mut overlay = Overlay::default();
    overlay.merge_toml_at("loadgen.traffic", "a file", &text).expect("the text is valid");
    let config: MachineConfig = overlay.resolve().expect("the keys are valid");
    let config = MachineConfig { platform: guest::small_machine().platform, ..config };
    config.validate().expect("validation does not open the capture");
    match doorbell_machine::Machine::new(config.clone(), 1) {
        Ok(_) => run_machine(&config),
        Err(error) => {
            let (message, name) = (error.to_string(), kept.path().display().to_string());
            assert!(message.contains("streams[0].capture: ") && message.contains(&name), "{message}");
        }
    }
}
