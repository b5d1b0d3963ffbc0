//! Devices compared with QEMU's `virt`, register by register, through QEMU's qtest protocol.

use doorbell_platform::map::{self, RegionId};
use doorbell_platform::{Clint, Plic, Rtc, RtcConfig, Uart};
use doorbell_qtest::Qtest;
use doorbell_sim::rng::Rng;
use doorbell_sim::{AccessSize, Ps};

fn qemu() -> Qtest {
    Qtest::start(&["-m", "64", "-smp", "2"])
}

const PLIC: u64 = 0xc00_0000;
const PLIC_CLAIM_S: u64 = PLIC + 0x20_1004;

/// Routes one source to supervisor mode of hart 0 in QEMU's PLIC.
fn route_source(qemu: &mut Qtest, source: u32) {
    qemu.write(PLIC + 4 * u64::from(source), AccessSize::B4, 1);
    qemu.write(PLIC + 0x2080, AccessSize::B4, 1 << source);
}

/// Whether the watched source's line was high since the last call. QEMU latches each rise; a level that stays
/// high is not reported again.
fn rose_since_last_call(qemu: &mut Qtest) -> bool {
    let source = qemu.read(PLIC_CLAIM_S, AccessSize::B4);
    qemu.write(PLIC_CLAIM_S, AccessSize::B4, source);
    source != 0
}

/// Compares QEMU's line during a step with our levels before, during and after it.
fn check_line(rose_in_qemu: bool, levels: &[bool], step: &str) {
    let high = levels.contains(&true);
    assert!(!rose_in_qemu || high, "{step}: QEMU's interrupt line was high, ours was not");
    let rose = !levels[0] && high;
    assert!(rose_in_qemu || !rose, "{step}: our interrupt line rose, QEMU's did not");
}

fn base(id: RegionId) -> u64 {
    map::get(id).base
}

#[test]
fn the_uart_agrees_with_qemus_in_8000_random_accesses() {
    let mut qemu = qemu();
    let (at, b1) = (base(RegionId::Uart), AccessSize::B1);
    let mut uart = Uart::default();
    let mut random = Rng::stream(1, "platform.against_qemu.uart");
    route_source(&mut qemu, map::UART_IRQ);
    // QEMU leaves OUT2 set after reset.
    uart.write(4, b1, 0);
    qemu.write(at + 4, b1, 0);
    for step in 0..8_000 {
        let offset = random.below(8);
        let mut levels = vec![uart.irq()];
        if random.below(2) == 0 {
            let mut value = random.next_u64() & 0xff;
            match offset {
                // No loopback, in which QEMU delays the report of waiting bytes.
                4 => value &= !0x10,
                // According to the data sheet the other bits have no effect without the first; in QEMU they
                // have.
                2 if value & 1 == 0 => value = 0,
                _ => {}
            }
            uart.write(offset, b1, value);
            qemu.write(at + offset, b1, value);
            levels.push(uart.irq());
        }
        let (ours, theirs) = (uart.read(offset, b1), qemu.read(at + offset, b1));
        assert_eq!(ours, theirs, "step {step}, offset {offset}");
        levels.push(uart.irq());
        check_line(rose_since_last_call(&mut qemu), &levels, &format!("step {step}, offset {offset}"));
    }
}

#[test]
fn uart_loopback_sets_modem_lines_as_in_qemu() {
    let mut qemu = qemu();
    let (at, b1) = (base(RegionId::Uart), AccessSize::B1);
    let mut uart = Uart::default();
    for mcr in 0x10..0x20 {
        uart.write(4, b1, mcr);
        qemu.write(at + 4, b1, mcr);
        // QEMU has no delta bits in loopback; the data sheet has.
        assert_eq!(uart.read(6, b1) & 0xf0, qemu.read(at + 6, b1) & 0xf0, "{mcr:#x}");
    }
}

#[test]
fn plic_registers_store_the_same_bits_as_qemus() {
    let mut qemu = qemu();
    let (at, b4) = (base(RegionId::Plic), AccessSize::B4);
    let mut plic = Plic::new(2);
    let priorities = (1..=95).map(|source| 4 * source);
    let enables = (0..4).flat_map(|context| (0..3).map(move |word| 0x2000 + 0x80 * context + 4 * word));
    let thresholds = (0..4).map(|context| 0x20_0000 + 0x1000 * context);
    for offset in priorities.chain(enables).chain(thresholds) {
        for value in [0xffff_ffff, 0x5a5a_5a5a, 0] {
            plic.write(offset, b4, value);
            qemu.write(at + offset, b4, value);
            // QEMU also keeps the enable bit of source 0, which does not exist.
            let ignored = if (0x2000..0x20_0000).contains(&offset) && offset % 0x80 == 0 { 1 } else { 0 };
            assert_eq!(plic.read(offset, b4), qemu.read(at + offset, b4) & !ignored, "{offset:#x}");
        }
    }
    assert_eq!(plic.stats.undefined_accesses, 0);
}

#[test]
fn an_interrupt_passes_through_the_plic_as_in_qemu() {
    let mut qemu = qemu();
    let (at, b4) = (base(RegionId::Plic), AccessSize::B4);
    let mut plic = Plic::new(2);
    let both = |qemu: &mut Qtest, plic: &mut Plic, offset, value| {
        plic.write(offset, b4, value);
        qemu.write(at + offset, b4, value);
    };
    both(&mut qemu, &mut plic, 4 * u64::from(map::UART_IRQ), 1);
    both(&mut qemu, &mut plic, 4 * u64::from(map::RTC_IRQ), 2);
    both(&mut qemu, &mut plic, 0x2080, 0xc00);
    // Interrupts of both devices: the UART's empty transmitter, the RTC's alarm in the past.
    qemu.write(base(RegionId::Uart) + 1, AccessSize::B1, 2);
    qemu.write(base(RegionId::Rtc) + 0x10, b4, 1);
    qemu.write(base(RegionId::Rtc) + 0x08, b4, 0);
    plic.set_level(map::UART_IRQ, true);
    plic.set_level(map::RTC_IRQ, true);
    let claim = 0x20_1004;
    for _ in 0..2 {
        assert_eq!(plic.read(0x1000, b4), qemu.read(at + 0x1000, b4));
        let (ours, theirs) = (plic.read(claim, b4), qemu.read(at + claim, b4));
        assert_eq!(ours, theirs);
        assert_ne!(ours, 0);
        plic.set_level(ours as u32, false);
    }
    qemu.write(base(RegionId::Rtc) + 0x1c, b4, 0);
    qemu.write(base(RegionId::Uart) + 1, AccessSize::B1, 0);
    for source in [map::RTC_IRQ, map::UART_IRQ] {
        both(&mut qemu, &mut plic, claim, u64::from(source));
    }
    assert_eq!((plic.read(claim, b4), qemu.read(at + claim, b4)), (0, 0));
}

#[test]
fn clint_registers_of_existing_and_missing_harts_read_back_as_in_qemu() {
    let mut qemu = qemu();
    let at = base(RegionId::Clint);
    let mut clint = Clint::new(2);
    let (b4, b8) = (AccessSize::B4, AccessSize::B8);
    for (offset, size) in
        [(0x0, b4), (0x4, b4), (0x8, b4), (0x4000, b8), (0x4008, b4), (0x400c, b4), (0x4010, b8)]
    {
        for value in [u64::MAX, 0x1234_5678_9abc_def0] {
            clint.write(offset, size, value, 0);
            qemu.write(at + offset, size, value);
            assert_eq!(clint.read(offset, size, 0), qemu.read(at + offset, size), "{offset:#x}");
        }
    }
    // mtime can be set; QEMU's keeps counting.
    clint.write(0xbff8, b8, 1 << 40, 500);
    qemu.write(at + 0xbff8, b8, 1 << 40);
    assert_eq!(clint.read(0xbff8, b8, 500), 1 << 40);
    assert_eq!(qemu.read(at + 0xbff8, b8) >> 32, 1 << 8);
}

#[test]
fn rtc_alarm_registers_behave_as_in_qemu() {
    let mut qemu = qemu();
    let (at, b4) = (base(RegionId::Rtc), AccessSize::B4);
    let mut rtc = Rtc::new(&RtcConfig::default());
    route_source(&mut qemu, map::RTC_IRQ);
    let mut rises = 0;
    for (offset, value) in [
        (0x10, 1),
        (0x0c, 0x7fff_ffff),
        (0x08, 0x1234),
        (0x14, 0),
        (0x0c, 0),
        (0x08, 5),
        (0x10, 0),
        (0x10, 0xffff_ffff),
        (0x1c, 0),
        (0x08, 7),
        (0x14, 0),
        (0x1c, 1),
    ] {
        let before = rtc.irq();
        rtc.write(offset, b4, value, Ps::from_ms(1));
        qemu.write(at + offset, b4, value);
        for register in [0x08, 0x0c, 0x10, 0x18] {
            let (ours, theirs) = (rtc.read(register, b4, Ps::from_ms(1)), qemu.read(at + register, b4));
            assert_eq!(ours, theirs, "after {value:#x} to {offset:#x}: register {register:#x}");
        }
        check_line(
            rose_since_last_call(&mut qemu),
            &[before, rtc.irq()],
            &format!("{value:#x} to {offset:#x}"),
        );
        rises += u32::from(!before && rtc.irq());
    }
    assert_eq!(rises, 3);
}

#[test]
fn the_reset_rom_has_qemus_instructions() {
    let mut qemu = qemu();
    let mut kernel = vec![0u8; 0x1000];
    kernel[8..16].copy_from_slice(&0x20_0000u64.to_le_bytes());
    kernel[16..24].copy_from_slice(&0x1000u64.to_le_bytes());
    kernel[0x38..0x3c].copy_from_slice(b"RSC\x05");
    let images = doorbell_platform::BootImages { firmware: &[1], kernel: &kernel, initrd: None };
    let layout = doorbell_platform::BootLayout::plan(doorbell_sim::Bytes(64 << 20), &images).unwrap();
    let rom = layout.reset_rom(&[0; 64]).unwrap();
    // Six instructions and the start address; the device tree's address may differ; then the hand-over
    // structure's magic number and version.
    for (at, word) in rom.chunks(4).enumerate().filter(|(at, _)| *at < 8 || (10..14).contains(at)) {
        let theirs = qemu.read(base(RegionId::ResetRom) + 4 * at as u64, AccessSize::B4);
        assert_eq!(u64::from(u32::from_le_bytes(word.try_into().unwrap())), theirs, "word {at}");
    }
}
