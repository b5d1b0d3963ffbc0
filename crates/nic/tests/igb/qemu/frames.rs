//! Frames in MAC loopback (RCTL.LBM): the queue, descriptor and bytes of each, and the counters.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use doorbell_nic::e82576::regs::TABLE;
use doorbell_sim::{AccessSize, Ps};

use super::{BAR0, Both};
use crate::igb::driver::*;

/// Start of QEMU's memory; ours starts at zero.
const RAM: u64 = 0x8000_0000;
const QUEUES: u64 = 16;
/// DD, in the second word of a descriptor.
const DONE: u64 = 1;

/// Unplugs and plugs the cable in QEMU, over its monitor protocol (QMP).
fn plug_in(socket: &Path) {
    let mut stream = UnixStream::connect(socket).expect("QEMU listens");
    let mut answers = BufReader::new(stream.try_clone().expect("a socket can be shared")).lines();
    let link = |up| format!(r#"{{"execute": "set_link", "arguments": {{"name": "nic", "up": {up}}}}}"#);
    let commands = [r#"{"execute": "qmp_capabilities"}"#.to_owned(), link(false), link(true)];
    assert!(answers.next().is_some_and(|line| line.is_ok()), "QEMU must send a greeting");
    for command in commands {
        writeln!(stream, "{command}").expect("QEMU listens");
        let answer = answers.next().expect("QEMU answers").expect("the answer is a line");
        assert!(answer.contains("return"), "{command}: {answer}");
    }
}

/// A received frame: its queue, both words of its descriptor, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    queue: u64,
    words: [u64; 2],
    bytes: Vec<u8>,
}

impl Both {
    /// Writes the same bytes to both memories.
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.ours.put_bytes(at, bytes);
        self.qemu.poke(RAM + at, bytes);
    }

    /// Writes a descriptor to both memories. An address in the first word is relative to the memory's start.
    fn put_descriptor(&mut self, at: u64, address: u64, second: u64) {
        for (base, ours) in [(0, true), (RAM, false)] {
            let first = if address == 0 { 0 } else { base + address };
            let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
            match ours {
                true => self.ours.put_bytes(at, &bytes),
                false => self.qemu.poke(RAM + at, &bytes),
            }
        }
    }

    /// Writes a register that contains a memory address.
    fn write_address(&mut self, offset: u64, address: u64) {
        self.ours.write(offset, address as u32);
        self.qemu.write(BAR0 + offset, AccessSize::B4, RAM + address);
    }

    /// Both with link up, rings for all queues, RSS over 16 queues, and MAC loopback.
    fn looped() -> Both {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let socket = folder.path().join("qmp");
        let monitor = format!("unix:{},server=on,wait=off", socket.display());
        let mut both = Both::with(&["-qmp", &monitor]);
        both.write(CTRL, 0x41);
        both.ours.run_for(Ps::from_us(50));
        // QEMU's PHY negotiates for half a second, but its time does not advance. So autonegotiation is
        // disabled, and then the cable is plugged in.
        both.qemu.write(BAR0 + MDIC, AccessSize::B4, 1 << 26 | 1 << 21 | 0x0140);
        plug_in(&socket);
        assert_eq!(both.read(STATUS).map(|status| status & 2), [2; 2], "both links must be up");
        for queue in 0..QUEUES {
            let (rx, tx) = (0xc000 + 0x40 * queue, 0xe000 + 0x40 * queue);
            for index in 0..RING {
                let buffer = RX_BUFFERS + QUEUE_BUFFERS * queue + RX_BUFFER * index;
                both.put_descriptor(RX_RING + RING_BYTES * queue + 16 * index, buffer, 0);
            }
            both.write_address(rx, RX_RING + RING_BYTES * queue);
            both.write(rx + 8, (16 * RING) as u32);
            both.write(rx + 0xc, ONE_BUFFER | 2);
            both.write(rx + 0x28, 1 << 25 | 1 << 16);
            both.write_address(tx, TX_RING + RING_BYTES * queue);
            both.write(tx + 8, (16 * RING) as u32);
            both.write(tx + 0x28, 1 << 25);
        }
        for at in 0..10u32 {
            both.write(RSSRK + 4 * u64::from(at), 0x9e37_79b9u32.wrapping_mul(at + 1));
        }
        for at in 0..32u32 {
            let entries = [0, 1, 2, 3].map(|byte| (5 * (4 * at + byte)) as u8 % QUEUES as u8);
            both.write(RETA + 4 * u64::from(at), u32::from_le_bytes(entries));
        }
        both.write(RXCSUM, 0x2300);
        // Every kind of hash.
        both.write(MRQC, 2 | 0x1ff << 16);
        both.write(TCTL, 0x0a);
        // EN, LBM, BAM, SECRC.
        both.write(RCTL, 0x0400_8042);
        for queue in 0..QUEUES {
            both.write(0xc018 + 0x40 * queue, RING as u32 - 1);
        }
        both.read(ICR);
        both
    }

    /// Sends a frame with descriptor `index` of a queue.
    fn send(&mut self, queue: u64, index: u64, bytes: &[u8]) {
        let buffer = TX_BUFFERS + 0x1_0000 * queue + 2048 * index;
        self.put(buffer, bytes);
        let len = bytes.len() as u64;
        self.put_descriptor(
            TX_RING + RING_BYTES * queue + 16 * index,
            buffer,
            len | 3 << 20 | 0x2b << 24 | len << 46,
        );
        self.write(0xe018 + 0x40 * queue, (index + 1) as u32 % RING as u32);
        self.ours.run_for(Ps::from_us(30));
    }

    /// Frames received by our model and by QEMU's.
    fn received(&mut self) -> [Vec<Received>; 2] {
        let mut all = [Vec::new(), Vec::new()];
        for queue in 0..QUEUES {
            for index in 0..RING {
                let (at, buffer) = (
                    RX_RING + RING_BYTES * queue + 16 * index,
                    RX_BUFFERS + QUEUE_BUFFERS * queue + RX_BUFFER * index,
                );
                let own = [self.ours.world.word(at), self.ours.world.word(at + 8)];
                let theirs = [0, 8].map(|word| {
                    u64::from_le_bytes(self.qemu.peek(RAM + at + word, 8).try_into().expect("eight bytes"))
                });
                for (which, words) in
                    [own, theirs].into_iter().enumerate().filter(|(_, words)| words[1] & DONE != 0)
                {
                    let len = (words[1] >> 32 & 0xffff) as usize;
                    let bytes = match which {
                        0 => self.ours.world.memory[buffer as usize..buffer as usize + len].to_vec(),
                        _ => self.qemu.peek(RAM + buffer, len),
                    };
                    all[which].push(Received { queue, words, bytes });
                }
            }
        }
        all
    }
}

/// As [`tcp`], but UDP without a checksum.
fn udp(source: [u8; 4], destination: [u8; 4], from: u16, to: u16, len: usize) -> Vec<u8> {
    let mut bytes = tcp(source, destination, from, to, len);
    bytes[23] = 17;
    bytes[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    bytes[40..42].fill(0);
    bytes[24..26].fill(0);
    let ip = !(fold(sum(&bytes[14..34])) as u16);
    bytes[24..26].copy_from_slice(&ip.to_be_bytes());
    bytes
}

/// Replaces the IPv4 header of a frame by an IPv6 header, with a correct transport checksum.
fn over_ipv6(frame: &[u8], protocol: u8) -> Vec<u8> {
    let payload = &frame[34..];
    let mut bytes = frame[..12].to_vec();
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([protocol, 64]);
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(&frame[26..30]);
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend(&frame[30..34]);
    bytes.extend(payload);
    let at = 54 + if protocol == 6 { 16 } else { 6 };
    bytes[at..at + 2].fill(0);
    let total = sum(&bytes[54..]) + sum(&bytes[22..54]) + u32::from(protocol) + payload.len() as u32;
    let checksum = !(fold(total) as u16);
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Frame `n`, whose kind depends on `n`.
fn frame(n: u64) -> Vec<u8> {
    let (source, to, from) = ([10, 0, n as u8, 1], [10, 0, 0, 2], 1000 + 7 * n as u16);
    let len = 60 + 13 * n as usize;
    let (tcp, udp) = (tcp(source, to, from, 80, len), udp(source, to, from, 53, len));
    match n % 8 {
        0 => tcp,
        1 => udp,
        2 => over_ipv6(&tcp, 6),
        3 => over_ipv6(&udp, 17),
        // A wrong TCP checksum, and a wrong IPv4 checksum.
        4 => [&tcp[..50], &[0xde, 0xad], &tcp[52..]].concat(),
        5 => [&tcp[..24], &[0xde, 0xad], &tcp[26..]].concat(),
        // A broadcast frame without IP.
        6 => [&[0xff; 6], &tcp[6..12], &[0x88, 0xb5], &tcp[14..]].concat(),
        // A protocol without ports.
        _ => {
            let mut other = udp;
            other[23] = 50;
            other[24..26].fill(0);
            let ip = !(fold(sum(&other[14..34])) as u16);
            other[24..26].copy_from_slice(&ip.to_be_bytes());
            other
        }
    }
}

/// RSS types for IPv6 with extension headers, which QEMU does not have, and the corresponding types without.
const WITH_EXTENSIONS: [(u64, u64); 2] = [(6, 3), (9, 8)];

#[test]
fn queues_descriptors_and_counters_match_qemus() {
    let mut both = Both::looped();
    let frames: Vec<_> = (0..RING - 1).map(frame).collect();
    for (n, frame) in (0..).zip(&frames) {
        both.send(n % 3, n / 3, frame);
    }
    let [mut ours, qemu] = both.received();
    for Received { words, .. } in &mut ours {
        let extended = WITH_EXTENSIONS.iter().find(|(with, _)| *with == words[0] & 0xf);
        words[0] = extended.map_or(words[0], |(_, without)| words[0] & !0xf | without);
    }
    assert_eq!(ours, qemu);
    assert_eq!(ours.len(), frames.len());
    let queues: BTreeSet<_> = ours.iter().map(|frame| frame.queue).collect();
    assert!(queues.len() > 10, "{queues:?}");
    for queue in 0..3 {
        for index in 0..RING / 3 {
            let at = TX_RING + RING_BYTES * queue + 16 * index + 8;
            let status = [both.ours.tx_status(queue, index), both.qemu.read(RAM + at + 4, AccessSize::B4)];
            assert_eq!(status[0], status[1], "transmit queue {queue}, descriptor {index}");
        }
    }
    // Size classes include the FCS; QEMU counts some frames in another class.
    let sized = |from: usize, to: usize| {
        frames.iter().filter(|frame| (from..=to).contains(&(frame.len() + 4))).count() as u32
    };
    let own = BTreeMap::from([
        ("PRC64", sized(64, 64)),
        ("PRC127", sized(65, 127)),
        ("PRC511", sized(256, 511)),
        // QEMU does not count frames to and from the host, and counts frames of pools only if pools are
        // enabled.
        ("RPTHC", frames.len() as u32),
        ("HGPTC", frames.len() as u32),
        ("HGORCL", frames.iter().map(|frame| frame.len() as u32 + 4).sum()),
        ("HGOTCL", frames.iter().map(|frame| frame.len() as u32 + 4).sum()),
        ("VFGPRC", frames.len() as u32),
        ("VFGPTC", frames.len() as u32),
        ("VFGORC", frames.iter().map(|frame| frame.len() as u32 + 4).sum()),
        ("VFGOTC", frames.iter().map(|frame| frame.len() as u32 + 4).sum()),
    ]);
    for row in TABLE.iter().filter(|row| row.is_statistic()) {
        let [ours, qemu] = both.read(row.offset.into());
        match own.get(row.name) {
            Some(count) => assert_eq!((ours, qemu == ours), (*count, false), "{}", row.name),
            None => assert_eq!(ours, qemu, "{}", row.name),
        }
    }
    // The reads have cleared all counters; reading the high half of a pair clears both.
    for row in TABLE.iter().filter(|row| row.is_statistic()) {
        assert_eq!(both.read(row.offset.into()), [0, 0], "{}", row.name);
    }
    both.ours.check();
}
