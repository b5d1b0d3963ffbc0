//! The register table: the one place that says which registers there are. Dispatch, reset, write
//! masks, the reference page and the no-overlap test come from it. Offsets, names and sections are
//! those of the manual, chapter 13; write masks are also what Linux's `ethtool -t` expects.

/// How software may use a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Readable and writable, in the bits of the write mask.
    Rw,
    /// Read-only; writes are ignored.
    Ro,
    /// Writing a one clears the bit.
    W1c,
    /// Read and clear; writes are ignored.
    Rc,
    /// Reading clears, and so does writing ones.
    RcW1c,
    /// Write-only; reads as zero.
    Wo,
    /// A window that answers with zeros: accepted, but nothing is behind it.
    Absent,
}

/// One row: a register, or an array of equal registers.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The name in the manual.
    pub name: &'static str,
    /// Byte offset of the first one in BAR 0.
    pub offset: u32,
    /// How many there are.
    pub count: u32,
    /// Bytes from one to the next.
    pub stride: u32,
    /// Value after reset.
    pub reset: u32,
    /// Bits that software can write.
    pub mask: u32,
    /// How software may use it.
    pub access: Access,
    /// Where the manual describes it.
    pub section: &'static str,
    /// What it is for, and what of it is modelled.
    pub summary: &'static str,
}

macro_rules! registers {
    ($($id:ident $name:literal $offset:literal [$count:literal x $stride:literal] $access:ident $reset:literal $mask:literal $section:literal $summary:literal;)*) => {
        /// A register (or array of registers) of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Reg { $($id),* }

        /// Every register, by [`Reg`] and by offset.
        pub const TABLE: &[Register] = &[$(Register {
            name: $name, offset: $offset, count: $count, stride: $stride, reset: $reset, mask: $mask,
            access: Access::$access, section: $section, summary: $summary,
        }),*];

        pub(crate) const ALL: &[Reg] = &[$(Reg::$id),*];
    };
}

registers! {
    Ctrl "CTRL" 0x00000 [1 x 4] Rw 0x0000_0201 0xd8fc_1be9 "13.4.1" "Device control. RST resets the device and clears itself; SLU, RFCE, TFCE, VME and PHY_RST act.";
    CtrlDup "CTRL_DUP" 0x00004 [1 x 4] Rw 0 0 "13.4.1" "The same register as CTRL.";
    Status "STATUS" 0x00008 [1 x 4] Ro 0 0 "13.4.2" "Device status: link, duplex, speed, transmission paused.";
    Eecd "EECD" 0x00010 [1 x 4] Rw 0 0 "13.4.3" "The EEPROM's pins, and the request and grant to use them.";
    Eerd "EERD" 0x00014 [1 x 4] Rw 0 0 "13.4.4" "Reads one EEPROM word.";
    CtrlExt "CTRL_EXT" 0x00018 [1 x 4] Rw 0 0x0040_dfff "13.4.6" "Extended control. EE_RST loads the EEPROM again and clears itself.";
    Mdic "MDIC" 0x00020 [1 x 4] Rw 0x1000_0000 0x2fff_ffff "13.4.7" "Reads and writes the PHY's registers.";
    Fcal "FCAL" 0x00028 [1 x 4] Rw 0 0xffff_ffff "13.4.8" "Address of PAUSE frames, low.";
    Fcah "FCAH" 0x0002c [1 x 4] Rw 0 0x0000_ffff "13.4.9" "Address of PAUSE frames, high.";
    Fct "FCT" 0x00030 [1 x 4] Rw 0 0x0000_ffff "13.4.10" "Type of MAC control frames.";
    Vet "VET" 0x00038 [1 x 4] Rw 0x0000_8100 0x0000_ffff "13.4.11" "Type of VLAN tags.";
    Icr "ICR" 0x000c0 [1 x 4] RcW1c 0 0x0001_ffff "13.4.17" "Interrupt causes.";
    Itr "ITR" 0x000c4 [1 x 4] Rw 0 0x0000_ffff "13.4.18" "Least time between interrupts, in units of 256 ns.";
    Ics "ICS" 0x000c8 [1 x 4] Wo 0 0x0001_ffff "13.4.19" "Sets interrupt causes.";
    Ims "IMS" 0x000d0 [1 x 4] Rw 0 0x0001_ffff "13.4.20" "Interrupt mask; writing ones sets bits.";
    Imc "IMC" 0x000d8 [1 x 4] Wo 0 0x0001_ffff "13.4.21" "Writing ones clears bits of the interrupt mask.";
    Rctl "RCTL" 0x00100 [1 x 4] Rw 0 0x06df_b3fe "13.4.22" "Receive control.";
    Fcttv "FCTTV" 0x00170 [1 x 4] Rw 0 0x0000_ffff "13.4.12" "Pause time that XOFF frames carry.";
    Txcw "TXCW" 0x00178 [1 x 4] Rw 0 0xc000_ffff "13.4.13" "Fibre autonegotiation: holds its value, otherwise unused on copper.";
    Rxcw "RXCW" 0x00180 [1 x 4] Ro 0 0 "13.4.14" "Fibre autonegotiation: zero on copper.";
    Tctl "TCTL" 0x00400 [1 x 4] Rw 0 0x03ff_fffa "13.4.33" "Transmit control: EN, PSP and SWXOFF act; the collision fields only hold their values (full duplex).";
    Tipg "TIPG" 0x00410 [1 x 4] Rw 0x0060_2008 0x3fff_ffff "13.4.34" "Inter-packet gap: holds its value; the link has its own gap.";
    Aifs "AIFS" 0x00458 [1 x 4] Rw 0 0x0000_ffff "13.4.35" "Adaptive gap throttle: holds its value.";
    Ledctl "LEDCTL" 0x00e00 [1 x 4] Rw 0x0706_8302 0xcfcf_cfcf "13.4.15" "LEDs: holds its value.";
    Pba "PBA" 0x01000 [1 x 4] Rw 0x0010_0030 0x0000_007f "13.4.16" "Packet buffer: KiB of receive FIFO (writable) and transmit FIFO (what is left of 64), but for those that `nic.rx_fifo` and `nic.tx_fifo` set.";
    Fcrtl "FCRTL" 0x02160 [1 x 4] Rw 0 0x8000_fff8 "13.4.23" "Receive FIFO level below which XON is sent.";
    Fcrth "FCRTH" 0x02168 [1 x 4] Rw 0 0x0000_fff8 "13.4.24" "Receive FIFO level at which XOFF is sent.";
    Rdfh "RDFH" 0x02410 [1 x 4] Rw 0 0x0000_1fff "13.8.1" "Receive FIFO head, for diagnosis: holds its value.";
    Rdft "RDFT" 0x02418 [1 x 4] Rw 0 0x0000_1fff "13.8.2" "Receive FIFO tail, for diagnosis: holds its value.";
    Rdfhs "RDFHS" 0x02420 [1 x 4] Rw 0 0x0000_1fff "13.8.3" "Saved receive FIFO head: holds its value.";
    Rdfts "RDFTS" 0x02428 [1 x 4] Rw 0 0x0000_1fff "13.8.4" "Saved receive FIFO tail: holds its value.";
    Rdfpc "RDFPC" 0x02430 [1 x 4] Ro 0 0 "13.8.5" "Frames in the receive FIFO.";
    Rdbal "RDBAL" 0x02800 [1 x 4] Rw 0 0xffff_fff0 "13.4.25" "Receive ring base, low.";
    Rdbah "RDBAH" 0x02804 [1 x 4] Rw 0 0xffff_ffff "13.4.26" "Receive ring base, high.";
    Rdlen "RDLEN" 0x02808 [1 x 4] Rw 0 0x000f_ff80 "13.4.27" "Receive ring length in bytes.";
    Rdh "RDH" 0x02810 [1 x 4] Rw 0 0x0000_ffff "13.4.28" "Receive ring head.";
    Rdt "RDT" 0x02818 [1 x 4] Rw 0 0x0000_ffff "13.4.29" "Receive ring tail.";
    Rdtr "RDTR" 0x02820 [1 x 4] Rw 0 0x0000_ffff "13.4.30" "Receive interrupt delay, in units of 1.024 us; FPD (bit 31) flushes and reads as zero.";
    Rxdctl "RXDCTL" 0x02828 [1 x 4] Rw 0x0001_0000 0x013f_3f3f "13.4.46" "Receive descriptor thresholds; `nic.descriptor_prefetch`, `nic.write_back_lines` and `nic.write_back_wait` come on top.";
    Radv "RADV" 0x0282c [1 x 4] Rw 0 0x0000_ffff "13.4.31" "Absolute receive interrupt delay, in units of 1.024 us.";
    Rsrpd "RSRPD" 0x02c00 [1 x 4] Rw 0 0x0000_0fff "13.4.32" "Size up to which a received frame interrupts at once.";
    Txdmac "TXDMAC" 0x03000 [1 x 4] Rw 0 0x0000_0001 "13.4.42" "Transmit DMA control: holds its value.";
    Tdfh "TDFH" 0x03410 [1 x 4] Rw 0 0x0000_1fff "13.8.6" "Transmit FIFO head, for diagnosis: holds its value.";
    Tdft "TDFT" 0x03418 [1 x 4] Rw 0 0x0000_1fff "13.8.7" "Transmit FIFO tail, for diagnosis: holds its value.";
    Tdfhs "TDFHS" 0x03420 [1 x 4] Rw 0 0x0000_1fff "13.8.8" "Saved transmit FIFO head: holds its value.";
    Tdfts "TDFTS" 0x03428 [1 x 4] Rw 0 0x0000_1fff "13.8.9" "Saved transmit FIFO tail: holds its value.";
    Tdfpc "TDFPC" 0x03430 [1 x 4] Ro 0 0 "13.8.10" "Frames in the transmit FIFO.";
    Tdbal "TDBAL" 0x03800 [1 x 4] Rw 0 0xffff_fff0 "13.4.36" "Transmit ring base, low.";
    Tdbah "TDBAH" 0x03804 [1 x 4] Rw 0 0xffff_ffff "13.4.37" "Transmit ring base, high.";
    Tdlen "TDLEN" 0x03808 [1 x 4] Rw 0 0x000f_ff80 "13.4.38" "Transmit ring length in bytes.";
    Tdh "TDH" 0x03810 [1 x 4] Rw 0 0x0000_ffff "13.4.39" "Transmit ring head.";
    Tdt "TDT" 0x03818 [1 x 4] Rw 0 0x0000_ffff "13.4.40" "Transmit ring tail.";
    Tidv "TIDV" 0x03820 [1 x 4] Rw 0 0x0000_ffff "13.4.41" "Transmit interrupt delay, in units of 1.024 us.";
    Txdctl "TXDCTL" 0x03828 [1 x 4] Rw 0 0xff7f_3f3f "13.4.43" "Transmit descriptor thresholds.";
    Tadv "TADV" 0x0382c [1 x 4] Rw 0 0x0000_ffff "13.4.44" "Absolute transmit interrupt delay, in units of 1.024 us.";
    Tspmt "TSPMT" 0x03830 [1 x 4] Rw 0x0100_0400 0xffff_ffff "13.4.45" "Segmentation pads and thresholds: holds its value.";
    Crcerrs "CRCERRS" 0x04000 [1 x 4] Rc 0 0 "13.7.1" "Frames with a bad FCS.";
    Algnerrc "ALGNERRC" 0x04004 [1 x 4] Rc 0 0 "13.7.2" "Alignment errors: none on this link.";
    Symerrs "SYMERRS" 0x04008 [1 x 4] Rc 0 0 "13.7.3" "Symbol errors: none on this link.";
    Rxerrc "RXERRC" 0x0400c [1 x 4] Rc 0 0 "13.7.4" "Frames with a receive error.";
    Mpc "MPC" 0x04010 [1 x 4] Rc 0 0 "13.7.5" "Frames missed because they did not fit into the receive FIFO.";
    Scc "SCC" 0x04014 [1 x 4] Rc 0 0 "13.7.6" "Single collisions: none in full duplex.";
    Ecol "ECOL" 0x04018 [1 x 4] Rc 0 0 "13.7.7" "Excessive collisions: none in full duplex.";
    Mcc "MCC" 0x0401c [1 x 4] Rc 0 0 "13.7.8" "Multiple collisions: none in full duplex.";
    Latecol "LATECOL" 0x04020 [1 x 4] Rc 0 0 "13.7.9" "Late collisions: none in full duplex.";
    Colc "COLC" 0x04028 [1 x 4] Rc 0 0 "13.7.10" "Collisions: none in full duplex.";
    Dc "DC" 0x04030 [1 x 4] Rc 0 0 "13.7.11" "Deferred frames: none in full duplex.";
    Tncrs "TNCRS" 0x04034 [1 x 4] Rc 0 0 "13.7.12" "Transmissions without carrier: none.";
    Sec "SEC" 0x04038 [1 x 4] Rc 0 0 "13.7.13" "Sequence errors: none on copper.";
    Cexterr "CEXTERR" 0x0403c [1 x 4] Rc 0 0 "13.7.14" "Carrier extension errors: none.";
    Rlec "RLEC" 0x04040 [1 x 4] Rc 0 0 "13.7.15" "Frames that are too short or too long.";
    Xonrxc "XONRXC" 0x04048 [1 x 4] Rc 0 0 "13.7.16" "XON frames received.";
    Xontxc "XONTXC" 0x0404c [1 x 4] Rc 0 0 "13.7.17" "XON frames sent.";
    Xoffrxc "XOFFRXC" 0x04050 [1 x 4] Rc 0 0 "13.7.18" "XOFF frames received.";
    Xofftxc "XOFFTXC" 0x04054 [1 x 4] Rc 0 0 "13.7.19" "XOFF frames sent.";
    Fcruc "FCRUC" 0x04058 [1 x 4] Rc 0 0 "13.7.20" "MAC control frames received that are not PAUSE.";
    Prc64 "PRC64" 0x0405c [1 x 4] Rc 0 0 "13.7.21" "Good frames received, 64 bytes.";
    Prc127 "PRC127" 0x04060 [1 x 4] Rc 0 0 "13.7.22" "Good frames received, 65 to 127 bytes.";
    Prc255 "PRC255" 0x04064 [1 x 4] Rc 0 0 "13.7.23" "Good frames received, 128 to 255 bytes.";
    Prc511 "PRC511" 0x04068 [1 x 4] Rc 0 0 "13.7.24" "Good frames received, 256 to 511 bytes.";
    Prc1023 "PRC1023" 0x0406c [1 x 4] Rc 0 0 "13.7.25" "Good frames received, 512 to 1023 bytes.";
    Prc1522 "PRC1522" 0x04070 [1 x 4] Rc 0 0 "13.7.26" "Good frames received, 1024 bytes and more.";
    Gprc "GPRC" 0x04074 [1 x 4] Rc 0 0 "13.7.27" "Good frames received.";
    Bprc "BPRC" 0x04078 [1 x 4] Rc 0 0 "13.7.28" "Good broadcast frames received.";
    Mprc "MPRC" 0x0407c [1 x 4] Rc 0 0 "13.7.29" "Good multicast frames received.";
    Gptc "GPTC" 0x04080 [1 x 4] Rc 0 0 "13.7.30" "Good frames sent.";
    Gorcl "GORCL" 0x04088 [1 x 4] Ro 0 0 "13.7.31" "Good bytes received, low half; reading the high half clears both.";
    Gorch "GORCH" 0x0408c [1 x 4] Rc 0 0 "13.7.31" "Good bytes received, high half.";
    Gotcl "GOTCL" 0x04090 [1 x 4] Ro 0 0 "13.7.32" "Good bytes sent, low half; reading the high half clears both.";
    Gotch "GOTCH" 0x04094 [1 x 4] Rc 0 0 "13.7.32" "Good bytes sent, high half.";
    Rnbc "RNBC" 0x040a0 [1 x 4] Rc 0 0 "13.7.33" "Frames that arrived while the receive ring had no descriptors.";
    Ruc "RUC" 0x040a4 [1 x 4] Rc 0 0 "13.7.34" "Frames that are too short, with a good FCS.";
    Rfc "RFC" 0x040a8 [1 x 4] Rc 0 0 "13.7.35" "Frames that are too short, with a bad FCS.";
    Roc "ROC" 0x040ac [1 x 4] Rc 0 0 "13.7.36" "Frames that are too long, with a good FCS.";
    Rjc "RJC" 0x040b0 [1 x 4] Rc 0 0 "13.7.37" "Frames that are too long, with a bad FCS.";
    Mgtprc "MGTPRC" 0x040b4 [1 x 4] Rc 0 0 "13.7.38" "Management frames received: none.";
    Mgtpdc "MGTPDC" 0x040b8 [1 x 4] Rc 0 0 "13.7.39" "Management frames dropped: none.";
    Mgtptc "MGTPTC" 0x040bc [1 x 4] Rc 0 0 "13.7.40" "Management frames sent: none.";
    Torl "TORL" 0x040c0 [1 x 4] Ro 0 0 "13.7.41" "All bytes received, low half; reading the high half clears both.";
    Torh "TORH" 0x040c4 [1 x 4] Rc 0 0 "13.7.41" "All bytes received, high half.";
    Totl "TOTL" 0x040c8 [1 x 4] Ro 0 0 "13.7.42" "All bytes sent, low half; reading the high half clears both.";
    Toth "TOTH" 0x040cc [1 x 4] Rc 0 0 "13.7.42" "All bytes sent, high half.";
    Tpr "TPR" 0x040d0 [1 x 4] Rc 0 0 "13.7.43" "All frames received.";
    Tpt "TPT" 0x040d4 [1 x 4] Rc 0 0 "13.7.44" "All frames sent.";
    Ptc64 "PTC64" 0x040d8 [1 x 4] Rc 0 0 "13.7.45" "Frames sent, 64 bytes.";
    Ptc127 "PTC127" 0x040dc [1 x 4] Rc 0 0 "13.7.46" "Frames sent, 65 to 127 bytes.";
    Ptc255 "PTC255" 0x040e0 [1 x 4] Rc 0 0 "13.7.47" "Frames sent, 128 to 255 bytes.";
    Ptc511 "PTC511" 0x040e4 [1 x 4] Rc 0 0 "13.7.48" "Frames sent, 256 to 511 bytes.";
    Ptc1023 "PTC1023" 0x040e8 [1 x 4] Rc 0 0 "13.7.49" "Frames sent, 512 to 1023 bytes.";
    Ptc1522 "PTC1522" 0x040ec [1 x 4] Rc 0 0 "13.7.50" "Frames sent, 1024 bytes and more.";
    Mptc "MPTC" 0x040f0 [1 x 4] Rc 0 0 "13.7.51" "Multicast frames sent.";
    Bptc "BPTC" 0x040f4 [1 x 4] Rc 0 0 "13.7.52" "Broadcast frames sent.";
    Tsctc "TSCTC" 0x040f8 [1 x 4] Rc 0 0 "13.7.53" "TCP segmentation contexts sent.";
    Tsctfc "TSCTFC" 0x040fc [1 x 4] Rc 0 0 "13.7.54" "TCP segmentation contexts that failed: none.";
    Rxcsum "RXCSUM" 0x05000 [1 x 4] Rw 0 0x0000_07ff "13.4.47" "Receive checksums: start of the packet checksum, IP and TCP/UDP offload.";
    Mta "MTA" 0x05200 [128 x 4] Rw 0 0xffff_ffff "13.5.1" "Multicast hash table.";
    Ral "RAL" 0x05400 [16 x 8] Rw 0 0xffff_ffff "13.5.2" "Station addresses, low; the first comes from the EEPROM.";
    Rah "RAH" 0x05404 [16 x 8] Rw 0 0x8003_ffff "13.5.3" "Station addresses, high, and their valid bits.";
    Vfta "VFTA" 0x05600 [128 x 4] Rw 0 0xffff_ffff "13.5.4" "VLAN filter table.";
    Wuc "WUC" 0x05800 [1 x 4] Rw 0 0x0000_000f "13.6.1" "Wake-up control: holds its value; the machine does not sleep.";
    Wufc "WUFC" 0x05808 [1 x 4] Rw 0 0x000f_80ff "13.6.2" "Wake-up filters: holds its value.";
    Wus "WUS" 0x05810 [1 x 4] W1c 0 0x000f_00ff "13.6.3" "Wake-up status: nothing ever wakes.";
    Manc "MANC" 0x05820 [1 x 4] Rw 0 0xffff_ffff "13.6.4" "Management control: holds its value.";
    Ipav "IPAV" 0x05838 [1 x 4] Rw 0 0x0001_000f "13.6.5" "IP address valid bits: holds its value.";
    Ip4at "IP4AT" 0x05840 [4 x 8] Rw 0 0xffff_ffff "13.6.6" "IPv4 addresses for wake-up: hold their values.";
    Ip6at "IP6AT" 0x05880 [4 x 4] Rw 0 0xffff_ffff "13.6.7" "IPv6 address for wake-up: holds its value.";
    Wupl "WUPL" 0x05900 [1 x 4] Ro 0 0 "13.6.8" "Length of the packet that woke: zero.";
    Wupm "WUPM" 0x05a00 [32 x 4] Ro 0 0 "13.6.9" "The packet that woke: zero.";
    Fflt "FFLT" 0x05f00 [4 x 8] Rw 0 0x0000_07ff "13.6.10" "Flexible filter lengths: hold their values.";
    Ffmt "FFMT" 0x09000 [128 x 8] Rw 0 0x0000_000f "13.6.11" "Flexible filter masks: hold their values.";
    Ffvt "FFVT" 0x09800 [128 x 8] Rw 0 0xffff_ffff "13.6.12" "Flexible filter values: hold their values.";
    Pbm "PBM" 0x10000 [16384 x 4] Absent 0 0 "13.8.11" "Window into the packet buffer: not modelled, reads as zero.";
}
