//! Property tests: the NIC against simple models, saved and restored at any time, and under random accesses.

use crate::common::*;
use doorbell_nic::{Nic, NicConfig};
use doorbell_pcie::{NetworkFunction as _, PciFunction as _};
use doorbell_sim::{AccessSize, BitsPerSec, Bytes, EventQueue, Frame, Phase, Ps};
use proptest::prelude::*;

/// Actions of the driver and the wire.
#[derive(Clone, Debug)]
enum Action {
    Arrive { bytes: usize },
    Send { bytes: usize, command: u64 },
    Poll,
    Run { ns: u64 },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (60usize..3000).prop_map(|bytes| Action::Arrive { bytes }),
        3 => (1usize..1515, prop_oneof![Just(0x0bu64), Just(0x03), Just(0x8b)])
            .prop_map(|(bytes, command)| Action::Send { bytes, command }),
        1 => Just(Action::Poll),
        4 => (0u64..4000).prop_map(|ns| Action::Run { ns }),
    ]
}

fn config() -> impl Strategy<Value = (NicConfig, u64, u64, u32, u32)> {
    let fifo = prop_oneof![Just(None), (2048u64..20_000).prop_map(|bytes| Some(Bytes(bytes)))];
    let thresholds = (0u32..32, 0u32..16, 0u32..20, any::<bool>())
        .prop_map(|(p, h, w, lines)| p | h << 8 | w << 16 | if lines { 0 } else { 1 << 24 });
    (
        (fifo.clone(), fifo, 8u16..80, 8u16..80, 1u16..80, 1u16..40, 1u16..40, 64u64..4096),
        (1u64..8, 1u64..8, thresholds.clone(), thresholds),
        (
            prop_oneof![Just(None), (1u64..200).prop_map(|gbps| Some(BitsPerSec(gbps * 1_000_000_000)))],
            any::<bool>(),
            prop_oneof![Just(None), (0u16..80).prop_map(Some)],
            prop_oneof![Just(4096u16), 1u16..10],
            prop_oneof![Just(0u64), 1u64..3000],
            (0u64..100, 0u64..100),
            (1u16..5, any::<bool>(), any::<bool>()),
        ),
    )
        .prop_map(|((rx, tx, rc, tc, fetch, reads, writes, piece), (rn, tn, rxdctl, txdctl), engine)| {
            let (dma_rate, dma_shared, descriptor_prefetch, batch, wait, times, options) = engine;
            let ((frame, buffer), (fetches, lines, padded)) = (times, options);
            let config = NicConfig {
                rx_fifo: rx,
                tx_fifo: tx,
                rx_descriptor_cache: rc,
                tx_descriptor_cache: tc,
                descriptor_fetch_max: fetch,
                reads_in_flight: reads,
                writes_in_flight: writes,
                tx_read_max: Bytes(piece),
                dma_rate,
                dma_shared,
                descriptor_prefetch,
                descriptor_fetches_in_flight: fetches,
                full_line_writes: padded,
                write_back_batch: batch,
                write_back_lines: lines,
                write_back_wait: Ps::from_ns(wait),
                rx_frame_time: Ps::from_ns(frame),
                tx_buffer_time: Ps::from_ns(buffer),
                ..NicConfig::default()
            };
            (config, rn * 8, tn * 8, rxdctl, txdctl)
        })
}

/// Reference model: accepted frames must be delivered completely and in order.
#[derive(Default)]
struct Model {
    accepted: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

fn start((config, rx, tx, rxdctl, txdctl): (NicConfig, u64, u64, u32, u32)) -> Bench {
    let mut bench = Bench::running(config, rx, tx);
    bench.write(RXDCTL, rxdctl);
    bench.write(TXDCTL, txdctl);
    bench.write(RCTL, 0x0400_8022);
    bench
}

fn act(bench: &mut Bench, model: &mut Model, number: u32, action: &Action) {
    match action {
        Action::Arrive { bytes } => {
            let frame = frame(*bytes + 4, number);
            let before = bench.nic.in_flight().rx;
            bench.arrive(frame.clone());
            if bench.nic.in_flight().rx > before {
                model.accepted.push(frame.bytes);
            }
        }
        Action::Send { bytes, command } => {
            // The driver keeps one descriptor free, according to the device's head.
            let head = u64::from(bench.read(TDH));
            if (bench.tx_next + 1) % bench.tx_count != head {
                let mut bytes = frame(*bytes + 22, number).bytes[..*bytes].to_vec();
                bench.send_legacy(&bytes, *command);
                bytes.resize(bytes.len().max(60), 0);
                model.sent.push(bytes);
            }
        }
        Action::Poll => model.received.extend(bench.poll()),
        Action::Run { ns } => bench.run_for(Ps::from_ns(*ns)),
    }
    bench.check();
}

/// Polls until the NIC is empty.
fn drain(bench: &mut Bench, model: &mut Model) {
    for _ in 0..2000 {
        model.received.extend(bench.poll());
        if bench.nic.in_flight().rx == 0
            && bench.read(TDH) == bench.read(TDT)
            && bench.nic.in_flight().tx == 0
        {
            break;
        }
        bench.run_for(Ps::from_us(2));
    }
    model.received.extend(bench.poll());
    bench.check();
}

/// Saves and restores the NIC and the event queue, and continues with the restored copies.
fn through_a_checkpoint(bench: Bench, config: &NicConfig) -> Bench {
    let bytes = postcard::to_stdvec(&(bench.nic.save(), bench.world.queue.save())).unwrap();
    let (state, queue) = postcard::from_bytes(&bytes).unwrap();
    let mut nic = Nic::new(config.clone(), LINK_RATE, 0).unwrap();
    nic.restore(state).unwrap();
    let world = World { queue: EventQueue::restore(queue), ..bench.world };
    Bench { nic, world, ..bench }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn frames_come_out_complete_and_in_order(setup in config(), actions in prop::collection::vec(action(), 1..150)) {
        let mut bench = start(setup);
        let mut model = Model::default();
        for (i, action) in actions.iter().enumerate() {
            act(&mut bench, &mut model, i as u32, action);
        }
        drain(&mut bench, &mut model);
        prop_assert_eq!(bench.nic.in_flight().rx, 0);
        prop_assert_eq!(&model.received, &model.accepted);
        let sent: Vec<_> = bench.world.sent.iter().map(|(_, frame)| frame.bytes.clone()).collect();
        prop_assert_eq!(&sent, &model.sent);
        prop_assert_eq!(bench.nic.stats().ring_nonsense, 0);
    }

    #[test]
    fn a_checkpoint_at_any_time_changes_nothing(
        setup in config(), actions in prop::collection::vec(action(), 1..80), cut in 0usize..80, steps in 0usize..20,
    ) {
        let config = setup.0.clone();
        let run = |save: bool| {
            let mut bench = start(setup.clone());
            let mut model = Model::default();
            for (i, action) in actions.iter().enumerate() {
                if save && i == cut % actions.len() {
                    bench = through_a_checkpoint(bench, &config);
                }
                act(&mut bench, &mut model, i as u32, action);
            }
            for _ in 0..steps {
                bench.step();
            }
            if save {
                bench = through_a_checkpoint(bench, &config);
            }
            drain(&mut bench, &mut model);
            (bench.nic.save(), bench.world.sent, bench.world.memory, bench.world.irq_rises, bench.world.dma)
        };
        let (uninterrupted, restored) = (run(false), run(true));
        prop_assert!(uninterrupted == restored);
    }
}

/// Random accesses, frames and time.
#[derive(Clone, Debug)]
enum Abuse {
    Write { offset: u64, size: u64, value: u64 },
    Read { offset: u64, size: u64 },
    Io { offset: u64, value: u64 },
    Scribble { at: u64, value: u64 },
    Arrive { bytes: usize, bad: bool },
    Run { ns: u64 },
    BusMaster { on: bool },
    Reset,
    Checkpoint,
}

/// Offsets: mostly registers with an effect, otherwise random.
fn offset() -> impl Strategy<Value = u64> {
    let interesting = vec![
        CTRL, EECD, EERD, MDIC, ICR, ITR, ICS, IMS, IMC, RCTL, TCTL, PBA, RDBAL, RDLEN, RDH, RDT, RDTR,
        RXDCTL, RADV, TDBAL, TDLEN, TDH, TDT, TIDV, TXDCTL, TADV, RXCSUM, FCRTH, FCRTL, FCT, 0x18, VET, RAH,
    ];
    prop_oneof![8 => prop::sample::select(interesting), 1 => 0u64..0x2_0010, 1 => any::<u64>()]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..64,
        (0u64..64).prop_map(|n| n * 128),
        any::<u64>(),
        Just(0x0400_803a),
        Just(0x0a),
        Just(0x41)
    ]
}

/// A descriptor's second word with random length, command and type.
fn descriptor() -> impl Strategy<Value = u64> {
    (0u64..0x10_0000, 0u64..4, any::<u8>(), any::<u32>()).prop_map(|(len, kind, command, high)| {
        len >> (high & 15) | kind << 20 | u64::from(command) << 24 | u64::from(high) << 32
    })
}

fn abuse() -> impl Strategy<Value = Abuse> {
    let size = prop::sample::select(vec![4u64, 4, 4, 4, 1, 2, 8]);
    prop_oneof![
        6 => (offset(), size.clone(), value()).prop_map(|(offset, size, value)| Abuse::Write { offset, size, value }),
        2 => (offset(), size).prop_map(|(offset, size)| Abuse::Read { offset, size }),
        1 => (0u64..12, any::<u64>()).prop_map(|(offset, value)| Abuse::Io { offset, value }),
        4 => (0u64..64, prop_oneof![descriptor(), 0u64..0x80_0000, any::<u64>()])
            .prop_map(|(at, value)| Abuse::Scribble { at, value }),
        3 => (0usize..17_000, any::<bool>()).prop_map(|(bytes, bad)| Abuse::Arrive { bytes, bad }),
        4 => (0u64..20_000).prop_map(|ns| Abuse::Run { ns }),
        1 => any::<bool>().prop_map(|on| Abuse::BusMaster { on }),
        1 => Just(Abuse::Reset),
        1 => Just(Abuse::Checkpoint),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_accesses_and_descriptors_do_not_panic(
        running in any::<bool>(), actions in prop::collection::vec(abuse(), 1..200),
    ) {
        let config = NicConfig { writes_in_flight: 4, reads_in_flight: 4, ..NicConfig::default() };
        let mut bench = if running { Bench::running(config.clone(), 32, 32) } else { Bench::new(config.clone()) };
        for action in actions {
            let now = bench.world.now();
            match action {
                Abuse::Write { offset, size, value } => {
                    let size = AccessSize::from_bytes(size).unwrap();
                    bench.nic.mmio_write(now, offset, size, value, &mut bench.world);
                }
                Abuse::Read { offset, size } => {
                    let size = AccessSize::from_bytes(size).unwrap();
                    bench.nic.mmio_read(now, offset, size, &mut bench.world);
                }
                Abuse::Io { offset, value } => {
                    bench.nic.io_write(now, offset, AccessSize::B4, value, &mut bench.world);
                    bench.nic.io_read(now, offset, AccessSize::B4, &mut bench.world);
                }
                Abuse::Scribble { at, value } => bench.world.put_word(TX_RING + 8 * at, value),
                Abuse::Arrive { bytes, bad } => bench.arrive(Frame { bytes: vec![bytes as u8; bytes], fcs_bad: bad }),
                Abuse::Run { ns } => {
                    let until = now + Ps::from_ns(ns);
                    for _ in 0..20_000 {
                        if bench.world.queue.next_time() > until {
                            break;
                        }
                        bench.step();
                    }
                }
                Abuse::BusMaster { on } => bench.nic.set_bus_master(now, on, &mut bench.world),
                Abuse::Reset => bench.nic.hardware_reset(now, &mut bench.world),
                Abuse::Checkpoint => bench = through_a_checkpoint(bench, &config),
            }
            bench.check();
        }
    }

    /// A saved state with one changed byte is rejected, or restored to a state that does not panic.
    #[test]
    fn a_damaged_state_never_panics(
        setup in config(), actions in prop::collection::vec(action(), 10..60), at in any::<prop::sample::Index>(), flip in 1u8..,
    ) {
        let config = setup.0.clone();
        let mut bench = start(setup);
        let mut model = Model::default();
        for (i, action) in actions.iter().enumerate() {
            act(&mut bench, &mut model, i as u32, action);
        }
        let mut bytes = bench.nic.save();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let mut nic = Nic::new(config, LINK_RATE, 0).unwrap();
        if nic.restore(&bytes).is_err() {
            return Ok(());
        }
        bench.nic = nic;
        for i in 0..40 {
            bench.poll();
            let now = bench.world.now();
            bench.nic.frame_arrived(now, frame(64, i), &mut bench.world);
            bench.world.queue.schedule(now + Ps::from_us(2), Phase::Control, Ev::Nic(2));
            for _ in 0..2000 {
                if bench.world.queue.next_time() > now + Ps::from_us(2) {
                    break;
                }
                bench.step();
            }
        }
    }
}
