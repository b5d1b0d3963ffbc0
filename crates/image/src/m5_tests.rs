//! The program run as a process on our hart; the tests emulate its system calls.

use doorbell_riscv::{Hart, HartConfig, Privilege, Stop};
use doorbell_sim::{Bytes, Clock, Hertz, PhysAddr, Ram};

use super::*;

const SYS_IOCTL: u64 = 29;
const SYS_WRITE: u64 = 64;
const SYS_EXIT: u64 = 93;
/// The trap handler's address; it holds an m5op that no operation uses.
const TRAP: u64 = BUFFER_AT + BUFFER_BYTES;
const TRAPPED: u32 = 0x7f;
const STACK: u64 = TRAP + 0x1000;
const MEMORY_END: u64 = STACK + 0x1000;
const SLOTS_MAX: u64 = 1 << 20;

/// How a run ended: by an operation with its arguments, or by an exit with a code and the printed text.
#[derive(Debug, PartialEq)]
enum End {
    Operation { function: u32, args: [u64; 2] },
    Exit { code: u64, printed: String },
}

/// The initial stack: argc, the pointers in argv, a null pointer, an empty environment; then the words.
fn stack(arguments: &[&str]) -> Vec<u8> {
    let words: Vec<&str> = ["m5"].iter().chain(arguments).copied().collect();
    let mut text_at = STACK + 8 * (words.len() as u64 + 3);
    let mut longs = vec![words.len() as u64];
    for word in &words {
        longs.push(text_at);
        text_at += word.len() as u64 + 1;
    }
    longs.extend([0, 0]);
    let mut bytes: Vec<u8> = longs.iter().flat_map(|value| value.to_le_bytes()).collect();
    words.iter().for_each(|word| bytes.extend(word.bytes().chain([0])));
    bytes
}

fn run(arguments: &[&str]) -> End {
    let clock = Clock::new(Hertz(1_000_000_000));
    let mut ram = Ram::new(PhysAddr(0), Bytes(MEMORY_END), 1);
    assert!(ram.store(PhysAddr(TEXT_AT), &program()));
    assert!(ram.store(PhysAddr(STACK), &stack(arguments)));
    assert!(ram.store(PhysAddr(TRAP), &(0x7b | TRAPPED << 25).to_le_bytes()));
    let mut hart = Hart::new(HartConfig {
        id: 0,
        slot_clock: clock,
        cycle_clock: clock,
        timebase: clock,
        sstc: false,
        aia: false,
        sv48: true,
        reset_pc: TEXT_AT + HEADER_BYTES,
    });
    assert!(hart.set_csr(0x305, TRAP));
    hart.set_reg(SP as usize, STACK);
    hart.set_privilege(Privilege::User);
    let mut printed = String::new();
    loop {
        match hart.run(&mut ram, SLOTS_MAX) {
            Stop::M5Op { function, args } if u32::from(function) != TRAPPED => {
                return End::Operation { function: function.into(), args };
            }
            Stop::M5Op { .. } => {}
            stop => panic!("{arguments:?}: {stop:?} at {:#x}", hart.pc()),
        }
        assert_eq!(hart.csr(0x342), Some(8), "{arguments:?}: an exception at {:x?}", hart.csr(0x341));
        let result = match hart.reg(17) {
            SYS_EXIT => return End::Exit { code: hart.reg(A0 as usize), printed },
            SYS_WRITE => {
                assert_eq!(hart.reg(A0 as usize), 2, "only standard error is written to");
                let mut text = vec![0; hart.reg(A2 as usize) as usize];
                assert!(ram.copy_out(PhysAddr(hart.reg(A1 as usize)), &mut text));
                printed += &String::from_utf8(text).unwrap();
                hart.reg(A2 as usize)
            }
            // Waiting for the output to drain: done.
            SYS_IOCTL => 0,
            other => panic!("{arguments:?}: system call {other}"),
        };
        hart.set_reg(A0 as usize, result);
        hart.set_pc(hart.csr(0x341).unwrap() + 4);
        hart.set_privilege(Privilege::User);
    }
}

#[test]
fn unknown_arguments_print_the_usage() {
    for wrong in [&[][..], &["exi"], &["exit!"], &["exits"], &[""], &["exit", "1x"], &["fail", "-1"]] {
        assert_eq!(run(wrong), End::Exit { code: 2, printed: USAGE.to_owned() }, "{wrong:?}");
    }
}

#[test]
fn every_operation_executes_its_instruction_with_its_arguments() {
    for &(name, function, kind) in OPERATIONS {
        let ended = run(&[name, "12", "34"]);
        let args = match kind {
            Kind::Plain => [12, 34],
            Kind::Fail => [0, 12],
            Kind::ReadFile => [BUFFER_AT, BUFFER_BYTES],
        };
        assert_eq!(ended, End::Operation { function, args }, "{name}");
        assert!(USAGE.contains(name));
    }
}

#[test]
fn every_name_leaves_room_for_its_zero_and_its_kind() {
    assert!(OPERATIONS.iter().all(|(name, ..)| name.len() < ENTRY_KIND as usize));
}
