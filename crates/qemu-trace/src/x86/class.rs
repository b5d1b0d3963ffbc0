//! Op class of an instruction.

use doorbell_sim::{Op, OpClass};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Class of the op that computes the result or the branch direction.
pub(super) fn of(instruction: &Instruction) -> OpClass {
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    if is_serialising(instruction) {
        return OpClass::Serialising;
    }
    match instruction.mnemonic() {
        Mnemonic::In | Mnemonic::Out | Mnemonic::Insb | Mnemonic::Insw | Mnemonic::Insd => OpClass::Device,
        Mnemonic::Outsb | Mnemonic::Outsw | Mnemonic::Outsd => OpClass::Device,
        Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Sfence => OpClass::Fence,
        Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Mulx => OpClass::IntMul,
        Mnemonic::Div | Mnemonic::Idiv => OpClass::IntDiv,
        _ if is_float(instruction, &name) => float(&name),
        _ => OpClass::Int,
    }
}

/// Op flags of a fence or a port access.
pub(super) fn flags(instruction: &Instruction) -> u8 {
    // Loads before, stores before, loads after, stores after. LFENCE also delays the start of later
    // instructions.
    let fence = match instruction.mnemonic() {
        Mnemonic::Mfence => 0b1111,
        Mnemonic::Lfence => 0b1101,
        Mnemonic::Sfence => 0b1010,
        _ => 0,
    };
    let writes =
        matches!(instruction.mnemonic(), Mnemonic::Out | Mnemonic::Outsb | Mnemonic::Outsw | Mnemonic::Outsd);
    (fence << Op::FENCE_SHIFT) | (u8::from(writes) * Op::WRITES)
}

/// Returns whether the instruction operates on vectors or the x87 stack.
fn is_float(instruction: &Instruction, name: &str) -> bool {
    let is = |at: u32| {
        let register = instruction.op_register(at);
        instruction.op_kind(at) == OpKind::Register
            && (register.is_vector_register() || register.is_st() || register.is_mm())
    };
    // Only x87 instructions have names that begin with this letter.
    name.starts_with('f') || (0..instruction.op_count()).any(is)
}

/// Class by name, which is the same for all widths and encodings.
fn float(name: &str) -> OpClass {
    let name = name.strip_prefix('v').unwrap_or(name);
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    if begins(&["fmadd", "fmsub", "fnmadd", "fnmsub"]) {
        OpClass::FloatFma
    } else if begins(&["div", "sqrt", "fdiv", "fidiv", "fsqrt"]) {
        OpClass::FloatDiv
    } else if begins(&["mul", "pmul", "pmadd", "fmul", "fimul", "pclmul", "gf2p8mul", "aes"]) {
        OpClass::FloatMul
    } else {
        OpClass::FloatAdd
    }
}

/// Returns whether an instruction is serialising (Intel SDM volume 3, 9.3, "Serializing instructions") or
/// changes how instructions are executed.
fn is_serialising(instruction: &Instruction) -> bool {
    let to_control = instruction.mnemonic() == Mnemonic::Mov
        && (0..2).any(|at| {
            let register = instruction.op_register(at);
            register.is_cr() || register.is_dr()
        });
    to_control
        || is_system_jump(instruction)
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Cpuid
                | Mnemonic::Wrmsr
                | Mnemonic::Rdmsr
                | Mnemonic::Invlpg
                | Mnemonic::Invpcid
                | Mnemonic::Lgdt
                | Mnemonic::Lidt
                | Mnemonic::Lldt
                | Mnemonic::Ltr
                | Mnemonic::Xsetbv
                | Mnemonic::Wbinvd
                | Mnemonic::Invd
                | Mnemonic::Clts
                | Mnemonic::Lmsw
                | Mnemonic::Serialize
                | Mnemonic::Hlt
                | Mnemonic::Mwait
                | Mnemonic::Monitor
                | Mnemonic::Verw
                | Mnemonic::Swapgs
        )
}

/// Returns whether the instruction changes the privilege level.
pub(super) fn is_system_jump(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Sysret
            | Mnemonic::Sysretq
            | Mnemonic::Sysenter
            | Mnemonic::Sysexit
            | Mnemonic::Sysexitq
            | Mnemonic::Iret
            | Mnemonic::Iretd
            | Mnemonic::Iretq
            | Mnemonic::Int
            | Mnemonic::Int1
            | Mnemonic::Int3
            | Mnemonic::Into
            | Mnemonic::Rsm
    )
}

/// Returns whether the instruction returns from a handler or the operating system.
pub(super) fn is_system_return(instruction: &Instruction) -> bool {
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    name.starts_with("iret") || name.starts_with("sysret") || name.starts_with("sysexit")
}

/// Returns whether the instruction only moves data, so that its load or store needs no computation op.
pub(super) fn is_move(instruction: &Instruction) -> bool {
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let moves = name.starts_with("mov") && !name.starts_with("movmsk");
    moves
        || instruction.is_string_instruction() && (name.starts_with("lods") || name.starts_with("stos"))
        || matches!(
            name,
            "push" | "pop" | "pushfq" | "popfq" | "lddqu" | "leave" | "pbroadcastb" | "broadcastss"
        )
}
