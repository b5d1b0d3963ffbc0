//! Op register of each x86 register.

use doorbell_sim::op::Register;
use iced_x86::Register as X86;

use crate::names::{FURTHER, GENERAL, VECTOR};

const STACK: Register = FURTHER;
const MASK: Register = FURTHER + 8;

/// Register number; 0 for registers without dependences: segments, the instruction pointer, control
/// registers.
pub(super) fn number(register: X86) -> Register {
    let full = register.full_register();
    let place = full.number() as Register;
    match full {
        _ if full.is_gpr64() => GENERAL + place,
        _ if full.is_vector_register() => VECTOR + place,
        // MMX registers alias the x87 stack.
        _ if full.is_st() || full.is_mm() => STACK + place,
        _ if full.is_k() => MASK + place,
        _ => 0,
    }
}

/// The stack pointer.
pub(super) const STACK_POINTER: Register = GENERAL + 4;
/// RCX, RSI and RDI, which string instructions update.
pub(super) const STRING_REGISTERS: [Register; 3] = [GENERAL + 1, GENERAL + 6, GENERAL + 7];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_parts_share_one_number() {
        for part in [X86::RAX, X86::EAX, X86::AX, X86::AL, X86::AH] {
            assert_eq!(number(part), GENERAL);
        }
        assert_eq!(number(X86::R15D), 16);
        assert_eq!(number(X86::RSP), STACK_POINTER);
        assert_eq!(number(X86::XMM31), 63);
        assert_eq!(number(X86::YMM0), VECTOR);
        assert_eq!(number(X86::ST7), number(X86::MM7));
        assert_eq!(number(X86::K7), 80);
        for none in [X86::None, X86::CS, X86::RIP, X86::CR3] {
            assert_eq!(number(none), 0);
        }
    }
}
