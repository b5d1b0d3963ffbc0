//! Causes and masks under random reads and writes by software.

use doorbell_sim::rng::Rng;

use super::Both;
use crate::igb::driver::*;

const IMC: u64 = 0x00d8;
const IAM: u64 = 0x00e0;
const EICS: u64 = 0x1520;
const EIMC: u64 = 0x1528;
/// GPIE.NSICR and MULTIPLE_MSIX.
const NSICR: u32 = 1;
const MULTIPLE_VECTORS: u32 = 1 << 4;
/// Implemented causes. In QEMU software can also set others.
const CAUSES: u32 = 0x77d4_fbfd;

/// Three errors of QEMU according to the datasheet (§7.3.2.1.2) are compensated after each access to ICR.
/// Without GPIE.NSICR, a read clears ICR although no set cause is enabled and IMS is not zero. A read does
/// not clear the IMS bits selected by IAM, because QEMU checks for the interrupt after clearing it.
/// INT_ASSERTED stays set when its causes are masked, so a write clears more IMS bits.
#[test]
fn causes_and_masks_match_qemus_under_2000_random_accesses() {
    let mut both = Both::new();
    let mut random = Rng::stream(1, "igb.causes");
    let (mut read, mut nsicr, mut asserted) = (0, 0, 0);
    for step in 0..2000 {
        let bits = (random.next_u64() & random.next_u64()) as u32 & CAUSES;
        let register = [ICS, IMS, IMC, ICR, ICR, IMS, IAM][random.below(7) as usize];
        let writes = random.below(2) == 0;
        if writes {
            both.write(register, bits);
        } else if register != ICS {
            let [ours, qemu] = both.read(register);
            let expected = if register == ICR { qemu & !(!ours & 1 << 31) } else { qemu };
            assert_eq!(ours, expected, "step {step}, {register:#x}");
            read += 1;
            asserted += u32::from(register == ICR && ours >> 31 != 0);
        }
        if register == ICR {
            if nsicr != 0 {
                let [ours, qemu] = both.read(IMS);
                assert_eq!(ours, qemu, "step {step}, IMS after ICR");
            }
            // Both continue with our mask.
            let mask = both.ours.read(IMS);
            both.write(ICR, CAUSES);
            both.write(IMC, CAUSES);
            both.read(ICR);
            both.write(IMS, mask);
        }
        if random.below(100) == 0 {
            nsicr = random.below(2) as u32 * NSICR;
            both.write(GPIE, nsicr);
        }
    }
    assert!(read > 400 && asserted > 40, "{read} {asserted}");
}

/// With one interrupt for all causes, QEMU lacks OTHER (bit 31), which represents the causes in ICR. With
/// multiple vectors, QEMU clears EICR when software reads it. According to the datasheet of the I210, which
/// has the same bits, MULTIPLE_MSIX preserves EICR.
#[test]
fn extended_causes_match_qemus_under_2000_random_accesses() {
    for (mode, causes) in [(0, 0x4000_ffff), (MULTIPLE_VECTORS, 0x01ff_ffff)] {
        let mut both = Both::new();
        both.write(GPIE, mode);
        let mut random = Rng::stream(1, "igb.extended");
        for step in 0..2000 {
            let bits = (random.next_u64() & random.next_u64()) as u32 & causes;
            let register = [EICS, EIMS, EIMC, EICR][random.below(4) as usize];
            if random.below(2) == 0 {
                both.write(register, bits);
            } else if register != EICS && register != EIMC {
                let [ours, qemu] = both.read(register);
                assert_eq!(ours, qemu, "step {step}, {register:#x}, GPIE {mode:#x}");
                if register == EICR && mode == MULTIPLE_VECTORS {
                    both.write(EICR, causes);
                }
            }
        }
    }
}
