//! gem5's m5ops as instructions of a guest program.

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
    said: Vec<String>,
    folder: tempfile::TempDir,
}

fn start(program: &[u32]) -> Run {
    let bytes: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
    let config = resolve("fast", &["platform.ram=64MiB".into()]).unwrap();
    let mut machine = Machine::new(config.machine(), 1).unwrap();
    assert!(machine.load_bare(&bytes));
    let folder = tempfile::tempdir().unwrap();
    let ops = M5Ops::new(ResultFolder::create(folder.path()).unwrap(), config.run.m5_limit);
    Run { machine, ops, guest: bare_identity(&bytes), said: Vec::new(), folder }
}

impl Run {
    /// Runs until the guest asks to end; gives its exit code.
    fn run_to_its_end(&mut self) -> u8 {
        loop {
            let Outcome::M5Op { hart, function, args } = self.machine.run(&Limits::until(Ps::from_ms(1)))
            else {
                panic!("the guest never asked to end")
            };
            let said = &mut self.said;
            match self
                .ops
                .perform(&mut self.machine, &self.guest, hart, function, args, &mut |line| {
                    said.push(line.to_owned())
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
fn statistics_count_from_the_reset_and_are_dumped_when_asked() {
    let mut run = start(&[NOP, NOP, m5(RESET_STATS), NOP, NOP, NOP, m5(DUMP_STATS), m5(EXIT)]);
    assert_eq!(run.run_to_its_end(), 0);
    let text = std::fs::read_to_string(run.folder.path().join("m5stats-0.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
    // Three NOPs and the dump itself.
    assert_eq!(stats["counters"]["hart0.instructions"]["value"], 4);
    // And so does time: an instruction takes one cycle.
    let seconds = |name: &str| stats[name].as_f64().unwrap();
    let (since, all) = (seconds("simulated_seconds"), seconds("simulated_seconds_since_boot"));
    assert!(since > 0.0 && since < all, "{since} of {all} s");
}

#[test]
fn a_checkpoint_that_the_guest_asks_for_goes_on_behind_the_instruction() {
    let program = [li(A0, 7), m5(CHECKPOINT), m5(WORK_BEGIN), li(A1, 3), m5(FAIL)];
    let mut run = start(&program);
    assert_eq!(run.run_to_its_end(), 3);
    let bytes: Vec<u8> = program.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut again = start(&[NOP]);
    let file = CheckpointFile::read(&run.folder.path().join("m5checkpoint-0.ckpt")).unwrap();
    again.machine = Machine::new(again.machine.config().clone(), 1).unwrap();
    again.machine.restore(&file, &bare_identity(&bytes)).unwrap();
    assert_eq!(again.run_to_its_end(), 3);
    assert_eq!(again.machine.state_hash(), run.machine.state_hash());
    assert_eq!(again.said.len(), 1, "only what comes behind the checkpoint happens again: {:?}", again.said);
}

#[test]
fn a_guest_in_a_loop_cannot_fill_the_disk_and_is_told_so_once() {
    let mut run =
        start(&[m5(CHECKPOINT), m5(CHECKPOINT), m5(CHECKPOINT), m5(CHECKPOINT), m5(DUMP_STATS), m5(EXIT)]);
    // Room for one of them.
    let size = run.machine.checkpoint(&run.guest, "").size() as u64;
    run.ops = M5Ops::new(ResultFolder::create(run.folder.path()).unwrap(), Bytes(size + size / 2));
    assert_eq!(run.run_to_its_end(), 0);
    assert_eq!(std::fs::read_dir(run.folder.path()).unwrap().count(), 1);
    assert_eq!(run.said.len(), 2, "{:?}", run.said);
    assert!(run.said[1].contains("run.m5_limit") && run.said[1].contains("not written"), "{:?}", run.said);
}

#[test]
fn work_marks_are_said_with_their_id() {
    let mut run = start(&[li(A0, 42), m5(WORK_BEGIN), NOP, m5(WORK_END), m5(0x55), m5(EXIT)]);
    assert_eq!(run.run_to_its_end(), 0);
    assert!(
        run.said[0].contains("work begin: id 42") && run.said[1].contains("work end: id 42"),
        "{:?}",
        run.said
    );
    assert!(run.said[2].contains("0x55"), "an unknown m5op is named: {:?}", run.said);
}

/// LUI rd: the upper 20 bits.
fn lui(rd: u32, upper: u32) -> u32 {
    upper << 12 | rd << 7 | 0x37
}

#[test]
fn a_guest_reads_the_run_s_file_piece_by_piece_into_its_memory() {
    const A2: u32 = 12;
    let [s0, s1, s2] = [8, 9, 18];
    let mv = |rd: u32, rs: u32| rs << 15 | rd << 7 | 0x13;
    // LUI extends its sign: 0x80001000 is behind the program, and 0x1000 is no RAM.
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
    assert_eq!(run.run_to_its_end(), 0);
    let hart = &run.machine.harts()[0];
    let results = [s0, s1, s2, A2].map(|register| hart.reg(register as usize) as i64);
    assert_eq!(results, [4, 2, -1, 0], "all that was asked for, what was left, no memory, and the end");
    let mut bytes = [0; 4];
    run.machine.peek(0, 0x8000_1000, &mut bytes);
    assert_eq!(&bytes, b"efcd", "the second piece lies over the first");
    assert!(run.said.is_empty());
}

#[test]
fn without_a_file_a_guest_reads_nothing_and_it_is_said() {
    let mut run = start(&[li(A1, 8), m5(READ_FILE), m5(EXIT)]);
    assert_eq!(run.run_to_its_end(), 0);
    assert_eq!(run.machine.harts()[0].reg(A0 as usize), 0);
    assert!(run.said[0].contains("no file"), "{:?}", run.said);
}
