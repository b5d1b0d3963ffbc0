//! Reader of the plugin's raw stream; `tools/qemu-trace/stream.h` describes the format.

mod parts;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, BufReader, Read};

use crate::error::StreamError;
pub use parts::{Access, Bytes, Device, Item, TableWalk};
use parts::{INSTRUCTION_BYTES_MAX, PAGE_BITS_MAX, PAGE_SHIFT, WALK_MAX};

const BUFFER_BYTES: usize = 1 << 18;
const MAGIC: &[u8] = b"doorbell-qemu-4\n";
/// Entries of the page cache, the same as in the plugin.
const PAGES: usize = 1 << 14;
/// Limit of instructions per block.
const INSTRUCTIONS_MAX: u64 = 1 << 16;

/// Record types: the plugin's `enum record`.
mod record {
    pub const END: u8 = 0;
    pub const AGAIN: u8 = 1;
    pub const BLOCK: u8 = 2;
    pub const DEFINE: u8 = 3;
    pub const CUT: u8 = 4;
    pub const STATE: u8 = 5;
    pub const SLEPT: u8 = 6;
    pub const DMA: u8 = 7;
    pub const DEVICE: u8 = 8;
    pub const BEGIN: u8 = 9;
    pub const TRAP: u8 = 10;
    pub const WALKS: u8 = 11;
}

/// Bits of an access record, as in the plugin.
mod access {
    pub const IS: u8 = 0x80;
    pub const FURTHER: u8 = 0x40;
    pub const PAGE: u8 = 0x20;
    pub const IO: u8 = 0x02;
    pub const STORE: u8 = 0x01;

    pub const fn size_shift(first: u8) -> u8 {
        first >> 2 & 7
    }
}

/// Bits of a state record, as in the plugin.
mod state {
    pub const PRIVILEGED: u8 = 1;
    pub const IS_64_BIT: u8 = 2;
}

/// Reader of the raw stream.
#[derive(Debug)]
pub struct Stream<R> {
    input: io::Bytes<BufReader<R>>,
    blocks: Vec<Block>,
    pages: Vec<(u64, u64)>,
    /// The block being read, and the last one.
    open: Option<u32>,
    last: Option<u32>,
    /// The instruction in it that accessed memory last.
    accessing: u32,
    /// Item that was read ahead while closing a block.
    ahead: Option<Item>,
    accesses: Vec<Access>,
    devices: Vec<(u32, Device)>,
    walks: Vec<TableWalk>,
    executed: u64,
}

#[derive(Debug)]
struct Block {
    instructions: Vec<Bytes>,
    /// Address of each instruction's last access.
    accessed: Vec<u64>,
    successor: Option<u32>,
}

impl Block {
    /// Virtual and physical addresses of the first and the last instruction.
    fn ends(&self) -> [(u64, u64); 2] {
        let place = |bytes: &Bytes| (bytes.address, bytes.physical);
        [self.instructions.first(), self.instructions.last()].map(|bytes| bytes.map_or((0, 0), place))
    }
}

impl<R: Read> Stream<R> {
    /// Reads the stream's header.
    pub fn new(input: R) -> Result<Stream<R>, StreamError> {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, input).bytes();
        for expected in MAGIC {
            if input.next().transpose()? != Some(*expected) {
                return Err(StreamError::Foreign);
            }
        }
        let mut stream = Stream {
            input,
            blocks: Vec::new(),
            pages: vec![(u64::MAX, u64::MAX); PAGES],
            open: None,
            last: None,
            accessing: 0,
            ahead: None,
            accesses: Vec::new(),
            devices: Vec::new(),
            walks: Vec::new(),
            executed: 0,
        };
        // The size of RAM, which is not used yet.
        stream.number()?;
        Ok(stream)
    }

    /// Instructions of a block.
    pub fn instructions(&self, block: u32) -> &[Bytes] {
        &self.blocks[block as usize].instructions
    }

    /// Swaps in the accesses and device events of the last returned block, each event with the number of
    /// instructions started before it. The old contents of the lists are lost.
    pub fn exchange(&mut self, accesses: &mut Vec<Access>, devices: &mut Vec<(u32, Device)>) {
        std::mem::swap(&mut self.accesses, accesses);
        std::mem::swap(&mut self.devices, devices);
    }

    /// Translations of pages used for the first time, or again after others. They accumulate until the caller
    /// removes them.
    pub fn walks(&mut self) -> &mut Vec<TableWalk> {
        &mut self.walks
    }

    /// The next item; at the end, the end again.
    pub fn read(&mut self) -> Result<Item, StreamError> {
        if let Some(item) = self.ahead {
            if !matches!(item, Item::End(_)) {
                self.ahead = None;
            }
            return Ok(item);
        }
        self.accesses.clear();
        self.devices.clear();
        let mut started = None;
        loop {
            let first = self.byte()?;
            let after = match first {
                access::IS.. => {
                    self.access(first)?;
                    continue;
                }
                record::AGAIN | record::BLOCK | record::DEFINE => {
                    let next = self.block(first)?;
                    match self.close(started, Some(next))? {
                        Some(done) => return Ok(done),
                        None => continue,
                    }
                }
                record::WALKS => {
                    let number = self.small()? as usize;
                    let Some(block) = self.blocks.get(number) else {
                        return Err(self.damaged("an undefined block"));
                    };
                    let ends = block.ends();
                    self.walks_of(ends)?;
                    continue;
                }
                record::CUT => {
                    started = Some(self.small()?);
                    continue;
                }
                record::DMA | record::DEVICE => {
                    let (at, device) = self.device(first)?;
                    if self.open.is_some() {
                        self.devices.push((at, device));
                        continue;
                    }
                    return Ok(Item::Device(device));
                }
                record::BEGIN => {
                    self.number()?;
                    return Ok(Item::Begin);
                }
                record::STATE => self.state()?,
                record::TRAP => Item::Trap { is_interrupt: self.byte()? != 0, address: self.number()? },
                record::SLEPT => Item::Slept(self.number()?),
                record::END => Item::End(self.number()?),
                _ => return Err(self.damaged("an unknown record type")),
            };
            self.ahead = Some(after);
            match self.close(started, None)? {
                Some(done) => return Ok(done),
                None => return self.read(),
            }
        }
    }

    fn state(&mut self) -> Result<Item, StreamError> {
        let flags = self.byte()?;
        let space = self.number()?;
        if flags & state::IS_64_BIT == 0 {
            return Err(StreamError::Not64Bit);
        }
        Ok(Item::State { is_privileged: flags & state::PRIVILEGED != 0, space })
    }

    /// Closes the open block, and opens the next.
    fn close(&mut self, started: Option<u32>, next: Option<u32>) -> Result<Option<Item>, StreamError> {
        let Some(block) = std::mem::replace(&mut self.open, next) else { return Ok(None) };
        let all = self.blocks[block as usize].instructions.len() as u32;
        let started = started.unwrap_or(all);
        if started > all {
            return Err(self.damaged("more instructions started than the block has"));
        }
        self.executed += 1;
        Ok(Some(Item::Block(block, started)))
    }

    /// Number of the block that begins.
    fn block(&mut self, first: u8) -> Result<u32, StreamError> {
        let before = self.last.map(|block| &mut self.blocks[block as usize]);
        let block = match first {
            record::AGAIN => {
                let known = before.and_then(|block| block.successor);
                return self.begins(known.ok_or(()), None);
            }
            record::BLOCK => self.small()?,
            _ => self.definition()?,
        };
        self.begins(Ok(block), self.last)
    }

    fn begins(&mut self, block: Result<u32, ()>, before: Option<u32>) -> Result<u32, StreamError> {
        let known = block.ok().filter(|block| (*block as usize) < self.blocks.len());
        let Some(block) = known else { return Err(self.damaged("an undefined block")) };
        if let Some(before) = before {
            self.blocks[before as usize].successor = Some(block);
        }
        self.last = Some(block);
        self.accessing = 0;
        Ok(block)
    }

    fn definition(&mut self) -> Result<u32, StreamError> {
        let virt = self.number()?;
        let first = self.number()?;
        let last = self.number()?;
        let count = self.number()?;
        if count == 0 || count > INSTRUCTIONS_MAX {
            return Err(self.damaged("a block of impossible length"));
        }
        let mut instructions = Vec::with_capacity(count as usize);
        let mut address = virt;
        for _ in 0..count {
            let length = self.byte()?;
            if length == 0 || length > INSTRUCTION_BYTES_MAX {
                return Err(self.damaged("an instruction of impossible length"));
            }
            let mut bytes = [0; INSTRUCTION_BYTES_MAX as usize];
            for byte in &mut bytes[..usize::from(length)] {
                *byte = self.byte()?;
            }
            let page = if address >> PAGE_SHIFT == virt >> PAGE_SHIFT { first } else { last };
            let page_mask = (1 << PAGE_SHIFT) - 1;
            let physical = page.checked_sub(1).map_or(0, |page| page & !page_mask | address & page_mask);
            instructions.push(Bytes { address, physical, length, bytes });
            address = address.wrapping_add(u64::from(length));
        }
        let accessed = vec![0; instructions.len()];
        let block = Block { instructions, accessed, successor: None };
        let ends = block.ends();
        self.blocks.push(block);
        self.walks_of(ends)?;
        Ok(self.blocks.len() as u32 - 1)
    }

    fn access(&mut self, first: u8) -> Result<(), StreamError> {
        if first & access::FURTHER != 0 {
            let difference = self.difference()?;
            self.accessing = (u64::from(self.accessing)).wrapping_add(difference) as u32;
        }
        let difference = self.difference()?;
        let place =
            self.open.and_then(|open| self.blocks[open as usize].accessed.get_mut(self.accessing as usize));
        let Some(place) = place else { return Err(self.damaged("an access without an instruction")) };
        let virt = place.wrapping_add(difference);
        *place = virt;
        let is_io = first & access::IO != 0;
        let phys = if is_io {
            let phys = self.number()?;
            // The value, which is not used yet.
            self.number()?;
            phys
        } else {
            self.page(first, virt)? << PAGE_SHIFT | virt & ((1 << PAGE_SHIFT) - 1)
        };
        self.accesses.push(Access {
            instruction: self.accessing,
            size: 1 << access::size_shift(first),
            is_store: first & access::STORE != 0,
            is_io,
            virt,
            phys,
        });
        Ok(())
    }

    /// Physical page of an access.
    fn page(&mut self, first: u8, virt: u64) -> Result<u64, StreamError> {
        let page = virt >> PAGE_SHIFT;
        let place = page as usize % PAGES;
        if first & access::PAGE != 0 {
            let physical = self.number()?;
            self.walk(virt, physical)?;
            self.pages[place] = (page, physical);
            return Ok(physical);
        }
        match self.pages[place] {
            (cached, physical) if cached == page => Ok(physical),
            _ => Err(self.damaged("an undefined page")),
        }
    }

    /// Reads the walks of the pages of a block's first and last instruction.
    fn walks_of(&mut self, [first, last]: [(u64, u64); 2]) -> Result<(), StreamError> {
        self.walk(first.0, first.1 >> PAGE_SHIFT)?;
        if first.0 >> PAGE_SHIFT != last.0 >> PAGE_SHIFT {
            self.walk(last.0, last.1 >> PAGE_SHIFT)?;
        }
        Ok(())
    }

    fn walk(&mut self, virt: u64, page: u64) -> Result<(), StreamError> {
        let count = usize::from(self.byte()?);
        if count > WALK_MAX {
            return Err(self.damaged("a walk through too many tables"));
        }
        let page_bits = if count > 0 { self.byte()? } else { PAGE_SHIFT as u8 };
        if page_bits > PAGE_BITS_MAX {
            return Err(self.damaged("a page of impossible size"));
        }
        let mut walk = TableWalk { virt, page: page << PAGE_SHIFT, entries: [0; WALK_MAX], page_bits };
        for entry in 0..count {
            walk.entries[entry] = self.number()? << 3;
        }
        if count > 0 {
            self.walks.push(walk);
        }
        Ok(())
    }

    fn device(&mut self, first: u8) -> Result<(u32, Device), StreamError> {
        let kind = self.byte()?;
        let at = self.small()?;
        if first == record::DMA {
            let (addr, bytes) = (self.number()?, self.number()?);
            return Ok((at, Device::Dma { is_write: kind != 0, addr, bytes }));
        }
        // In the order of the plugin's `enum device_event`.
        let arguments = match kind {
            0 | 2 | 6 => 3,
            1 | 5 => 0,
            3 => 4,
            4 | 7..=9 => 1,
            _ => return Err(self.damaged("an unknown event type")),
        };
        let mut values = [0; 4];
        for argument in &mut values[..arguments] {
            *argument = self.number()?;
        }
        let device = match kind {
            0 => Device::Register { offset: values[0], size: values[1].min(8) as u8, value: values[2] },
            1 => Device::RxFrame,
            3 => Device::RxBuffer,
            4 => Device::RxDone,
            5 => Device::RxDropped,
            6 => Device::TxDescriptor(values[0], values[1] as u32, values[2] as u32),
            7 => Device::Interrupt(values[0] as u32),
            8 => Device::Interrupt(0),
            9 if values[0] != 0 => Device::Interrupt(0),
            _ => Device::Other,
        };
        Ok((at, device))
    }

    fn small(&mut self) -> Result<u32, StreamError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.damaged("a number that is too large"))
    }

    fn difference(&mut self) -> Result<u64, StreamError> {
        let number = self.number()?;
        Ok(number >> 1 ^ (number & 1).wrapping_neg())
    }

    fn number(&mut self) -> Result<u64, StreamError> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
            if shift > 63 {
                return Err(self.damaged("a number that is too long"));
            }
        }
    }

    fn byte(&mut self) -> Result<u8, StreamError> {
        let blocks = self.executed;
        Ok(self.input.next().ok_or(StreamError::Truncated { blocks })??)
    }

    fn damaged(&self, what: &'static str) -> StreamError {
        StreamError::Damaged { what, blocks: self.executed }
    }
}
