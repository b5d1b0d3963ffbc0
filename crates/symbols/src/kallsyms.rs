//! The kernel's symbol table in the layout of Linux 6.4 and later (`scripts/kallsyms.c` of the kernel's
//! sources):
//!
//! | Part | Contents |
//! |---|---|
//! | count | u32: number of symbols |
//! | names | per symbol: its length (one byte, or two if the first has bit 7 set), then that many tokens |
//! | markers | u32: offset of the name of every 256th symbol |
//! | tokens | 256 zero-terminated strings |
//! | token index | u16: offset of each token |
//! | offsets | u32 per symbol: from the base, ascending |
//! | base | u64, relocated when the kernel boots |
//!
//! Each part starts at a multiple of 8. The first character of a name is the symbol's type, as in `nm`. The
//! tables are found in the kernel's file by their contents: the one-character tokens of the digits, and a
//! matching index. Only the base is read from guest memory. The layouts of older kernels are not supported.

use doorbell_sim::{PhysAddr, Ram};

/// Symbols per marker.
const GROUP: usize = 256;
/// Maximum tokens per name (the kernel's limit is 512 characters).
const TOKENS_MAX: usize = 512;
/// Alignment of the kernel's load address.
const LOAD_ALIGN: u64 = 2 << 20;

/// The tokens of the digits.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// Its virtual address.
    pub addr: u64,
    /// `t`, `T`, `d` and so on, as in `nm`.
    pub kind: char,
    /// Its name.
    pub name: String,
}

/// Positions of the tables in a kernel's file.
struct Tables {
    names: usize,
    count: usize,
    tokens: Vec<Vec<u8>>,
    tokens_at: usize,
    offsets: usize,
}

/// The symbol table of a booted kernel.
#[derive(Default)]
pub(crate) struct Table {
    /// In ascending order of address.
    pub symbols: Vec<KernelSymbol>,
    /// The kernel's load address: where its token table was found in guest memory.
    pub loaded_at: Option<PhysAddr>,
}

/// The symbols of a booted kernel, in ascending order of address; empty if not found.
pub fn kernel_symbols(kernel: &[u8], ram: &Ram) -> Vec<KernelSymbol> {
    table(kernel, ram).symbols
}

/// Searches for the tables once, because that reads the whole kernel file; parts that are not found stay
/// empty.
pub(crate) fn table(kernel: &[u8], ram: &Ram) -> Table {
    let Some(tables) = find(kernel) else { return Table::default() };
    let loaded_at = loaded_at(kernel, &tables, ram);
    let symbols = loaded_at.and_then(|at| symbols(kernel, &tables, base(&tables, at, ram)?));
    Table { symbols: symbols.unwrap_or_default(), loaded_at }
}

fn symbols(kernel: &[u8], tables: &Tables, base: u64) -> Option<Vec<KernelSymbol>> {
    let mut at = tables.names;
    let mut symbols = Vec::with_capacity(tables.count);
    let mut text = Vec::new();
    for index in 0..tables.count {
        let (tokens, next) = entry(kernel, at)?;
        text.clear();
        tokens.iter().for_each(|token| text.extend_from_slice(&tables.tokens[usize::from(*token)]));
        let text = String::from_utf8_lossy(&text);
        let mut chars = text.chars();
        let kind = chars.next().unwrap_or('?');
        let addr = base.wrapping_add(u64::from(u32_at(kernel, tables.offsets + 4 * index)?));
        symbols.push(KernelSymbol { addr, kind, name: chars.as_str().to_owned() });
        at = next;
    }
    Some(symbols)
}

fn loaded_at(kernel: &[u8], tables: &Tables, ram: &Ram) -> Option<PhysAddr> {
    let expected = kernel.get(tables.tokens_at..tables.offsets)?;
    let mut found = vec![0; expected.len()];
    let mut at = ram.base().0.next_multiple_of(LOAD_ALIGN);
    while at < ram.base().0 + ram.size().0 {
        if ram.copy_out(PhysAddr(at + tables.tokens_at as u64), &mut found) && found == expected {
            return Some(PhysAddr(at));
        }
        at += LOAD_ALIGN;
    }
    None
}

fn base(tables: &Tables, loaded_at: PhysAddr, ram: &Ram) -> Option<u64> {
    let at = (tables.offsets + 4 * tables.count).next_multiple_of(8);
    ram.load_u64(PhysAddr(loaded_at.0 + at as u64))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The tokens of a name, and the position of the next name.
fn entry(kernel: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = usize::from(*kernel.get(at)?);
    let (length, begin) = match first & 0x80 {
        0 => (first, at + 1),
        _ => (first & 0x7f | usize::from(*kernel.get(at + 1)?) << 7, at + 2),
    };
    (1..=TOKENS_MAX).contains(&length).then_some(())?;
    Some((kernel.get(begin..begin + length)?, begin + length))
}

fn find(kernel: &[u8]) -> Option<Tables> {
    let mut from = 0;
    while let Some(found) = position(&kernel[from..]) {
        if let Some(tables) = at_digits(kernel, from + found) {
            return Some(tables);
        }
        from += found + 1;
    }
    None
}

/// The first position of the digit tokens. Any two adjacent bytes of them determine the start, so that not
/// every byte needs to be checked.
fn position(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len().saturating_sub(1)).step_by(DIGITS.len() - 2).find_map(|at| {
        let digit = match (bytes[at], bytes[at + 1]) {
            (b'0'..=b'9', 0) => at,
            (0, b'0'..=b'9') => at + 1,
            _ => return None,
        };
        let begin = digit.checked_sub(2 * usize::from(bytes[digit] - b'0'))?;
        bytes[begin..].starts_with(DIGITS).then_some(begin)
    })
}

/// The tables, if the token of the digit 0 is at `zero`.
fn at_digits(kernel: &[u8], zero: usize) -> Option<Tables> {
    // As many tokens precede it as there are characters before the digits.
    let mut tokens_at = zero;
    for _ in 0..b'0' {
        tokens_at = kernel[..tokens_at.checked_sub(1)?].iter().rposition(|byte| *byte == 0)? + 1;
    }
    let (mut tokens, mut starts, mut at) = (Vec::new(), Vec::new(), tokens_at);
    for _ in 0..256 {
        let length = kernel[at..].iter().take(TOKENS_MAX).position(|byte| *byte == 0)?;
        tokens.push(kernel[at..at + length].to_vec());
        starts.push((at - tokens_at) as u16);
        at += length + 1;
    }
    let index = at.next_multiple_of(8);
    let listed =
        kernel.get(index..index + 512)?.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    if !listed.eq(starts) {
        return None;
    }
    let (names, count) = names(kernel, tokens_at)?;
    Some(Tables { names, count, tokens, tokens_at, offsets: index + 512 })
}

/// Position and number of the names, found through the markers, which end where the tokens start.
fn names(kernel: &[u8], tokens_at: usize) -> Option<(usize, usize)> {
    // The first marker is zero; after the last there may be four bytes of padding.
    for end in [tokens_at, tokens_at.checked_sub(4)?] {
        let mut markers = end;
        while u32_at(kernel, markers.checked_sub(4)?)? > 0 {
            markers -= 4;
        }
        markers -= 4;
        let groups = (end - markers) / 4;
        let last = u32_at(kernel, end - 4)? as usize;
        let Some(latest) = markers.checked_sub(last) else { continue };
        let earliest = latest.saturating_sub(GROUP * (TOKENS_MAX + 2)).max(8).next_multiple_of(8);
        for names in (earliest..latest + 1).step_by(8).rev() {
            let count = u32_at(kernel, names - 8)? as usize;
            if count.div_ceil(GROUP) == groups
                && ends_at(kernel, names + last, count - (groups - 1) * GROUP, markers)
            {
                return Some((names, count));
            }
        }
    }
    None
}

/// Whether `count` names starting at `at` end just before `end`.
fn ends_at(kernel: &[u8], mut at: usize, count: usize, end: usize) -> bool {
    for _ in 0..count {
        match entry(kernel, at) {
            Some((_, next)) if next <= end => at = next,
            _ => return false,
        }
    }
    at.next_multiple_of(8) == end
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Bytes;

    use super::*;

    const BASE: u64 = 0xffff_ffff_8000_0000;

    /// Builds a kernel file with `count` symbols named by their number, 16 bytes apart.
    fn kernel(count: usize) -> Vec<u8> {
        let align = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(8), 0);
        let mut out = vec![0x13; 4096 + 3];
        align(&mut out);
        out.extend((count as u64).to_le_bytes());
        let names = out.len();
        let mut markers = Vec::new();
        for number in 0..count {
            if number % GROUP == 0 {
                markers.push((out.len() - names) as u32);
            }
            // The digit tokens are the digits themselves; token 1 is longer. Every seventh name has a
            // two-byte length.
            let text = [
                &b"T\x01"[..],
                number.to_string().as_bytes(),
                &vec![b'9'; if number % 7 == 0 { 150 } else { 0 }],
            ]
            .concat();
            match text.len() {
                short @ ..0x80 => out.push(short as u8),
                long => out.extend([long as u8 & 0x7f | 0x80, (long >> 7) as u8]),
            }
            out.extend(text);
        }
        align(&mut out);
        out.extend(markers.iter().flat_map(|marker| marker.to_le_bytes()));
        align(&mut out);
        let (mut tokens, mut index) = (Vec::new(), Vec::new());
        for token in 0..=255u8 {
            index.extend((tokens.len() as u16).to_le_bytes());
            match token {
                1 => tokens.extend(b"name_"),
                b'0'..=b'9' | b'A'..=b'Z' => tokens.push(token),
                _ => {}
            }
            tokens.push(0);
        }
        out.extend(tokens);
        align(&mut out);
        out.extend(index);
        out.extend((0..count as u32).flat_map(|number| (16 * number).to_le_bytes()));
        align(&mut out);
        // The link-time value; booting relocates it.
        out.extend(0u64.to_le_bytes());
        out
    }

    fn booted(kernel: &[u8], at: u64) -> Ram {
        let mut ram = Ram::new(PhysAddr(0x8000_0000), Bytes(32 << 20), 1);
        assert!(ram.store(PhysAddr(at), kernel));
        assert!(ram.store(PhysAddr(at + kernel.len() as u64 - 8), &BASE.to_le_bytes()));
        ram
    }

    #[test]
    fn every_symbol_is_found_at_every_load_address() {
        for (count, at) in [(300, 0x8020_0000), (256, 0x8040_0000), (513, 0x8080_0000)] {
            let kernel = kernel(count);
            let ram = booted(&kernel, at);
            assert_eq!(table(&kernel, &ram).loaded_at, Some(PhysAddr(at)));
            let symbols = kernel_symbols(&kernel, &ram);
            assert_eq!(symbols.len(), count);
            for (number, symbol) in symbols.iter().enumerate() {
                let long = if number % 7 == 0 { "9".repeat(150) } else { String::new() };
                let name = format!("name_{number}{long}");
                assert_eq!(*symbol, KernelSymbol { addr: BASE + 16 * number as u64, kind: 'T', name });
            }
        }
    }

    #[test]
    fn the_digit_tokens_are_found_at_every_position() {
        let naive = |bytes: &[u8]| bytes.windows(DIGITS.len()).position(|window| window == DIGITS);
        for before in 0..60 {
            for filling in [0, b'0', b'7', 0xff] {
                let mut bytes = vec![filling; before];
                bytes.extend_from_slice(DIGITS);
                for end in before..bytes.len() + 1 {
                    assert_eq!(position(&bytes[..end]), naive(&bytes[..end]), "{before} bytes of {filling}");
                }
                // With two complete occurrences the first is found, and partial ones are ignored.
                bytes.extend_from_slice(&DIGITS[..before % DIGITS.len()]);
                bytes.extend_from_slice(DIGITS);
                assert_eq!(position(&bytes), naive(&bytes));
                assert_eq!(position(&bytes[before + 1..]), naive(&bytes[before + 1..]));
            }
        }
    }

    #[test]
    fn a_missing_or_corrupt_kernel_has_no_symbols() {
        let whole = kernel(300);
        let ram = booted(&whole, 0x8020_0000);
        assert_eq!(kernel_symbols(&whole[..whole.len() / 2], &ram), []);
        assert_eq!(kernel_symbols(&[], &ram), []);
        let elsewhere = Ram::new(PhysAddr(0x8000_0000), Bytes(32 << 20), 1);
        assert_eq!(kernel_symbols(&whole, &elsewhere), []);
        for at in (4096..whole.len()).step_by(5) {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            let _ = kernel_symbols(&changed, &ram);
        }
    }
}
