//! Maps guest addresses to functions of the kernel, modules, programs and libraries, without help from the
//! guest.
//!
//! Program code is identified by its contents: each executable page of each ELF file in the image is hashed,
//! and a guest page with the same hash is that part of that file, wherever it is mapped. Kernel code is
//! patched during boot and is identified by address. The kernel's symbol tables and module list are read from
//! its file and from guest memory.
//!
//! | Data | Module |
//! |---|---|
//! | files of the image | `archive` |
//! | functions of a file | `elf` |
//! | stripped files | `stripped` |
//! | driver functions called by DPDK | `fast_path` |
//! | functions of the kernel | `kallsyms` |
//! | functions of kernel modules | `modules` |

#![forbid(unsafe_code)]

mod archive;
mod elf;
mod fast_path;
mod kallsyms;
mod modules;
mod stripped;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use doorbell_sim::ram::PAGE_BYTES;
use doorbell_sim::{PhysAddr, Ram};
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_128;

pub use archive::{Member, members};
pub use elf::{Program, Text};
use fast_path::{Array, functions};
pub use kallsyms::{KernelSymbol, kernel_symbols};
pub use modules::{Module, Peek};
pub use stripped::{Stripped, stripped};

/// Where code was executed: firmware, kernel or program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Firmware, in machine mode.
    Firmware,
    /// The kernel, in supervisor mode.
    Kernel,
    /// A program, in user mode.
    User,
}

/// A function and the object that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, module or other object that contains it.
    pub object: String,
    /// Its name.
    pub function: String,
    /// Whether the object is an executable, not only a library.
    pub is_program: bool,
}

impl Place {
    fn new(object: &str, function: impl Into<String>) -> Place {
        Place { object: object.to_owned(), function: function.into(), is_program: false }
    }
}

struct Page {
    file: usize,
    /// Address of its first byte, relative to the file's load address.
    addr: u64,
}

/// The symbols of a guest.
pub struct Symbols<'a> {
    ram: &'a Ram,
    kernel: Vec<KernelSymbol>,
    kernel_pages: std::ops::Range<u64>,
    modules: Vec<Module>,
    files: Vec<Member<'a>>,
    pages: HashMap<u128, Page>,
    /// File and offset of each guest page looked up so far.
    page_cache: HashMap<u64, Option<(usize, u64)>>,
    programs: HashMap<usize, Program>,
    debug: Vec<PathBuf>,
}

impl<'a> Symbols<'a> {
    /// Loads the symbols of a guest in its present memory. `kernel` and `initramfs` are the image's files;
    /// `debug` are folders with debugging-symbol files by build ID, in the layout of distributions.
    pub fn new(
        kernel: &[u8],
        initramfs: &'a [u8],
        ram: &'a Ram,
        peek: Peek,
        debug: &[PathBuf],
    ) -> Symbols<'a> {
        let kallsyms::Table { mut symbols, loaded_at } = kallsyms::table(kernel, ram);
        let head = symbols.iter().find(|symbol| symbol.name == "modules" && !is_code(symbol.kind));
        let modules = head.map_or(Vec::new(), |head| modules::modules(head.addr, peek));
        symbols.retain(|symbol| is_code(symbol.kind));
        // Keep one name per address, preferably not that of a section bound.
        symbols.sort_by(|a, b| (a.addr, rank(&a.name)).cmp(&(b.addr, rank(&b.name))));
        symbols.dedup_by_key(|symbol| symbol.addr);
        let kernel_pages =
            loaded_at.map_or(0..0, |at| at.0 / PAGE_BYTES..(at.0 + kernel.len() as u64).div_ceil(PAGE_BYTES));
        let files = members(initramfs);
        let pages = hashed(&files);
        Symbols {
            ram,
            kernel: symbols,
            kernel_pages,
            modules,
            files,
            pages,
            page_cache: HashMap::new(),
            programs: HashMap::new(),
            debug: debug.to_owned(),
        }
    }

    /// The loaded kernel modules.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The function at a guest address, given as virtual and physical address.
    pub fn place(&mut self, mode: Mode, virt: u64, phys: PhysAddr) -> Place {
        match mode {
            Mode::Firmware => Place::new("firmware", "[firmware]"),
            Mode::Kernel => self.kernel_place(virt),
            Mode::User => self.user_place(phys),
        }
    }

    fn kernel_place(&self, addr: u64) -> Place {
        for module in &self.modules {
            let at = module.functions.partition_point(|(begin, ..)| *begin <= addr);
            if let Some((_, end, name)) = module.functions[..at].last()
                && addr < *end
            {
                return Place::new(&format!("{}.ko", module.name), name);
            }
        }
        let at = self.kernel.partition_point(|symbol| symbol.addr <= addr);
        let inside = at < self.kernel.len();
        match self.kernel[..at].last().filter(|_| inside) {
            Some(symbol) => Place::new("kernel", &symbol.name),
            None => Place::new("kernel", "[kernel]"),
        }
    }

    /// Names the receive and send functions of DPDK drivers without symbols, from DPDK's table of function
    /// pointers in program memory. `code` lists virtual and physical addresses of executed program code; each
    /// of `memories` reads one program's memory.
    pub fn name_driver_functions<'m>(
        &mut self,
        code: impl IntoIterator<Item = (u64, PhysAddr)>,
        memories: impl IntoIterator<Item = Peek<'m>>,
    ) {
        // Load addresses of each file; they may differ between programs.
        let mut loaded = BTreeSet::new();
        for (virt, phys) in code {
            if let Some((file, addr)) = self.find(phys.0 / PAGE_BYTES) {
                loaded.insert(((virt & !(PAGE_BYTES - 1)).wrapping_sub(addr), file));
            }
        }
        let arrays: Vec<(u64, Array)> =
            loaded.iter().filter_map(|(base, file)| Some((*base, self.program(*file).array?))).collect();
        let in_memory = |peek| arrays.iter().flat_map(move |(base, array)| functions(*array, *base, peek));
        for (addr, name) in memories.into_iter().flat_map(in_memory) {
            // The function belongs to the file with the nearest load address below it, if one starts there.
            if let Some((base, file)) = loaded.range(..=(addr, usize::MAX)).next_back() {
                self.program(*file).name_unnamed(addr - base, name);
            }
        }
    }

    /// The file that a guest page belongs to, and the address in it.
    fn find(&mut self, page: u64) -> Option<(usize, u64)> {
        if let Some(found) = self.page_cache.get(&page) {
            return *found;
        }
        let found = self.look_up(page);
        self.page_cache.insert(page, found);
        found
    }

    fn program(&mut self, file: usize) -> &mut Program {
        let (files, debug) = (&self.files, &self.debug);
        self.programs.entry(file).or_insert_with(|| {
            let file = files[file];
            let symbols = debug.iter().find_map(|folder| debug_file(folder, file.bytes));
            Program::read(file.path, file.bytes, symbols.as_deref()).unwrap_or_default()
        })
    }

    fn user_place(&mut self, phys: PhysAddr) -> Place {
        let page = phys.0 / PAGE_BYTES;
        let Some((file, addr)) = self.find(page) else {
            // Program execution inside the kernel image is the vDSO.
            let name = if self.kernel_pages.contains(&page) { "[vdso]" } else { "[unknown]" };
            return Place::new(name, name);
        };
        let program = self.program(file);
        Place {
            function: program.function(addr + phys.0 % PAGE_BYTES),
            object: program.name.clone(),
            is_program: program.is_program,
        }
    }

    /// Looks up the file and address whose contents a guest page holds.
    fn look_up(&self, page: u64) -> Option<(usize, u64)> {
        let mut bytes = [0; PAGE_BYTES as usize];
        if !self.ram.copy_out(PhysAddr(page * PAGE_BYTES), &mut bytes) {
            return None;
        }
        self.pages.get(&xxh3_128(&bytes)).map(|page| (page.file, page.addr))
    }
}

fn is_code(kind: char) -> bool {
    matches!(kind, 't' | 'T' | 'w' | 'W')
}

fn rank(name: &str) -> (bool, usize, &str) {
    let bound = ["_start", "_end", "_begin", "text"].iter().any(|end| name.ends_with(end));
    (bound, name.len() - name.trim_start_matches('_').len(), name)
}

/// The executable pages of all files by contents hash. If several files share a page, the first one is used.
fn hashed(files: &[Member]) -> HashMap<u128, Page> {
    let mut pages = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        for text in elf::texts(file.bytes) {
            let first = text.offset / PAGE_BYTES * PAGE_BYTES;
            for offset in (first..text.offset + text.bytes).step_by(PAGE_BYTES as usize) {
                let mut page = [0; PAGE_BYTES as usize];
                let end = (offset + PAGE_BYTES).min(file.bytes.len() as u64);
                let Some(bytes) = file.bytes.get(offset as usize..end as usize) else { break };
                page[..bytes.len()].copy_from_slice(bytes);
                let addr = offset.wrapping_sub(text.offset).wrapping_add(text.addr);
                pages.entry(xxh3_128(&page)).or_insert(Page { file: number, addr });
            }
        }
    }
    pages
}

/// The debugging symbols of a file: `.build-id/ab/cdef….debug` in the folder, or in its `usr/lib/debug`.
fn debug_file(folder: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = elf::build_id(bytes)?;
    let name = format!(".build-id/{first}/{rest}.debug");
    [folder.join(&name), folder.join("usr/lib/debug").join(&name)]
        .iter()
        .find_map(|path| std::fs::read(path).ok())
}
