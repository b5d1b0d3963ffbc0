//! Report of a search: the interval, each trial, and the cost.

use std::fmt::Write;

use crate::escape::Esc;
use crate::figures::{Curve, Curves, Data, Ids, Point, write_figure};
use crate::headline::{self, Card};
use crate::limit;
use crate::number::one_line;
use crate::number::{NONE, count, duration_ns, duration_s, grouped, percent, rate, trimmed};
use crate::page::{self, PageLinks};
use crate::search_overview::{self, between};
use crate::software;
use crate::steady;
use doorbell_results::{SearchSummary, SizeSummary, TrialSummary};

/// Spells out the abbreviation of a goal.
pub fn spelled_out(goal: &str) -> String {
    let names =
        [("MSB ", "maximum sustainable bandwidth"), ("NDR ", "no-drop rate"), ("PDR ", "partial-drop rate")];
    let found = names.iter().find(|(short, _)| goal.starts_with(short));
    found.map_or_else(|| goal.to_owned(), |(_, long)| format!("{long}, {goal}"))
}

/// The search as text for the terminal.
pub fn search_table(search: &SearchSummary) -> String {
    let mut out = format!(
        "{} · {} · preset {} · Doorbell {}\n",
        search.benchmark,
        spelled_out(&search.goal),
        search.preset,
        search.doorbell_version
    );
    for size in search.searches.iter().map(Size) {
        size.lines(&mut out);
    }
    if let Some(problem) = &search.incomplete {
        let _ = writeln!(out, "\n{}.", one_line(problem));
    }
    let _ = writeln!(out, "\n{} of host time in all.", duration_s(search.host_seconds));
    out
}

/// The search as a page.
pub fn search_html(search: &SearchSummary, config_toml: &str) -> String {
    search_html_with(search, config_toml, &PageLinks::default())
}

/// The same with links to related pages.
pub fn search_html_with(search: &SearchSummary, config_toml: &str, links: &PageLinks) -> String {
    let (preset, version) =
        (format!("preset {}", search.preset), format!("version {}", search.doorbell_version));
    let mut out = page::begin_with(
        &search.benchmark,
        "search",
        &[&spelled_out(&search.goal), &preset, &version],
        links,
    );
    if let Some(problem) = &search.incomplete {
        let _ = writeln!(out, "<p class=\"nothing\">{}</p>", Esc(problem));
    }
    out.push_str(&search_overview::html(search));
    let up = match search.searches.len() {
        0 | 1 => "",
        _ => " <a class=\"back\" href=\"#sizes\" title=\"All frame sizes\">\u{2191}</a>",
    };
    for size in search.searches.iter().map(Size) {
        let bytes = size.frame_size;
        let _ = writeln!(out, "<section aria-labelledby=\"frames-{bytes}\">");
        let _ = writeln!(out, "<h2 id=\"frames-{bytes}\">{}-byte frames{up}</h2>", grouped(bytes));
        out.push_str(&headline::html(&size.cards()));
        if let Some(limit) = limit::of_search(&size) {
            let _ = writeln!(out, "<p class=\"limit\">Limit: {}.</p>", Esc(&limit.text));
        }
        out.push_str("<div class=\"figures\">\n");
        let id = format!("trials-{bytes}");
        let figure = size.curves(search.loss_goal).figure(&Ids::of(&id), size.data());
        write_figure(&id, &Ids::of(&id), &figure, &search.command, &mut out);
        out.push_str("</div>\n</section>\n");
    }
    if search.ran.is_known() {
        software::html(&search.doorbell_version, &search.ran, &mut out);
    }
    page::provenance(&search.command, "Resolved configuration", config_toml, &mut out);
    let loss = "Rates are offered rates per port. Loss is 1 − arrived / offered in a trial's window, corrected for the \
                change in the occupancy of FIFOs, rings and links; the correction and the statistical error are shown.";
    page::end(&[&loss, &format!("{} of host time in all.", duration_s(search.host_seconds))], &mut out);
    out
}

/// Minimum ratio of the largest to the smallest frame for a logarithmic axis.
pub(crate) const LOG_SIZES_FROM: f64 = 8.0;

const HEADS: [&str; 10] = [
    "Offered, Mpps",
    "Verdict",
    "Lost, %",
    "± %",
    "Queues, %",
    "p99",
    "Frames",
    "Window",
    "Simulated",
    "Host",
];

/// The search for one frame size, for display.
struct Size<'a>(&'a SizeSummary);

impl std::ops::Deref for Size<'_> {
    type Target = SizeSummary;

    fn deref(&self) -> &SizeSummary {
        self.0
    }
}

impl Size<'_> {
    /// The result: its value and a note.
    fn answer(&self) -> (String, String) {
        let value = between(self.low_mpps, self.high_mpps);
        let gbps = between(self.low_gbps, self.high_gbps);
        let why = match self.ended.as_str() {
            "at_highest" => "; even the highest rate meets the goal",
            "below_lowest" => "; even the lowest rate misses the goal",
            "undecided" => "; trials between these rates were undecided",
            "too_many" => "; the limit of trials was reached",
            _ => "",
        };
        (value, format!("{gbps} Gbps{why}"))
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |trial: &TrialSummary| {
            let sign = if trial.occupancy_correction < 0.0 { "−" } else { "" };
            vec![
                rate(trial.rate_mpps),
                trial.verdict.clone(),
                percent(Some(trial.loss)),
                percent(Some(trial.loss_error)),
                format!("{sign}{}", percent(Some(trial.occupancy_correction.abs()))),
                trial.latency_p99_ns.map_or(NONE.to_owned(), duration_ns),
                count(trial.frames_offered),
                duration_s(trial.window_seconds),
                duration_s(trial.simulated_seconds),
                duration_s(trial.host_seconds),
            ]
        };
        self.trials.iter().map(row).collect()
    }

    fn lines(&self, out: &mut String) {
        let (value, note) = self.answer();
        let _ = writeln!(out, "\nFrames of {} bytes: {value} Mpps ({note})\n", grouped(self.frame_size));
        let rows = self.rows();
        let heads = HEADS.map(|head| head.replace("Offered, ", ""));
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(heads[column].chars().count())
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        for row in std::iter::once(heads.as_slice()).chain(rows.iter().map(Vec::as_slice)) {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "));
        }
        let _ = writeln!(out);
        if let Some(limit) = limit::of_search(self) {
            let _ = writeln!(out, "Limit: {}.", limit.text);
        }
        let _ = writeln!(out, "{}", self.cost_lines().join("\n"));
        if !self.inversions_mpps.is_empty() {
            let rates: Vec<String> = self.inversions_mpps.iter().map(|mpps| rate(*mpps)).collect();
            let _ =
                writeln!(out, "Also met the goal, above a rate that missed it: {} Mpps.", rates.join(", "));
        }
    }

    /// The cost, one sentence per item.
    fn cost_lines(&self) -> Vec<String> {
        let cost = &self.cost;
        let trials = if cost.trials == 1 { "trial" } else { "trials" };
        let mut lines = vec![format!(
            "{} {trials}: {} simulated, {} of core time; {} elapsed.",
            cost.trials,
            duration_s(cost.simulated_seconds),
            duration_s(cost.host_seconds),
            duration_s(cost.host_seconds_elapsed)
        )];
        if cost.trials_ahead > 0 {
            let ahead = duration_s(cost.host_seconds_ahead);
            lines.push(format!(
                "{} more started speculatively and not needed: {ahead} of core time.",
                cost.trials_ahead
            ));
        }
        lines.extend(steady::trials_note(self));
        lines
    }

    fn cards(&self) -> Vec<Card> {
        let (value, note) = self.answer();
        let low = self.trials.iter().find(|trial| Some(trial.rate_mpps) == self.low_mpps);
        let latency = low.and_then(|trial| trial.latency_p99_ns).map_or(NONE.to_owned(), duration_ns);
        vec![
            Card { name: "Rate interval", value, unit: "Mpps", note },
            Card { name: "p99 at the lower end", value: latency, unit: "", note: String::new() },
            Card {
                name: "Cost",
                value: self.cost.trials.to_string(),
                unit: if self.cost.trials == 1 { "trial" } else { "trials" },
                note: self.cost_lines().join(" "),
            },
        ]
    }

    fn curves(&self, goal: f64) -> Curves {
        // The first trial is often far beyond the others, which it would compress.
        let end = self.high_mpps.map_or(f64::INFINITY, |high| 2.0 * high);
        let curve = |verdict: &str, name: &str| {
            let trials =
                self.trials.iter().filter(|trial| trial.verdict == verdict && trial.rate_mpps <= end);
            let tip = |t: &TrialSummary| {
                format!(
                    "{} Mpps: {} % lost (± {} %), {} Mpps returned",
                    rate(t.rate_mpps),
                    percent(Some(t.loss)),
                    percent(Some(t.loss_error)),
                    rate(t.delivered_mpps)
                )
            };
            let point = |t: &TrialSummary| Point {
                x: t.rate_mpps,
                y: t.loss * 100.0,
                tip: tip(t),
                interval: Some(((t.loss - t.loss_error).max(0.0) * 100.0, (t.loss + t.loss_error) * 100.0)),
            };
            let points = trials.map(point).collect();
            Curve { name: name.to_owned(), points, published: false, line: false }
        };
        Curves {
            title: "Loss against offered rate".to_owned(),
            caption: format!(
                "Loss of each trial, with its statistical error as a bar; the resulting interval is shaded. The goal is {} %. Trials at more than \
                 twice its upper end are in the data only.",
                trimmed(goal * 100.0)
            ),
            x: "Offered, Mpps".to_owned(),
            y: "Lost, % of the offered frames".to_owned(),
            log_x: true,
            log_y: false,
            is_time: false,
            names: Vec::new(),
            band: self.low_mpps.zip(self.high_mpps),
            curves: vec![
                curve("below", "meets the goal"),
                curve("above", "misses it"),
                curve("undecided", "undecided"),
            ],
        }
    }

    fn data(&self) -> Data {
        Data { heads: HEADS.map(str::to_owned).to_vec(), rows: self.rows() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
        "benchmark": "testpmd", "preset": "fast", "doorbell_version": "0", "command": "doorbell search testpmd",
        "goal": "MSB (at most 1 % lost)", "loss_goal": 0.01, "host_seconds": 2.5,
        "searches": [{
            "frame_size": 1518, "low_mpps": 4.0, "high_mpps": 4.08, "low_gbps": 48.576, "high_gbps": 49.548,
            "ended": "precise", "inversions_mpps": [6.0],
            "trials": [
                { "rate_mpps": 8.127, "verdict": "above", "frames_offered": 10000, "loss": 0.5, "loss_error": 0.001,
                  "occupancy_correction": 0.0, "window_seconds": 0.001, "simulated_seconds": 0.002,
                  "delivered_mpps": 4.06, "latency_p99_ns": null, "host_seconds": 1.0 },
                { "rate_mpps": 4.0, "verdict": "below", "frames_offered": 10000, "loss": 0.0, "loss_error": 0.0005,
                  "occupancy_correction": -0.001, "window_seconds": 0.001, "simulated_seconds": 0.002,
                  "delivered_mpps": 4.0, "latency_p99_ns": 4200.0, "host_seconds": 1.0 }
            ],
            "cost": { "trials": 2, "simulated_seconds": 0.004, "host_seconds": 2.0, "trials_ahead": 1,
                      "host_seconds_ahead": 0.5, "host_seconds_elapsed": 2.5 }
        }]
    }"#;

    #[test]
    fn goals_with_an_abbreviation_are_spelled_out() {
        assert_eq!(spelled_out("NDR (nothing lost)"), "no-drop rate, NDR (nothing lost)");
        assert_eq!(spelled_out("at most 2 % lost"), "at most 2 % lost");
    }

    #[test]
    fn the_table_shows_the_interval_each_trial_and_the_cost() {
        insta::assert_snapshot!(search_table(&SearchSummary::from_json(JSON).unwrap()), @r"
        testpmd · maximum sustainable bandwidth, MSB (at most 1 % lost) · preset fast · Doorbell 0

        Frames of 1,518 bytes: 4.000 to 4.080 Mpps (48.576 to 49.548 Gbps)

         Mpps  Verdict  Lost, %    ± %  Queues, %      p99  Frames   Window  Simulated    Host
        8.127    above   50.000  0.100      0.000        –   10.0k  1.00 ms    2.00 ms  1.00 s
        4.000    below    0.000  0.050     −0.100  4.20 µs   10.0k  1.00 ms    2.00 ms  1.00 s

        2 trials: 4.00 ms simulated, 2.00 s of core time; 2.50 s elapsed.
        1 more started speculatively and not needed: 500 ms of core time.
        Also met the goal, above a rate that missed it: 6.000 Mpps.

        2.50 s of host time in all.
        ");
    }

    #[test]
    fn searches_runs_and_damaged_files_are_distinguished() {
        assert!(SearchSummary::is_in(JSON) && !SearchSummary::is_in(crate::sample::LOADS_JSON));
        let cut = SearchSummary::from_json(&JSON[..500]).unwrap_err();
        assert!(matches!(cut, doorbell_results::SummaryError::Truncated { .. }), "{cut}");
    }

    #[test]
    fn several_sizes_start_with_the_rate_against_size_and_the_limits() {
        let mut search = SearchSummary::from_json(JSON).unwrap();
        assert!(!search_html(&search, "").contains("All frame sizes"));
        let mut other = search.searches[0].clone();
        (other.frame_size, other.low_mpps) = (64, None);
        other.trials[0].drops = Some(doorbell_results::Drops { dma: 1, core: 3, ..Default::default() });
        search.searches.push(other);
        let page = search_html(&search, "");
        let limit = "the core (receive FIFOs full for lack of descriptors): 75.0\u{a0}% of the frames lost at 8.127 Mpps";
        assert!(page.contains(&format!("<td>{limit}</td>")) && page.contains(&format!("Limit: {limit}.")));
        assert!(page.contains("<a href=\"#frames-64\">64</a></th><td>below 4.080</td>"), "{page}");
        assert!(page.contains("64 B: below 4.080 Mpps") && page.contains("href=\"#sizes\""));
        assert!(search_table(&search).contains(&format!("Limit: {limit}.")));
    }

    #[test]
    fn the_page_draws_the_trials_near_the_interval_and_has_the_data_of_all() {
        let page = search_html(&SearchSummary::from_json(JSON).unwrap(), "seed = 1");
        assert!(
            page.contains("4.000 to 4.080")
                && page.contains("<td>8.127</td>") == page.contains("<td>4.000</td>")
        );
        // Only one of the two trials is below twice the upper end.
        assert_eq!(page.matches("class=\"mark").count(), 2);
    }
}
