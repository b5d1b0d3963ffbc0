//! `doorbell trace info`: the origin and contents of a trace.

use std::path::Path;

use anyhow::Context;
use doorbell_machine::playback::Survey;
use doorbell_trace::system::{Description, DeviceReader, EventKind, Kind, TraceError};

use crate::out::outln;
use crate::trace_cmd::{open, words};

/// Frame counts of one direction.
#[derive(Default)]
struct DirectionCounts {
    frames: u64,
    bytes: u64,
}

impl DirectionCounts {
    fn add(&mut self, bytes: u32) {
        self.frames += 1;
        self.bytes += u64::from(bytes);
    }

    fn describe(&self, verb: &str) -> String {
        match self.frames {
            0 => format!("none {verb}"),
            frames => {
                format!("{frames} {verb}, {:.1} bytes each on average", self.bytes as f64 / frames as f64)
            }
        }
    }
}

/// Frame counts from the device stream.
#[derive(Default)]
struct Frames {
    received: DirectionCounts,
    sent: DirectionCounts,
}

impl Frames {
    fn read(mut events: DeviceReader) -> Result<Frames, TraceError> {
        let mut frames = Frames::default();
        while let Some(event) = events.next()? {
            match event.what {
                EventKind::FrameIn { bytes } => frames.received.add(bytes),
                EventKind::FrameOut { bytes } => frames.sent.add(bytes),
                _ => {}
            }
        }
        Ok(frames)
    }
}

/// Possible frame arrival modes for playing the trace.
fn play_modes(survey: &Survey) -> Vec<String> {
    let mut lines = vec!["played         as recorded".to_owned()];
    match (survey.pace_problem(), survey.pairing_problem()) {
        (None, None) => {
            lines[0] += ", at a rate (--rate), in a closed loop (--window)";
            lines
                .extend(survey.latency_problem().map(|why| format!("               without latency: {why}")));
        }
        (None, Some(why)) => {
            lines[0] += ", at a rate (--rate)";
            lines.push(format!("               not in a closed loop: {why}"));
        }
        (Some(why), _) => lines.push(format!("               at no other rate: {why}")),
    }
    lines
}

pub fn info(path: &Path) -> anyhow::Result<()> {
    let of = || path.display().to_string();
    let file = open(path)?;
    let Description { recorder, recorded, isa, harts, timed, physical, config, .. } = file.description();
    outln!("{}", path.display());
    outln!("  recorded       {recorded}");
    outln!("  by             {recorder}, {}", if *timed { "timed in detail" } else { "without times" });
    let addresses = if *physical { "virtual and physical addresses" } else { "virtual addresses alone" };
    outln!("  instructions   {isa}, {addresses}");
    outln!("  holds          {}", words(file.counts()));
    for (hart, instructions) in file.counts().instructions.iter().enumerate() {
        outln!("  hart {hart:<10}{instructions} instructions");
    }
    let parts = file.description().parts();
    if parts.len() > 1 {
        let counts: Vec<String> = parts.iter().map(|harts| harts.len().to_string()).collect();
        outln!("  merged         {} traces, with {} harts", parts.len(), counts.join(", "));
    }
    let all: u64 = file.counts().instructions.iter().sum();
    let frames = Frames::read(file.devices().with_context(of)?).with_context(of)?;
    let arrived = frames.received.frames;
    if arrived.max(frames.sent.frames) > 0 {
        outln!("  frames         {}; {}", frames.received.describe("in"), frames.sent.describe("out"));
        let survey = Survey::of_trace(&file).with_context(of)?;
        let received: u64 = survey.devices.values().map(|device| device.received).sum();
        if received < arrived {
            let others = arrived - received;
            outln!(
                "                 {received} written to memory; {others} dropped by the NIC, or still in it at the end"
            );
        }
        let worked_for = received.max(frames.sent.frames);
        if worked_for > 0 {
            let each = all as f64 / worked_for as f64;
            outln!("                 {each:.1} instructions per frame, over {worked_for} frames");
        }
        if let Some(mean) = survey.batches.mean() {
            let largest = survey.batches.largest();
            outln!("  batches        {mean:.1} frames sent per doorbell on average, {largest} at most");
        }
        play_modes(&survey).iter().for_each(|line| outln!("  {line}"));
    }
    let of = |kind| file.chunks().iter().filter(move |place| place.head.kind == kind);
    let bytes = |kind| of(kind).map(|place| place.bytes).sum::<u64>();
    outln!(
        "  file           {} bytes; {:.3} per instruction, {} of harts in {} chunks, {} of devices in {}",
        file.bytes(),
        file.bytes() as f64 / all.max(1) as f64,
        bytes(Kind::Hart),
        of(Kind::Hart).count(),
        bytes(Kind::Devices),
        of(Kind::Devices).count(),
    );
    if !config.is_empty() {
        outln!("  configuration  {} lines; harts: {harts}", config.lines().count());
    }
    Ok(())
}
