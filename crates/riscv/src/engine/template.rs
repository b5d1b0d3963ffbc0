//! Timing-model ops of instructions, before execution adds their addresses.

use doorbell_sim::op::Register;
use doorbell_sim::{Op, OpClass};

use crate::inst::{Inst, Kind};

/// Whether the CSR is a counter: `cycle`, `time`, `instret`, event counters and their machine-mode versions.
fn is_counter(number: i32) -> bool {
    matches!(number & 0xfff, 0xc00..=0xc1f | 0xb00..=0xb1f)
}

/// Whether the instruction reads a counter; older instructions must be timed before it executes.
pub(super) fn reads_counter(inst: &Inst) -> bool {
    (Kind::Csrrw..=Kind::Csrrci).contains(&inst.kind) && is_counter(inst.imm)
}

/// The timing-model op of an instruction, without its addresses; for traces of other machines.
pub fn op_of(inst: &Inst) -> Op {
    template(inst, 0)
}

/// The op of an instruction; `pc` holds its `offset` from the block's start.
pub(super) fn template(inst: &Inst, offset: u64) -> Op {
    let class = class_of(inst);
    let (destination, sources) = registers(inst);
    Op {
        pc: offset,
        class,
        size: access_bytes(inst.kind),
        length: inst.len,
        flags: flags(inst, class),
        destination,
        sources,
        ..Op::default()
    }
}

fn class_of(inst: &Inst) -> OpClass {
    use Kind::*;
    let link = |register: u8| register == 1 || register == 5;
    match inst.kind {
        Jal if link(inst.rd) => OpClass::Call,
        Jal => OpClass::Jump,
        // Return-address stack hints of the unprivileged manual, chapter "RV32I Base".
        Jalr if link(inst.rd) => OpClass::IndirectCall,
        Jalr if link(inst.rs1) => OpClass::Return,
        Jalr => OpClass::IndirectJump,
        Beq | Bne | Blt | Bge | Bltu | Bgeu => OpClass::Branch,
        Lb | Lh | Lw | Ld | Lbu | Lhu | Lwu | Flw | Fld => OpClass::Load,
        Sb | Sh | Sw | Sd | Fsw | Fsd => OpClass::Store,
        kind if (LrW..=AmomaxuD).contains(&kind) => OpClass::Atomic,
        Mul | Mulh | Mulhsu | Mulhu | Mulw => OpClass::IntMul,
        Div | Divu | Rem | Remu | Divw | Divuw | Remw | Remuw => OpClass::IntDiv,
        FmulS | FmulD => OpClass::FloatMul,
        FdivS | FdivD | FsqrtS | FsqrtD => OpClass::FloatDiv,
        FmaddS | FmsubS | FnmsubS | FnmaddS | FmaddD | FmsubD | FnmsubD | FnmaddD => OpClass::FloatFma,
        kind if (FaddS..=FmvDX).contains(&kind) => OpClass::FloatAdd,
        Fence => OpClass::Fence,
        PrefetchI | PrefetchR | PrefetchW => OpClass::Prefetch,
        // A counter read neither waits for other ops nor delays them, as on most cores.
        _ if reads_counter(inst) => OpClass::Int,
        FenceI | Ecall | Ebreak | Mret | Sret | Wfi | SfenceVma | M5Op => OpClass::Serialising,
        kind if (Csrrw..=Csrrci).contains(&kind) => OpClass::Serialising,
        _ => OpClass::Int,
    }
}

fn access_bytes(kind: Kind) -> u8 {
    use Kind::*;
    match kind {
        Lb | Lbu | Sb => 1,
        Lh | Lhu | Sh => 2,
        Lw | Lwu | Sw | Flw | Fsw => 4,
        Ld | Sd | Fld | Fsd => 8,
        kind if (LrW..=AmomaxuW).contains(&kind) => 4,
        kind if (LrD..=AmomaxuD).contains(&kind) => 8,
        _ => 0,
    }
}

fn flags(inst: &Inst, class: OpClass) -> u8 {
    match inst.kind {
        Kind::Fence => {
            // Predecessors in bits 7:4 of the immediate, successors in 3:0, each as I, O, R, W. Device input
            // counts as a load, device output as a store.
            let set = |bits: i32| u8::from(bits & 0b1010 != 0) | u8::from(bits & 0b0101 != 0) << 1;
            (set(inst.imm >> 4) | set(inst.imm) << 2) << Op::FENCE_SHIFT
        }
        Kind::LrW | Kind::LrD => acquire(inst),
        _ if class == OpClass::Atomic => Op::WRITES | acquire(inst),
        _ if class == OpClass::Store => Op::WRITES,
        Kind::PrefetchW => Op::WRITES,
        Kind::PrefetchI => Op::CODE,
        _ => 0,
    }
}

/// An atomic with `aq` delays younger loads and stores. `rl` needs no flag: every atomic waits for older
/// stores.
fn acquire(inst: &Inst) -> u8 {
    if inst.rm & 2 != 0 { 0b1100 << Op::FENCE_SHIFT } else { 0 }
}

/// The registers that an instruction writes and reads.
fn registers(inst: &Inst) -> (Register, [Register; 3]) {
    use Kind::*;
    let float = |register: u8| 32 + register;
    let kind = inst.kind;
    let writes_none = matches!(kind, Fence | FenceI | Ecall | Ebreak | Mret | Sret | Wfi | SfenceVma | M5Op);
    let destination = match kind {
        _ if writes_none
            || matches!(class_of(inst), OpClass::Branch | OpClass::Store | OpClass::Prefetch) =>
        {
            0
        }
        _ if kind.writes_float() => float(inst.rd),
        _ => inst.rd,
    };
    let moves_float = |first: u8| [first, 0, 0];
    let sources = match kind {
        Fsw | Fsd => [inst.rs1, float(inst.rs2), 0],
        Flw | Fld => [inst.rs1, 0, 0],
        FmaddS | FmsubS | FnmsubS | FnmaddS | FmaddD | FmsubD | FnmsubD | FnmaddD => {
            [float(inst.rs1), float(inst.rs2), float(inst.rs3)]
        }
        FcvtSW | FcvtSWu | FcvtSL | FcvtSLu | FmvWX | FcvtDW | FcvtDWu | FcvtDL | FcvtDLu | FmvDX => {
            moves_float(inst.rs1)
        }
        FsqrtS | FsqrtD | FcvtSD | FcvtDS | FmvXW | FmvXD | FclassS | FclassD => moves_float(float(inst.rs1)),
        kind if (FcvtWS..=FcvtLuS).contains(&kind) || (FcvtWD..=FcvtLuD).contains(&kind) => {
            moves_float(float(inst.rs1))
        }
        kind if (FaddS..=FleD).contains(&kind) && kind != Fld && kind != Fsd => {
            [float(inst.rs1), float(inst.rs2), 0]
        }
        Csrrwi | Csrrsi | Csrrci => [0; 3],
        _ => [inst.rs1, inst.rs2, 0],
    };
    (destination, sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;

    fn of(word: u32) -> Op {
        template(&decode(word), 0)
    }

    #[test]
    fn instructions_map_to_timing_ops() {
        let add = of(0x00c5_8533); // add a0, a1, a2
        assert_eq!((add.class, add.destination, add.sources), (OpClass::Int, 10, [11, 12, 0]));
        let store = of(0x00c5_b423); // sd a2, 8(a1)
        assert_eq!((store.class, store.destination, store.sources), (OpClass::Store, 0, [11, 12, 0]));
        assert_eq!((store.size, store.flags), (8, Op::WRITES));
        let store = of(0x00a5_b027); // fsd fa0, 0(a1)
        assert_eq!(store.sources, [11, 42, 0]);
        let load = of(0x0005_b507); // fld fa0, 0(a1)
        assert_eq!((load.class, load.destination, load.sources), (OpClass::Load, 42, [11, 0, 0]));
        let fused = of(0x6ac5_f543); // fmadd.d fa0, fa1, fa2, fa3
        assert_eq!((fused.class, fused.destination, fused.sources), (OpClass::FloatFma, 42, [43, 44, 45]));
        let compare = of(0xa2c5_a553); // feq.d a0, fa1, fa2
        assert_eq!((compare.destination, compare.sources), (10, [43, 44, 0]));
        let convert = of(0xd225_8553); // fcvt.d.l fa0, a1
        assert_eq!((convert.destination, convert.sources), (42, [11, 0, 0]));
        let convert = of(0xc225_9553); // fcvt.l.d a0, fa1
        assert_eq!((convert.destination, convert.sources), (10, [43, 0, 0]));
        for (word, flags) in [(0x0405_e013, Op::CODE), (0x0415_e013, 0), (0x0435_e013, Op::WRITES)] {
            let prefetch = of(word); // prefetch.i, .r, .w 64(a1)
            assert_eq!((prefetch.class, prefetch.destination), (OpClass::Prefetch, 0), "{word:x}");
            assert_eq!((prefetch.sources, prefetch.size, prefetch.flags), ([11, 0, 0], 0, flags), "{word:x}");
        }
        assert_eq!(of(0x0000_8067).class, OpClass::Return);
        assert_eq!(of(0x0000_80e7).class, OpClass::IndirectCall);
        assert_eq!(of(0x0000_00ef).class, OpClass::Call);
        assert_eq!(of(0xc010_2573).class, OpClass::Int, "rdtime");
        assert_eq!(of(0x1000_2573).class, OpClass::Serialising, "csrr a0, sstatus");
        assert_eq!(of(0x00b6_252f).flags, Op::WRITES, "amoadd.w");
        assert_eq!(of(0x1006_252f).flags, 0, "lr.w");
        assert_eq!(of(0x1406_252f).fence(), [false, false, true, true], "lr.w.aq");
    }

    #[test]
    fn fences_map_to_predecessor_and_successor_sets() {
        assert_eq!(of(0x0ff0_000f).fence(), [true; 4]);
        assert_eq!(of(0x0230_000f).fence(), [true, false, true, true], "fence r, rw");
        assert_eq!(of(0x0140_000f).fence(), [false, true, false, true], "fence w, o");
    }
}
