//! What a chip of the family declares: its registers, its identity, the formats of its descriptors, and what it does where the
//! chips differ. [`Controller`] does the rest. A new chip of the family is a folder with an implementation of [`Chip`].

use doorbell_pcie::{FunctionIdentity, FunctionPorts};
use std::fmt::Debug;

use doorbell_sim::Ps;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Controller;
use super::queues::{Queue, QueuesOn};
use super::rx::{DescriptorType, Examined, FrameNotes};
use super::tx::{Context, Descriptor};
use crate::config::NicConfig;
use crate::parts::dma::Moved;
use crate::parts::phy::ManagedPhy;
use crate::parts::registers::{RegisterFile, RegisterId};
use crate::parts::ring::Thresholds;

/// A chip's register values.
pub type Regs<C> = RegisterFile<<C as Chip>::Reg>;

/// A register, and its index in an array.
pub type At<C> = (<C as Chip>::Reg, usize);

/// Whether TSCTC counts the context descriptors for segmentation, or the packets that are segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentationCount {
    Contexts,
    Packets,
}

/// A chip, with its own state: the memory with its station address, interrupts, and whatever else only this chip has.
pub trait Chip: Clone + Debug + PartialEq + Send + Serialize + DeserializeOwned + 'static {
    /// Its registers.
    type Reg: RegisterId;
    /// Its PHY.
    type Phy: ManagedPhy + Clone + Debug + PartialEq + Send + Serialize + DeserializeOwned;
    /// A context of its transmit descriptors.
    type Context: Context;

    /// The names that it gives to the family's registers.
    const REG: Common<Self::Reg>;
    /// The base address register of its I/O window.
    const IO_BAR: u8;
    /// The version of its saved state.
    const STATE_VERSION: u32;
    /// Queues in each direction.
    const QUEUES: usize;
    /// The longest packet that it sends, without FCS.
    const LONGEST_SENT: usize;
    /// The bits of FCRTL that are the low mark.
    const LOW_MARK: u32;
    /// EERD: where the address starts, and the bit that says that the word has been read.
    const EERD: (u32, u32);
    /// The command bit by which a transmit descriptor's interrupt may be delayed (IDE), if there is one.
    const DELAYED: u8;
    /// What TSCTC counts.
    const TSCTC: SegmentationCount;

    /// Its configuration space after reset.
    fn identity() -> FunctionIdentity;
    /// The chip after power-on, as NIC number `index` of a machine.
    fn new(config: &NicConfig, index: usize) -> Self;
    /// The station address in its memory.
    fn station(&self) -> [u8; 6];
    /// A word of its memory, at an address that wraps.
    fn memory_word(&self, address: u32) -> u16;
    /// A device reset of its own state.
    fn reset(&mut self);
    /// Registers whose value after a reset is not in the table.
    fn registers_reset(_regs: &mut Regs<Self>) {}
    /// Whether a saved state is possible.
    fn is_consistent(&self, regs: &Regs<Self>) -> bool;

    /// The register at a byte offset that is a multiple of four.
    fn lookup(offset: u64) -> Option<At<Self>>;
    /// The bits of a register that a narrow write keeps.
    fn stored(nic: &Controller<Self>, at: At<Self>) -> u32;
    /// A core reads a register.
    fn read(nic: &mut Controller<Self>, now: Ps, at: At<Self>, ports: &mut dyn FunctionPorts) -> u32;
    /// A core writes a register.
    fn write(nic: &mut Controller<Self>, now: Ps, at: At<Self>, value: u32, ports: &mut dyn FunctionPorts);
    /// What software requests that the model does not have, one line each.
    fn missing(_nic: &Controller<Self>) -> Vec<String> {
        Vec::new()
    }

    /// Sets causes of interrupts that belong to no queue.
    fn raise_cause(nic: &mut Controller<Self>, now: Ps, bits: u32, ports: &mut dyn FunctionPorts);
    /// Drives the line and sends messages according to causes, masks and moderation.
    fn update_interrupts(nic: &mut Controller<Self>, now: Ps, ports: &mut dyn FunctionPorts);
    /// A timer of the chip's own has expired; the chip gave it this number.
    fn timer(nic: &mut Controller<Self>, now: Ps, number: u8, ports: &mut dyn FunctionPorts);

    /// The queues that are on.
    fn queues_on(regs: &Regs<Self>) -> QueuesOn;
    /// The receive queues over which RSS spreads flows, one bit each; none without RSS.
    fn rss_queues(_regs: &Regs<Self>) -> u32 {
        0
    }
    /// A queue's thresholds for fetches and write-backs (RXDCTL, TXDCTL).
    fn thresholds(regs: &Regs<Self>, queue: Queue) -> Thresholds;
    /// The core into whose cache a queue's write is to go, if it names one.
    fn dca_core(_regs: &Regs<Self>, _queue: Queue, _moved: Moved) -> Option<u8> {
        None
    }
    /// Sizes of the packet buffers of reception and transmission in bytes.
    fn packet_buffers(regs: &Regs<Self>) -> [u64; 2];

    /// The longest frame that the receiver takes, FCS included.
    fn longest_received(regs: &Regs<Self>) -> usize;
    /// The second table of station addresses, of chips that have one.
    fn more_stations(_regs: &Regs<Self>) -> [&[u32]; 2] {
        [&[], &[]]
    }
    /// Examines a received frame, chooses its queue, and appends the FCS that is to be stored.
    fn examine(&mut self, regs: &Regs<Self>, bytes: &mut Vec<u8>, found: Examined) -> (usize, FrameNotes);
    /// The format of a queue's receive descriptors.
    fn descriptor_type(_regs: &Regs<Self>, _queue: usize) -> DescriptorType {
        DescriptorType::Legacy
    }
    /// Bytes of a queue's packet buffers and of its header buffers.
    fn buffer_bytes(regs: &Regs<Self>, queue: usize) -> [usize; 2];
    /// Whether a queue without descriptors drops frames instead of holding up the others.
    fn drops_without_descriptors(_regs: &Regs<Self>, _queue: usize) -> bool {
        false
    }
    /// Counts a frame that a queue dropped because it had no descriptors.
    fn count_dropped(_regs: &mut Regs<Self>, _queue: usize) {}
    /// Receive descriptors were written back: frames of these sizes became visible, and the number of descriptors that the
    /// queue has left went from the one to the other.
    fn frames_delivered(
        nic: &mut Controller<Self>,
        now: Ps,
        queue: usize,
        frames: &[u32],
        left: [u32; 2],
        ports: &mut dyn FunctionPorts,
    );
    /// A frame was received or, in the second function, is about to be sent: counters that only this chip has.
    fn count_received(_regs: &mut Regs<Self>, _bytes: usize, _multicast: bool) {}
    /// See [`Chip::count_received`].
    fn count_sent(_regs: &mut Regs<Self>, _bytes: usize) {}

    /// The meaning of a transmit descriptor.
    fn descriptor(words: [u64; 2]) -> Descriptor<Self::Context>;
    /// Where the head is written to instead of the descriptors, if software wants that.
    fn head_address(_regs: &Regs<Self>, _queue: usize) -> Option<u64> {
        None
    }
    /// The head of a transmit queue has moved: the number of descriptors in its ring went from the one to the other.
    fn head_moved(_nic: &mut Controller<Self>, _now: Ps, _left: [u32; 2], _ports: &mut dyn FunctionPorts) {}
    /// Transmit descriptors with RS were written back: whether any of them interrupts at once, and whether any does later.
    fn descriptors_sent(
        nic: &mut Controller<Self>,
        now: Ps,
        queue: usize,
        when: (bool, bool),
        ports: &mut dyn FunctionPorts,
    );
    /// Counts a packet of a transmit queue that was dropped or malformed.
    fn count_bad_packet(_regs: &mut Regs<Self>, _queue: usize) {}
}

/// Declares [`Common`] and the macro that fills it in from a chip's enum of registers, whose names are the manuals'.
macro_rules! common {
    ($dollar:tt $($field:ident $name:ident)*) => {
        /// The registers that all chips of the family have.
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
