//! `report.html`: one file that needs no network, no script and no build. The page forbids itself to load anything.

use std::fmt::Write;

use crate::escape::Esc;
use crate::number::{NONE, duration_s, grouped, trimmed};
use crate::summary::{Change, PointSummary, RunSummary};
use crate::text::imbalance_notes;
use crate::{figures, functions, headline, numbers, ports, stages, timing};

const STYLE: &str = include_str!("page.css");

/// Nothing is loaded from anywhere; the style stands in the page, the (empty) icon in its address.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The page of a run. `config_toml` is the resolved configuration as text.
pub fn html(summary: &RunSummary, config_toml: &str) -> String {
    let mut out = String::with_capacity(64 << 10);
    head(summary, &mut out);
    header(summary, &mut out);
    out.push_str("<main>\n");
    changes(summary, &mut out);
    let groups = summary.by_frame_size();
    if groups.is_empty() {
        out.push_str("<p class=\"nothing\">No load was measured.</p>\n");
    }
    for (frame_size, points) in &groups {
        let _ = writeln!(out, "<section aria-labelledby=\"frames-{frame_size}\">");
        let _ = writeln!(out, "<h2 id=\"frames-{frame_size}\">{}-byte frames</h2>", grouped(*frame_size));
        out.push_str(&headline::html(&headline::cards(points)));
        books(points, &mut out);
        out.push_str(&figures::html(*frame_size, points, &summary.command));
        out.push_str(&stages::html(points, &summary.meanings));
        out.push_str(&functions::html(points));
        out.push_str("</section>\n");
    }
    if !groups.is_empty() {
        let all: Vec<&PointSummary> = summary.points.iter().collect();
        out.push_str("<section aria-labelledby=\"numbers\">\n<h2 id=\"numbers\">All numbers</h2>\n");
        out.push_str(&numbers::html(&all));
        out.push_str("</section>\n");
        out.push_str(&timing::html(&all, &summary.meanings));
        out.push_str(&ports::html(&all, &summary.meanings));
    }
    provenance(summary, config_toml, &mut out);
    out.push_str("</main>\n");
    footer(summary, &mut out);
    out.push_str("</body>\n</html>\n");
    out
}

fn head(summary: &RunSummary, out: &mut String) {
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{} · Doorbell</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        Esc(&summary.benchmark)
    );
}

fn header(summary: &RunSummary, out: &mut String) {
    let loads = match summary.points.as_slice() {
        [] => "no load".to_owned(),
        [point] => format!("{} offered", point.rate),
        points => {
            let rates = points.iter().map(|p| p.offered_mpps);
            let (low, high) = (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max));
            format!("{} loads from {} to {} Mpps", points.len(), trimmed(low), trimmed(high))
        }
    };
    let _ = writeln!(
        out,
        "<header>\n<p class=\"eyebrow\">Doorbell run</p>\n<h1>{}</h1>\n\
         <p class=\"facts\">{} <span aria-hidden=\"true\">·</span> preset {} \
         <span aria-hidden=\"true\">·</span> version {}</p>\n</header>",
        Esc(&summary.benchmark),
        Esc(loads),
        Esc(&summary.preset),
        Esc(&summary.doorbell_version)
    );
}

/// What differs from the preset, first of all: nobody takes a changed machine for the preset.
fn changes(summary: &RunSummary, out: &mut String) {
    if summary.changed.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section aria-labelledby=\"changed\">\n<h2 id=\"changed\">Not as in {}</h2>\n<div class=\"scroll\">\n\
         <table class=\"numbers few\">\n<thead><tr><th scope=\"col\">Parameter</th><th scope=\"col\">Preset</th>\
         <th scope=\"col\">Here</th></tr></thead>\n<tbody>\n",
        Esc(&summary.preset)
    );
    for Change { key, preset, here } in &summary.changed {
        let preset = if preset.is_empty() { NONE } else { preset };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            Esc(key),
            Esc(preset),
            Esc(here)
        );
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// Says aloud where drops and losses differ.
fn books(points: &[&PointSummary], out: &mut String) {
    let notes = imbalance_notes(points);
    if !notes.is_empty() {
        out.push_str("<div class=\"warning\" role=\"note\">\n");
        for note in notes {
            let _ = writeln!(out, "<p>{}</p>", Esc(note));
        }
        out.push_str("</div>\n");
    }
}

/// The command and the configuration: all that is needed to have this again.
fn provenance(summary: &RunSummary, config_toml: &str, out: &mut String) {
    let _ = write!(
        out,
        "<section aria-labelledby=\"provenance\">\n<h2 id=\"provenance\">How this was made</h2>\n\
         <pre class=\"command\">{}</pre>\n\
         <details>\n<summary>Resolved configuration</summary>\n<pre>{}</pre>\n</details>\n</section>\n",
        Esc(&summary.command),
        Esc(config_toml)
    );
}

fn footer(summary: &RunSummary, out: &mut String) {
    let simulated: f64 = summary.points.iter().map(|p| p.simulated_seconds).sum();
    let host: f64 = summary.points.iter().map(|p| p.host_seconds).sum();
    let _ = writeln!(
        out,
        "<footer>\n<p>Rates count frames whose first bit left in the measurement. Gbps are at layer 2, with FCS and \
         without preamble and gap. A round trip runs from the time a frame was due to the time it was back at the \
         load generator; percentiles are nearest rank.</p>\n\
         <p>{} of simulated time measured in all; {} of host time.</p>\n</footer>",
        Esc(duration_s(simulated)),
        Esc(duration_s(host))
    );
}
