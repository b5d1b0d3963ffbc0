//! Functions of the loaded kernel modules, from the kernel's module list in guest memory.
//!
//! The list's head is the symbol `modules`; each `struct module` starts with its state, the list links and
//! the name (56 bytes). At a later offset it has a pointer to its symbols: an ELF symbol table, their number,
//! and a string table. The offset depends on the kernel configuration, so the pointer is found by its target.

/// A module and its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Start, end and name of each symbol.
    pub functions: Vec<(u64, u64, String)>,
}

/// Reads guest memory at a virtual address; `false` where nothing is mapped.
pub type Peek<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

const NAME_BYTES: usize = 56;
/// Offset of the links in the structure.
const LINKS: u64 = 8;
const MODULES_MAX: usize = 1024;
/// Maximum offset of the pointer to the symbols.
const STRUCT_BYTES_MAX: usize = 4096;
const SYMBOLS_MAX: u32 = 1 << 20;
const SYMBOL_BYTES: usize = 24;

fn read<const N: usize>(peek: Peek, addr: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    peek(addr, &mut bytes).then_some(bytes)
}

pub(crate) fn word(peek: Peek, addr: u64) -> Option<u64> {
    read::<8>(peek, addr).map(u64::from_le_bytes)
}

fn is_kernel(addr: u64) -> bool {
    addr >> 63 == 1 && addr.is_multiple_of(8)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// All modules of the list whose head is at `head`.
pub fn modules(head: u64, peek: Peek) -> Vec<Module> {
    let mut found = Vec::new();
    let mut at = word(peek, head);
    while let Some(links) = at.filter(|links| *links != head && is_kernel(*links)) {
        let module = links.wrapping_sub(LINKS);
        let Some(name) = read::<NAME_BYTES>(peek, module + LINKS + 16) else { break };
        let functions = functions(module, peek).unwrap_or_default();
        found.push(Module { name: text(&name), functions });
        if found.len() == MODULES_MAX {
            break;
        }
        at = word(peek, links);
    }
    found
}

fn functions(module: u64, peek: Peek) -> Option<Vec<(u64, u64, String)>> {
    let start = LINKS as usize + 16 + NAME_BYTES;
    let fields = (start..STRUCT_BYTES_MAX).step_by(8);
    fields.map_while(|offset| word(peek, module + offset as u64)).find_map(|field| table(field, peek))
}

/// The symbols at an address, if a valid table is there.
fn table(at: u64, peek: Peek) -> Option<Vec<(u64, u64, String)>> {
    if !is_kernel(at) {
        return None;
    }
    let (symbols, strings) = (word(peek, at)?, word(peek, at + 16)?);
    let count = u32::from_le_bytes(read::<4>(peek, at + 8)?);
    let plausible = is_kernel(symbols) && strings >> 63 == 1 && (2..SYMBOLS_MAX).contains(&count);
    // The first symbol and the first string must be empty.
    if !plausible
        || read::<SYMBOL_BYTES>(peek, symbols)? != [0; SYMBOL_BYTES]
        || read::<1>(peek, strings)? != [0]
    {
        return None;
    }
    let mut bytes = vec![0; count as usize * SYMBOL_BYTES];
    peek(symbols, &mut bytes).then_some(())?;
    let mut functions = Vec::new();
    for symbol in bytes.chunks_exact(SYMBOL_BYTES).skip(1) {
        let long = |at: usize| u64::from_le_bytes(symbol[at..at + 8].try_into().expect("eight bytes"));
        let name = u32::from_le_bytes(symbol[..4].try_into().expect("four bytes"));
        let (section, value, size) = (u16::from_le_bytes([symbol[6], symbol[7]]), long(8), long(16));
        if section == 0 || size == 0 || value >> 63 == 0 {
            continue;
        }
        let mut buffer = [0; 128];
        let most = (0..buffer.len()).find(|at| {
            !peek(strings + u64::from(name) + *at as u64, &mut buffer[*at..=*at]) || buffer[*at] == 0
        });
        functions.push((value, value + size, text(&buffer[..most.unwrap_or(buffer.len())])));
    }
    functions.sort();
    Some(functions)
}
