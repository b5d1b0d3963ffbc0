use super::assembler::*;
use super::*;
use doorbell_sim::rng::Rng;

#[test]
fn the_image_fills_its_protected_memory_and_is_reproducible() {
    for interrupts in [InterruptsKind::Plic, InterruptsKind::Aia] {
        check_image(&image(interrupts));
        assert!(image(interrupts) == image(interrupts));
    }
    assert!(image(InterruptsKind::Plic) != image(InterruptsKind::Aia));
}

fn check_image(first: &[u8]) {
    assert_eq!(first.len() as u64, layout::BYTES);
    assert!(layout::BYTES.is_power_of_two() && layout::BASE.is_multiple_of(layout::BYTES));
    // Initially, variables are zero, and all harts are stopped.
    let at = |address: u64| {
        u64::from_le_bytes(first[(address - layout::BASE) as usize..][..8].try_into().unwrap())
    };
    assert_eq!(at(layout::SHARED + layout::shared::RUNNING as u64), 0);
    for hart in 0..u64::from(HARTS_MAX) {
        let area = layout::AREAS + (hart << layout::AREA_SHIFT);
        assert_eq!(at(area + layout::area::STATE as u64), 1, "hart {hart}");
        assert_eq!(at(area + layout::area::EVENTS as u64), 0, "hart {hart}");
    }
}

/// The expected words are from binutils and QEMU's reset ROM.
#[test]
fn instruction_encodings_agree_with_binutils() {
    let mut a = Assembler::new(0x8000_0000);
    a.addi(A2, T0, 40);
    a.csrr(A0, csr::MHARTID);
    a.ld(A1, T0, 32);
    a.sd(T0, SP, 264);
    a.amoor(ZERO, T1, T3);
    a.label("back");
    a.bgeu(A0, T0, "on");
    a.call("back");
    a.label("on");
    a.csr_swap(SP, csr::MSCRATCH);
    a.sfence_vma(T4, T6);
    a.address(SP, 0x8000_4000);
    a.bltz(T0, "back");
    let code = a.finish();
    let words: Vec<u32> = code.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let expected = [
        0x0282_8613,
        0xf140_2573,
        0x0202_b583,
        0x1051_3423,
        0x466e_302f,
        0x0055_7463,
        0xffdf_f0ef,
        0x3401_1173,
        0x13fe_8073,
        0x0000_4117,
        0xfdc1_0113,
        0xfe02_c4e3,
    ];
    assert_eq!(words, expected, "{words:x?}");
}

/// The register value after LUI, ADDI, ADDIW and SLLI instructions.
fn evaluate(code: &[u8]) -> u64 {
    code.chunks(4).fold(0, |value: u64, word| {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        let source = if word >> 15 & 0x1f == 0 { 0 } else { value };
        let immediate = (word as i32 >> 20) as u64;
        match (word & 0x7f, word >> 12 & 7) {
            (0x37, _) => (word & 0xffff_f000) as i32 as u64,
            (0x13, 0) => source.wrapping_add(immediate),
            (0x13, 1) => source << (immediate & 0x3f),
            (0x1b, 0) => source.wrapping_add(immediate) as i32 as u64,
            other => panic!("{other:x?} is not used for constants"),
        }
    })
}

#[test]
fn li_loads_every_64_bit_constant() {
    let mut random = Rng::stream(1, "sbi.constants");
    let edges =
        [0, 1, 0x7ff, 0x800, 0xfff, 0x7fff_f7ff, 0x7fff_f800, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63];
    let randoms = (0..20_000).map(|i| random.next_u64() >> (i % 64));
    for value in edges.into_iter().flat_map(|edge| [edge, !edge]).chain(randoms) {
        let mut a = Assembler::new(0);
        a.li(T3, value);
        assert_eq!(evaluate(&a.finish()), value, "{value:#x}");
    }
}

#[test]
#[should_panic(expected = "there is no label nowhere")]
fn a_missing_label_panics() {
    let mut a = Assembler::new(0);
    a.j("nowhere");
    a.finish();
}

#[test]
#[should_panic(expected = "does not reach")]
fn a_branch_out_of_range_panics() {
    let mut a = Assembler::new(0);
    a.beqz(A0, "far");
    a.fill_to(0x1000);
    a.label("far");
    a.finish();
}
