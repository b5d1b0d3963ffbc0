//! Device tree handling: reads the harts and the end of RAM, and inserts a node that reserves the firmware's
//! memory.
//!
//! Documents: Devicetree Specification 0.4, chapter 5 (flattened format); the reserved-memory binding,
//! section 3.5. It reads nodes named `cpu@…`, and `reg` of the node named `memory@8…`, with two cells each
//! for address and size, as on this board. The strings block must follow the structure block, as all common
//! writers place it.

use super::assembler::{Assembler, *};
use super::layout::{self, HARTS_MAX, shared};

const MAGIC: u64 = 0xd00d_feed;
/// Offsets in the header.
const TOTAL_SIZE: i32 = 4;
const STRUCTURE: i32 = 8;
const STRINGS: i32 = 12;
const STRINGS_SIZE: i32 = 32;
const STRUCTURE_SIZE: i32 = 36;
/// Tokens.
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;
/// The structure ends with the root's END_NODE and END.
const STRUCTURE_TAIL: i32 = 8;

/// Four characters as a little-endian word.
const fn four(text: &[u8; 4]) -> u64 {
    u32::from_le_bytes(*text) as u64
}

/// The node to insert, and the strings to add.
struct Insertion {
    words: Vec<u32>,
    /// Bit mask of the words that are string offsets, to be increased by the size of the existing strings.
    names: u64,
    strings: Vec<u8>,
}

impl Insertion {
    fn new() -> Insertion {
        let mut node = Insertion { words: Vec::new(), names: 0, strings: Vec::new() };
        node.begin("reserved-memory");
        node.property("#address-cells", &[2]);
        node.property("#size-cells", &[2]);
        node.property("ranges", &[]);
        node.begin(&format!("mmode_resv0@{:x}", layout::BASE));
        let halves = |value: u64| [(value >> 32) as u32, value as u32];
        node.property("reg", &[halves(layout::BASE), halves(layout::BYTES)].concat());
        node.property("no-map", &[]);
        node.words.extend([END_NODE, END_NODE]);
        assert!(node.words.len() <= 64);
        node.strings.resize(node.strings.len().next_multiple_of(4), 0);
        node
    }

    fn begin(&mut self, name: &str) {
        self.words.push(BEGIN_NODE);
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
        self.words.extend(bytes.chunks(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]])));
    }

    fn property(&mut self, name: &str, cells: &[u32]) {
        self.words.extend([PROPERTY, 4 * cells.len() as u32]);
        self.names |= 1 << self.words.len();
        self.words.push(self.strings.len() as u32);
        self.strings.extend(name.bytes().chain([0]));
        self.words.extend(cells);
    }
}

pub(super) fn assemble(a: &mut Assembler) {
    let insertion = Insertion::new();
    words(a);
    open(a);
    walk(a);
    node(a);
    property(a);
    reserve(a, &insertion);
    update_header(a, &insertion);
    a.label("tree.node");
    a.data(&insertion.words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    a.label("tree.strings");
    a.data(&insertion.strings);
}

/// `tree.load`: t0 = the big-endian word at t0. `tree.store`: stores t0 as a big-endian word at t2. Both use
/// t1.
fn words(a: &mut Assembler) {
    a.label("tree.load");
    a.lbu(T1, T0, 0);
    for byte in 1..4 {
        a.lbu(T6, T0, byte);
        a.slli(T1, T1, 8);
        a.or(T1, T1, T6);
    }
    a.mv(T0, T1);
    a.ret();
    a.label("tree.store");
    for byte in 0..4 {
        a.srli(T1, T0, 24 - 8 * byte);
        a.sb(T1, T2, byte as i32);
    }
    a.ret();
}

/// Checks the header. s2 = the structure, s3 = its end, s4 = the strings, s5 = their size.
fn open(a: &mut Assembler) {
    a.label("tree.read");
    a.mv(S6, RA);
    a.mv(T0, S0);
    a.call("tree.load");
    a.li(T1, MAGIC);
    a.bne(T0, T1, "fatal.tree");
    for (offset, into) in [(STRUCTURE, S2), (STRUCTURE_SIZE, S3), (STRINGS, S4), (STRINGS_SIZE, S5)] {
        a.addi(T0, S0, offset);
        a.call("tree.load");
        a.mv(into, T0);
    }
    a.add(S2, S2, S0);
    a.add(S3, S3, S2);
    a.add(S4, S4, S0);
    a.bltu(S4, S3, "fatal.tree");
}

/// Steps through the tokens: t4 is the cursor, t5 is nonzero inside the memory node.
fn walk(a: &mut Assembler) {
    a.mv(T4, S2);
    a.li(T5, 0);
    a.label("tree.token");
    a.bgeu(T4, S3, "fatal.tree");
    a.mv(T0, T4);
    a.call("tree.load");
    a.addi(T4, T4, 4);
    for (token, to) in [(PROPERTY, "tree.property"), (BEGIN_NODE, "tree.begin"), (NOP, "tree.token")] {
        a.li(T1, u64::from(token));
        a.beq(T0, T1, to);
    }
    a.li(T5, 0);
    a.li(T1, u64::from(END_NODE));
    a.beq(T0, T1, "tree.token");
    a.li(T1, u64::from(END));
    a.bne(T0, T1, "fatal.tree");
    a.mv(RA, S6);
    a.ret();
}

/// Handles a node: detects harts and memory.
fn node(a: &mut Assembler) {
    a.label("tree.begin");
    a.li(T5, 0);
    a.lwu(T0, T4, 0);
    a.li(T1, four(b"memo"));
    a.bne(T0, T1, "tree.no_memory");
    a.lwu(T0, T4, 4);
    a.li(T1, four(b"ry@8"));
    a.bne(T0, T1, "tree.skip_name");
    a.li(T5, 1);
    a.label("tree.no_memory");
    a.li(T1, four(b"cpu@"));
    a.bne(T0, T1, "tree.skip_name");
    a.addi(T2, T4, 4);
    a.li(T3, 0);
    a.label("tree.digit");
    a.lbu(T0, T2, 0);
    a.addi(T2, T2, 1);
    a.beqz(T0, "tree.hart");
    a.slli(T3, T3, 4);
    // '0' to '9' are 0x30 to 0x39, 'a' to 'f' are 0x61 to 0x66.
    a.andi(T1, T0, 0xf);
    a.srli(T0, T0, 6);
    a.add(T3, T3, T1);
    a.beqz(T0, "tree.digit");
    a.addi(T3, T3, 9);
    a.j("tree.digit");
    a.label("tree.hart");
    a.li(T0, u64::from(HARTS_MAX));
    a.bgeu(T3, T0, "tree.skip_name");
    a.li(T0, 1);
    a.sll(T0, T0, T3);
    a.address(T1, layout::SHARED);
    a.ld(T2, T1, shared::PRESENT);
    a.or(T2, T2, T0);
    a.sd(T2, T1, shared::PRESENT);
    a.label("tree.skip_name");
    a.lbu(T0, T4, 0);
    a.addi(T4, T4, 1);
    a.bnez(T0, "tree.skip_name");
    a.addi(T4, T4, 3);
    a.andi(T4, T4, -4);
    a.j("tree.token");
}

/// Handles a property: skips it unless it is `reg` of the memory node.
fn property(a: &mut Assembler) {
    a.label("tree.property");
    a.mv(T0, T4);
    a.call("tree.load");
    a.mv(T3, T0);
    a.addi(T4, T4, 8);
    a.beqz(T5, "tree.skip_value");
    a.addi(T0, T4, -4);
    a.call("tree.load");
    a.add(T0, T0, S4);
    // Strings are not aligned.
    a.li(T2, 0);
    for byte in 0..4 {
        a.lbu(T1, T0, byte);
        a.slli(T1, T1, 8 * byte as u32);
        a.or(T2, T2, T1);
    }
    a.li(T1, four(b"reg\0"));
    a.bne(T2, T1, "tree.skip_value");
    // The end of RAM is the sum of address and size, two words each.
    a.li(T2, 0);
    for (word, high) in [(0, true), (4, false), (8, true), (12, false)] {
        a.addi(T0, T4, word);
        a.call("tree.load");
        if high {
            a.slli(T0, T0, 32);
        }
        a.add(T2, T2, T0);
    }
    a.address(T0, layout::SHARED);
    a.sd(T2, T0, shared::RAM_END);
    a.label("tree.skip_value");
    a.add(T4, T4, T3);
    a.addi(T4, T4, 3);
    a.andi(T4, T4, -4);
    a.j("tree.token");
}

/// Moves the strings up, inserts the node after the root's last child, and appends its strings.
fn reserve(a: &mut Assembler, insertion: &Insertion) {
    let node_bytes = 4 * insertion.words.len() as i32;
    a.label("tree.reserve");
    a.mv(S6, RA);
    a.add(T0, S4, S5);
    a.label("tree.move");
    a.addi(T0, T0, -1);
    a.lbu(T1, T0, 0);
    a.sb(T1, T0, node_bytes);
    a.bltu(S4, T0, "tree.move");
    a.add(T2, S4, S5);
    a.la(T3, "tree.strings");
    a.li(T4, insertion.strings.len() as u64);
    a.label("tree.add_string");
    a.lbu(T0, T3, 0);
    a.sb(T0, T2, node_bytes);
    a.addi(T3, T3, 1);
    a.addi(T2, T2, 1);
    a.addi(T4, T4, -1);
    a.bnez(T4, "tree.add_string");
    a.addi(T2, S3, -STRUCTURE_TAIL);
    a.la(T3, "tree.node");
    a.li(T4, insertion.names);
    a.li(T5, insertion.words.len() as u64);
    a.label("tree.add_word");
    a.lwu(T0, T3, 0);
    a.andi(T1, T4, 1);
    a.beqz(T1, "tree.no_name");
    a.add(T0, T0, S5);
    a.label("tree.no_name");
    a.call("tree.store");
    a.srli(T4, T4, 1);
    a.addi(T3, T3, 4);
    a.addi(T2, T2, 4);
    a.addi(T5, T5, -1);
    a.bnez(T5, "tree.add_word");
    for token in [END_NODE, END] {
        a.li(T0, u64::from(token));
        a.call("tree.store");
        a.addi(T2, T2, 4);
    }
}

fn update_header(a: &mut Assembler, insertion: &Insertion) {
    let (node, strings) = (4 * insertion.words.len() as i32, insertion.strings.len() as i32);
    for (field, more) in
        [(TOTAL_SIZE, node + strings), (STRINGS, node), (STRUCTURE_SIZE, node), (STRINGS_SIZE, strings)]
    {
        a.addi(T0, S0, field);
        a.mv(T2, T0);
        a.call("tree.load");
        a.addi(T0, T0, more);
        a.call("tree.store");
    }
    a.mv(RA, S6);
    a.ret();
}
