//! `/usr/bin/m5` of every image, run as a process on our hart; the tests emulate its system calls.

use std::process::Command;

use doorbell_riscv::{Hart, HartConfig, Privilege, Stop};
use doorbell_sim::{Bytes, Clock, Hertz, PhysAddr, Ram};

const PROGRAM: &[u8] = include_bytes!("../../../guest/m5/m5");
const TEXT_AT: u64 = 0x1_0000;
const HEADER_BYTES: u64 = 64 + 2 * 56;
const BUFFER_AT: u64 = 0x2_0000;
const BUFFER_BYTES: u64 = 0x1_0000;
const USAGE: &str = "usage: m5 exit | fail CODE | resetstats | dumpstats | dumpresetstats | checkpoint | readfile | \
                     workbegin ID | workend ID\n";

/// Registers of the calling convention.
const SP: usize = 2;
const A0: usize = 10;
const A1: usize = 11;
const A2: usize = 12;
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
    assert!(ram.store(PhysAddr(TEXT_AT), PROGRAM));
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
    hart.set_reg(SP, STACK);
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
            SYS_EXIT => return End::Exit { code: hart.reg(A0), printed },
            SYS_WRITE => {
                assert_eq!(hart.reg(A0), 2, "only standard error is written to");
                let mut text = vec![0; hart.reg(A2) as usize];
                assert!(ram.copy_out(PhysAddr(hart.reg(A1)), &mut text));
                printed += &String::from_utf8(text).unwrap();
                hart.reg(A2)
            }
            // Waiting for the output to drain: done.
            SYS_IOCTL => 0,
            other => panic!("{arguments:?}: system call {other}"),
        };
        hart.set_reg(A0, result);
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
    for (name, function, args) in [
        ("exit", 0x21, [12, 34]),
        ("fail", 0x22, [0, 12]),
        ("resetstats", 0x40, [12, 34]),
        ("dumpstats", 0x41, [12, 34]),
        ("dumpresetstats", 0x42, [12, 34]),
        ("checkpoint", 0x43, [12, 34]),
        ("readfile", 0x50, [BUFFER_AT, BUFFER_BYTES]),
        ("workbegin", 0x5a, [12, 34]),
        ("workend", 0x5b, [12, 34]),
    ] {
        let ended = run(&[name, "12", "34"]);
        assert_eq!(ended, End::Operation { function, args }, "{name}");
        assert!(USAGE.contains(name));
    }
}

/// Assembles `guest/m5/m5.S` into `program`.
fn assemble(program: &std::path::Path) {
    let object = program.with_extension("elf");
    let mut compiler = Command::new("riscv64-linux-gnu-gcc");
    compiler.args([
        "-nostdlib",
        "-static",
        "-march=rv64i",
        "-mabi=lp64",
        "-Wl,-Ttext=0x10000,--build-id=none",
    ]);
    compiler.arg("-o").arg(&object).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/m5/m5.S"));
    assert!(compiler.status().unwrap().success());
    let mut copy = Command::new("riscv64-linux-gnu-objcopy");
    copy.args(["-O", "binary", "-j", ".text"]).args([&object, program]);
    assert!(copy.status().unwrap().success());
}

#[test]
fn the_stored_program_is_the_assembled_source() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("m5");
    assemble(&program);
    let assembled = std::fs::read(program).unwrap();
    // The assembler pads its section to a multiple of 16 bytes.
    assert!(assembled.starts_with(PROGRAM), "store the assembled file as guest/m5/m5, without padding");
    assert!(assembled.len() < PROGRAM.len() + 16);
}
