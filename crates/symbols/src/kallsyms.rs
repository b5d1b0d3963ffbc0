//! The kernel's own table of its symbols, as Linux 6.4 and later lays it out (`scripts/kallsyms.c` of the kernel's sources):
//!
//! | Part | What |
//! |---|---|
//! | count | u32: how many symbols |
//! | names | of each symbol: its length (one byte, or two if the first has bit 7), then that many tokens |
//! | markers | u32: where the name of every 256th symbol begins |
//! | tokens | 256 strings, each ended by a zero |
//! | token index | u16: where each token begins |
//! | offsets | u32 of each symbol: from the base, ascending |
//! | base | u64, relocated when the kernel boots |
//!
//! Each part begins at a multiple of 8. The first character of a name is the symbol's kind, as in `nm`. The tables are found in
//! the kernel's file by what they look like: tokens of one character that the digits stand for, and an index that fits. Only
//! the base is read from the guest's memory. What older kernels have is not read.

use doorbell_sim::{PhysAddr, Ram};

/// Symbols with a name of their own in the marker table.
const GROUP: usize = 256;
/// Names are shorter than this many tokens (the kernel's limit is 512 characters).
const TOKENS_MAX: usize = 512;
/// A kernel is loaded at a multiple of this.
const LOAD_ALIGN: u64 = 2 << 20;

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

/// Where the tables stand in a kernel's file.
struct Tables {
    names: usize,
    count: usize,
    tokens: Vec<Vec<u8>>,
    tokens_at: usize,
    offsets: usize,
}

/// The symbols of a kernel that has booted, in ascending order of their addresses; empty if they are not found.
pub fn kernel_symbols(kernel: &[u8], ram: &Ram) -> Vec<KernelSymbol> {
    let Some(tables) = find(kernel) else { return Vec::new() };
    let Some(base) = base(kernel, &tables, ram) else { return Vec::new() };
    let mut at = tables.names;
    let mut symbols = Vec::with_capacity(tables.count);
    for index in 0..tables.count {
        let Some((tokens, next)) = entry(kernel, at) else { return Vec::new() };
        let text: Vec<u8> =
            tokens.iter().flat_map(|token| tables.tokens[usize::from(*token)].clone()).collect();
        let text = String::from_utf8_lossy(&text);
        let mut chars = text.chars();
        let kind = chars.next().unwrap_or('?');
        let Some(offset) = u32_at(kernel, tables.offsets + 4 * index) else { return Vec::new() };
        let addr = base.wrapping_add(u64::from(offset));
        symbols.push(KernelSymbol { addr, kind, name: chars.as_str().to_owned() });
        at = next;
    }
    symbols
}

/// Where the kernel's first byte was loaded: where the guest's memory has its table of tokens.
pub fn load_address(kernel: &[u8], ram: &Ram) -> Option<PhysAddr> {
    loaded_at(kernel, &find(kernel)?, ram)
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

fn base(kernel: &[u8], tables: &Tables, ram: &Ram) -> Option<u64> {
    let at = (tables.offsets + 4 * tables.count).next_multiple_of(8);
    ram.load_u64(PhysAddr(loaded_at(kernel, tables, ram)?.0 + at as u64))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The tokens of a name, and where the next name begins.
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
    let digits: Vec<u8> = (b'0'..=b'9').flat_map(|digit| [digit, 0]).collect();
    let mut from = 0;
    while let Some(found) = position(&kernel[from..], &digits) {
        if let Some(tables) = at_digits(kernel, from + found) {
            return Some(tables);
        }
        from += found + 1;
    }
    None
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The tables, if the token of the digit 0 stands at `zero`.
fn at_digits(kernel: &[u8], zero: usize) -> Option<Tables> {
    // As many tokens stand before as there are characters before the digits.
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

/// Where the names begin and how many there are: the markers end where the tokens begin.
fn names(kernel: &[u8], tokens_at: usize) -> Option<(usize, usize)> {
    // The first marker is zero; behind the last there may be four bytes of padding.
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

/// Whether so many names from an offset end just before another.
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

    /// A kernel's file with so many symbols, each named by its number, 16 bytes from one to the next.
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
            // Digits stand for themselves; the token 1 is longer. Every seventh name takes two bytes of length.
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
        // As linked; booting changes it.
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
    fn every_symbol_is_found_wherever_the_kernel_was_loaded() {
        for (count, at) in [(300, 0x8020_0000), (256, 0x8040_0000), (513, 0x8080_0000)] {
            let kernel = kernel(count);
            let ram = booted(&kernel, at);
            assert_eq!(load_address(&kernel, &ram), Some(PhysAddr(at)));
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
    fn a_kernel_that_is_not_there_or_damaged_has_no_symbols() {
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
