//! Trap names for the log: exceptions and interrupts as in the privileged manual's table of causes, firmware
//! calls as in the "RISC-V Supervisor Binary Interface Specification" 2.0.

use std::fmt;

/// A trap cause in the format of `mcause`.
pub(crate) struct Cause(pub u64);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (interrupt, number) = (self.0 >> 63 != 0, self.0 & !(1 << 63));
        let name = match (interrupt, number) {
            (true, 1) => "supervisor software interrupt",
            (true, 3) => "machine software interrupt",
            (true, 5) => "supervisor timer interrupt",
            (true, 7) => "machine timer interrupt",
            (true, 9) => "supervisor external interrupt",
            (true, 11) => "machine external interrupt",
            (false, 1) => "instruction access fault",
            (false, 2) => "illegal instruction",
            (false, 3) => "breakpoint",
            (false, 4) => "load address misaligned",
            (false, 5) => "load access fault",
            (false, 6) => "store/AMO address misaligned",
            (false, 7) => "store/AMO access fault",
            (false, 8) => "environment call from U-mode",
            (false, 9) => "environment call from S-mode",
            (false, 11) => "environment call from M-mode",
            (false, 12) => "instruction page fault",
            (false, 13) => "load page fault",
            (false, 15) => "store/AMO page fault",
            _ => return write!(f, "cause {number}"),
        };
        f.write_str(name)
    }
}

/// An SBI extension, by its number (a7).
pub(crate) struct Extension(pub u64);

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0x00 => "legacy set timer",
            0x01 => "legacy console putchar",
            0x02 => "legacy console getchar",
            0x03 => "legacy clear IPI",
            0x04 => "legacy send IPI",
            0x05..=0x07 => "legacy remote fence",
            0x08 => "legacy shutdown",
            0x10 => "BASE",
            0x5449_4d45 => "TIME",
            0x0073_5049 => "IPI",
            0x5246_4e43 => "RFENCE",
            0x0048_534d => "HSM",
            0x5352_5354 => "SRST",
            0x0050_4d55 => "PMU",
            0x4442_434e => "DBCN",
            0x5355_5350 => "SUSP",
            0x4350_5043 => "CPPC",
            number => return write!(f, "extension {number:#x}"),
        };
        f.write_str(name)
    }
}
