//! A chip's MAC, whatever the chip: its link ([`link`]), PAUSE ([`flow`]), the PHY behind MDIC ([`mdio`]), and frames on their way to the wire or
//! back ([`wire`]). What a chip calls its registers, and what it has of each part, it says as [`Mac`]; what happens then asks for wake-ups
//! and interrupts, as [`MacWork`].

mod flow;
mod link;
mod mdio;
mod wire;

use std::collections::VecDeque;

use doorbell_sim::{BitsPerSec, Frame, Ps};

use super::fifo::{Fifo, Outgoing};
use super::outlet::Outlet;
use super::pause;
use super::phy::ManagedPhy;
use super::queues::{QueueId, Queues};
use super::registers::RegisterFile;
use super::requests::Requests;
use super::timer::Timer;
use crate::NicPorts;
pub(crate) use flow::{FlowWork, PAUSES_KEPT};
pub(crate) use link::{LinkStatus, LinkView, LinkWork};
pub(crate) use mdio::MdioWork;
pub(crate) use wire::WireWork;

/// Bits that the whole family has in the same places.
pub(crate) mod bits {
    /// CTRL.
    pub mod ctrl {
        pub const FD: u32 = 1 << 0;
        pub const SLU: u32 = 1 << 6;
        pub const SPEED_SHIFT: u32 = 8;
        pub const FRCSPD: u32 = 1 << 11;
        pub const FRCDPLX: u32 = 1 << 12;
        pub const RST: u32 = 1 << 26;
        pub const RFCE: u32 = 1 << 27;
        pub const TFCE: u32 = 1 << 28;
        pub const PHY_RST: u32 = 1 << 31;
    }

    /// STATUS.
    pub mod status {
        pub const FD: u32 = 1 << 0;
        pub const LU: u32 = 1 << 1;
        pub const TXOFF: u32 = 1 << 4;
        /// SPEED (7:6): 0 is 10 Mb/s, 1 is 100, 2 is 1000.
        pub const SPEED_SHIFT: u32 = 6;
        /// ASDV (9:8): the speed detected, coded alike.
        pub const ASDV_SHIFT: u32 = 8;
    }

    /// ICR.
    pub mod cause {
        pub const LSC: u32 = 1 << 2;
        pub const MDAC: u32 = 1 << 9;
    }

    /// RCTL.
    pub mod rctl {
        pub const LBM: u32 = 0b11 << 6;
        pub const DPF: u32 = 1 << 22;
        pub const PMCF: u32 = 1 << 23;
    }

    /// TCTL.
    pub mod tctl {
        pub const EN: u32 = 1 << 1;
        pub const SWXOFF: u32 = 1 << 22;
    }

    /// FCRTL.
    pub mod fcrtl {
        pub const XONE: u32 = 1 << 31;
    }

    /// MDIC.
    pub mod mdic {
        pub const READ: u32 = 0b10;
        pub const WRITE: u32 = 0b01;
        pub const READY: u32 = 1 << 28;
        pub const INTERRUPT: u32 = 1 << 29;
        pub const ERROR: u32 = 1 << 30;
    }
}

/// The registers of a MAC, by what they are for.
pub(crate) struct MacRegisters<R> {
    /// CTRL.
    pub control: R,
    /// RCTL.
    pub receive: R,
    /// TCTL.
    pub transmit: R,
    /// MDIC.
    pub phy: R,
    /// RAL and RAH.
    pub station: [R; 2],
    /// FCT, the type of MAC control frames.
    pub control_type: R,
    /// FCAL and FCAH, an address of such frames.
    pub control_address: [R; 2],
    /// FCRTL and FCRTH, and which bits of the former are its mark.
    pub marks: [R; 2],
    pub low_mark: u32,
    /// FCTTV.
    pub pause_time: R,
    /// XONRXC, XOFFRXC, FCRUC.
    pub heard: [R; 3],
    /// XONTXC, XOFFTXC.
    pub sent: [R; 2],
}

/// Where frames leave.
pub(crate) struct WayOut<'a> {
    pub fifo: &'a mut Fifo<Outgoing>,
    pub outlet: &'a mut Outlet,
    /// PAUSE frames go first and take no room.
    pub pauses: &'a mut VecDeque<Frame>,
}

/// A chip's registers.
pub(crate) type Registers<C> = RegisterFile<<<C as Queues>::Queue as QueueId>::Reg>;

/// What a chip has of its MAC.
pub(crate) trait Mac: Queues {
    /// Its PHY.
    type Phy: ManagedPhy;
    /// What it calls its registers.
    const MAC: MacRegisters<<Self::Queue as QueueId>::Reg>;

    /// The registers, to change.
    fn registers(&mut self) -> &mut Registers<Self>;
    /// The link as it is seen.
    fn link(&self) -> &LinkStatus;
    /// The same, to change.
    fn link_mut(&mut self) -> &mut LinkStatus;
    /// The PHY.
    fn phy(&self) -> &Self::Phy;
    /// The same, to change.
    fn phy_mut(&mut self) -> &mut Self::Phy;
    /// The access to the PHY that is under way.
    fn mdio(&mut self) -> &mut Timer;
    /// Where frames leave.
    fn way_out(&mut self) -> WayOut<'_>;
    /// Bytes in the receive FIFO.
    fn received(&self) -> u64;
    /// The rate in which pause times are counted and looped-back frames go.
    fn link_rate(&self) -> BitsPerSec;
    /// A frame of a queue leaves, or, of none, one of PAUSE: statistics count.
    fn count_sent(&mut self, frame: &Frame, queue: Option<u8>);

    /// Whether bits of CTRL are set.
    fn control_has(&self, bits: u32) -> bool {
        self.regs().get(Self::MAC.control) & bits != 0
    }

    /// The first station address.
    fn station_address(&self) -> [u8; 6] {
        let [low, high] = Self::MAC.station;
        pause::address(self.regs().at(low, 0), self.regs().at(high, 0))
    }

    /// Whether a frame is a MAC control frame for this station, and its opcode and first parameter.
    fn control_frame(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let of_type = self.regs().get(Self::MAC.control_type);
        // Asked of every frame, while few drivers want any found.
        if of_type == 0 {
            return None;
        }
        let [low, high] = Self::MAC.control_address.map(|register| self.regs().get(register));
        pause::control_frame(bytes, of_type, [pause::address(low, high), self.station_address()])
    }
}

/// What follows at a chip.
pub(crate) trait MacWork<P: NicPorts>: Mac + Requests<P> {
    /// The device resets itself, but for the PHY and configuration space.
    fn reset_device(&mut self, now: Ps, ports: &mut P);
    /// Something has happened that may interrupt.
    fn cause(&mut self, now: Ps, bits: u32, ports: &mut P);
    /// A frame has come, from the wire or back.
    fn take_frame(&mut self, now: Ps, frame: Frame, looped: bool, ports: &mut P);
}
