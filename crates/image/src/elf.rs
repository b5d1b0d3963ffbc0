//! Dependencies in ELF files: a program's interpreter and libraries (System V gABI, chapter 5), and the
//! modules that a Linux kernel module needs (its `.modinfo` section).

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};

/// Machine numbers in the ELF header.
pub(crate) const MACHINE_X86_64: u16 = 62;
pub(crate) const MACHINE_AARCH64: u16 = 183;
pub(crate) const MACHINE_RISCV: u16 = 243;

/// The machine of an ELF file; `None` for other files.
pub(crate) fn machine(data: &[u8]) -> Option<u16> {
    let number: [u8; 2] = data.get(18..20)?.try_into().ok()?;
    data.starts_with(b"\x7fELF").then(|| u16::from_le_bytes(number))
}

/// Files that the dynamic linker loads for a program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    pub interpreter: Option<String>,
    pub needed: Vec<String>,
}

/// Reads a 64-bit ELF program or library; a static program needs nothing.
pub(crate) fn dynamic(data: &[u8]) -> Result<Dynamic, String> {
    read_dynamic(data).map_err(|error| format!("not a usable 64-bit ELF file: {error}"))
}

fn read_dynamic(data: &[u8]) -> object::Result<Dynamic> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let mut found = Dynamic::default();
    for segment in header.program_headers(endian, data)? {
        if segment.p_type(endian) == PT_INTERP {
            found.interpreter = segment.interpreter(endian, data)?.map(text);
        }
    }
    let sections = header.sections(endian, data)?;
    if let Some((entries, link)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
            found.needed.push(text(entry.string(endian, strings)?));
        }
    }
    Ok(found)
}

/// The modules that must be loaded before this one, by name.
pub(crate) fn module_depends(data: &[u8]) -> Result<Vec<String>, String> {
    let value = module_values(data, "depends=")?.into_iter().next().unwrap_or_default();
    Ok(value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The module's aliases, which may contain `*`: further names under which the kernel requests it.
pub(crate) fn module_aliases(data: &[u8]) -> Result<Vec<String>, String> {
    module_values(data, "alias=")
}

/// The values of a key in `.modinfo`.
fn module_values(data: &[u8], key: &str) -> Result<Vec<String>, String> {
    let info = modinfo(data).map_err(|error| format!("not a kernel module: {error}"))?;
    let info = info.ok_or("not a kernel module: it has no .modinfo")?;
    let entries = info.split(|byte| *byte == 0);
    Ok(entries.filter_map(|entry| entry.strip_prefix(key.as_bytes())).map(text).collect())
}

fn modinfo(data: &[u8]) -> object::Result<Option<&[u8]>> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let section = sections.section_by_name(endian, b".modinfo");
    section.map(|(_, section)| section.data(endian, data)).transpose()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn needed_libraries_and_interpreter_agree_with_readelf() {
        let path = std::env::current_exe().unwrap();
        let found = dynamic(&std::fs::read(&path).unwrap()).unwrap();
        assert!(found.needed.iter().any(|name| name.starts_with("libc.so")), "{found:?}");
        let output = Command::new("readelf")
            .args(["-d", "-l"])
            .arg(&path)
            .env("LC_ALL", "C")
            .output()
            .expect("readelf comes with the linker (binutils)");
        let listing = String::from_utf8(output.stdout).unwrap();
        let needed: Vec<&str> = listing
            .lines()
            .filter(|line| line.contains("(NEEDED)"))
            .filter_map(|line| line.split(['[', ']']).nth(1))
            .collect();
        assert_eq!(found.needed, needed);
        assert!(listing.contains(&format!("interpreter: {}]", found.interpreter.unwrap())));
    }

    #[test]
    fn text_and_truncated_files_are_errors_not_panics() {
        assert!(dynamic(b"#!/bin/sh\n").is_err());
        assert!(module_depends(b"").is_err());
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for keep in [4, 63, 64, 100, 1000] {
            assert!(dynamic(&whole[..keep]).is_err(), "{keep}");
        }
        assert!(module_depends(&whole).unwrap_err().contains(".modinfo"));
    }
}
