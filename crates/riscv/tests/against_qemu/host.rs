//! The two hosts of a test program: QEMU with a machine-mode monitor, and our hart, whose traps are handled
//! here.

use std::io::Write;
use std::process::Stdio;

use doorbell_riscv::{Hart, HartConfig, Privilege, Stop};
use doorbell_sim::{Bytes, Clock, Hertz, PhysAddr, Ram};

use crate::monitor::monitor;
use crate::program::{CODE, EXIT, Finished, MEMORY, MEMORY_END, OUTPUT, SET_HANDLER, TABLES};
use crate::random::Random;

/// The trap vector of our hart.
const TRAP: u64 = MEMORY;

/// Upper bound of slots of any program.
const SLOTS_MAX: u64 = 1 << 30;

/// How our hart is run; results must not depend on it.
#[derive(Clone, Copy, Debug)]
pub enum Chunks {
    Whole,
    /// One slot at a time.
    Single,
    /// Random numbers of slots.
    Random(u64),
}

/// Runs the program on QEMU and returns its results.
pub fn on_qemu(program: &Finished) -> Vec<u8> {
    let mut command = doorbell_oracle::qemu();
    command.args([
        "-M",
        "virt",
        "-cpu",
        doorbell_oracle::HART,
        "-m",
        "128",
        "-bios",
        "none",
        "-display",
        "none",
        "-nodefaults",
    ]);
    command.args(["-semihosting-config", "enable=on,target=native"]);
    let monitor = monitor(program.output_len);
    let mut files = Vec::new();
    for (addr, bytes) in [(MEMORY, &monitor), (CODE, &program.code), (TABLES, &program.tables)] {
        if bytes.is_empty() {
            continue;
        }
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("the temporary file can be written");
        let path = file.into_temp_path();
        let loader = format!("loader,file={},addr={addr:#x},force-raw=on", path.display());
        command.args(["-device", &loader]);
        files.push(path);
    }
    let output = command.stdin(Stdio::null()).output().expect("QEMU starts");
    assert!(
        output.status.success(),
        "the program failed on QEMU ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Runs the program on our hart and returns its results.
pub fn on_ours(program: &Finished, chunks: Chunks) -> Vec<u8> {
    let mut guest = Guest::new(program);
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
                    let mut output = vec![0; program.output_len as usize];
                    assert!(guest.ram.copy_out(PhysAddr(OUTPUT), &mut output));
                    return output;
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
    /// The program's request for the next exception.
    handler: Option<Handler>,
}

/// Flag address and resume address from the program's system call.
struct Handler {
    flag: u64,
    resume: u64,
}

impl Guest {
    fn new(program: &Finished) -> Guest {
        let mut ram = Ram::new(PhysAddr(MEMORY), Bytes(MEMORY_END - MEMORY), 1);
        for (addr, bytes) in [(CODE, &program.code), (TABLES, &program.tables)] {
            assert!(bytes.is_empty() || ram.store(PhysAddr(addr), bytes), "{addr:#x} is in RAM");
        }
        // A trap executes an m5op, which stops the hart.
        ram.store(PhysAddr(TRAP), &0x4200_007bu32.to_le_bytes());
        let clock = Clock::new(Hertz(1_000_000_000));
        let mut hart = Hart::new(HartConfig {
            id: 0,
            slot_clock: clock,
            cycle_clock: clock,
            timebase: clock,
            sstc: false,
            aia: false,
            sv48: true,
            reset_pc: CODE,
        });
        assert!(hart.set_csr(0x305, TRAP));
        hart.set_csr(0x300, 1 << 13);
        hart.set_privilege(Privilege::User);
        Guest { hart, ram, handler: None }
    }

    /// Handles a trap; `false` if the program has ended.
    fn trap(&mut self) -> bool {
        let cause = self.hart.csr(0x342).expect("mcause");
        let mut pc = self.hart.csr(0x341).expect("mepc");
        if cause == 8 {
            pc += 4;
            match self.hart.reg(17) {
                EXIT => return false,
                SET_HANDLER => {
                    self.handler = Some(Handler { flag: self.hart.reg(10), resume: self.hart.reg(11) });
                }
                other => panic!("unknown system call {other}"),
            }
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
