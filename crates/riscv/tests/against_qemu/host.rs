//! The two hosts of a test program: QEMU's user-mode emulation, and our hart with a shim for the system calls
//! and for signals that a program's handler returns from at once.

use std::io::Write;
use std::process::{Command, Stdio};

use doorbell_riscv::{Hart, HartConfig, Privilege, Stop};
use doorbell_sim::{Bytes, Clock, Hertz, PhysAddr, Ram};

use crate::elf;
use crate::program::{CODE, MEMORY_END, TRAP};
use crate::random::Random;

/// The ISA of our hart in QEMU's words.
const CPU: &str = "rv64,h=off,v=off,zba=off,zbb=off,zbc=off,zbs=off";

/// No program takes as long as this.
const SLOTS_MAX: u64 = 1 << 30;

/// How our hart is driven: results must not depend on it.
#[derive(Clone, Copy, Debug)]
pub enum Chunks {
    Whole,
    /// One slot at a time.
    Single,
    /// Random numbers of slots.
    Random(u64),
}

/// Whether the user asked to go without QEMU.
pub fn skipped() -> bool {
    let skip = std::env::var_os("DOORBELL_SKIP_QEMU").is_some_and(|value| value == "1");
    if skip {
        println!("skipped: DOORBELL_SKIP_QEMU=1 is set, so nothing is compared with QEMU");
    }
    skip
}

/// Runs the program on QEMU and gives what it wrote.
pub fn on_qemu(elf: &[u8]) -> Vec<u8> {
    use std::os::unix::fs::PermissionsExt;
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(elf).expect("the temporary file can be written");
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let path = file.into_temp_path(); // closes it, so that it can be executed
    let output = Command::new("qemu-riscv64")
        .args(["-cpu", CPU])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "qemu-riscv64 does not start ({error}). Install Debian's package qemu-user \
                 (apt-get install qemu-user), or set DOORBELL_SKIP_QEMU=1 to do without this test."
            )
        });
    assert!(
        output.status.success(),
        "the program failed on QEMU ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Runs the program on our hart and gives what it wrote.
pub fn on_ours(elf: &[u8], chunks: Chunks) -> Vec<u8> {
    let mut guest = Guest::new(elf);
    let mut random = Random::new(match chunks {
        Chunks::Random(seed) => seed,
        _ => 0,
    });
    loop {
        let until = match chunks {
            Chunks::Whole => SLOTS_MAX,
            Chunks::Single => guest.hart.slots() + 1,
            Chunks::Random(_) => guest.hart.slots() + 1 + random.below(40),
        };
        match guest.hart.run(&mut guest.ram, until) {
            Stop::Slot => assert!(guest.hart.slots() < SLOTS_MAX, "the program does not end on our hart"),
            Stop::M5Op { .. } => {
                if !guest.trap() {
                    return guest.output;
                }
            }
            stop => panic!("our hart stopped with {stop:?} at {:#x}", guest.hart.pc()),
        }
    }
}

/// A program on our hart.
struct Guest {
    hart: Hart,
    ram: Ram,
    output: Vec<u8>,
    /// The program's signal handler: (address, the word it sets).
    handler: Option<Handler>,
}

/// What a program told of its signal handler by system call 1000 (unknown to Linux, so QEMU refuses it).
struct Handler {
    flag: u64,
    resume: u64,
}

/// System call by which a program tells our shim the flag to set and the address to go on at after a signal.
pub const TELL_HANDLER: u64 = 1000;
const RT_SIGACTION: u64 = 134;
const SIGALTSTACK: u64 = 132;

impl Guest {
    fn new(elf: &[u8]) -> Guest {
        let mut ram = Ram::new(PhysAddr(CODE), Bytes(MEMORY_END - CODE), 1);
        for (addr, bytes) in elf::loads(elf) {
            assert!(ram.store(PhysAddr(addr), bytes), "a segment at {addr:#x} lies in RAM");
        }
        // A trap leads to an m5op, which stops the hart.
        ram.store(PhysAddr(TRAP), &0x4200_007bu32.to_le_bytes());
        let clock = Clock::new(Hertz(1_000_000_000));
        let mut hart = Hart::new(HartConfig {
            id: 0,
            slot_clock: clock,
            cycle_clock: clock,
            timebase: clock,
            sstc: false,
            sv48: true,
            reset_pc: CODE,
        });
        assert!(hart.set_csr(0x305, TRAP));
        hart.set_csr(0x300, 1 << 13);
        hart.set_privilege(Privilege::User);
        Guest { hart, ram, output: Vec::new(), handler: None }
    }

    /// Answers a trap; `false` if the program has ended.
    fn trap(&mut self) -> bool {
        let cause = self.hart.csr(0x342).expect("mcause");
        let mut pc = self.hart.csr(0x341).expect("mepc");
        if cause == 8 {
            pc += 4;
            let [a0, a1, a2] = [10, 11, 12].map(|register| self.hart.reg(register));
            let result = match self.hart.reg(17) {
                64 => {
                    assert_eq!(a0, 1, "only standard output is written to");
                    let mut bytes = vec![0; a2 as usize];
                    assert!(self.ram.copy_out(PhysAddr(a1), &mut bytes));
                    self.output.extend_from_slice(&bytes);
                    a2
                }
                93 => return false,
                RT_SIGACTION | SIGALTSTACK => 0,
                TELL_HANDLER => {
                    self.handler = Some(Handler { flag: a0, resume: a1 });
                    0
                }
                other => panic!("unknown system call {other}"),
            };
            self.hart.set_reg(10, result);
        } else {
            let Some(handler) = &self.handler else {
                panic!("exception {cause} at {pc:#x}, mtval {:#x}", self.hart.csr(0x343).unwrap_or(0))
            };
            self.ram.store(PhysAddr(handler.flag), &1u64.to_le_bytes());
            pc = handler.resume;
        }
        self.hart.set_pc(pc);
        self.hart.set_privilege(Privilege::User);
        true
    }
}
