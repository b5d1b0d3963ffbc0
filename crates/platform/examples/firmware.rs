//! Writes the built-in firmware to a file, to run it on another `virt` machine: `cargo run -p
//! doorbell-platform --example firmware -- builtin.bin`, then `qemu-system-riscv64 -bios builtin.bin`. A
//! second argument `aia` selects the variant for `-M virt,aia=aplic-imsic`.

use doorbell_platform::InterruptsKind;

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "builtin.bin".to_owned());
    let interrupts = match std::env::args().nth(2).as_deref() {
        None | Some("plic") => InterruptsKind::Plic,
        Some("aia") => InterruptsKind::Aia,
        Some(other) => return Err(std::io::Error::other(format!("{other} is neither plic nor aia"))),
    };
    std::fs::write(path, doorbell_platform::sbi::image(interrupts))
}
