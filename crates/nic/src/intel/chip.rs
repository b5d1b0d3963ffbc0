//! Interface between the shared MAC core ([`Controller`]) and a chip of the family: registers, PCI identity,
//! descriptor formats and chip-specific behaviour. To add a chip, add a folder with an implementation of
//! [`Chip`].

use doorbell_pcie::{FunctionIdentity, FunctionPorts};
use std::fmt::Debug;

use doorbell_sim::Ps;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Controller;
use super::queues::{Queue, QueuesOn};
use super::rx::{DescriptorType, Examined, RxFields};
use super::tx::{Context, Descriptor};
use crate::config::NicConfig;
use crate::parts::dma::TransferClass;
use crate::parts::phy::ManagedPhy;
use crate::parts::registers::{RegisterFile, RegisterId};
use crate::parts::ring::Thresholds;

/// A chip's register values.
pub type Regs<C> = RegisterFile<<C as Chip>::Reg>;

/// A register and, for an array, its index.
pub type At<C> = (<C as Chip>::Reg, usize);

/// Events counted by TSCTC: context descriptors for segmentation, or segmented packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentationCount {
    Contexts,
    Packets,
}

/// A chip and its own state: EEPROM or NVM, interrupts and other chip-specific parts.
pub trait Chip: Clone + Debug + PartialEq + Send + Serialize + DeserializeOwned + 'static {
    /// Identifies a register of this chip.
    type Reg: RegisterId;
    /// PHY model.
    type Phy: ManagedPhy + Clone + Debug + PartialEq + Send + Serialize + DeserializeOwned;
    /// Contents of a transmit context descriptor.
    type Context: Context;

    /// This chip's registers among those common to the family.
    const REG: Common<Self::Reg>;
    /// BAR number of the I/O window.
    const IO_BAR: u8;
    /// Version of the saved state.
    const STATE_VERSION: u32;
    /// Queues in each direction.
    const QUEUES: usize;
    /// Maximum length of a sent packet, without FCS.
    const LONGEST_SENT: usize;
    /// Bits of FCRTL that hold the low watermark.
    const LOW_MARK: u32;
    /// EERD: shift of the address field, and the done bit.
    const EERD: (u32, u32);
    /// Command bit that allows delaying a transmit descriptor's interrupt (IDE); zero if there is none.
    const DELAYED: u8;
    /// Events counted by TSCTC.
    const TSCTC: SegmentationCount;

    /// PCI configuration space after reset.
    fn identity() -> FunctionIdentity;
    /// Creates the chip of NIC `index` of a machine, in its power-on state.
    fn new(config: &NicConfig, index: usize) -> Self;
    /// Station address in the EEPROM or NVM.
    fn station(&self) -> [u8; 6];
    /// Returns a word of the EEPROM or NVM. The address wraps.
    fn memory_word(&self, address: u32) -> u16;
    /// Applies a device reset to the chip's own state.
    fn reset(&mut self);
    /// Sets registers whose reset values are not in the table.
    fn registers_reset(_regs: &mut Regs<Self>) {}
    /// Whether a restored state is valid.
    fn is_consistent(&self, regs: &Regs<Self>) -> bool;

    /// Returns the register at a byte offset that is a multiple of four.
    fn lookup(offset: u64) -> Option<At<Self>>;
    /// Returns the register bits that a narrow write preserves.
    fn stored(nic: &Controller<Self>, at: At<Self>) -> u32;
    /// Handles a core's read of a register.
    fn read(nic: &mut Controller<Self>, now: Ps, at: At<Self>, ports: &mut dyn FunctionPorts) -> u32;
    /// Handles a core's write to a register.
    fn write(nic: &mut Controller<Self>, now: Ps, at: At<Self>, value: u32, ports: &mut dyn FunctionPorts);
    /// Describes the features that software has requested and that are not modelled, one line each.
    fn missing(_nic: &Controller<Self>) -> Vec<String> {
        Vec::new()
    }

    /// Sets interrupt causes that belong to no queue.
    fn raise_cause(nic: &mut Controller<Self>, now: Ps, bits: u32, ports: &mut dyn FunctionPorts);
    /// Drives the interrupt line and sends messages according to causes, masks and moderation.
    fn update_interrupts(nic: &mut Controller<Self>, now: Ps, ports: &mut dyn FunctionPorts);
    /// Handles the wake-up of the chip-specific timer `number`.
    fn timer(nic: &mut Controller<Self>, now: Ps, number: u8, ports: &mut dyn FunctionPorts);

    /// Enabled queues.
    fn queues_on(regs: &Regs<Self>) -> QueuesOn;
    /// Receive queues in the RSS redirection table, one bit per queue; zero without RSS.
    fn rss_queues(_regs: &Regs<Self>) -> u32 {
        0
    }
    /// Fetch and write-back thresholds of a queue (RXDCTL, TXDCTL).
    fn thresholds(regs: &Regs<Self>, queue: Queue) -> Thresholds;
    /// Target core of direct cache access for a write of this queue, if DCA is enabled for it.
    fn dca_core(_regs: &Regs<Self>, _queue: Queue, _class: TransferClass) -> Option<u8> {
        None
    }
    /// Sizes of the receive and transmit packet buffers in bytes.
    fn packet_buffers(regs: &Regs<Self>) -> [u64; 2];

    /// Maximum length of a received frame with RCTL.LPE, FCS included.
    fn longest_received(regs: &Regs<Self>) -> usize;
    /// Low and high registers of the second station address table; empty if the chip has none.
    fn more_stations(_regs: &Regs<Self>) -> [&[u32]; 2] {
        [&[], &[]]
    }
    /// Parses a received frame, selects its queue, and appends the FCS if it is to be stored.
    fn examine(&mut self, regs: &Regs<Self>, bytes: &mut Vec<u8>, found: Examined) -> (usize, RxFields);
    /// Receive descriptor format of a queue.
    fn descriptor_type(_regs: &Regs<Self>, _queue: usize) -> DescriptorType {
        DescriptorType::Legacy
    }
    /// Sizes of a queue's packet and header buffers in bytes.
    fn buffer_bytes(regs: &Regs<Self>, queue: usize) -> [usize; 2];
    /// Whether a queue without descriptors drops frames instead of blocking the other queues.
    fn drops_without_descriptors(_regs: &Regs<Self>, _queue: usize) -> bool {
        false
    }
    /// Counts a frame dropped because its queue had no descriptors.
    fn count_dropped(_regs: &mut Regs<Self>, _queue: usize) {}
    /// Called after receive descriptors are written back. `frames` has the sizes of the frames now visible,
    /// `left` the number of descriptors owned by hardware before and after.
    fn frames_delivered(
        nic: &mut Controller<Self>,
        now: Ps,
        queue: usize,
        frames: &[u32],
        left: [u32; 2],
        ports: &mut dyn FunctionPorts,
    );
    /// Updates the chip-specific counters for a received frame.
    fn count_received(_regs: &mut Regs<Self>, _bytes: usize, _multicast: bool) {}
    /// Updates the chip-specific counters for a sent frame.
    fn count_sent(_regs: &mut Regs<Self>, _bytes: usize) {}

    /// Decodes a transmit descriptor.
    fn descriptor(words: [u64; 2]) -> Descriptor<Self::Context>;
    /// Address of the head write-back, if enabled; it replaces descriptor write-back.
    fn head_address(_regs: &Regs<Self>, _queue: usize) -> Option<u64> {
        None
    }
    /// Called after the head of a transmit queue moved. `left` has the number of descriptors owned by
    /// hardware before and after.
    fn head_moved(_nic: &mut Controller<Self>, _now: Ps, _left: [u32; 2], _ports: &mut dyn FunctionPorts) {}
    /// Called after transmit descriptors with RS are written back. `at_once`: whether any requests an immediate
    /// interrupt; `later`: whether any requests a delayed one (IDE).
    fn descriptors_sent(
        nic: &mut Controller<Self>,
        now: Ps,
        queue: usize,
        at_once: bool,
        later: bool,
        ports: &mut dyn FunctionPorts,
    );
    /// Counts a dropped or malformed packet of a transmit queue.
    fn count_bad_packet(_regs: &mut Regs<Self>, _queue: usize) {}
}

/// Declares [`Common`] and a macro that fills it from a chip's register enum. Names are those of the manuals.
macro_rules! common {
    ($dollar:tt $($field:ident $name:ident)*) => {
        /// Registers that all chips of the family have.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct Common<R> { $(pub $field: R,)* }

        macro_rules! common_registers {
            ($dollar reg:ident) => { $crate::intel::chip::Common { $($field: $dollar reg::$name,)* } };
        }
        pub(crate) use common_registers;
    };
}

common! { $
    ctrl Ctrl eerd Eerd mdic Mdic fcal Fcal fcah Fcah fct Fct vet Vet fcttv Fcttv
    rctl Rctl tctl Tctl fcrtl Fcrtl fcrth Fcrth mta Mta ral Ral rah Rah vfta Vfta
    rdbal Rdbal rdbah Rdbah rdlen Rdlen rdh Rdh rdt Rdt rxdctl Rxdctl
    tdbal Tdbal tdbah Tdbah tdlen Tdlen tdh Tdh tdt Tdt txdctl Txdctl
    crcerrs Crcerrs rxerrc Rxerrc mpc Mpc rlec Rlec xonrxc Xonrxc xontxc Xontxc xoffrxc Xoffrxc xofftxc Xofftxc fcruc Fcruc
    prc64 Prc64 prc127 Prc127 prc255 Prc255 prc511 Prc511 prc1023 Prc1023 prc1522 Prc1522
    gprc Gprc bprc Bprc mprc Mprc gptc Gptc gorcl Gorcl gorch Gorch gotcl Gotcl gotch Gotch
    rnbc Rnbc ruc Ruc rfc Rfc roc Roc rjc Rjc torl Torl torh Torh totl Totl toth Toth tpr Tpr tpt Tpt
    ptc64 Ptc64 ptc127 Ptc127 ptc255 Ptc255 ptc511 Ptc511 ptc1023 Ptc1023 ptc1522 Ptc1522
    mptc Mptc bptc Bptc tsctc Tsctc
}
