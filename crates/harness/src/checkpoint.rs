//! Manipulated checkpoints. A change covered by a hash must be refused. With recomputed hashes, it must be
//! refused or yield a machine that runs: its guest may misbehave, the simulator may not.

use std::sync::OnceLock;

use doorbell_machine::CheckpointFile;
use doorbell_sim::Ps;
use doorbell_sim::rng::Rng;

use crate::container::{Container, PAYLOAD_AT, compress};
use crate::guest::{self, Case};
use crate::input::Input;
use crate::operations::Profile;
use crate::watchdog::Watchdog;

const GUEST: &str = "fuzzed";
/// Number of base machines; the second half has disks.
const BASES: u64 = 16;
const CHANGES_MAX: u64 = 3;
const RUN_ON: Ps = Ps::from_us(10);
const RUN_ON_INSTRUCTIONS: u64 = 1_000;

/// A valid checkpoint and its machine.
struct Base {
    case: Case,
    file: Vec<u8>,
    parts: Container,
}

/// Checkpoints of machines in the middle of a run.
fn bases() -> &'static [Base] {
    static CACHE: OnceLock<Vec<Base>> = OnceLock::new();
    CACHE.get_or_init(|| (0..BASES).map(base).collect())
}

fn base(number: u64) -> Base {
    let mut rng = Rng::stream(number, "checkpoint bases");
    // The first byte chooses the configuration, the sixth that the NICs are set up.
    let mut bytes: Vec<u8> = (0..600).map(|_| rng.next_u64() as u8).collect();
    (bytes[0], bytes[5]) = (number as u8, 1);
    let profile = if number < BASES / 2 { Profile::Mmio } else { Profile::Disk };
    let mut case = Case::new(profile, &mut Input::new(&bytes));
    let mut machine = case.build();
    case.run_segments(&mut machine);
    let file = machine.checkpoint(GUEST, "").bytes().to_vec();
    Base { parts: Container::open(&file), case, file }
}

/// Runs the case for the input bytes.
pub fn run(bytes: &[u8]) {
    let _watchdog = Watchdog::start();
    let mut input = Input::new(bytes);
    let bases = bases();
    let base = &bases[input.below(bases.len() as u64) as usize];
    let (file, covered) = changed(base, &mut input);
    let unchanged = file == base.file;
    let Ok(file) = CheckpointFile::from_bytes(file) else {
        assert!(!unchanged, "a valid checkpoint was refused");
        return;
    };
    assert!(unchanged || !covered, "a change covered by a hash was not detected");
    let mut machine = base.case.machine(base.case.config().clone(), 1);
    if machine.restore(&file, GUEST).is_err() {
        assert!(!unchanged, "a valid checkpoint was refused");
        return;
    }
    let (end, instructions) =
        (machine.now().saturating_add(RUN_ON), machine.instructions() + RUN_ON_INSTRUCTIONS);
    guest::run_to(&mut machine, end, instructions);
    machine.start_traffic(&base.case.config().loadgen.traffic).expect("the traffic is legal");
    machine.begin_window();
    let (end, instructions) =
        (machine.now().saturating_add(RUN_ON), machine.instructions() + RUN_ON_INSTRUCTIONS);
    guest::run_to(&mut machine, end, instructions);
    machine.end_window();
    machine.state_hash();
}

/// A changed file, and whether a hash or the version covers the change.
fn changed(base: &Base, input: &mut Input<'_>) -> (Vec<u8>, bool) {
    let mut file = base.file.clone();
    let count = 1 + input.below(CHANGES_MAX);
    match input.u8() % 16 {
        0 => {
            let at = input.u64() as usize % file.len();
            file[at] ^= 1 << (input.u8() % 8);
            (file, true)
        }
        1 => {
            // Truncates to any length, often within the header.
            let length =
                if input.flag() { input.u8() as usize % (PAYLOAD_AT + 2) } else { input.u64() as usize };
            file.truncate(length % file.len());
            (file, true)
        }
        2 => {
            let mut compressed = file[PAYLOAD_AT..].to_vec();
            (0..count).for_each(|_| change(&mut compressed, input));
            (base.parts.wrap(&compressed), false)
        }
        3 => {
            let mut payload = base.parts.payload();
            match input.u8() % 4 {
                0 => payload[..8].copy_from_slice(&input.value().to_le_bytes()),
                1 => payload.truncate(input.u64() as usize % payload.len()),
                2 => payload.truncate(input.u16() as usize),
                _ => (0..count).for_each(|_| change(&mut payload, input)),
            }
            (base.parts.wrap(&compress(&payload)), false)
        }
        4 => {
            let mut parts = base.parts.clone();
            (0..count).for_each(|_| rearrange(&mut parts, input));
            (parts.close(), false)
        }
        _ => {
            let mut parts = base.parts.clone();
            for _ in 0..count {
                let section = input.below(parts.sections.len() as u64) as usize;
                change(&mut parts.sections[section].bytes, input);
            }
            (parts.close(), false)
        }
    }
}

/// Changes the set of sections and pages.
fn rearrange(parts: &mut Container, input: &mut Input<'_>) {
    let sections = parts.sections.len() as u64;
    let (one, other) = (input.below(sections) as usize, input.below(sections) as usize);
    match input.u8() % 8 {
        0 => parts.sections.swap(one, other),
        1 => parts.sections[one].bytes = parts.sections[other].bytes.clone(),
        2 => parts.sections[one].version = input.u32(),
        3 if sections > 1 => drop(parts.sections.remove(one)),
        4 => parts.sections.push(parts.sections[one].clone()),
        5 => parts.sections[one].name = parts.sections[other].name.clone(),
        6 if !parts.pages.is_empty() => {
            let page = input.u64() as usize % parts.pages.len();
            parts.pages[page] = input.value();
        }
        _ => {
            parts.pages.push(input.value());
            if input.flag() {
                parts.contents.extend_from_slice(&[0x5a; 4096]);
            }
        }
    }
}

/// Changes some bytes; usually replaces a number in postcard's variable-length encoding, so that the rest
/// still decodes.
fn change(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    if bytes.is_empty() {
        return bytes.push(input.u8());
    }
    let at = usize::from(input.u16()) % bytes.len();
    match input.u8() % 16 {
        0 => bytes[at] = input.u8(),
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, input.u8()),
        3 => {
            let end = (at + usize::from(input.u8())).min(bytes.len());
            bytes.drain(at..end);
        }
        4 | 5 => bytes[at] ^= 1 << (input.u8() % 7),
        _ => {
            let first = bytes[..at].iter().rposition(|byte| byte & 0x80 == 0).map_or(0, |before| before + 1);
            let last = bytes[at..]
                .iter()
                .position(|byte| byte & 0x80 == 0)
                .map_or(bytes.len(), |more| at + more + 1);
            bytes.splice(first..last, variable_length(input.value()));
        }
    }
}

/// Encodes a number as postcard does: seven bits per byte, least significant first.
fn variable_length(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
