//! Writes the built-in firmware to a file, for another machine that is a `virt`:
//! `cargo run -p doorbell-platform --example firmware -- builtin.bin`, then `qemu-system-riscv64 -bios builtin.bin`.

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "builtin.bin".to_owned());
    std::fs::write(path, doorbell_platform::sbi::image())
}
