//! Functions of ELF programs and libraries, by address.
//!
//! Named functions come from `.symtab`, or from `.dynsym` if stripped, and from a separate debugging-symbol
//! file if available. Functions without a name are separated by their ranges in `.eh_frame` and are called by
//! the file name and their start address.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::elf::{PF_X, PT_INTERP, PT_LOAD, R_RISCV_64, R_RISCV_COPY};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SymbolKind,
};

use crate::fast_path::{ARRAY, Array};

/// The address range and name of a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    begin: u64,
    end: u64,
    name: Option<String>,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its file name without directories.
    pub name: String,
    /// Whether it is an executable, not only a library.
    pub is_program: bool,
    functions: Vec<Function>,
    /// Bounds of the PLT, the linker's stubs for calls to other files.
    plt: Option<(u64, u64)>,
    /// How it accesses DPDK's array of driver functions, if at all.
    pub array: Option<Array>,
}

/// An executable segment of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its offset in the file.
    pub offset: u64,
    /// Its address, relative to the file's load address.
    pub addr: u64,
    /// Its length.
    pub bytes: u64,
}

type Elf<'a> = ElfFile64<'a, object::Endianness>;

fn parse(bytes: &[u8]) -> Option<Elf<'_>> {
    bytes.starts_with(b"\x7fELF").then(|| Elf::parse(bytes).ok())?
}

/// The executable segments of an ELF file; none if it is not an ELF file.
pub fn texts(bytes: &[u8]) -> Vec<Text> {
    let Some(elf) = parse(bytes) else { return Vec::new() };
    let endian = elf.endian();
    let executable = |header: &&object::elf::ProgramHeader64<_>| {
        header.p_type(endian) == PT_LOAD && header.p_flags(endian).contains(PF_X)
    };
    let text = |header: &object::elf::ProgramHeader64<_>| Text {
        offset: header.p_offset(endian),
        addr: header.p_vaddr(endian),
        bytes: header.p_filesz(endian),
    };
    elf.elf_program_headers().iter().filter(executable).map(text).collect()
}

/// The build ID under which debugging symbols are stored: its first byte and the other bytes, in hexadecimal.
pub fn build_id(bytes: &[u8]) -> Option<(String, String)> {
    let elf = parse(bytes)?;
    let id = elf.build_id().ok().flatten()?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    Some((first.to_owned(), rest.to_owned()))
}

/// Whether the file contains the names of all its functions, not only of exported ones.
pub fn has_names(bytes: &[u8]) -> bool {
    parse(bytes).is_some_and(|elf| elf.symbol_table().is_some_and(|table| table.symbols().next().is_some()))
}

impl Program {
    /// Reads a file, and its debugging-symbol file if available.
    pub fn read(path: &str, bytes: &[u8], debug: Option<&[u8]>) -> Option<Program> {
        let elf = parse(bytes)?;
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let mut functions = named(&elf);
        functions.sort();
        // The alphabetically first name of an address is used, so that the result is
        // deterministic.
        functions.dedup_by_key(|function| function.begin);
        let others = debug.and_then(parse).map(|debug| named(&debug)).unwrap_or_default();
        add_others(&mut functions, others);
        add_unnamed(&mut functions, unwound(&elf));
        let endian = elf.endian();
        let interpreted = elf.elf_program_headers().iter().any(|header| header.p_type(endian) == PT_INTERP);
        let fixed = elf.elf_header().e_type(endian) == object::elf::ET_EXEC;
        let is_program = (interpreted || fixed) && !name.contains(".so");
        let plt = elf.section_by_name(".plt").map(|plt| (plt.address(), plt.address() + plt.size()));
        Some(Program { name, is_program, functions, plt, array: array(&elf) })
    }

    /// Names the function that starts at an address, if it exists and has no name.
    pub fn name_unnamed(&mut self, addr: u64, name: &str) {
        let at = self.functions.binary_search_by_key(&addr, |function| function.begin);
        if let Some(function) =
            at.ok().map(|at| &mut self.functions[at]).filter(|function| function.name.is_none())
        {
            function.name = Some(name.to_owned());
        }
    }

    /// The display name of the function at an address.
    pub fn function(&self, addr: u64) -> String {
        if self.plt.is_some_and(|(begin, end)| (begin..end).contains(&addr)) {
            return format!("{} [plt]", self.name);
        }
        let at = self.functions.partition_point(|function| function.begin <= addr);
        match self.functions[..at].last() {
            Some(Function { end, name: Some(name), .. }) if addr < *end => name.clone(),
            Some(Function { begin, end, name: None }) if addr < *end => format!("{}+{begin:#x}", self.name),
            _ => format!("[{}]", self.name),
        }
    }
}

fn named(elf: &Elf) -> Vec<Function> {
    let function = |symbol: object::read::elf::ElfSymbol64<'_, '_, object::Endianness>| {
        let is_code = symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0;
        let name = symbol.name().ok().filter(|name| is_code && !name.is_empty())?;
        let (begin, size) = (symbol.address(), symbol.size());
        Some(Function { begin, end: begin.checked_add(size)?, name: Some(name.to_owned()) })
    };
    elf.symbols().chain(elf.dynamic_symbols()).filter_map(function).collect()
}

/// Adds functions that start where none does yet. The file's own names take precedence over linker-internal
/// ones from debugging symbols.
fn add_others(functions: &mut Vec<Function>, mut others: Vec<Function>) {
    let exists = |begin: u64| functions.binary_search_by_key(&begin, |function| function.begin).is_ok();
    others.retain(|function| !exists(function.begin));
    let underscores = |name: &str| name.len() - name.trim_start_matches('_').len();
    let rank = |function: &Function| {
        let name = function.name.clone().unwrap_or_default();
        (function.begin, underscores(&name), name)
    };
    others.sort_by_cached_key(rank);
    others.dedup_by_key(|function| function.begin);
    functions.extend(others);
    functions.sort();
}

/// Finds the relocation by which a file accesses DPDK's array, directly or through a pointer.
fn array(elf: &Elf) -> Option<Array> {
    let symbols = elf.dynamic_symbol_table()?;
    let is_array = |target| match target {
        RelocationTarget::Symbol(symbol) => {
            symbols.symbol_by_index(symbol).and_then(|symbol| symbol.name()) == Ok(ARRAY)
        }
        _ => false,
    };
    let mut of_array = elf.dynamic_relocations()?.filter(|(_, relocation)| is_array(relocation.target()));
    of_array.find_map(|(addr, relocation)| match relocation.flags() {
        RelocationFlags::Elf { r_type: R_RISCV_64 } => Some(Array::Pointed(addr)),
        RelocationFlags::Elf { r_type: R_RISCV_COPY } => Some(Array::Here(addr)),
        _ => None,
    })
}

/// The ranges of all functions with unwind information.
fn unwound(elf: &Elf) -> Vec<Function> {
    let Some(section) = elf.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(data) = section.data() else { return Vec::new() };
    let text = elf.section_by_name(".text").map_or(0, |text| text.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let frames = EhFrame::new(data, LittleEndian);
    let mut entries = frames.entries(&bases);
    let mut found = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(EhFrame::cie_from_offset)
        {
            let begin = fde.initial_address();
            found.push(Function { begin, end: begin.saturating_add(fde.len()), name: None });
        }
    }
    found.sort();
    found
}

/// Adds the ranges in which no named function starts or ends.
fn add_unnamed(functions: &mut Vec<Function>, ranges: Vec<Function>) {
    let free = |range: &Function| {
        let at = functions.partition_point(|function| function.begin < range.end);
        functions[..at].last().is_none_or(|function| function.end <= range.begin)
    };
    let unnamed: Vec<Function> =
        ranges.into_iter().filter(|range| range.end > range.begin && free(range)).collect();
    functions.extend(unnamed);
    functions.sort();
    functions.dedup_by_key(|function| function.begin);
}

#[cfg(test)]
mod tests {
    use object::write::{Object, StandardSection, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, SectionKind, SymbolFlags, SymbolScope};

    use super::*;

    /// Builds a file whose code has these named functions and these ranges with unwind information.
    fn file(named: &[(&str, u64, u64)], ranges: &[(u64, u64)], id: Option<[u8; 4]>) -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::Riscv64, object::Endianness::Little);
        let text = object.section_id(StandardSection::Text);
        object.append_section_data(text, &[0x13; 0x400], 4);
        for (name, value, size) in named {
            object.add_symbol(Symbol {
                name: name.as_bytes().to_vec(),
                value: *value,
                size: *size,
                kind: SymbolKind::Text,
                scope: SymbolScope::Dynamic,
                weak: false,
                section: SymbolSection::Section(text),
                flags: SymbolFlags::None,
            });
        }
        // A common information entry without augmentation: addresses are absolute. Then one entry per range.
        let mut frames = [12u32, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        frames.extend([1, 0, 1, 0x78, 1, 0, 0, 0]);
        for (begin, length) in ranges {
            frames.extend(20u32.to_le_bytes());
            frames.extend((frames.len() as u32).to_le_bytes());
            frames.extend(begin.to_le_bytes());
            frames.extend(length.to_le_bytes());
        }
        frames.extend([0; 4]);
        let section = object.add_section(Vec::new(), b".eh_frame".to_vec(), SectionKind::ReadOnlyData);
        object.append_section_data(section, &frames, 8);
        if let Some(id) = id {
            let mut note = [4u32, 4, 3].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            note.extend(b"GNU\0");
            note.extend(id);
            let section = object.add_section(Vec::new(), b".note.gnu.build-id".to_vec(), SectionKind::Note);
            object.append_section_data(section, &note, 4);
        }
        object.write().expect("the object file is valid")
    }

    #[test]
    fn functions_are_named_by_symbol_or_by_file_and_start_address() {
        let bytes =
            file(&[("first", 0x10, 0x20), ("alias", 0x10, 0x20)], &[(0x10, 0x20), (0x40, 0x10)], None);
        let program = Program::read("usr/lib/lib.so.1", &bytes, None).expect("an ELF file");
        let names: Vec<String> =
            [0xf, 0x10, 0x2f, 0x30, 0x40, 0x4f, 0x50].iter().map(|addr| program.function(*addr)).collect();
        let none = "[lib.so.1]";
        assert_eq!(names, [none, "alias", "alias", none, "lib.so.1+0x40", "lib.so.1+0x40", none]);
        assert!(!program.is_program);
    }

    #[test]
    fn debugging_symbols_name_stripped_functions() {
        let stripped = file(&[], &[(0x10, 0x20), (0x40, 0x10)], Some([0xab, 0xcd, 0xef, 1]));
        let debug = file(&[("inner", 0x40, 0x10)], &[], None);
        let program = Program::read("lib", &stripped, Some(&debug)).expect("an ELF file");
        assert_eq!([0x10, 0x44].map(|addr| program.function(addr)), ["lib+0x10", "inner"]);
        let mut renamed = program.clone();
        for addr in [0x10, 0x14, 0x40] {
            renamed.name_unnamed(addr, "given");
        }
        assert_eq!([0x10, 0x44].map(|addr| renamed.function(addr)), ["given", "inner"]);
        // The file's own name takes precedence; of several others the one with the fewest underscores is
        // used.
        let own = file(&[("lock", 0x10, 0x20)], &[], None);
        let debug =
            file(&[("__GI_lock", 0x10, 0x20), ("__GI_inner", 0x40, 8), ("_inner", 0x40, 8)], &[], None);
        let program = Program::read("lib", &own, Some(&debug)).expect("an ELF file");
        assert_eq!([0x10, 0x44].map(|addr| program.function(addr)), ["lock", "_inner"]);
        assert_eq!(build_id(&stripped), Some(("ab".into(), "cdef01".into())));
        assert_eq!(build_id(&debug), None);
    }

    #[test]
    fn a_corrupt_file_never_panics() {
        let whole = file(&[("first", 0x10, 0x20)], &[(0x10, 0x20)], Some([1, 2, 3, 4]));
        for end in 0..whole.len() {
            let part = &whole[..end];
            let _ = (texts(part), build_id(part), Program::read("x", part, None).map(|x| x.function(0x12)));
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            let _ = (
                texts(&changed),
                build_id(&changed),
                Program::read("x", &changed, None).map(|x| x.function(0x12)),
            );
        }
    }
}
