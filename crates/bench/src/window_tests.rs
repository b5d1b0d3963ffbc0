use std::sync::atomic::AtomicBool;

use super::*;
use crate::control::Control;
use crate::phases::Load;
use crate::resolve::resolve;

/// A measurement of a machine without a guest, whose generator has three frames a microsecond apart, with no phase before it.
fn measured(set: &[&str]) -> Result<(Window, u64), String> {
    let streams = "loadgen.traffic.streams=[{rate=\"1Mpps\",frames=3}]";
    let all = ["run.warmup=0s", "run.settle=0s", "run.duration=10us", streams];
    let set: Vec<String> = all.iter().chain(set).map(|&text| text.to_owned()).collect();
    let config = resolve("fast", &set).unwrap();
    let mut machine = Machine::new(config.machine(), 1).unwrap();
    // wfi, and back to it.
    assert!(machine.load_bare(&[0x73, 0x00, 0x50, 0x10, 0x6f, 0xf0, 0xdf, 0xff]));
    let load = Load {
        who: "port 0".to_owned(),
        key: "loadgen".to_owned(),
        traffic: config.loadgen.traffic.clone(),
        preload: None,
        pause: Ps::ZERO,
        kept: false,
    };
    let (loads, params) = ([load], &config.run);
    Control::quietly(&AtomicBool::new(false), |control| {
        let mut run = Run { system: &mut machine, guest: "", control, loads: &loads, params };
        let (window, _) = run.measure(&config, None, None).map_err(|error| error.to_string())?;
        let offered = machine.ports()[0].loadgen.measurement().unwrap().volumes().0.frames;
        Ok((window, offered))
    })
}

#[test]
fn a_window_with_nothing_before_it_has_the_first_frame_too() {
    let (window, offered) = measured(&[]).unwrap();
    assert_eq!((offered, window.end.sent - window.begin.sent), (3, 3));
    assert_eq!(measured(&["run.frames=3"]).unwrap().1, 3);
}

#[test]
fn streams_that_end_too_early_are_said_to_be_as_many_frames_short_as_they_are() {
    let said = measured(&["run.frames=4"]).unwrap_err();
    assert!(said.starts_with("run.frames: the streams end 1 frame short of these 4; "), "{said}");
    let said = measured(&["run.frames=5", "run.warmup=1500ns"]).unwrap_err();
    assert!(said.contains(" 4 frames short of these 5; "), "{said}");
}
