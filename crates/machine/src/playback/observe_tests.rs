//! Observation of a player beyond its counters, and the number of its ports.

use std::path::Path;

use doorbell_trace::system::{EventKind, TraceFile};

use super::tests::{BUFFERS, Maker, config, folder, played, polling, rate, refused, sleeping};
use super::*;
use crate::timed::WatchRequest;

/// A merge of two polling traces, each with its own hart and NIC.
pub(super) fn merged(folder: &Path, frames: [u64; 2]) -> TraceInput {
    let parts = frames.map(|frames| {
        let path = folder.join(format!("of-{frames}"));
        polling(&path, frames, 3, 1, true);
        TraceFile::open(&path).unwrap()
    });
    let path = folder.join("both");
    doorbell_trace::system::merge(&parts, &path).unwrap();
    TraceInput::own(TraceFile::open(&path).unwrap())
}

#[test]
fn profile_has_only_harts_of_the_first_trace() {
    let folder = folder();
    let trace = |name: &str| polling(&folder.path().join(name), 40, 3, 1, true);
    let plan = Plan::of(trace("first")).with_neighbour(trace("neighbour"));
    let config = config(&["platform.harts=2"]);
    let mut player = Player::new(&config, &plan).unwrap();
    let request = WatchRequest { profile: true, activity: true, ..WatchRequest::default() };
    player.watch(&request, &config);
    assert!(!player.run(u64::MAX).unwrap());
    assert!(
        player.played().traces[1].instructions > 100,
        "the neighbour kept running, including its register stores"
    );
    let watched = player.end_watch().unwrap();
    assert_eq!((watched.profile.unwrap().harts.len(), watched.activity.len()), (1, 1));
}

#[test]
fn each_nic_has_a_port_or_the_configuration_is_rejected() {
    let folder = folder();
    // Like part of a longer trace, in which device 0 is idle.
    let trace = |name: &str, of: [u8; 2]| {
        let path = folder.path().join(name);
        let mut maker = Maker::new(&path);
        maker.device = of[0];
        maker.event(maker.done, 0, EventKind::FrameIn { bytes: 64 });
        maker.device = of[1];
        maker.poll_for(16, 3, 1, true);
        Plan::of(maker.finish(&path))
    };
    let (with, without) = (trace("with", [0, 1]), trace("without", [2, 5]));
    assert_eq!(with.traces[0].trace.nics().unwrap(), 2);
    let message = refused(&config(&[]), &with);
    assert!(message.starts_with("platform.nics: 1; ") && message.contains("2 NICs"), "{message}");
    let far = Ps::from_us(16 * 20);
    for plan in [with, without] {
        let times = [0, 1].map(|port| {
            let slow = format!("port.{port}.pcie.link_latency=20us");
            played(&config(&["platform.nics=2", &slow]), &plan).now()
        });
        assert!(times[0] < far && times[1] > far, "the second NIC uses the second port: {times:?}");
    }
}

#[test]
fn without_sleep_events_do_not_wait_for_recorded_sleeps() {
    let folder = folder();
    let plan = Plan::of(sleeping(&folder.path().join("a"), 20, BUFFERS));
    let asleep = played(&config(&[]), &plan).played();
    let awake = played(&config(&[]), &Plan { sleeps: false, ..plan }).played();
    assert!(asleep.now > Ps::from_us(20 * 2 + 70), "{}", asleep.now);
    assert!(
        awake.now + Ps::from_us(20 * 2 + 70) < asleep.now + Ps::from_us(5),
        "{} {}",
        awake.now,
        asleep.now
    );
    assert_eq!(awake.devices.frames_out, 20);
}

#[test]
fn arrivals_end_one_frame_after_the_last_of_the_trace() {
    let folder = folder();
    let trace = polling(&folder.path().join("a"), 400, 3, 1, true);
    let plan = Plan::of(trace.clone()).at_pace(rate("100Mpps"));
    let mut player = Player::new(&config(&[]), &plan).unwrap();
    assert!(player.run(1000).unwrap());
    assert_eq!(player.arrivals_end(), None, "frames are left");
    assert!(!player.run(u64::MAX).unwrap());
    let (end, devices) = (player.arrivals_end().unwrap(), player.played().devices);
    assert!(devices.frames_dropped > 100 && end < player.now(), "{end} of {}", player.now());
    let mpps = devices.frames_offered as f64 / end.as_secs_f64() / 1e6;
    // The first frame arrives after the link's latency.
    assert!((90.0..=100.0).contains(&mpps), "{mpps}");
    assert_eq!(played(&config(&[]), &Plan::of(trace)).arrivals_end(), None, "unknown if played as recorded");
}

#[test]
fn frames_without_dma_stay_unreceived() {
    let folder = folder();
    let path = folder.path().join("a");
    let mut maker = Maker::new(&path);
    for number in 0..10 {
        maker.receive(number, 0);
        // Every other frame is dropped.
        if number % 2 == 0 {
            maker.event(maker.done, 0, EventKind::FrameIn { bytes: 64 });
        }
        maker.poll(number);
    }
    let mut player = Player::new(&config(&[]), &Plan::of(maker.finish(&path))).unwrap();
    assert!(player.run(20).unwrap());
    player.begin_unreceived();
    let [now, fewest] = player.unreceived();
    assert_eq!(now, fewest);
    assert!(!player.run(u64::MAX).unwrap());
    let [end, least] = player.unreceived();
    assert!(end == 5 && least >= now, "{now} {end} {least}");
}
