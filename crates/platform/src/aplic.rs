//! The advanced platform-level interrupt controller, which converts device interrupt wires into messages
//! (MSIs) to the harts' interrupt files.
//!
//! Document: The RISC-V Advanced Interrupt Architecture 1.0, chapter "Advanced Platform-Level Interrupt
//! Controller (APLIC)"; domains, sources and addresses as on QEMU's `virt` with `aia=aplic-imsic`. Modelled:
//! a root domain for machine mode with one child for supervisor mode, delegation, all source modes, pending
//! and enable bits, targets, software-generated messages (`genmsi`) and the registers with the addresses of
//! interrupt files. Choices that the document leaves open: both domains deliver by messages only
//! (`domaincfg`.DM is always one), registers are little-endian (there is no `setipnum_be`), and targets have
//! no guest index. A source whose wire is active when its mode is set becomes pending, as in QEMU.
//!
//! A message is sent as soon as it is enabled: the owner calls [`Aplic::take_message`] after each access.

use doorbell_sim::AccessSize;
use doorbell_sim::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};

use crate::map::APLIC_SOURCES;
use crate::registers::{Access, Hit, Register, find};

/// Words with one bit per source; source 0 does not exist.
const WORDS: usize = APLIC_SOURCES as usize / 32 + 1;
/// Length of the register arrays with one register per source, from source 1 on.
const SOURCES_MAX: u64 = 1023;
const WORDS_MAX: u64 = 32;

type Bits = [u32; WORDS];

/// Fields of `domaincfg`.
const DOMAIN_FIXED: u32 = 0x80 << 24 | DELIVERY_MODE;
const DELIVERY_MODE: u32 = 1 << 2;
const INTERRUPT_ENABLE: u32 = 1 << 8;
/// Fields of `sourcecfg`.
const DELEGATE: u32 = 1 << 10;
const MODE: u32 = 7;
/// Fields of `target`: the hart and the identity.
const TARGET: u32 = 0x3fff << TARGET_HART | IDENTITY;
const TARGET_HART: u32 = 18;
const IDENTITY: u32 = 0x7ff;
/// Writable bits of `mmsiaddrcfg`, `mmsiaddrcfgh`, `smsiaddrcfg` and `smsiaddrcfgh`.
const ADDRESS_BITS: [u32; 4] = [u32::MAX, LOCK | 0x1f77_ffff, u32::MAX, 0x0070_0fff];
const LOCK: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AplicRegister {
    DomainConfig,
    SourceConfig,
    MessageAddress,
    SetPending,
    SetPendingNumber,
    InputOrClearPending,
    ClearPendingNumber,
    SetEnable,
    SetEnableNumber,
    ClearEnable,
    ClearEnableNumber,
    GenerateMessage,
    Target,
}

use AplicRegister::*;

/// The register table of a domain. Only the root has the registers of message addresses.
pub const REGISTERS: [Register<AplicRegister>; 14] = [
    row(DomainConfig, "domaincfg", 0x0, DOMAIN_FIXED as u64, Access::ReadWrite),
    row(SourceConfig, "sourcecfg", 0x4, 0, Access::ReadWrite).array(SOURCES_MAX, 4),
    row(MessageAddress, "msiaddrcfg", 0x1bc0, 0, Access::ReadWrite).array(4, 4),
    row(SetPending, "setip", 0x1c00, 0, Access::ReadWrite).array(WORDS_MAX, 4),
    row(SetPendingNumber, "setipnum", 0x1cdc, 0, Access::WriteOnly),
    row(InputOrClearPending, "in_clrip", 0x1d00, 0, Access::BothHaveEffects).array(WORDS_MAX, 4),
    row(ClearPendingNumber, "clripnum", 0x1ddc, 0, Access::WriteOnly),
    row(SetEnable, "setie", 0x1e00, 0, Access::ReadWrite).array(WORDS_MAX, 4),
    row(SetEnableNumber, "setienum", 0x1edc, 0, Access::WriteOnly),
    row(ClearEnable, "clrie", 0x1f00, 0, Access::WriteOnly).array(WORDS_MAX, 4),
    row(ClearEnableNumber, "clrienum", 0x1fdc, 0, Access::WriteOnly),
    row(SetPendingNumber, "setipnum_le", 0x2000, 0, Access::WriteOnly),
    row(GenerateMessage, "genmsi", 0x3000, 0, Access::ReadWrite),
    row(Target, "target", 0x3004, 0, Access::ReadWrite).array(SOURCES_MAX, 4),
];

const fn row(
    id: AplicRegister,
    name: &'static str,
    offset: u64,
    reset: u64,
    access: Access,
) -> Register<AplicRegister> {
    Register::one(id, name, offset, 4, reset, access, "AIA, APLIC")
}

/// A domain of the APLIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainLevel {
    /// The root, for machine mode.
    Machine,
    /// Its child, for supervisor mode.
    Supervisor,
}

/// A message: a four-byte write to an interrupt file's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AplicMessage {
    /// The destination address.
    pub address: u64,
    /// The interrupt identity.
    pub data: u32,
}

doorbell_sim::stats! {
    /// APLIC counters.
    pub struct AplicStats {
        /// Messages sent for sources.
        forwarded,
        /// Messages sent because `genmsi` was written.
        generated,
        /// Accesses to no register, or of a width other than four bytes.
        undefined_accesses,
    }
}

/// A domain's registers; also their saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Domain {
    enabled: bool,
    /// `sourcecfg` by source number, from 1.
    source: Vec<u32>,
    /// `target`, which reads as zero while the source is inactive. The document does not define its value
    /// after that: here, as in QEMU, it is the last written value.
    target: Vec<u32>,
    pending: Bits,
    enable: Bits,
    generate: u32,
    /// A write to `genmsi` whose message has not been taken yet.
    to_generate: bool,
}

/// The device; also its saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aplic {
    level: Bits,
    /// The root and its child.
    domains: [Domain; 2],
    addresses: [u32; 4],
    /// The counters.
    pub stats: AplicStats,
}

fn word_and_bit(source: u32) -> (usize, u32) {
    (source as usize / 32, 1 << (source % 32))
}

fn exists(source: u32) -> bool {
    (1..=APLIC_SOURCES).contains(&source)
}

/// The sources whose bits are set in a word.
fn sources(word: usize, bits: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word as u32 * 32 + bit)
}

impl Domain {
    fn new() -> Domain {
        let none = vec![0; APLIC_SOURCES as usize + 1];
        Domain {
            enabled: false,
            source: none.clone(),
            target: none,
            pending: [0; WORDS],
            enable: [0; WORDS],
            generate: 0,
            to_generate: false,
        }
    }

    /// A source's mode; 0 if it is inactive in this domain.
    fn mode(&self, source: u32) -> u32 {
        match self.source[source as usize] {
            delegated if delegated & DELEGATE != 0 => 0,
            mode => mode,
        }
    }

    fn is_active(&self, source: u32) -> bool {
        exists(source) && self.mode(source) != 0
    }

    fn is_level_sensitive(&self, source: u32) -> bool {
        self.mode(source) >= 6
    }

    /// The wire's level after optional inversion; low for an inactive or detached source.
    fn rectified(&self, source: u32, level: &Bits) -> bool {
        let (word, bit) = word_and_bit(source);
        match self.mode(source) {
            4 | 6 => level[word] & bit != 0,
            5 | 7 => level[word] & bit == 0,
            _ => false,
        }
    }

    fn rectified_word(&self, word: usize, level: &Bits) -> u32 {
        sources(word, u32::MAX)
            .filter(|source| self.is_active(*source) && self.rectified(*source, level))
            .map(|source| word_and_bit(source).1)
            .sum()
    }

    fn set_pending(&mut self, source: u32, pending: bool) {
        let (word, bit) = word_and_bit(source);
        self.pending[word] = if pending { self.pending[word] | bit } else { self.pending[word] & !bit };
    }

    fn set_enable(&mut self, source: u32, enable: bool) {
        let (word, bit) = word_and_bit(source);
        self.enable[word] = if enable { self.enable[word] | bit } else { self.enable[word] & !bit };
    }

    /// Sets a source's configuration; 0 removes it from the domain.
    fn configure(&mut self, source: u32, value: u32, level: &Bits) {
        self.source[source as usize] = value;
        if !self.is_active(source) {
            self.set_pending(source, false);
            self.set_enable(source, false);
        } else if self.rectified(source, level) {
            self.set_pending(source, true);
        } else if self.is_level_sensitive(source) {
            self.set_pending(source, false);
        }
    }

    /// Sets a source's pending bit for software; for a level-sensitive source only while its wire is active.
    fn request(&mut self, source: u32, level: &Bits) {
        let possible =
            self.is_active(source) && (!self.is_level_sensitive(source) || self.rectified(source, level));
        if possible {
            self.set_pending(source, true);
        }
    }

    /// The lowest-numbered source with a message to send.
    fn next_source(&self) -> Option<u32> {
        let word = (0..WORDS).find(|word| self.pending[*word] & self.enable[*word] != 0)?;
        self.enabled.then(|| word as u32 * 32 + (self.pending[word] & self.enable[word]).trailing_zeros())
    }

    /// Whether the state is consistent.
    fn is_consistent(&self) -> bool {
        let places = APLIC_SOURCES as usize + 1;
        self.source.len() == places && self.target.len() == places && {
            let bits = |word: usize| self.pending[word] | self.enable[word];
            let active = |source: u32| self.is_active(source);
            let value = |value: u32| value & !(DELEGATE | MODE) == 0 && !matches!(value, 2 | 3);
            (0..WORDS).all(|word| sources(word, bits(word)).all(active))
                && self.source[0] == 0
                && self.source.iter().all(|source| value(*source))
                && self.target.iter().all(|target| target & !TARGET == 0)
        }
    }
}

/// An APLIC after reset.
impl Default for Aplic {
    fn default() -> Aplic {
        let domains = [Domain::new(), Domain::new()];
        Aplic { level: [0; WORDS], domains, addresses: [0; 4], stats: AplicStats::default() }
    }
}

impl Aplic {
    /// The version of the saved state's layout.
    pub const VERSION: u32 = 1;

    /// Drives a source's wire.
    pub fn set_level(&mut self, source: u32, level: bool) {
        assert!(exists(source), "the APLIC has no source {source}");
        let (word, bit) = word_and_bit(source);
        if (self.level[word] & bit != 0) == level {
            return;
        }
        self.level[word] ^= bit;
        for domain in &mut self.domains {
            if domain.rectified(source, &self.level) {
                domain.set_pending(source, true);
            } else if domain.is_level_sensitive(source) {
                domain.set_pending(source, false);
            }
        }
    }

    /// Reads a register of a domain.
    pub fn read(&mut self, level: DomainLevel, offset: u64, size: AccessSize) -> u64 {
        let Some(Hit { id, index, .. }) = self.decode(level, offset, size) else {
            self.stats.undefined_accesses += 1;
            return 0;
        };
        let domain = &self.domains[level as usize];
        let source = |list: &[u32]| list.get(index + 1).copied().unwrap_or(0);
        let value = match id {
            DomainConfig => DOMAIN_FIXED | if domain.enabled { INTERRUPT_ENABLE } else { 0 },
            SourceConfig => source(&domain.source),
            MessageAddress => self.addresses[index],
            SetPending => domain.pending.get(index).copied().unwrap_or(0),
            InputOrClearPending => domain.rectified_word(index, &self.level),
            SetEnable => domain.enable.get(index).copied().unwrap_or(0),
            GenerateMessage => domain.generate,
            Target if domain.is_active(index as u32 + 1) => source(&domain.target),
            _ => 0,
        };
        u64::from(value)
    }

    /// Writes a register of a domain.
    pub fn write(&mut self, level: DomainLevel, offset: u64, size: AccessSize, value: u64) {
        let Some(Hit { id, index, .. }) = self.decode(level, offset, size) else {
            self.stats.undefined_accesses += 1;
            return;
        };
        let (value, number) = (value as u32, index as u32 + 1);
        let wires = &self.level;
        let domain = &mut self.domains[level as usize];
        let word = || sources(index, value).filter(|source| exists(*source));
        match id {
            DomainConfig => domain.enabled = value & INTERRUPT_ENABLE != 0,
            SourceConfig => self.configure(level, number, value),
            MessageAddress if self.addresses[1] & LOCK == 0 => {
                self.addresses[index] = value & ADDRESS_BITS[index];
            }
            SetPending => word().for_each(|source| domain.request(source, wires)),
            SetPendingNumber if exists(value) => domain.request(value, wires),
            InputOrClearPending => word().for_each(|source| domain.set_pending(source, false)),
            ClearPendingNumber if exists(value) => domain.set_pending(value, false),
            SetEnable => word().for_each(|source| domain.set_enable(source, domain.is_active(source))),
            SetEnableNumber if exists(value) => domain.set_enable(value, domain.is_active(value)),
            ClearEnable => word().for_each(|source| domain.set_enable(source, false)),
            ClearEnableNumber if exists(value) => domain.set_enable(value, false),
            GenerateMessage => {
                (domain.generate, domain.to_generate) = (value & TARGET, true);
            }
            Target if exists(number) => domain.target[number as usize] = value & TARGET,
            _ => {}
        }
    }

    fn decode(&self, level: DomainLevel, offset: u64, size: AccessSize) -> Option<Hit<AplicRegister>> {
        let hit = find(&REGISTERS, offset, size).filter(|_| size == AccessSize::B4)?;
        (hit.id != MessageAddress || level == DomainLevel::Machine).then_some(hit)
    }

    fn configure(&mut self, level: DomainLevel, source: u32, value: u32) {
        let [root, child] = &mut self.domains;
        if !exists(source) {
            return;
        }
        let mode = match value & MODE {
            2 | 3 => 0,
            mode => mode,
        };
        match level {
            DomainLevel::Machine if value & DELEGATE != 0 => root.configure(source, DELEGATE, &self.level),
            DomainLevel::Machine => {
                root.configure(source, mode, &self.level);
                child.configure(source, 0, &self.level);
            }
            // A domain without children cannot delegate, and only has the sources delegated to it.
            DomainLevel::Supervisor => {
                let own = root.source[source as usize] & DELEGATE != 0 && value & DELEGATE == 0;
                child.configure(source, if own { mode } else { 0 }, &self.level);
            }
        }
    }

    /// Sends and returns the next message, if there is one. Call it until it returns `None`.
    pub fn take_message(&mut self) -> Option<AplicMessage> {
        for level in [DomainLevel::Machine, DomainLevel::Supervisor] {
            let domain = &mut self.domains[level as usize];
            let target = if let Some(source) = domain.next_source() {
                domain.set_pending(source, false);
                self.stats.forwarded += 1;
                domain.target[source as usize]
            } else if std::mem::take(&mut domain.to_generate) {
                self.stats.generated += 1;
                domain.generate
            } else {
                continue;
            };
            let address = self.address(level, target >> TARGET_HART);
            return Some(AplicMessage { address, data: target & IDENTITY });
        }
        None
    }

    /// Address of a hart's interrupt file (chapter APLIC, "Addresses and data for outgoing MSIs").
    fn address(&self, level: DomainLevel, hart: u32) -> u64 {
        let [low, high, supervisor_low, supervisor_high] = self.addresses.map(u64::from);
        let field = |from: u32, bits: u32| high >> from & ((1 << bits) - 1);
        let (group_shift, group_width, width) = (field(24, 5), field(16, 3), field(12, 4));
        let (low, high) = match level {
            DomainLevel::Machine => (low, high),
            DomainLevel::Supervisor => (supervisor_low, supervisor_high),
        };
        let (base, shift) = ((high & 0xfff) << 32 | low, high >> 20 & 7);
        let hart = u64::from(hart);
        let group = hart >> width & ((1 << group_width) - 1);
        let within = hart & ((1 << width) - 1);
        (base | group << (group_shift + 12) | within << shift) << 12
    }

    /// Restores a saved state if it is consistent.
    pub fn restore(&mut self, state: Aplic) -> Result<(), SnapshotError> {
        let [root, child] = &state.domains;
        let delegated = |source: usize| root.source[source] & DELEGATE != 0;
        let possible = root.is_consistent()
            && child.is_consistent()
            && (0..child.source.len()).all(|source| {
                child.source[source] & DELEGATE == 0 && (child.source[source] == 0 || delegated(source))
            })
            && root.source.iter().all(|source| source & DELEGATE == 0 || *source == DELEGATE)
            && (0..4).all(|index| state.addresses[index] & !ADDRESS_BITS[index] == 0)
            && (0..WORDS).all(|word| sources(word, state.level[word]).all(exists));
        if !possible {
            let problem = "it names a source or a mode that does not exist".to_owned();
            return Err(SnapshotError::Inconsistent { name: "aplic".into(), problem });
        }
        *self = state;
        Ok(())
    }
}

#[cfg(test)]
#[path = "aplic_tests.rs"]
mod tests;
