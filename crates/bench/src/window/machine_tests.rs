use std::sync::atomic::AtomicBool;

use doorbell_pcie::network::LateDrops;
use proptest::prelude::*;

use super::*;
use crate::figures::nic_totals::late_drops;
use crate::request::resolve::resolve;
use crate::testbed::control::Control;
use crate::window::phases::Load;

/// A loop of wfi.
const SLEEPS: [u8; 8] = [0x73, 0x00, 0x50, 0x10, 0x6f, 0xf0, 0xdf, 0xff];
/// A loop that divides a register by itself.
const DIVIDES: [u8; 8] = [0xb3, 0xc2, 0x52, 0x02, 0x6f, 0xf0, 0xdf, 0xff];

/// Measures a machine without a guest and without warm-up. Its generator sends three frames, one per microsecond.
fn measured(set: &[&str]) -> Result<(Window, u64), String> {
    let streams = "loadgen.traffic.streams=[{rate=\"1Mpps\",frames=3}]";
    let all = ["run.warmup=0s", "run.settle=0s", "run.duration=10us", streams];
    let set: Vec<String> = all.iter().chain(set).map(|&text| text.to_owned()).collect();
    measured_of("fast", &SLEEPS, &set).map(|(window, summary, _)| (window, summary.frames_offered))
}

/// The same for any machine and load. Also returns the generator's summary and the NICs' late drops.
fn measured_of(
    preset: &str,
    program: &[u8],
    set: &[String],
) -> Result<(Window, doorbell_loadgen::Summary, LateDrops), String> {
    let config = resolve(preset, set).map_err(|error| error.to_string())?;
    let mut machine = Machine::new(config.machine(), 1).unwrap();
    assert!(machine.load_bare(program));
    let load = Load {
        owner: "port 0".to_owned(),
        key: "loadgen".to_owned(),
        traffic: config.loadgen.traffic.clone(),
        preload: None,
        pause: Ps::ZERO,
        keeps_checkpoints: false,
    };
    let (loads, params) = ([load], &config.run);
    Control::quietly(&AtomicBool::new(false), |control| {
        let mut run = Run { system: &mut machine, guest: "", control, loads: &loads, params };
        let (window, _) = run.measure(&config, None, None).map_err(|error| error.to_string())?;
        let summary = machine.ports()[0].loadgen.summary(machine.now()).unwrap();
        let late = late_drops(&machine);
        Ok((window, summary, late))
    })
}

#[test]
fn window_without_warm_up_includes_the_first_frame() {
    let (window, offered) = measured(&[]).unwrap();
    assert_eq!((offered, window.end.sent - window.begin.sent), (3, 3));
    assert_eq!(measured(&["run.frames=3"]).unwrap().1, 3);
}

#[test]
fn error_of_streams_that_end_early_has_the_number_of_missing_frames() {
    let error = measured(&["run.frames=4"]).unwrap_err();
    assert!(error.starts_with("run.frames: the streams end 1 frame short of these 4; "), "{error}");
    let error = measured(&["run.frames=5", "run.warmup=1500ns"]).unwrap_err();
    assert!(error.contains(" 4 frames short of these 5; "), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// The receiver is off, so that a NIC drops each frame on arrival. A window must have as many drops as offered
    /// frames, on any link and at any load.
    #[test]
    fn window_drops_equal_offered_frames_on_any_link_at_any_load(
        (overhead, include_fcs) in (prop_oneof![Just(0u64), 1u64..64], any::<bool>()),
        (gbps, latency_ns, loss) in (prop_oneof![Just(1u64), Just(10), Just(100), 1u64..400], 0u64..3_000, 0usize..4),
        (size, rate) in (64u64..1519, 100_000u64..200_000_000),
        (warmup_ns, settle_ns, duration_ns) in (0u64..4_000, 0u64..2_000, 1u64..12_000),
        timed in any::<bool>(),
    ) {
        let faults = ["frame_loss=0.0", "frame_loss=0.1", "bit_error_rate=1e-5", "frame_loss=1.0"];
        let set = [
            format!("link.overhead={overhead}B"),
            format!("link.include_fcs={include_fcs}"),
            format!("link.rate={gbps}Gbps"),
            format!("link.latency={latency_ns}ns"),
            format!("link.{}", faults[loss]),
            format!("loadgen.traffic.frame_size={size}B"),
            format!("loadgen.traffic.rate={rate}pps"),
            format!("run.warmup={warmup_ns}ns"),
            format!("run.settle={settle_ns}ns"),
            format!("run.duration={duration_ns}ns"),
        ];
        let (preset, program) = if timed { ("server", &DIVIDES[..]) } else { ("fast", &SLEEPS[..]) };
        let (window, summary, late) = measured_of(preset, program, &set).unwrap();
        let [begin, end] = &window.span;
        let drops = window.end.losses_of_arrived(&window.begin, &late, 0);
        prop_assert_eq!(drops.link + drops.nic_other, summary.frames_offered, "{:?}", drops);
        // The link carries at most its rate times the window's length, which is exact to a picosecond.
        let bits = 8 * (overhead + if include_fcs { size } else { size - 4 });
        let carried = u128::from(summary.frames_offered) * u128::from(bits) * 1000 / u128::from(gbps);
        prop_assert!(carried <= u128::from(begin.length(end).0) + 1, "{} ps in {:?}", carried, begin.length(end));
        prop_assert!(begin.wire_share(end).is_none_or(|share| share <= 1.0));
    }
}
