//! A test program: instruction forms, each executed on a table of operands, with the results left in memory.
//! It runs in user mode, on QEMU and on our hart.

use crate::asm::{Asm, addi, r_type, reg, sd};

/// RAM of QEMU's `virt`. The program's monitor is at its start, in machine mode.
pub const MEMORY: u64 = 0x8000_0000;
pub const CODE: u64 = 0x8001_0000;
pub const TABLES: u64 = 0x8200_0000;
pub const SCRATCH: u64 = 0x8300_0000;
pub const OUTPUT: u64 = 0x8400_0000;
pub const MEMORY_END: u64 = 0x8800_0000;

/// System call that ends the program.
pub const EXIT: u64 = 93;
/// System call that sets the flag word and the address at which to continue after an exception.
pub const SET_HANDLER: u64 = 1000;

/// Operands of one execution.
pub type Record = [u64; 4];

/// A table of operands in the program's memory.
#[derive(Clone, Copy)]
pub struct Table {
    addr: u64,
    first: usize,
    records: usize,
}

/// An instruction form and its table of operands.
struct Form {
    text: String,
    output: u64,
    /// Result doublewords per record.
    stride: u64,
    table: Table,
}

/// A program under construction.
pub struct Program {
    pub asm: Asm,
    records: Vec<Record>,
    forms: Vec<Form>,
    output_len: u64,
}

impl Default for Program {
    fn default() -> Self {
        Program { asm: Asm::new(CODE), records: Vec::new(), forms: Vec::new(), output_len: 0 }
    }
}

impl Program {
    pub fn table(&mut self, records: &[Record]) -> Table {
        let first = self.records.len();
        self.records.extend_from_slice(records);
        Table { addr: TABLES + first as u64 * 32, first, records: records.len() }
    }

    /// Adds constants to memory; returns their address.
    pub fn data(&mut self, values: &[u64]) -> u64 {
        let records =
            values.chunks(4).map(|chunk| std::array::from_fn(|i| chunk.get(i).copied().unwrap_or(0)));
        let records: Vec<Record> = records.collect();
        self.table(&records).addr
    }

    /// Fills memory with distinct values.
    pub fn fill_memory(&mut self, addr: u64, len: u64) {
        let asm = &mut self.asm;
        asm.li(6, addr).li(7, addr + len).li(10, 0x9e37_79b9_7f4a_7c15).li(11, 0x1234_5678);
        let again = asm.here();
        asm.word(r_type(0x33, 0, 1, 11, 11, 10)).word(addi(11, 11, 1)).word(sd(11, 6, 0));
        asm.word(addi(6, 6, 8)).branch(6, 6, 7, again);
    }

    pub fn cases(&self) -> usize {
        self.forms.iter().map(|form| form.table.records).sum()
    }

    /// Runs `body` once per record: `reg::IN` points to the record, `reg::OUT` to its `stride` result
    /// doublewords.
    pub fn form(&mut self, text: String, table: Table, stride: u64, body: impl FnOnce(&mut Asm)) {
        let output = OUTPUT + self.output_len;
        self.output_len += table.records as u64 * stride * 8;
        let asm = &mut self.asm;
        asm.li(reg::IN, table.addr).li(reg::END, table.addr + table.records as u64 * 32);
        asm.li(reg::OUT, output);
        let start = asm.here();
        body(asm);
        asm.word(addi(reg::IN, reg::IN, 32)).word(addi(reg::OUT, reg::OUT, stride as i32 * 8));
        asm.branch(1, reg::IN, reg::END, start);
        self.forms.push(Form { text, output, stride, table });
    }

    /// Ends the program and builds its ELF file.
    pub fn finish(mut self) -> Finished {
        assert!(OUTPUT + self.output_len < MEMORY_END, "the results exceed their memory");
        self.asm.syscall(EXIT);
        let Program { asm, records, forms, output_len } = self;
        let code = asm.into_code();
        assert!(CODE + (code.len() as u64) < TABLES, "the code exceeds its memory");
        let tables = records.iter().flatten().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        assert!(TABLES + (tables.len() as u64) < SCRATCH, "the tables exceed their memory");
        Finished { code, tables, records, forms, output_len }
    }
}

/// A program ready to run.
pub struct Finished {
    pub code: Vec<u8>,
    pub tables: Vec<u8>,
    records: Vec<Record>,
    forms: Vec<Form>,
    pub output_len: u64,
}

impl Finished {
    /// Describes the first differences of two outputs; `None` if they are equal.
    pub fn compare(&self, ours: &[u8], qemu: &[u8]) -> Option<String> {
        if ours == qemu {
            return None;
        }
        if ours.len() != qemu.len() {
            return Some(format!("ours wrote {} bytes, QEMU {}", ours.len(), qemu.len()));
        }
        let mut text = String::new();
        let (mut differing, mut shown) = (0, 0);
        for form in &self.forms {
            let mut shown_of_form = 0;
            for record in 0..form.table.records {
                let width = form.stride as usize * 8;
                let at = (form.output - OUTPUT) as usize + record * width;
                let (a, b) = (&ours[at..at + width], &qemu[at..at + width]);
                if a == b {
                    continue;
                }
                differing += 1;
                shown_of_form += 1;
                if shown < 40 && shown_of_form <= 3 {
                    shown += 1;
                    let operands = self.records[form.table.first + record];
                    text += &format!("{}\n  operands {operands:016x?}\n", form.text);
                    for (index, (ours, qemu)) in a.chunks(8).zip(b.chunks(8)).enumerate() {
                        if ours != qemu {
                            let value = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
                            text += &format!(
                                "  result {index}: ours {:016x}, QEMU {:016x}\n",
                                value(ours),
                                value(qemu)
                            );
                        }
                    }
                }
            }
        }
        Some(format!("{differing} cases differ, among them:\n{text}"))
    }
}
