//! Decoding of AArch64 instructions.

use doorbell_sim::{Op, OpClass};

use super::*;
use crate::emit::{Emitter, Successor};
use crate::instruction::{List, Order};
use crate::names::{FLAGS, FURTHER, VECTOR};
use crate::stream::Access;

fn decoded(word: u32) -> Decoded {
    Aarch64.decode(&Bytes::new(0x1000, &word.to_le_bytes()))
}

fn ops(word: u32, accesses: &[(bool, u64, u8)]) -> Vec<Op> {
    let accesses: Vec<Access> = accesses
        .iter()
        .map(|&(is_store, virt, size)| Access {
            instruction: 0,
            size,
            is_store,
            is_io: false,
            virt,
            phys: virt,
        })
        .collect();
    let mut ops = Vec::new();
    Emitter::default().emit(&decoded(word), &accesses, Successor::Next, &mut ops);
    assert_eq!(ops.iter().filter(|op| op.ends_instruction()).count(), 1);
    assert_eq!(ops.last().unwrap().length, 4);
    ops
}

/// Register numbers: general registers from `X`, vector registers from `V`.
const X: u8 = GENERAL;
const V: u8 = VECTOR;
const SP: u8 = FURTHER;

fn is(list: &List, registers: &[u8]) -> bool {
    let mut all = list.all().to_vec();
    all.sort_unstable();
    let mut registers = registers.to_vec();
    registers.sort_unstable();
    all == registers
}

#[test]
fn instruction_classes() {
    use OpClass::*;
    for (word, class) in [
        (0x8b02_0020, Int),          // add x0, x1, x2
        (0x9b02_0c20, IntMul),       // madd x0, x1, x2, x3
        (0x9ac2_0820, IntDiv),       // udiv x0, x1, x2
        (0x9ac3_4c08, IntMul),       // crc32x w8, w0, x3
        (0x1e62_2820, FloatAdd),     // fadd d0, d1, d2
        (0x6e22_dc20, FloatMul),     // fmul v0.4s, v1.4s, v2.4s
        (0x4e22_cc20, FloatFma),     // fmla v0.4s, v1.4s, v2.4s
        (0x1f42_0c20, FloatFma),     // fmadd d0, d1, d2, d3
        (0x1e62_1820, FloatDiv),     // fdiv d0, d1, d2
        (0x1e61_c020, FloatDiv),     // fsqrt d0, d1
        (0x4e28_4820, FloatMul),     // aese v0.16b, v1.16b
        (0xd503_3fdf, Serialising),  // isb
        (0xd538_4100, Int),          // mrs x0, sp_el0: Linux has the current thread there
        (0xd53b_4220, Serialising),  // mrs x0, daif
        (0xd503_42df, Serialising),  // msr daifset, #2
        (0xd518_2000, Serialising),  // msr ttbr0_el1, x0
        (0xd53b_e041, Int),          // mrs x1, cntvct_el0
        (0xd508_831f, Serialising),  // tlbi vmalle1is
        (0xd50b_7e20, Serialising),  // dc civac, x0
        (0xd400_0001, Serialising),  // svc #0
        (0xd503_207f, Int),          // wfi
        (0xd503_203f, Int),          // yield
        (0xd503_233f, Int),          // paciasp, which this core does not implement
        (0xf980_0000, Int),          // prfm pldl1keep, [x0]
        (0x1400_0002, Jump),         // b .+8
        (0x9400_0002, Call),         // bl .+8
        (0x54ff_ffc1, Branch),       // b.ne .-8
        (0xb400_0040, Branch),       // cbz x0, .+8
        (0x3718_0040, Branch),       // tbnz w0, #3, .+8
        (0xd61f_0200, IndirectJump), // br x16
        (0xd63f_0040, IndirectCall), // blr x2
        (0xd65f_03c0, Return),       // ret
        (0x0000_0000, Int),          // udf
        (0xffff_ffff, Int),          // unallocated
    ] {
        assert_eq!(decoded(word).class, class, "{word:08x}");
    }
}

#[test]
fn registers_follow_from_operands() {
    for (word, reads, writes) in [
        (0xab02_0020, &[X + 1, X + 2][..], &[X, FLAGS][..]), // adds x0, x1, x2
        (0x9b02_0c20, &[X + 1, X + 2, X + 3], &[X]),         // madd x0, x1, x2, x3
        (0x9a82_1020, &[X + 1, X + 2, FLAGS], &[X]),         // csel x0, x1, x2, ne
        (0xfa41_0800, &[X, FLAGS], &[FLAGS]),                // ccmp x0, #1, #0, eq
        (0xf2a0_0020, &[X], &[X]),                           // movk x0, #1, lsl #16
        (0xeb01_001f, &[X, X + 1], &[FLAGS]),                // cmp x0, x1
        (0x54ff_ffc1, &[FLAGS], &[]),                        // b.ne
        (0xb400_0040, &[X], &[]),                            // cbz x0
        (0x9400_0002, &[], &[X + 30]),                       // bl
        (0xd63f_0040, &[X + 2], &[X + 30]),                  // blr x2
        (0xd65f_03c0, &[X + 30], &[]),                       // ret
        (0x4e22_cc20, &[V, V + 1, V + 2], &[V]),             // fmla v0.4s, v1.4s, v2.4s
        (0x1f42_0c20, &[V + 1, V + 2, V + 3], &[V]),         // fmadd d0, d1, d2, d3
        (0x4e0c_1c20, &[V, X + 1], &[V]),                    // mov v0.s[1], w1
        (0x4e03_2020, &[V + 1, V + 2, V + 3], &[V]),         // tbl v0.16b, {v1.16b, v2.16b}, v3.16b
        (0x4ea1_2820, &[V, V + 1], &[V]),                    // xtn2 v0.4s, v1.2d
        (0x1e61_2000, &[V, V + 1], &[FLAGS]),                // fcmp d0, d1
        (0x1e62_0c20, &[V + 1, V + 2, FLAGS], &[V]),         // fcsel d0, d1, d2, eq
        (0x0e0c_3c20, &[V + 1], &[X]),                       // mov w0, v1.s[1]
        (0xd53b_4200, &[FLAGS], &[X]),                       // mrs x0, nzcv
        (0xa8c2_7bfd, &[], &[X + 29, X + 30]),               // ldp x29, x30, [sp], #32
        (0xa9be_7bfd, &[X + 29, X + 30], &[]),               // stp x29, x30, [sp, #-32]!
        (0xc803_7c22, &[X + 2], &[X + 3]),                   // stxr w3, x2, [x1]
        (0xc87f_0440, &[], &[X, X + 1]),                     // ldxp x0, x1, [x2]
        (0xf824_0025, &[X + 4], &[X + 5]),                   // ldadd x4, x5, [x1]
        (0x88e1_7c40, &[X + 1, X], &[X + 1]),                // casa w1, w0, [x2]
        (0xf861_8062, &[X + 1], &[X + 2]),                   // swpl x1, x2, [x3]
        (0x0d40_9020, &[V], &[V]),                           // ld1 {v0.s}[1], [x1]
        (0x4cdf_a020, &[], &[V, V + 1]),                     // ld1 {v0.16b, v1.16b}, [x1], #32
        (0x4c00_2020, &[V, V + 1, V + 2, V + 3], &[]),       // st1 {v0.16b-v3.16b}, [x1]
    ] {
        let decoded = decoded(word);
        assert!(is(&decoded.reads, reads), "{word:08x} reads {:?}", decoded.reads);
        assert!(is(&decoded.writes, writes), "{word:08x} writes {:?}", decoded.writes);
    }
    // ldr x0, [x1, x2, lsl #3]; ldr x0, [x1], #8; stp x29, x30, [sp, #-32]!
    for (word, addresses, updates) in [
        (0xf862_7820, &[X + 1, X + 2][..], &[][..]),
        (0xf840_8420, &[X + 1], &[X + 1]),
        (0xa9be_7bfd, &[SP], &[SP]),
    ] {
        let decoded = decoded(word);
        assert!(is(&decoded.address_registers, addresses), "{word:08x}");
        assert!(is(&decoded.updates, updates), "{word:08x}");
    }
}

#[test]
fn control_flow_is_decoded() {
    assert_eq!(decoded(0x1400_0002).flow, Flow::Direct(0x1008));
    assert_eq!(decoded(0x54ff_ffc1).flow, Flow::Branch(0xff8));
    assert_eq!(decoded(0x3718_0040).flow, Flow::Branch(0x1008));
    assert_eq!(decoded(0xd65f_03c0).flow, Flow::Indirect);
    for system in [0xd400_0001, 0xd69f_03e0, 0xd420_0020] {
        assert_eq!(decoded(system).flow, Flow::System, "{system:08x}");
    }
    assert!(decoded(0xd69f_03e0).returns && !decoded(0xd400_0001).returns);
}

#[test]
fn pair_is_one_access_with_a_separate_base_update() {
    let [load, other, base] = ops(0xa8c2_7bfd, &[(false, 0x8000, 8), (false, 0x8008, 8)])[..] else {
        panic!()
    };
    assert_eq!((load.class, load.size, load.sources), (OpClass::Load, 16, [SP, 0, 0]));
    assert_eq!((other.class, other.destination, other.sources), (OpClass::Int, X + 30, [X + 29, 0, 0]));
    assert_eq!((base.class, base.destination, base.sources), (OpClass::Int, SP, [SP, 0, 0]));
    let [store, base] = ops(0xa9be_7bfd, &[(true, 0x8000, 8), (true, 0x8008, 8)])[..] else { panic!() };
    assert_eq!((store.class, store.size, store.sources), (OpClass::Store, 16, [SP, X + 29, X + 30]));
    assert_eq!(base.destination, SP);
}

#[test]
fn barriers_have_their_ordering_bits() {
    assert_eq!(ops(0xd503_3bbf, &[])[0].fence(), [true; 4], "dmb ish");
    assert_eq!(ops(0xd503_39bf, &[])[0].fence(), [true, false, true, true], "dmb ishld");
    assert_eq!(ops(0xd503_3abf, &[])[0].fence(), [false, true, false, true], "dmb ishst");
    assert_eq!(ops(0xd503_3f9f, &[])[0].fence(), [true; 4], "dsb sy");
    assert_eq!(decoded(0xf8bf_c020).order, Order::Acquires, "ldapr x0, [x1]");
    let [load, fence] = ops(0xc8df_fc20, &[(false, 0x8000, 8)])[..] else { panic!() };
    assert_eq!((load.class, fence.class), (OpClass::Load, OpClass::Fence), "ldar x0, [x1]");
    assert_eq!(fence.fence(), [true, false, true, true]);
    let [fence, store] = ops(0xc89f_fc20, &[(true, 0x8000, 8)])[..] else { panic!() };
    assert_eq!((fence.class, store.class), (OpClass::Fence, OpClass::Store), "stlr x0, [x1]");
    assert_eq!(fence.fence(), [true, true, false, true]);
}

#[test]
fn exclusives_and_lse_atomics_are_atomic() {
    let both = [(false, 0x8000, 8), (true, 0x8000, 8)];
    for (word, accesses, writes, acquires) in [
        (0xc85f_fc20, &both[..1], false, true), // ldaxr x0, [x1]
        (0xc803_7c22, &both, true, false),      // stxr w3, x2, [x1]
        (0xf824_0025, &both, true, false),      // ldadd x4, x5, [x1]
        (0xf8e4_0025, &both, true, true),       // ldaddal x4, x5, [x1]
        (0x88e1_7c40, &both, true, true),       // casa w1, w0, [x2]
        (0xf861_8062, &both, true, false),      // swpl x1, x2, [x3]
    ] {
        let [op] = ops(word, accesses)[..] else { panic!("{word:08x}") };
        assert_eq!(op.class, OpClass::Atomic, "{word:08x}");
        assert_eq!(op.flags & Op::WRITES != 0, writes, "{word:08x}");
        assert_eq!(op.fence(), [false, false, acquires, acquires], "{word:08x}");
    }
    // A store-exclusive that failed.
    assert_eq!(ops(0xc803_7c22, &[])[0].class, OpClass::Int);
}

#[test]
fn dc_zva_is_a_64_byte_store() {
    let zva = decoded(0xd50b_7420);
    assert!(zva.accesses_memory, "a DC ZVA without a store has faulted");
    let [op] = ops(0xd50b_7420, &[(true, 0x8000, 64)])[..] else { panic!() };
    assert_eq!((op.class, op.size, op.sources), (OpClass::Store, 64, [X, 0, 0]));
}
