//! Report of a played trace: lines for the terminal, and a page. Figures that only a load generator has
//! (offered load, round trips, losses) are absent.

use std::fmt::Write;

use crate::escape::Esc;
use crate::headline::{self, Card};
use crate::html_table::HtmlTable;
use crate::number::{NONE, duration_s, fixed, grouped, one_line, rate, short};
use crate::{cores, figures, functions, neighbours, page, software, text, timing};
use doorbell_results::figures::{ACCESS_TIME, CPI_STACK, DCA, DRAM, L1D, L1I, L2, LLC, PCIE, TOP_DOWN};
use doorbell_results::{
    FigureKey, LatencySummary, PlayedFigures, PlayedTrace, PointSummary, RunSummary, Unit, finite,
};

/// The point and its playback figures, if the run played a trace.
pub(crate) fn of(summary: &RunSummary) -> Option<(&PointSummary, &PlayedFigures)> {
    match summary.points.as_slice() {
        [point] => Some((point, point.played.as_ref()?)),
        _ => None,
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), short)
}

fn percent(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), |share| fixed(100.0 * share, 1))
}

/// The rate name of playback at the recorded times.
const AS_RECORDED: &str = "as recorded";

/// A measure: its heading, its name with the unit, and its value.
type Measure = (&'static str, &'static str, String);

/// The main figures of the timing models: heading, name, and figure.
const MODELS: [(&str, &str, FigureKey); 25] = [
    ("Top-down, %", "retiring", TOP_DOWN.retiring),
    ("Top-down, %", "bad speculation", TOP_DOWN.bad_speculation),
    ("Top-down, %", "frontend bound", TOP_DOWN.frontend_bound),
    ("Top-down, %", "backend bound", TOP_DOWN.backend_bound),
    ("Misses per 1000 instructions", "L1I", L1I.mpki),
    ("Misses per 1000 instructions", "L1D", L1D.mpki),
    ("Misses per 1000 instructions", "L2", L2.mpki),
    ("Misses per 1000 instructions", "LLC", LLC.mpki),
    ("Access time, cycles", "all accesses", ACCESS_TIME.access_cycles),
    ("Access time, cycles", "loads", ACCESS_TIME.load_cycles),
    ("Access time, cycles", "loads of network data", ACCESS_TIME.network_load_cycles),
    ("DRAM", "read, Gbps", DRAM.read_gbps),
    ("DRAM", "written, Gbps", DRAM.write_gbps),
    ("DRAM", "row hits, %", DRAM.row_hit_rate),
    ("Direct cache access, lines per packet", "updated in the LLC", DCA.updates_per_packet),
    ("Direct cache access, lines per packet", "allocated", DCA.allocations_per_packet),
    ("Direct cache access, lines per packet", "written to cores\u{2019} L2", DCA.to_l2_per_packet),
    ("Direct cache access, lines per packet", "written to memory", DCA.to_memory_per_packet),
    ("Direct cache access, lines per packet", "evicted before use", DCA.leaks_per_packet),
    (
        "Direct cache access, lines per packet",
        "invalidated in cores\u{2019} private caches",
        DCA.private_invalidations_per_packet,
    ),
    ("Merges into LLC MSHRs, per packet", "by cores", DCA.core_merges_per_packet),
    ("Merges into LLC MSHRs, per packet", "by devices", DCA.device_merges_per_packet),
    ("PCI Express, bytes per packet", "up", PCIE.up_bytes_per_packet),
    ("PCI Express, bytes per packet", "down", PCIE.down_bytes_per_packet),
    ("PCI Express, bytes per packet", "payload", PCIE.payload_bytes_per_packet),
];

fn measures(point: &PointSummary, played: &PlayedFigures) -> Vec<Measure> {
    let per_frame = |amount: u64| {
        let frames = played.frames_in.max(played.frames_out);
        if frames == 0 { NONE.to_owned() } else { short(amount as f64 / frames as f64) }
    };
    let mut all = vec![
        ("Trace", "frames in", grouped(played.frames_in)),
        ("Trace", "frames out", grouped(played.frames_out)),
        ("Trace", "in, Gbps (layer 2)", rate(played.in_gbps)),
        ("Trace", "out, Gbps (layer 2)", rate(played.out_gbps)),
        ("Trace", "instructions", grouped(point.instructions)),
        ("Trace", "warm-up instructions before them", grouped(played.warmup_instructions)),
        ("Trace", "instructions per packet", number(finite(point.instructions_per_frame))),
        (
            "Speed",
            "instructions per cycle, excluding sleep",
            finite(point.ipc).map_or(NONE.to_owned(), |ipc| fixed(ipc, 3)),
        ),
        ("Speed", "cycles", grouped(played.cycles)),
        ("Speed", "of these, asleep or waiting", grouped(played.cycles_asleep)),
        ("Speed", "cycles per packet", per_frame(played.cycles - played.cycles_asleep.min(played.cycles))),
        ("Speed", "simulated, ms", fixed(point.simulated_seconds * 1e3, 3)),
        ("Speed", "waits for a device\u{2019}s write", grouped(played.waits)),
        ("Speed", "time of these waits, µs", fixed(played.waited_us, 3)),
        ("Recorded batches", "frames per doorbell, mean", number(played.frames_a_batch)),
        ("Recorded batches", "largest", grouped(played.largest_batch)),
        ("DMA", "bytes written", grouped(played.dma_written_bytes)),
        ("DMA", "bytes read", grouped(played.dma_read_bytes)),
    ];
    if point.drops.nic_other > 0 {
        let percent = fixed(100.0 * point.drop_rate, 1);
        all.push(("At recording time", "frames dropped by the NIC", grouped(point.drops.nic_other)));
        all.push(("At recording time", "share of arrived frames, %", percent));
    }
    if played.pace != AS_RECORDED {
        let latency = |of: fn(&LatencySummary) -> f64| number(played.answer_latency_ns.as_ref().map(of));
        all.extend([
            ("At this rate", "frames offered", grouped(point.frames_offered)),
            ("At this rate", "offered, Mpps", rate(point.offered_mpps)),
            ("At this rate", "frames delivered", grouped(point.frames_delivered)),
            ("At this rate", "delivered, Mpps", rate(point.delivered_mpps)),
            ("At this rate", "dropped without a free descriptor", grouped(played.ring_drops)),
            ("At this rate", "from arrival to answer, p50, ns", latency(|latency| latency.p50)),
            ("At this rate", "from arrival to answer, p99, ns", latency(|latency| latency.p99)),
            ("At this rate", "omitted empty-poll instructions", grouped(played.left_out_instructions)),
        ]);
    }
    for (heading, name, key) in MODELS {
        let (value, share) = (point.figure(key), key.unit == Unit::Share);
        // Per-packet figures are absent if there are no packets, and link figures if there is no link.
        if value.is_some() {
            all.push((heading, name, if share { percent(value) } else { number(value) }));
        }
    }
    if played.frames_in + played.frames_out == 0 && played.dma_read_bytes + played.dma_written_bytes == 0 {
        // No device was active.
        let of_devices = ["frame", "Gbps (layer 2)", "device\u{2019}s write", "these waits", "bytes "];
        let silent = |heading: &str, name: &str| {
            heading != "DRAM" && of_devices.iter().any(|part| name.contains(part))
        };
        all.retain(|(heading, name, _)| !silent(heading, name));
    }
    all
}

/// The largest parts of the CPI stack.
fn cpi(point: &PointSummary) -> Vec<(&'static str, f64)> {
    const LARGEST: usize = 6;
    let value = |key: &FigureKey| point.figure(*key).filter(|value| *value >= 0.0005);
    let mut parts: Vec<(&str, f64)> =
        CPI_STACK.keys().iter().filter_map(|key| Some((key.name, value(key)?))).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts.truncate(LARGEST);
    parts
}

/// The terminal output.
pub(crate) fn table(summary: &RunSummary, point: &PointSummary, played: &PlayedFigures) -> String {
    let mut out = text::title(summary);
    for trace in &summary.ran.traces {
        let _ = writeln!(out, "{}: {}", one_line(&trace.file), one_line(&what(trace)));
    }
    let _ = writeln!(
        out,
        "Played {}{}.",
        one_line(&played.pace),
        if played.to_the_end { ", to its end" } else { "" }
    );
    let mut last = "";
    for (heading, name, value) in measures(point, played) {
        if heading != last {
            let _ = writeln!(out, "\n{heading}");
            last = heading;
        }
        let _ = writeln!(out, "  {name:<44}{value:>16}");
    }
    let parts: Vec<String> =
        cpi(point).iter().map(|(name, cycles)| format!("{name} {}", fixed(*cycles, 3))).collect();
    if !parts.is_empty() {
        let _ = writeln!(out, "\nCycles per instruction by cause: {}", parts.join(", "));
    }
    for line in neighbours::lines_of(&played.neighbours, "Co-running") {
        let _ = writeln!(out, "\n{line}");
    }
    out.push_str(&text::profile_text(point));
    let host = finite(point.host_mips).map_or(NONE.to_owned(), short);
    let _ = writeln!(
        out,
        "\n{} of host time, {host} million instructions per second.",
        duration_s(point.host_seconds)
    );
    out
}

fn what(trace: &PlayedTrace) -> String {
    let harts = if trace.harts == 1 { "1 hart".to_owned() } else { format!("{} harts", trace.harts) };
    format!(
        "{}; by {}; {}, {harts}, {} instructions",
        trace.recorded,
        trace.recorder,
        trace.isa,
        grouped(trace.instructions)
    )
}

/// The page.
pub(crate) fn html(
    summary: &RunSummary,
    point: &PointSummary,
    played: &PlayedFigures,
    config_toml: &str,
    links: &page::PageLinks,
) -> String {
    let (preset, version) =
        (format!("preset {}", summary.preset), format!("version {}", summary.doorbell_version));
    let names: Vec<&str> = summary.ran.traces.iter().map(|trace| trace.file.as_str()).collect();
    let (name, pace) = (names.join(", "), format!("played {}", played.pace));
    let name = if name.is_empty() { summary.benchmark.clone() } else { name };
    let mut out = page::begin_with(&name, "trace", &[&pace, &preset, &version], links);
    crate::html::changes(summary, &mut out);
    traces(&summary.ran.traces, &mut out);
    out.push_str(&page::section("played", "Results"));
    out.push_str(&headline::html(&cards(point, played)));
    out.push_str(&figures::played_html(point, &summary.command));
    neighbours::table("Co-running traces", &played.neighbours, &mut out);
    out.push_str(&figures::flames_html(&links.stacks, &summary.command));
    out.push_str(&functions::html(&[point]));
    out.push_str("</section>\n");
    out.push_str(&page::section("numbers", "All numbers"));
    numbers(point, played, &mut out);
    out.push_str("</section>\n");
    out.push_str(&timing::html(&[point], &summary.meanings));
    out.push_str(&cores::html(&[point]));
    if summary.ran.is_known() {
        software::html(&summary.doorbell_version, &summary.ran, &mut out);
    }
    page::provenance(&summary.command, "Resolved configuration", config_toml, &mut out);
    let rates = "A trace\u{2019}s instructions do not depend on the configuration: a polling program would find \
                 different bursts. Gbps are at layer 2, with FCS. Per-packet figures use the direction with more frames.";
    let cost = format!(
        "{} of simulated time measured; {} of host time.",
        duration_s(point.simulated_seconds),
        duration_s(point.host_seconds)
    );
    page::end(&[&rates, &cost], &mut out);
    out
}

fn cards(point: &PointSummary, played: &PlayedFigures) -> Vec<Card> {
    let mut all = vec![Card {
        name: "Instructions per cycle",
        value: finite(point.ipc).map_or(NONE.to_owned(), |ipc| fixed(ipc, 3)),
        unit: "",
        note: format!("{} instructions, {} cycles", grouped(point.instructions), grouped(played.cycles)),
    }];
    if played.frames_in + played.frames_out > 0 {
        let mut note = format!(
            "{} Gbps out; {} frames in, {} out",
            rate(played.out_gbps),
            grouped(played.frames_in),
            grouped(played.frames_out)
        );
        if point.drops.nic_other > 0 {
            note += &format!("; {} more were lost during recording", grouped(point.drops.nic_other));
        }
        all.push(Card { name: "Network", value: rate(played.in_gbps), unit: "Gbps in", note });
    }
    all.push(Card {
        name: "Misses of the LLC",
        value: number(point.figure(LLC.mpki)),
        unit: "",
        note: "per 1000 instructions".to_owned(),
    });
    let network = point.figure(ACCESS_TIME.network_load_cycles);
    all.push(Card {
        name: "Access time",
        value: number(point.figure(ACCESS_TIME.access_cycles)),
        unit: "cycles",
        note: match network {
            Some(_) => format!(
                "loads {}, of network data {}",
                number(point.figure(ACCESS_TIME.load_cycles)),
                number(network)
            ),
            None => format!("loads {}", number(point.figure(ACCESS_TIME.load_cycles))),
        },
    });
    all.push(Card {
        name: "DRAM read",
        value: number(point.figure(DRAM.read_gbps)),
        unit: "Gbps",
        note: format!("{} Gbps written", number(point.figure(DRAM.write_gbps))),
    });
    all
}

/// A property that distinguishes traces: name of the row, and the function that formats a trace's cell.
type TraceRow = (&'static str, fn(&PlayedTrace) -> String);

const TRACE_ROWS: [TraceRow; 7] = [
    ("Bytes", |trace| grouped(trace.bytes)),
    ("XXH3-128", |trace| trace.xxh3.clone()),
    ("Recorded", |trace| trace.recorded.clone()),
    ("By", |trace| trace.recorder.clone()),
    ("Instruction set", |trace| trace.isa.clone()),
    ("Harts", |trace| trace.harts.to_string()),
    ("Instructions", |trace| grouped(trace.instructions)),
];

/// The traces, one column each.
fn traces(all: &[PlayedTrace], out: &mut String) {
    out.push_str(&page::section("traces", "Traces"));
    let heads = ["File"].into_iter().chain(all.iter().map(|trace| trace.file.as_str()));
    let mut table = HtmlTable::begin("Traces, table", "numbers few", heads, out);
    TRACE_ROWS.iter().for_each(|(name, of)| table.row(name, all.iter().map(of)));
    table.end();
    out.push_str("</section>\n");
}

fn numbers(point: &PointSummary, played: &PlayedFigures, out: &mut String) {
    out.push_str(
        "<div class=\"scroll\" role=\"region\" aria-label=\"All numbers, table\" tabindex=\"0\">\n<table class=\"numbers few\">\n",
    );
    let mut last = "";
    for (heading, name, value) in measures(point, played) {
        if heading != last {
            let _ = write!(
                out,
                "<tbody>\n<tr class=\"section\"><th scope=\"rowgroup\" colspan=\"2\"><span>{}</span></th></tr>\n</tbody>\n",
                Esc(heading)
            );
            last = heading;
        }
        let class = if value == "0" || value == NONE { " class=\"zero\"" } else { "" };
        let _ = writeln!(out, "<tr><th scope=\"row\">{}</th><td{class}>{}</td></tr>", Esc(name), Esc(&value));
    }
    for (name, hash) in
        [("Configuration hash", &point.config_hash), ("Hash of all counters at the end", &point.state_hash)]
    {
        let _ = writeln!(out, "<tr><th scope=\"row\">{name}</th><td class=\"hash\">{}</td></tr>", Esc(hash));
    }
    out.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn played() -> RunSummary {
        let mut summary = sample::single(0);
        let timing = r#"{"top-down": {"retiring": 0.7, "bad_speculation": 0.05, "frontend_bound": 0.05, "backend_bound": 0.2},
            "CPI stack": {"base": 0.26, "l2": 0.1, "idle": 0.0}, "LLC": {"mpki": 1.5, "misses_per_packet": 0.4},
            "access time": {"access_cycles": 5.25, "load_cycles": 6.5, "network_load_cycles": null}}"#;
        let point = &mut summary.points[0];
        point.timing = Some(serde_json::from_str(timing).unwrap());
        point.rate = "as recorded".to_owned();
        (point.latency_ns, point.latency_stages_ns, point.batches) = (None, None, Vec::new());
        point.played = Some(PlayedFigures {
            pace: "as recorded".to_owned(),
            to_the_end: true,
            frames_in: 3,
            in_gbps: 4.25,
            ..PlayedFigures::default()
        });
        let trace = PlayedTrace {
            file: "a<b>.dbt".to_owned(),
            harts: 1,
            xxh3: "feed".to_owned(),
            ..PlayedTrace::default()
        };
        summary.ran.traces = vec![trace];
        summary
    }

    #[test]
    fn the_terminal_shows_playback_figures_and_no_missing_ones() {
        let text = crate::table(&played());
        for part in [
            "a<b>.dbt: ",
            "Played as recorded, to its end.",
            "Cycles per instruction by cause: base 0.260, l2 0.100\n",
            "4.250",
        ] {
            assert!(text.contains(part), "no {part}: {text}");
        }
        let loads = text.lines().find(|line| line.trim_start().starts_with("loads"));
        assert!(loads.is_some_and(|line| line.ends_with("6.50")), "{text}");
        for absent in ["network data", "offered", "latency", "PCI Express"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= crate::text::WIDTH), "{text}");
    }

    #[test]
    fn the_terminal_and_the_page_list_co_running_traces() {
        let mut summary = played();
        let figures = summary.points[0].played.as_mut().unwrap();
        figures.neighbours = vec![doorbell_results::PlayedNeighbour {
            file: "mcf.xz".into(),
            first_core: 1,
            instructions: 1234,
            ipc: 0.25,
            rounds: 2,
        }];
        let text = crate::table(&summary);
        let line = "Co-running, from core 1 on: mcf.xz, 0.250 instructions per cycle (1,234 in total)\n";
        assert!(text.contains(line), "{text}");
        assert!(crate::html(&summary, "").contains("mcf.xz"));
    }

    #[test]
    fn frame_figures_are_absent_if_no_device_was_active() {
        let mut summary = played();
        let figures = summary.points[0].played.as_mut().unwrap();
        (figures.frames_in, figures.in_gbps) = (0, 0.0);
        let text = crate::table(&summary);
        assert!(
            !text.contains("frame") && !text.contains("Gbps (layer 2)") && text.contains("instructions"),
            "{text}"
        );
    }

    #[test]
    fn the_page_has_the_trace_hash_and_no_load_generator_section() {
        let page = crate::html(&played(), "[core]\n");
        for part in
            ["<h1>a&lt;b&gt;.dbt</h1>", "<td>feed</td>", "Where cycles and bytes went", "Top-down", "5.25"]
        {
            assert!(page.contains(part), "no {part}: {page}");
        }
        for absent in ["Offered", "Median latency", "Lost", "Nothing to draw"] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }
}
