//! Decoding of RISC-V instructions, compared with this project's own hart.

use super::*;
use crate::emit::{Emitter, Successor};
use crate::stream::Access;

fn bytes(word: u32) -> Bytes {
    let text = word.to_le_bytes();
    Bytes::new(0x1000, if word & 3 == 3 { &text } else { &text[..2] })
}

fn decoded(word: u32) -> Decoded {
    Riscv64.decode(&bytes(word))
}

#[test]
fn ops_equal_those_of_our_own_hart() {
    let access =
        |is_store, size| Access { instruction: 0, size, is_store, is_io: false, virt: 0x8000, phys: 0x8000 };
    let (load, store) = (|size| vec![access(false, size)], |size| vec![access(true, size)]);
    let both = |size| vec![access(false, size), access(true, size)];
    for (word, accesses) in [
        (0x00c5_8533, vec![]),   // add a0, a1, a2
        (0x02c5_8533, vec![]),   // mul a0, a1, a2
        (0x6ac5_f543, vec![]),   // fmadd.d fa0, fa1, fa2, fa3
        (0x0230_000f, vec![]),   // fence r, rw
        (0x1000_2573, vec![]),   // csrr a0, sstatus
        (0xc010_2573, vec![]),   // rdtime a0
        (0x0000_0013, vec![]),   // nop
        (0x0000_8082, vec![]),   // ret
        (0x0000_00ef, vec![]),   // jal ra, 0
        (0x0005_b507, load(8)),  // fld fa0, 0(a1)
        (0x0000_6502, load(8)),  // c.ldsp a0, 0(sp)
        (0x00c5_b423, store(8)), // sd a2, 8(a1)
        (0x00a5_b027, store(8)), // fsd fa0, 0(a1)
        (0x00b6_252f, both(4)),  // amoadd.w a0, a1, (a2)
        (0x1406_252f, load(4)),  // lr.w.aq a0, (a2)
        (0x18b6_252f, both(4)),  // sc.w a0, a1, (a2)
    ] {
        let bytes = bytes(word);
        let inst = match *bytes.bytes() {
            [low, high] => doorbell_riscv::decode_compressed(u16::from_le_bytes([low, high])),
            _ => doorbell_riscv::decode::decode(word),
        };
        let own = doorbell_riscv::op_of(&inst);
        let mut ops = Vec::new();
        Emitter::default().emit(&Riscv64.decode(&bytes), &accesses, Successor::Next, &mut ops);
        let [op] = ops[..] else { panic!("{word:08x} is {ops:?}") };
        // Except for atomics, the class determines whether an op writes.
        let without = if op.class == OpClass::Store { Op::WRITES } else { 0 };
        let flags = own.flags & !without;
        assert_eq!(
            (op.class, op.size, op.flags & !Op::PRIVILEGED),
            (own.class, own.size, flags),
            "{word:08x}"
        );
        assert_eq!((op.destination, op.sources), (own.destination, own.sources), "{word:08x}");
        assert_eq!(op.length, own.length, "{word:08x}");
    }
}

#[test]
fn control_flow_is_decoded() {
    assert_eq!(decoded(0x0080_006f).flow, Flow::Direct(0x1008)); // j .+8
    assert_eq!(decoded(0xfe00_0ee3).flow, Flow::Branch(0xffc)); // beqz zero, .-4
    assert_eq!(decoded(0x0000_8082).flow, Flow::Indirect); // ret
    for system in [0x0000_0073, 0x0010_0073, 0x1020_0073, 0x3020_0073] {
        assert_eq!(decoded(system).flow, Flow::System, "{system:08x}");
    }
    assert!(decoded(0x1020_0073).returns && !decoded(0x0000_0073).returns);
    assert_eq!(decoded(0x0405_e013).class, OpClass::Int, "a prefetch, whose address is not recorded");
}
