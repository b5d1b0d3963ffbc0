//! Removes compiler-generated local labels (`.L…`) from kernel modules. On RISC-V an assembler keeps all of
//! them, since linkers may move code (RISC-V ABIs Specification, "Linker Relaxation"). Debian's modules have
//! dozens per function, and the kernel's loader examines each one. Labels used by relocations stay, and so do
//! all function names. Tables: System V gABI, chapter 4.

use std::collections::BTreeSet;

use object::build::Id;
use object::build::elf::{Builder, SectionData};
use object::elf::{ET_REL, SHT_GROUP, STB_LOCAL};

/// A relocatable file for a 64-bit little-endian machine, without the labels that no relocation uses.
pub(crate) fn without_labels(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut file = Builder::read(data).map_err(|error| error.to_string())?;
    if !file.is_64 || file.header.e_type != ET_REL {
        return Err("not a relocatable ELF file of 64 bits".into());
    }
    // A group's header has the number of a symbol, which the builder does not renumber.
    if file.sections.iter().any(|section| section.sh_type == SHT_GROUP) {
        return Err("it has section groups, which kernel modules do not have".into());
    }
    let relocations = file.sections.iter().filter_map(|section| match &section.data {
        SectionData::Relocation(relocations) => Some(relocations),
        _ => None,
    });
    let named: BTreeSet<usize> =
        relocations.flatten().filter_map(|relocation| Some(relocation.symbol?.index())).collect();
    for symbol in file.symbols.iter_mut() {
        let is_label = symbol.st_bind() == STB_LOCAL && symbol.name.starts_with(b".L");
        symbol.delete = is_label && !named.contains(&symbol.id().index());
    }
    let mut written = Vec::new();
    file.write(&mut written).map_err(|error| error.to_string())?;
    Ok(written)
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
    fn the_stripped_object_keeps_its_functions_and_links_to_an_equivalent_program() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // A switch and strings, whose labels relocations use; with -L, the assembler keeps the other labels,
        // too.
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
    fn other_and_damaged_files_are_errors_not_panics() {
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
