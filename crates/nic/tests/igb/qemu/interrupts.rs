//! Causes and masks, as software sets, clears and reads them in any order.

use doorbell_sim::rng::Rng;

use super::Both;
use crate::driver::*;

const IMC: u64 = 0x00d8;
const IAM: u64 = 0x00e0;
const EICS: u64 = 0x1520;
const EIMC: u64 = 0x1528;
/// GPIE.NSICR and MULTIPLE_MSIX.
const NSICR: u32 = 1;
const SEVERAL_VECTORS: u32 = 1 << 4;
/// The causes that there are. QEMU lets software set others too.
const CAUSES: u32 = 0x77d4_fbfd;

/// Three things in which QEMU is wrong by the datasheet (§7.3.2.1.2) are made good after each access to ICR: without GPIE.NSICR it clears causes
/// of which none is enabled while others are; a read does not mask what IAM names, as it looks for the interrupt behind clearing it; and
/// INT_ASSERTED stays when its causes are masked, so that a write masks more.
#[test]
fn causes_and_their_mask_go_as_qemus_through_two_thousand_random_accesses() {
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
            let told = if register == ICR { qemu & !(!ours & 1 << 31) } else { qemu };
            assert_eq!(ours, told, "step {step}, {register:#x}");
            read += 1;
            asserted += u32::from(register == ICR && ours >> 31 != 0);
        }
        if register == ICR {
            if nsicr != 0 {
                let [ours, qemu] = both.read(IMS);
                assert_eq!(ours, qemu, "step {step}, IMS behind ICR");
            }
            // Ours is what both go on from.
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

/// QEMU has no OTHER (bit 31) while there is one interrupt for all, though it is what tells of causes in ICR then. With several vectors it
/// clears EICR when software reads it; by the datasheet of the I210, which has the same bits, MULTIPLE_MSIX keeps it.
#[test]
fn extended_causes_go_as_qemus_through_two_thousand_random_accesses() {
    for (mode, causes) in [(0, 0x4000_ffff), (SEVERAL_VECTORS, 0x01ff_ffff)] {
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
                if register == EICR && mode == SEVERAL_VECTORS {
                    both.write(EICR, causes);
                }
            }
        }
    }
}
