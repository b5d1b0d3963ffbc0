//! Which function of the guest an address belongs to: kernel, modules, programs and libraries, and nothing is asked of the
//! guest for it.
//!
//! Code of programs is known by its contents: each executable page of each ELF file in the image is hashed, and a page of the
//! guest's memory with the same hash is that part of that file, wherever it is mapped. Code of the kernel is patched
//! while it boots, so it is known by address: the kernel's own tables of symbols, and its list of modules, are read from its
//! file and from the guest's memory.
//!
//! | Question | Where |
//! |---|---|
//! | which files has the image? | `archive` |
//! | which functions has a file? | `elf` |
//! | which files have lost their functions' names? | `stripped` |
//! | which of a driver's does DPDK call? | `fast_path` |
//! | which functions has the kernel? | `kallsyms` |
//! | and its modules? | `modules` |

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

/// Where code was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In machine mode.
    Firmware,
    /// In the kernel.
    Kernel,
    /// In a program.
    User,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, module or other body of code that it is of.
    pub object: String,
    /// Its name.
    pub function: String,
    /// Whether the object is started as a program.
    pub is_program: bool,
}

impl Place {
    fn new(object: &str, function: impl Into<String>) -> Place {
        Place { object: object.to_owned(), function: function.into(), is_program: false }
    }
}

struct Page {
    file: usize,
    /// What its first byte's address is, relative to where the file is loaded.
    addr: u64,
}

/// See the crate.
pub struct Symbols<'a> {
    ram: &'a Ram,
    kernel: Vec<KernelSymbol>,
    kernel_pages: std::ops::Range<u64>,
    modules: Vec<Module>,
    files: Vec<Member<'a>>,
    pages: HashMap<u128, Page>,
    /// What each page executed was found to be.
    known: HashMap<u64, Option<(usize, u64)>>,
    programs: HashMap<usize, Program>,
    debug: Vec<PathBuf>,
}

impl<'a> Symbols<'a> {
    /// The symbols of a guest as its memory is now. `kernel` and `initramfs` are the image's files; `debug` are folders with
    /// files of debugging symbols by build ID, as distributions pack them.
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
        // Of several names of an address one counts: not that of a section's bounds, if there is another.
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
            known: HashMap::new(),
            programs: HashMap::new(),
            debug: debug.to_owned(),
        }
    }

    /// Whether the kernel's table of symbols was found.
    pub fn has_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// The kernel's functions, one name an address.
    pub fn kernel(&self) -> &[KernelSymbol] {
        &self.kernel
    }

    /// The modules.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The function at an address of the guest, given as virtual and physical address.
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

    /// Names functions that have no symbols by what programs in whose memory they are call them through: those by which DPDK's drivers
    /// receive and send. `code` is where programs executed, as virtual and physical addresses; each of `memories` reads the memory of one.
    pub fn learn<'m>(
        &mut self,
        code: impl IntoIterator<Item = (u64, PhysAddr)>,
        memories: impl IntoIterator<Item = Peek<'m>>,
    ) {
        // Where each file is loaded; in several programs it may be at several places.
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
            // It is of the file that is loaded last before it, if a function begins there.
            if let Some((base, file)) = loaded.range(..=(addr, usize::MAX)).next_back() {
                self.program(*file).name_unnamed(addr - base, name);
            }
        }
    }

    /// Which file a page of the guest's memory is of, and where in it.
    fn find(&mut self, page: u64) -> Option<(usize, u64)> {
        if let Some(found) = self.known.get(&page) {
            return *found;
        }
        let found = self.look_up(page);
        self.known.insert(page, found);
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
            // What programs execute of the kernel's own file is its vDSO.
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

    /// Which part of which file a page of the guest's memory holds.
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

/// The executable pages of all files by their contents. Of files with the same page the first counts.
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

/// The debugging symbols of a file: `.build-id/ab/cdef….debug` in the folder, or in `usr/lib/debug` in it.
fn debug_file(folder: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = elf::build_id(bytes)?;
    let name = format!(".build-id/{first}/{rest}.debug");
    [folder.join(&name), folder.join("usr/lib/debug").join(&name)]
        .iter()
        .find_map(|path| std::fs::read(path).ok())
}
