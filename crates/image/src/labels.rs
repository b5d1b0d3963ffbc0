//! Kernel modules without the labels that the compiler has made for itself (`.L…`). On RISC-V an assembler keeps them all, since linkers may
//! move code (RISC-V ABIs Specification, "Linker Relaxation"), and Debian's modules have dozens to a function: the kernel's loader looks at
//! each. Labels that a relocation names stay, and so does every function's name. System V gABI, chapter 4, has the tables.

use std::collections::BTreeMap;

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELA_BYTES: usize = 24;

const SHT_SYMTAB: u32 = 2;
const SHT_RELA: u32 = 4;
const SHT_NOBITS: u32 = 8;
const SHT_REL: u32 = 9;
const SHT_GROUP: u32 = 17;
const SHT_SYMTAB_SHNDX: u32 = 18;

/// A section: its header, and its content.
struct Section {
    header: Vec<u8>,
    content: Vec<u8>,
}

/// A field of a header, little endian.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<u64, String> {
    let found = bytes.get(at..at + N).ok_or("it is cut off")?;
    Ok(found.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn set<const N: usize>(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + N].copy_from_slice(&value.to_le_bytes()[..N]);
}

impl Section {
    fn kind(&self) -> u32 {
        field::<4>(&self.header, 4).unwrap_or(0) as u32
    }

    /// Of relocations and groups the table of symbols, of that its strings.
    fn link(&self) -> usize {
        field::<4>(&self.header, 40).unwrap_or(0) as usize
    }

    fn alignment(&self) -> usize {
        field::<8>(&self.header, 48).unwrap_or(0).clamp(1, 4096) as usize
    }
}

/// A relocatable file for a 64-bit little-endian machine, without the labels that nothing names.
pub(crate) fn without_labels(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut sections = read(data)?;
    let table =
        sections.iter().position(|section| section.kind() == SHT_SYMTAB).ok_or("it has no symbols")?;
    let of_table =
        |section: &Section, kinds: &[u32]| kinds.contains(&section.kind()) && section.link() == table;
    if sections.iter().any(|section| of_table(section, &[SHT_REL, SHT_SYMTAB_SHNDX])) {
        return Err("its relocations or symbols are of a kind that no module has".into());
    }
    let symbols = sections[table].content.len() / SYMBOL_BYTES;
    let mut named = vec![false; symbols];
    for section in sections.iter().filter(|section| of_table(section, &[SHT_RELA])) {
        for entry in section.content.chunks_exact(RELA_BYTES) {
            *named.get_mut(field::<4>(entry, 12)? as usize).ok_or("a relocation names no symbol")? = true;
        }
    }
    let numbers = discard(&mut sections, table, &named)?;
    for section in sections.iter_mut().filter(|section| of_table(section, &[SHT_RELA, SHT_GROUP])) {
        if section.kind() == SHT_GROUP {
            let old = field::<4>(&section.header, 44)? as usize;
            set::<4>(&mut section.header, 44, *numbers.get(&old).ok_or("a group names no symbol")?);
            continue;
        }
        for entry in section.content.chunks_exact_mut(RELA_BYTES) {
            let old = field::<4>(entry, 12)? as usize;
            set::<4>(entry, 12, numbers[&old]);
        }
    }
    Ok(write(data, &sections))
}

fn read(data: &[u8]) -> Result<Vec<Section>, String> {
    const CLASS_64_LITTLE_ENDIAN: [u8; 2] = [2, 1];
    const RELOCATABLE: u64 = 1;
    if !data.starts_with(b"\x7fELF")
        || data.get(4..6) != Some(&CLASS_64_LITTLE_ENDIAN)
        || field::<2>(data, 16)? != RELOCATABLE
    {
        return Err("not a relocatable ELF file of 64 bits".into());
    }
    let (at, count) = (field::<8>(data, 40)? as usize, field::<2>(data, 60)? as usize);
    let mut room = data.len();
    let mut read_one = |number: usize| {
        let from = at.checked_add(number * SECTION_BYTES).ok_or("it is cut off")?;
        let header = data.get(from..from + SECTION_BYTES).ok_or("it is cut off")?.to_vec();
        let (begin, bytes) = (field::<8>(&header, 24)? as usize, field::<8>(&header, 32)? as usize);
        let mut section = Section { header, content: Vec::new() };
        if section.kind() != SHT_NOBITS {
            let end = begin.checked_add(bytes).ok_or("it is cut off")?;
            room = room.checked_sub(bytes).ok_or("its sections overlap")?;
            section.content = data.get(begin..end).ok_or("it is cut off")?.to_vec();
        }
        Ok(section)
    };
    (0..count).map(&mut read_one).collect()
}

/// Takes labels out of the table of symbols that are not named, and gives the others' new numbers by their old ones.
fn discard(sections: &mut [Section], table: usize, named: &[bool]) -> Result<BTreeMap<usize, u64>, String> {
    let strings = sections[table].link();
    let old_strings = sections.get(strings).ok_or("its symbols have no names")?.content.clone();
    let (mut numbers, mut locals) = (BTreeMap::new(), 0);
    let (mut kept, mut names) = (Vec::new(), vec![0]);
    for (number, symbol) in sections[table].content.chunks_exact(SYMBOL_BYTES).enumerate() {
        let name = old_strings.get(field::<4>(symbol, 0)? as usize..).ok_or("a symbol's name is cut off")?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_local = symbol[4] >> 4 == 0;
        if is_local && name.starts_with(b".L") && !named[number] {
            continue;
        }
        numbers.insert(number, numbers.len() as u64);
        locals += u64::from(is_local);
        let mut symbol = symbol.to_vec();
        let at = if name.is_empty() { 0 } else { names.len() };
        set::<4>(&mut symbol, 0, at as u64);
        if !name.is_empty() {
            names.extend_from_slice(name);
            names.push(0);
        }
        kept.extend(symbol);
    }
    sections[table].content = kept;
    set::<4>(&mut sections[table].header, 44, locals);
    // The names of sections may stand in the same table as symbols'.
    let is_shared = sections.iter().any(|section| {
        let name = field::<4>(&section.header, 0).unwrap_or(0) as usize;
        section.kind() == SHT_SYMTAB
            && old_strings.get(name..).is_some_and(|name| name.starts_with(b".symtab\0"))
    });
    if is_shared {
        return Err("its sections' names are among the symbols'".into());
    }
    sections[strings].content = names;
    Ok(numbers)
}

/// The sections one after the other, in their order, then their headers.
fn write(data: &[u8], sections: &[Section]) -> Vec<u8> {
    let mut out = data[..HEADER_BYTES].to_vec();
    let mut headers = Vec::new();
    for section in sections {
        let mut header = section.header.clone();
        out.resize(out.len().next_multiple_of(section.alignment()), 0);
        set::<8>(&mut header, 24, out.len() as u64);
        if section.kind() != SHT_NOBITS {
            set::<8>(&mut header, 32, section.content.len() as u64);
        }
        out.extend_from_slice(&section.content);
        headers.extend(header);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    let at = out.len() as u64;
    set::<8>(&mut out, 40, at);
    out.extend(headers);
    out
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn run(program: impl AsRef<std::ffi::OsStr>, words: &[&str], folder: &Path) -> String {
        let output = Command::new(program).args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn what_is_left_names_the_same_functions_and_links_to_a_program_that_does_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // A switch and texts, whose labels relocations name; the assembler keeps all others, too.
        let source = "#include <stdio.h>\n\
            static __attribute__((noinline)) const char *of(int n) { switch (n) { case 1: return \"one\"; case 2: return \"two\"; \
            case 3: return \"three\"; case 4: return \"four\"; case 5: return \"five\"; case 9: puts(\"?\"); } return \"many\"; }\n\
            int main(int c, char **v) { for (int n = 0; n < 10 + c - c; n++) puts(of(n)); return 0; }\n";
        fs::write(folder.join("x.c"), source).unwrap();
        run("cc", &["-O2", "-g", "-Wa,-L", "-c", "x.c"], folder);
        let whole = fs::read(folder.join("x.o")).unwrap();
        let less = without_labels(&whole).unwrap();
        assert!(less.len() < whole.len() && without_labels(&less).unwrap() == less);
        fs::write(folder.join("y.o"), &less).unwrap();
        let symbols = |name: &str| run("readelf", &["-sW", name], folder);
        let labels = |name: &str| symbols(name).lines().filter(|line| line.contains(" .L")).count();
        assert!(labels("y.o") < labels("x.o"), "{}", symbols("x.o"));
        for (object, program) in [("x.o", "x"), ("y.o", "y")] {
            run("cc", &["-o", program, object], folder);
        }
        let [x, y] = ["x", "y"].map(|program| run(folder.join(program), &[], folder));
        assert!(x.contains("three") && x == y);
        let functions = |name: &str| {
            let listing = symbols(name);
            let of = listing.lines().filter(|line| line.contains(" FUNC "));
            of.filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(functions("x.o"), functions("y.o"));
    }

    #[test]
    fn other_files_and_torn_ones_are_errors_not_panics() {
        assert!(without_labels(b"\x7fELF").is_err());
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(without_labels(&program).unwrap_err().contains("relocatable"));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.c"), "int x(int n) { return n ? x(n - 1) : 5; }").unwrap();
        run("cc", &["-c", "x.c"], folder.path());
        let whole = fs::read(folder.path().join("x.o")).unwrap();
        for keep in (0..whole.len() - 1).step_by(7) {
            assert!(without_labels(&whole[..keep]).is_err(), "{keep}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x81;
            let _ = without_labels(&damaged);
        }
    }
}
