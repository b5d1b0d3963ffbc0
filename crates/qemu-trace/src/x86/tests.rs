//! Decoding of x86-64 instructions.

use doorbell_sim::Op;

use super::*;
use crate::emit::{Emitter, Successor};
use crate::stream::Access;

fn decoded(text: &[u8]) -> Decoded {
    X86::default().decode(&Bytes::new(0x1000, text))
}

fn access(is_store: bool, virt: u64, size: u8) -> Access {
    Access { instruction: 0, size, is_store, is_io: false, virt, phys: virt }
}

fn ops(text: &[u8], accesses: &[Access], successor: Successor) -> Vec<Op> {
    let mut ops = Vec::new();
    Emitter::default().emit(&decoded(text), accesses, successor, &mut ops);
    assert!(ops.last().unwrap().length == text.len() as u8 || successor == Successor::Repeat);
    assert_eq!(
        ops.iter().filter(|op| op.ends_instruction()).count(),
        usize::from(successor != Successor::Repeat)
    );
    ops
}

fn classes(text: &[u8], accesses: &[Access]) -> Vec<OpClass> {
    ops(text, accesses, Successor::Next).iter().map(|op| op.class).collect()
}

#[test]
fn instruction_classes() {
    for (text, class) in [
        (&[0x48, 0x0f, 0xaf, 0xc3][..], OpClass::IntMul), // imul rax, rbx
        (&[0x48, 0xf7, 0xf3], OpClass::IntDiv),           // div rbx
        (&[0xf2, 0x0f, 0x58, 0xc1], OpClass::FloatAdd),   // addsd xmm0, xmm1
        (&[0xf2, 0x0f, 0x59, 0xc1], OpClass::FloatMul),   // mulsd xmm0, xmm1
        (&[0xf2, 0x0f, 0x5e, 0xc1], OpClass::FloatDiv),   // divsd xmm0, xmm1
        (&[0xc4, 0xe2, 0xf1, 0xb8, 0xc2], OpClass::FloatFma), // vfmadd231pd xmm0, xmm1, xmm2
        (&[0xd9, 0xfa], OpClass::FloatDiv),               // fsqrt
        (&[0x0f, 0xae, 0xf0], OpClass::Fence),            // mfence
        (&[0x0f, 0xa2], OpClass::Serialising),            // cpuid
        (&[0x0f, 0x22, 0xd8], OpClass::Serialising),      // mov cr3, rax
        (&[0x0f, 0x05], OpClass::Serialising),            // syscall
        (&[0xec], OpClass::Device),                       // in al, dx
        (&[0x75, 0x10], OpClass::Branch),                 // jne
        (&[0xff, 0xe0], OpClass::IndirectJump),           // jmp rax
        (&[0x90], OpClass::Int),                          // nop
        (&[0x06], OpClass::Int),                          // no instruction of 64-bit mode
    ] {
        assert_eq!(classes(text, &[])[0], class, "{text:x?}");
    }
}

#[test]
fn second_result_register_gets_a_separate_op() {
    // div rbx writes RAX, and RDX through a second op.
    let all = ops(&[0x48, 0xf7, 0xf3], &[], Successor::Next);
    assert_eq!(
        all.iter().map(|op| (op.class, op.length)).collect::<Vec<_>>(),
        [(OpClass::IntDiv, 0), (OpClass::Int, 3)]
    );
    assert_eq!([all[0].destination, all[1].destination, all[1].sources[0]], [1, 3, 1]);
    // movsq updates its pointers without ops.
    let both = [access(false, 0x2000, 8), access(true, 0x3000, 8)];
    assert!(ops(&[0x48, 0xa5], &both, Successor::Next).iter().all(|op| op.class != OpClass::Int));
}

#[test]
fn call_stores_its_return_address_before_jumping() {
    let calls = ops(&[0xe8, 0, 1, 0, 0], &[access(true, 0x7ff8, 8)], Successor::Target(0x1105));
    assert_eq!(calls.iter().map(|op| op.class).collect::<Vec<_>>(), [OpClass::Store, OpClass::Call]);
    assert_eq!(calls[1].next_pc(), 0x1105);
    assert_eq!(classes(&[0xc3], &[access(false, 0x7ff8, 8)]), [OpClass::Load, OpClass::Return]);
}

#[test]
fn locked_add_is_one_atomic_op() {
    let both = [access(false, 0x2000, 8), access(true, 0x2000, 8)];
    let [op] = ops(&[0xf0, 0x48, 0x01, 0x03], &both, Successor::Next)[..] else { panic!() };
    assert_eq!((op.class, op.size), (OpClass::Atomic, 8));
    assert!(op.flags & Op::WRITES != 0);
}

#[test]
fn moves_have_no_computation_op() {
    assert_eq!(classes(&[0x50], &[access(true, 0x7ff8, 8)]), [OpClass::Store]); // push rax
    assert_eq!(classes(&[0x8b, 0x03], &[access(false, 0x2000, 4)]), [OpClass::Load]);
    // movsq, and one iteration of a repeated one, which does not end the instruction.
    let both = [access(false, 0x2000, 8), access(true, 0x3000, 8)];
    assert_eq!(classes(&[0x48, 0xa5], &both), [OpClass::Load, OpClass::Store]);
    assert!(ops(&[0xf3, 0x48, 0xa5], &both, Successor::Repeat).iter().all(|op| op.length == 0));
}

#[test]
fn string_elements_are_merged() {
    let bytes: Vec<Access> =
        (0..100).flat_map(|at| [access(false, 0x2000 + at, 1), access(true, 0x3010 + at, 1)]).collect();
    let moves = ops(&[0xf3, 0xa4], &bytes, Successor::Next);
    let sizes =
        |class| moves.iter().filter(|op| op.class == class).map(|op| u64::from(op.size)).collect::<Vec<_>>();
    assert_eq!(sizes(OpClass::Load), [32, 32, 32, 4]);
    // No access crosses a line boundary.
    assert_eq!(sizes(OpClass::Store), [32, 16, 32, 20]);
}

#[test]
fn excess_sources_are_joined_first() {
    // adc rax, [rbx + rcx]: the sum of loaded data, register and flags.
    let all = ops(&[0x48, 0x13, 0x04, 0x0b], &[access(false, 0x2000, 8)], Successor::Next);
    assert_eq!(all[0].sources[..2], [4, 2]);
    assert_eq!(all.len(), 2);
    assert!(all[1].sources.iter().all(|source| *source != 0));
}
