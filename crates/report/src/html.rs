//! A run's `report.html`.

use std::fmt::Write;

use crate::escape::Esc;
use crate::html_table::HtmlTable;
use crate::number::{NONE, duration_s, grouped, trimmed};
use crate::page::PageLinks;
use crate::summary::by_frame_size;
use crate::text::imbalance_notes;
use crate::{
    captures, cores, figures, functions, generator_notes, headline, limit, neighbours, network, numbers,
    page, played, ports, queues, software, stages, steady, streams, timing, transfer,
};
use doorbell_results::{Change, PointSummary, RunSummary};

/// A page without links.
#[cfg(test)]
pub(crate) fn html(summary: &RunSummary, config_toml: &str) -> String {
    html_with(summary, config_toml, &PageLinks::default())
}

/// The page of a run, with links to related pages. `config_toml` is the resolved configuration as text.
pub fn html_with(summary: &RunSummary, config_toml: &str, links: &PageLinks) -> String {
    if let Some((point, played)) = played::of(summary) {
        return played::html(summary, point, played, config_toml, links);
    }
    let (preset, version) =
        (format!("preset {}", summary.preset), format!("version {}", summary.doorbell_version));
    let mut out = page::begin_with(&summary.benchmark, "run", &[&loads(summary), &preset, &version], links);
    if let Some(problem) = &summary.incomplete {
        let _ = writeln!(out, "<p class=\"nothing\">{}</p>", Esc(problem));
    }
    changes(summary, &mut out);
    let groups = by_frame_size(summary);
    if groups.is_empty() {
        out.push_str("<p class=\"nothing\">No load was measured.</p>\n");
    }
    for (frame_size, points) in &groups {
        let _ = writeln!(out, "<section aria-labelledby=\"frames-{frame_size}\">");
        let _ = writeln!(out, "<h2 id=\"frames-{frame_size}\">{}-byte frames</h2>", grouped(*frame_size));
        out.push_str(&headline::html(&headline::cards(points)));
        if let Some(line) = limit::line(points) {
            let _ = writeln!(out, "<p class=\"limit\">{}</p>", Esc(line));
        }
        for line in transfer::monitor_lines(points) {
            let _ = writeln!(out, "<p class=\"limit\">{}</p>", Esc(line));
        }
        warnings(points, &mut out);
        out.push_str(&figures::html(*frame_size, points, &summary.command));
        out.push_str(&stages::html(points, &summary.meanings));
        out.push_str(&figures::flames_html(&links.stacks, &summary.command));
        out.push_str(&functions::html(points));
        out.push_str("</section>\n");
    }
    if !groups.is_empty() {
        let all: Vec<&PointSummary> = summary.points.iter().collect();
        out.push_str(&page::section("numbers", "All numbers"));
        out.push_str(&numbers::html(&all, &links.loads));
        out.push_str("</section>\n");
        out.push_str(&network::html(&all));
        out.push_str(&streams::html(&all));
        out.push_str(&timing::html(&all, &summary.meanings));
        out.push_str(&cores::html(&all));
        out.push_str(&neighbours::html(&all));
        out.push_str(&transfer::html(&all));
        out.push_str(&queues::html(&all));
        out.push_str(&ports::html(&all, &summary.meanings));
    }
    if summary.ran.is_known() {
        software::html(&summary.doorbell_version, &summary.ran, &mut out);
    }
    let of_which = if summary.points.len() > 1 { " of the first load" } else { "" };
    let configuration = format!("Resolved configuration{of_which}");
    page::provenance(&summary.command, &configuration, config_toml, &mut out);
    footer(summary, &mut out);
    out
}

/// A summary of the offered loads.
fn loads(summary: &RunSummary) -> String {
    match summary.points.as_slice() {
        [] => "no load".to_owned(),
        // The rate of a transfer is a name, not a number.
        [point] if point.transfer.is_some() => point.rate.clone(),
        [point] => format!("{} offered", point.rate),
        points => {
            let rates = points.iter().map(|p| p.offered_mpps);
            let (low, high) = (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max));
            format!("{} loads from {} to {} Mpps", points.len(), trimmed(low), trimmed(high))
        }
    }
}

/// The differences from the preset, shown first so that a modified machine is not mistaken for the preset.
pub(crate) fn changes(summary: &RunSummary, out: &mut String) {
    if summary.changed.is_empty() {
        return;
    }
    out.push_str(&page::section("changed", &format!("Not as in {}", summary.preset)));
    let mut table =
        HtmlTable::begin("Changed parameters, table", "numbers few", ["Parameter", "Preset", "Here"], out);
    for Change { key, preset, here } in &summary.changed {
        let preset = if preset.is_empty() { NONE } else { preset };
        table.row(key, [preset, here]);
    }
    table.end();
    out.push_str("</section>\n");
}

/// Warnings where drops and losses differ, where the measurement began too early, and similar.
fn warnings(points: &[&PointSummary], out: &mut String) {
    let mut notes = imbalance_notes(points);
    notes.extend(steady::notes(points));
    notes.extend(generator_notes::own_queue(points));
    notes.extend(generator_notes::late(points));
    notes.extend(captures::notes(points));
    notes.extend(ports::unsupported_notes(points));
    page::warning(notes, out);
}

fn footer(summary: &RunSummary, out: &mut String) {
    let simulated: f64 = summary.points.iter().map(|p| p.simulated_seconds).sum();
    let host: f64 = summary.points.iter().map(|p| p.host_seconds).sum();
    let rates = "Rates count frames whose first bit was sent in the measurement. Gbps are at layer 2, with FCS and without \
                 preamble and gap. Latency runs from the time a frame was due to the time it was back at the load \
                 generator (for a sink, to the time it was in its memory); percentiles are nearest rank.";
    let cost = format!(
        "{} of simulated time measured in all; {} of host time.",
        duration_s(simulated),
        duration_s(host)
    );
    page::end(&[&rates, &cost], out);
}
