//! gem5's m5ops, executed by a bare-metal guest program.

use doorbell_bench::{M5Next, M5Ops, ResultFolder, bare_identity, resolve};
use doorbell_machine::{CheckpointFile, Limits, Machine, Outcome};
use doorbell_sim::{Bytes, Ps};

const RESET_STATS: u32 = 0x40;
const DUMP_STATS: u32 = 0x41;
const CHECKPOINT: u32 = 0x43;
const READ_FILE: u32 = 0x50;
const WORK_BEGIN: u32 = 0x5a;
const WORK_END: u32 = 0x5b;
const EXIT: u32 = 0x21;
const FAIL: u32 = 0x22;

/// The instruction word of an m5op on RISC-V.
fn m5(function: u32) -> u32 {
    0x7b | function << 25
}

/// ADDI rd, x0, value.
fn li(rd: u32, value: u32) -> u32 {
    value << 20 | rd << 7 | 0x13
}

const NOP: u32 = 0x13;
const A0: u32 = 10;
const A1: u32 = 11;

struct Run {
    machine: Machine,
    ops: M5Ops,
    guest: String,
    messages: Vec<String>,
    folder: tempfile::TempDir,
}

fn start(program: &[u32]) -> Run {
    let bytes: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
    let config = resolve("fast", &["platform.ram=64MiB".into()]).unwrap();
    let mut machine = Machine::new(config.machine(), 1).unwrap();
    assert!(machine.load_bare(&bytes));
    let folder = tempfile::tempdir().unwrap();
    let ops = M5Ops::new(ResultFolder::create(folder.path()).unwrap(), config.run.m5_limit);
    Run { machine, ops, guest: bare_identity(&bytes), messages: Vec::new(), folder }
}

impl Run {
    /// Runs until the guest's exit op; returns the exit code.
    fn run_to_exit(&mut self) -> u8 {
        loop {
            let Outcome::M5Op { hart, function, args } = self.machine.run(&Limits::until(Ps::from_ms(1)))
            else {
                panic!("the guest did not exit")
            };
            let messages = &mut self.messages;
            match self
                .ops
                .perform(&mut self.machine, &self.guest, hart, function, args, &mut |line| {
                    messages.push(line.to_owned())
                })
                .unwrap()
            {
                M5Next::Continue => {}
                M5Next::Exit(code) => return code,
            }
        }
    }
}

#[test]
fn dumped_statistics_cover_the_time_since_their_reset() {
    let mut run = start(&[NOP, NOP, m5(RESET_STATS), NOP, NOP, NOP, m5(DUMP_STATS), m5(EXIT)]);
    assert_eq!(run.run_to_exit(), 0);
    let text = std::fs::read_to_string(run.folder.path().join("m5stats-0.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
    // Three NOPs and the dump itself.
    assert_eq!(stats["counters"]["hart0.instructions"]["value"], 4);
    // The time is also since the reset: an instruction takes one cycle.
    let seconds = |name: &str| stats[name].as_f64().unwrap();
    let (since, all) = (seconds("simulated_seconds"), seconds("simulated_seconds_since_boot"));
    assert!(since > 0.0 && since < all, "{since} of {all} s");
}

#[test]
fn a_restored_m5_checkpoint_continues_after_the_checkpoint_op() {
    let program = [li(A0, 7), m5(CHECKPOINT), m5(WORK_BEGIN), li(A1, 3), m5(FAIL)];
    let mut run = start(&program);
    assert_eq!(run.run_to_exit(), 3);
    let bytes: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut again = start(&[NOP]);
    let file = CheckpointFile::read(&run.folder.path().join("m5checkpoint-0.ckpt")).unwrap();
    again.machine = Machine::new(again.machine.config().clone(), 1).unwrap();
    again.machine.restore(&file, &bare_identity(&bytes)).unwrap();
    assert_eq!(again.run_to_exit(), 3);
    assert_eq!(again.machine.state_hash(), run.machine.state_hash());
    assert_eq!(again.messages.len(), 1, "only ops after the checkpoint are repeated: {:?}", again.messages);
}

#[test]
fn m5_limit_bounds_the_files_of_a_guest_and_warns_once() {
    let mut run =
        start(&[m5(CHECKPOINT), m5(CHECKPOINT), m5(CHECKPOINT), m5(CHECKPOINT), m5(DUMP_STATS), m5(EXIT)]);
    // Space for one checkpoint.
    let size = run.machine.checkpoint(&run.guest, "").size() as u64;
    run.ops = M5Ops::new(ResultFolder::create(run.folder.path()).unwrap(), Bytes(size + size / 2));
    assert_eq!(run.run_to_exit(), 0);
    assert_eq!(std::fs::read_dir(run.folder.path()).unwrap().count(), 1);
    assert_eq!(run.messages.len(), 2, "{:?}", run.messages);
    assert!(
        run.messages[1].contains("run.m5_limit") && run.messages[1].contains("not written"),
        "{:?}",
        run.messages
    );
}

#[test]
fn work_marks_are_printed_with_their_id() {
    let mut run = start(&[li(A0, 42), m5(WORK_BEGIN), NOP, m5(WORK_END), m5(0x55), m5(EXIT)]);
    assert_eq!(run.run_to_exit(), 0);
    assert!(
        run.messages[0].contains("work begin: id 42") && run.messages[1].contains("work end: id 42"),
        "{:?}",
        run.messages
    );
    assert!(run.messages[2].contains("0x55"), "an unknown m5op is reported: {:?}", run.messages);
}

/// LUI rd: the upper 20 bits.
fn lui(rd: u32, upper: u32) -> u32 {
    upper << 12 | rd << 7 | 0x37
}

#[test]
fn readfile_copies_parts_of_the_file_to_guest_memory() {
    const A2: u32 = 12;
    let [s0, s1, s2] = [8, 9, 18];
    let mv = |rd: u32, rs: u32| rs << 15 | rd << 7 | 0x13;
    // LUI sign-extends. 0x80001000 is after the program; 0x1000 is not RAM.
    let (ram, nowhere) = (0x8_0001, 0x1);
    let zero_extend = |reg: u32| {
        [32 << 20 | reg << 15 | 1 << 12 | reg << 7 | 0x13, 32 << 20 | reg << 15 | 5 << 12 | reg << 7 | 0x13]
    };
    let read = |address: u32, length: u32, offset: u32, result: u32| {
        let mut words = vec![lui(A0, address)];
        words.extend(zero_extend(A0));
        words.extend([li(A1, length), li(A2, offset), m5(READ_FILE), mv(result, A0)]);
        words
    };
    let mut program = [read(ram, 4, 0, s0), read(ram, 100, 4, s1), read(nowhere, 4, 0, s2)].concat();
    program.extend(read(ram, 4, 6, A2));
    program.push(m5(EXIT));
    let mut run = start(&program);
    run.ops.set_file(b"abcdef".to_vec());
    assert_eq!(run.run_to_exit(), 0);
    let hart = &run.machine.harts()[0];
    let results = [s0, s1, s2, A2].map(|register| hart.reg(register as usize) as i64);
    assert_eq!(
        results,
        [4, 2, -1, 0],
        "the requested length, the rest of the file, no RAM, the end of the file"
    );
    let mut bytes = [0; 4];
    run.machine.peek(0, 0x8000_1000, &mut bytes);
    assert_eq!(&bytes, b"efcd", "the second part overwrites the first");
    assert!(run.messages.is_empty());
}

#[test]
fn readfile_without_a_file_returns_zero_and_warns() {
    let mut run = start(&[li(A1, 8), m5(READ_FILE), m5(EXIT)]);
    assert_eq!(run.run_to_exit(), 0);
    assert_eq!(run.machine.harts()[0].reg(A0 as usize), 0);
    assert!(run.messages[0].contains("no file"), "{:?}", run.messages);
}
