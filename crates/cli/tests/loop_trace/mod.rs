//! A small synthetic trace: commands for traces, results and experiments need no guest.

use std::path::Path;
use std::process::{Command, Output};

use doorbell_sim::memory::Walk;
use doorbell_sim::ports::{DmaDirection, DmaPurpose};
use doorbell_sim::{Op, OpClass, PhysAddr, Ps};
use doorbell_trace::system::{Description, DeviceEvent, Dma, EventKind, Step, TraceWriter};

const RAM: u64 = 0x8000_0000;
/// Number of frames, and of instructions between two frames.
pub const FRAMES: u64 = 400;
pub const ROUND: u64 = 100;
pub const FRAME_BYTES: u32 = 60;

/// One iteration of a program that reads a frame, writes to its own table, and loops.
pub fn round(frame: u64) -> Vec<Op> {
    let op = |number: u64, class| {
        let pc = RAM + 0x1000 + 4 * number;
        Op { pc, fetch: PhysAddr(pc), class, length: 4, destination: 5, ..Op::default() }
    };
    let mut ops: Vec<Op> = (0..ROUND).map(|number| op(number, OpClass::Int)).collect();
    let buffer = RAM + 0x10_0000 + 2048 * (frame % 64);
    for (number, class, addr) in [
        (10, OpClass::Load, buffer),
        (20, OpClass::Store, buffer + 8),
        (30, OpClass::Load, RAM + 0x20_0000 + 64 * (frame % 8)),
    ] {
        ops[number] =
            Op { virt: addr, phys: PhysAddr(addr), size: 8, sources: [5, 6, 0], ..op(number as u64, class) };
    }
    let last = ROUND as usize - 1;
    ops[last] = Op { flags: Op::TAKEN, virt: RAM + 0x1000, destination: 0, ..op(ROUND - 1, OpClass::Jump) };
    ops
}

/// Records a trace in which frames arrive, are read, and are sent.
pub fn record(path: &Path) {
    record_overloaded(path, 0);
}

/// The same, with `dropped` additional frames before each one, which the NIC drops.
pub fn record_overloaded(path: &Path, dropped: u64) {
    let description = Description {
        recorder: "a test".to_owned(),
        recorded: "a loop".to_owned(),
        isa: "riscv64".to_owned(),
        harts: 1,
        timed: true,
        physical: true,
        config: String::new(),
        beside: Vec::new(),
    };
    let mut writer = TraceWriter::create(path, &description).unwrap();
    for frame in 0..FRAMES {
        let after = ROUND * frame;
        let mut event = |after, since, what| {
            writer
                .event(&DeviceEvent { device: 0, hart: 0, after, since: Ps::from_ns(since), what })
                .unwrap();
        };
        let dma = |write, visible| Dma {
            purpose: if write { DmaPurpose::RxData } else { DmaPurpose::TxData },
            direction: if write { DmaDirection::Write } else { DmaDirection::Read },
            addr: PhysAddr(RAM + 0x10_0000 + 2048 * (frame % 64)),
            len: FRAME_BYTES,
            frame,
            offset: 0,
            took: Ps::from_ns(100),
            visible,
        };
        if frame > 0 {
            event(
                after,
                1,
                EventKind::Dma(Dma {
                    addr: PhysAddr(RAM + 0x10_0000 + 2048 * ((frame - 1) % 64)),
                    frame: frame - 1,
                    ..dma(false, 0)
                }),
            );
            event(after, 2, EventKind::FrameOut { bytes: FRAME_BYTES + 4 });
        }
        (0..dropped).for_each(|_| event(after, 3, EventKind::FrameIn { bytes: FRAME_BYTES + 4 }));
        event(after, 3, EventKind::FrameIn { bytes: FRAME_BYTES + 4 });
        event(after, 4, EventKind::Dma(dma(true, after)));
        writer.block(0, &Step::default(), &round(frame), &mut |_| Walk::default()).unwrap();
    }
    writer.finish().unwrap();
}

/// Runs the command in a folder that also contains its cache.
pub fn doorbell(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE", folder.join("cache")).current_dir(folder).args(words).output().unwrap()
}
