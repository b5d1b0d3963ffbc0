//! Terminal output: a table of offered and delivered load for a run. Plain text of at most [`WIDTH`] columns,
//! so that it can be quoted in mails and papers.

use std::fmt::Write;

use crate::causes;
use crate::number::{NONE, count, duration_s, fixed, grouped, one_line, percent, rate};
use crate::summary::by_frame_size;
use crate::summary::most_delivered;
use crate::{
    captures, functions, generator_notes, limit, neighbours, played, ports, steady, streams, timing, transfer,
};
use doorbell_results::{Drops, LatencySummary, PointSummary, RunSummary};

/// Maximum line width of a table.
pub(crate) const WIDTH: usize = 100;

/// Maximum number of cause columns; beyond it, the rarest causes share a column.
const CAUSE_COLUMNS: usize = 6;

/// Maximum number of loads for which an imbalance note is shown.
const IMBALANCE_NOTES: usize = 3;

/// Columns under one heading.
struct Group {
    title: &'static str,
    columns: Vec<Column>,
}

/// A head and a cell for each point.
struct Column {
    head: String,
    cells: Vec<String>,
}

impl Column {
    fn new(head: &str, points: &[&PointSummary], cell: impl Fn(&PointSummary) -> String) -> Column {
        Column { head: head.to_owned(), cells: points.iter().map(|point| cell(point)).collect() }
    }

    fn width(&self) -> usize {
        self.cells.iter().chain([&self.head]).map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// A run as a table: offered and delivered rates, losses by cause, round trips. Causes without losses have no
/// column; a line below names them.
pub fn table(summary: &RunSummary) -> String {
    if let Some((point, played)) = played::of(summary) {
        return played::table(summary, point, played);
    }
    let mut out = title(summary);
    if summary.points.is_empty() {
        out.push_str("\nNo load was measured.\n");
        return out;
    }
    for (frame_size, points) in by_frame_size(summary) {
        let _ = writeln!(out, "\nFrames of {} bytes\n", grouped(frame_size));
        let rest = render_points(&points, &mut out);
        out.push('\n');
        footnotes(&points, &rest, &mut out);
        timed_table(&points, &mut out);
        for point in points.iter().filter(|point| streams::are_several(point)) {
            let _ =
                writeln!(out, "\nStreams at {} ({} Mpps)\n", one_line(&point.rate), rate(point.offered_mpps));
            streams::lines(point, &mut out);
            out.push('\n');
        }
        for point in points {
            let at = format!(" at {}", one_line(&point.rate));
            profile_section(point, &at, &mut out);
        }
    }
    totals(summary, &mut out);
    if let Some(problem) = &summary.incomplete {
        let _ = writeln!(out, "{}.", one_line(problem));
    }
    out
}

/// The results of a profile, if there is one.
fn profile_section(point: &PointSummary, at: &str, out: &mut String) {
    if point.profiles().next().is_some() {
        let _ = writeln!(out, "\nWhere the cores\u{2019} cycles went{at}\n");
        functions::lines(point, out);
        out.push('\n');
    }
}

/// The same for a run without offered load, whose table would be empty.
pub fn profile_text(point: &PointSummary) -> String {
    let mut out = String::new();
    profile_section(point, "", &mut out);
    out
}

/// The title line.
pub(crate) fn title(summary: &RunSummary) -> String {
    format!(
        "{} · preset {} · Doorbell {}\n",
        one_line(&summary.benchmark),
        one_line(&summary.preset),
        one_line(&summary.doorbell_version)
    )
}

/// For a timed run: cost per packet, one line per load.
fn timed_table(points: &[&PointSummary], out: &mut String) {
    let headings = timing::columns(points);
    if headings.is_empty() {
        return;
    }
    let offered = Column::new("Mpps", points, |p| rate(p.offered_mpps));
    let mut groups = vec![Group { title: "offered", columns: vec![offered] }];
    for (title, columns) in headings {
        let column = |(head, cells): (&str, Vec<String>)| Column { head: head.to_owned(), cells };
        groups.push(Group { title, columns: columns.into_iter().map(column).collect() });
    }
    out.push('\n');
    render(&groups, points.len(), out);
    out.push('\n');
}

/// Joins a text to one line, keeping its indentation.
fn one_line_indented(text: &str) -> String {
    let indent = text.len() - text.trim_start_matches(' ').len();
    format!("{}{}", &text[..indent], one_line(text))
}

/// Writes the table of one frame size. Returns the names of the causes that share a column.
fn render_points(points: &[&PointSummary], out: &mut String) -> Vec<&'static str> {
    let mut causes = causes::present(points);
    // The rarest causes share a column; the others keep their order.
    let mut rest = Vec::new();
    while causes.len() + usize::from(!rest.is_empty()) > CAUSE_COLUMNS {
        let rarest = (0..causes.len()).min_by_key(|&index| causes::total(causes[index], points)).unwrap_or(0);
        rest.push(causes.remove(rarest));
    }
    let mut lost: Vec<Column> =
        causes.iter().map(|cause| Column::new(cause.key, points, |p| count((cause.count)(p)))).collect();
    if !rest.is_empty() {
        let shared = |p: &PointSummary| rest.iter().fold(0, |sum: u64, c| sum.saturating_add((c.count)(p)));
        lost.push(Column::new("rest", points, |p| count(shared(p))));
    }
    let mut groups = vec![
        Group {
            title: "offered",
            columns: vec![
                Column::new("Mpps", points, |p| rate(p.offered_mpps)),
                Column::new("Gbps", points, |p| rate(p.offered_gbps)),
            ],
        },
        Group {
            title: "delivered",
            columns: vec![
                Column::new("Mpps", points, |p| rate(p.delivered_mpps)),
                Column::new("Gbps", points, |p| steady::marked(points, p, rate(p.delivered_gbps))),
            ],
        },
        Group { title: "lost", columns: vec![Column::new("%", points, |p| percent(p.loss()))] },
        Group { title: LOST_TO, columns: lost },
        goal_group(points),
    ];
    let unanswered = points.iter().all(|point| point.is_unanswered());
    groups.retain(|group| !(group.columns.is_empty() || unanswered && group.title == LOST_TO));
    render(&groups, points.len(), out);
    rest.iter().map(|cause| cause.key).collect()
}

/// The main measure of the points: goodput, transactions, or round trips.
fn goal_group(points: &[&PointSummary]) -> Group {
    let all_have = |of: fn(&PointSummary) -> Option<f64>| points.iter().all(|point| of(point).is_some());
    if all_have(PointSummary::goodput_gbps) {
        let column = Column::new("Gbps", points, |p| rate(p.goodput_gbps().unwrap_or(0.0)));
        return Group { title: "goodput", columns: vec![column] };
    }
    if all_have(PointSummary::transactions_per_second) {
        let column =
            Column::new("per second", points, |p| fixed(p.transactions_per_second().unwrap_or(0.0), 0));
        return Group { title: "transactions", columns: vec![column] };
    }
    latency_group(points)
}

/// Round trips in one unit, with as many decimals as the longest one permits.
fn latency_group(points: &[&PointSummary]) -> Group {
    let longest = points.iter().filter_map(|p| p.latency_ns.as_ref()).map(|l| l.max).fold(0.0, f64::max);
    let (title, scale) = match longest {
        ns if ns < 1e8 => ("latency, µs", 1e3),
        ns if ns < 1e11 => ("latency, ms", 1e6),
        _ => ("latency, s", 1e9),
    };
    let decimals = match longest / scale {
        v if v < 1_000.0 => 2,
        v if v < 10_000.0 => 1,
        _ => 0,
    };
    let column = |head, percentile: fn(&LatencySummary) -> f64| {
        Column::new(head, points, |p| match &p.latency_ns {
            Some(latency) => fixed(percentile(latency) / scale, decimals),
            None => NONE.to_owned(),
        })
    };
    Group {
        title,
        columns: vec![column("p50", |l| l.p50), column("p99", |l| l.p99), column("max", |l| l.max)],
    }
}

/// Writes headings, heads and rows with the widest column gaps that fit.
fn render(groups: &[Group], rows: usize, out: &mut String) {
    let gap = [3, 2, 1].into_iter().find(|&gap| total_width(groups, gap) <= WIDTH).unwrap_or(1);
    let (mut titles, mut heads) = (String::new(), String::new());
    let mut lines = vec![String::new(); rows];
    for group in groups {
        let width = group_width(group, gap);
        // A rule marks the columns below a heading, unless the heading is as wide as they are.
        let title = format!(" {} ", group.title);
        let _ = match width < title.chars().count() + 2 {
            true => write!(titles, "{}{title:^width$}", " ".repeat(gap + 1)),
            false => write!(titles, "{}{title:─^width$}", " ".repeat(gap + 1)),
        };
        // Extra width of a long heading is placed before the first column.
        let mut pad = gap + 1 + width - columns_width(group, gap);
        for column in &group.columns {
            let width = pad + column.width();
            let _ = write!(heads, "{:>width$}", column.head);
            for (line, cell) in lines.iter_mut().zip(&column.cells) {
                let _ = write!(line, "{cell:>width$}");
            }
            pad = gap;
        }
    }
    for line in [titles, heads].into_iter().chain(lines) {
        // Every line starts with the gap of its first group.
        let _ = writeln!(out, "{}", line[gap + 1..].trim_end());
    }
}

fn columns_width(group: &Group, gap: usize) -> usize {
    group.columns.iter().map(Column::width).sum::<usize>() + gap * (group.columns.len() - 1)
}

/// The width of its columns, or of its heading with a space on each side.
fn group_width(group: &Group, gap: usize) -> usize {
    columns_width(group, gap).max(group.title.chars().count() + 2)
}

fn total_width(groups: &[Group], gap: usize) -> usize {
    groups.iter().map(|group| group_width(group, gap) + gap + 1).sum::<usize>() - (gap + 1)
}

/// Heading of the cause columns.
const LOST_TO: &str = "frames lost to";

/// Notes on omitted columns and on counts that do not balance.
fn footnotes(points: &[&PointSummary], rest: &[&str], out: &mut String) {
    out.extend(steady::footnotes(points).into_iter().map(|note| note + "\n"));
    if let Some(best) = most_delivered(points).filter(|best| best.delivered_mpps > 0.0) {
        let (mpps, gbps) = best.sustained_rate();
        let (mpps, gbps, offered) = (rate(mpps), rate(gbps), rate(best.offered_mpps));
        let _ = writeln!(out, "Most delivered: {mpps} Mpps ({gbps} Gbps) of {offered} Mpps offered.");
        for point in points {
            out.extend(unsustained_note(point).map(|note| note + "\n"));
        }
    } else if points.iter().any(|point| point.delivered_mpps > 0.0) {
        out.push_str("Most delivered: unknown, because no load was measured in a steady state.\n");
    } else if points.iter().all(|point| point.is_unanswered()) {
        out.push_str("No frame came back: the guest accepted all frames and sent none. This is a loss only if it should have sent them.\n");
        out.extend(limit::line(points).map(|line| line + "\n"));
        return;
    } else if points.iter().all(|point| point.frames_offered == 0) {
        out.push_str("No frame was sent in the measurement.\n");
    } else {
        let _ = writeln!(out, "{}.", generator_notes::nothing_back(points));
    }
    out.extend(limit::line(points).map(|line| line + "\n"));
    let none: Vec<&str> = causes::NAMED
        .iter()
        .filter(|cause| causes::total(cause, points) == 0)
        .map(|cause| cause.key)
        .collect();
    if causes::present(points).is_empty() {
        out.push_str("No frame was dropped.\n");
    } else if !none.is_empty() {
        let _ = writeln!(out, "No frame lost to: {}.", none.join(", "));
    }
    if !rest.is_empty() {
        let _ = writeln!(out, "Rest: {}.", rest.join(", "));
    }
    out.extend(paper_rule(points).map(|note| note + "\n"));
    let notes = [
        imbalance_notes(points),
        steady::notes(points),
        generator_notes::own_queue(points),
        generator_notes::late(points),
        captures::notes(points),
        ports::unsupported_notes(points),
        transfer::monitor_lines(points),
        points.iter().flat_map(|point| neighbours::lines(point)).collect(),
    ];
    for note in notes.into_iter().flatten() {
        let _ = writeln!(out, "{}", one_line_indented(&note));
    }
}

/// Warns if FIFOs and rings hid that a load exceeded the machine's capacity.
fn unsustained_note(point: &PointSummary) -> Option<String> {
    let share = percent(Some(point.unsustained()?));
    let (offered, arrived) = (rate(point.offered_mpps), rate(point.arrived_mpps));
    Some(format!(
        "Not sustainable: {offered} Mpps; {arrived} came back; {share} % of the load only filled FIFOs and rings."
    ))
}

/// Frames lost at a full FIFO, classified by the rule of a paper instead of by cause. Files of older versions
/// have only these classes.
pub(crate) fn paper_rule(points: &[&PointSummary]) -> Option<String> {
    let sum =
        |of: fn(&Drops) -> u64| points.iter().fold(0, |sum: u64, point| sum.saturating_add(of(&point.drops)));
    let kinds =
        [("dma", sum(|drops| drops.dma)), ("core", sum(|drops| drops.core)), ("tx", sum(|drops| drops.tx))];
    let lost: Vec<String> = kinds
        .iter()
        .filter(|(_, frames)| *frames > 0)
        .map(|(name, frames)| format!("{name} {}", grouped(*frames)))
        .collect();
    let has_waits = sum(|drops| drops.waited_for.total()) > 0;
    (has_waits && !lost.is_empty()).then(|| {
        format!("By the ISPASS 2024 rule (docs/drops.md) the frames of full FIFOs are: {}.", lost.join(", "))
    })
}

/// Notes on points where drops and losses differ, for the first few of them.
pub(crate) fn imbalance_notes(points: &[&PointSummary]) -> Vec<String> {
    let mut notes: Vec<String> =
        points.iter().filter(|point| point.imbalance() != 0).map(|point| imbalance_note(point)).collect();
    let more = notes.len().saturating_sub(IMBALANCE_NOTES);
    if more > 0 {
        notes.truncate(IMBALANCE_NOTES);
        let loads = if more == 1 { "load" } else { "loads" };
        notes.push(format!("The counts of {more} more {loads} do not balance either."));
    }
    notes
}

/// Note on a point whose drops and losses differ.
fn imbalance_note(point: &PointSummary) -> String {
    let difference = point.imbalance();
    let amount = grouped(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
    let frames = if difference.unsigned_abs() == 1 { "frame" } else { "frames" };
    let load = rate(point.offered_mpps);
    if difference > 0 {
        format!("At {load} Mpps the causes leave {amount} lost {frames} unexplained.")
    } else {
        format!("At {load} Mpps the causes count {amount} {frames} more than were lost.")
    }
}

/// Total cost of the run.
fn totals(summary: &RunSummary, out: &mut String) {
    let simulated: f64 = summary.points.iter().map(|p| p.simulated_seconds).sum();
    let host: f64 = summary.points.iter().map(|p| p.host_seconds).sum();
    let _ = writeln!(
        out,
        "Measured for {} of simulated time in all; {} of host time.",
        duration_s(simulated),
        duration_s(host)
    );
}
