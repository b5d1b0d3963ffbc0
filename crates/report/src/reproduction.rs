//! Report of a reproduced paper: each claim with the measured value, then the plots of each figure. As a
//! page, and as text for a document.

use std::fmt::Write;

use crate::escape::{Esc, Prose};
use crate::experiment::ExperimentPlot;
use crate::figures::{Ids, write_figure};
use crate::html_table::HtmlTable;
use crate::number::trimmed;
use crate::page;

/// A reproduced paper.
#[derive(Clone, Debug)]
pub struct ReproductionPage {
    /// Name of the study.
    pub name: String,
    /// Short facts on the run.
    pub facts: Vec<String>,
    /// The command that created the page.
    pub command: String,
    /// The figures.
    pub figures: Vec<ReproducedFigure>,
    /// Warnings, for example about missing points.
    pub warnings: Vec<String>,
}

/// A figure.
#[derive(Clone, Debug, Default)]
pub struct ReproducedFigure {
    /// Name on the command line.
    pub name: String,
    /// Title.
    pub title: String,
    /// Description of the measurement.
    pub about: String,
    /// The paper's claims and their verdicts.
    pub claims: Vec<ClaimRow>,
    /// The plots.
    pub plots: Vec<ExperimentPlot>,
    /// The parts: name, and path of the page with all points.
    pub parts: Vec<(String, String)>,
}

/// A claim.
#[derive(Clone, Debug, Default)]
pub struct ClaimRow {
    /// The claim.
    pub says: String,
    /// The paper's number.
    pub paper: Option<f64>,
    /// Our value.
    pub ours: Option<f64>,
    /// Interval in which our value confirms the claim.
    pub interval: Option<[f64; 2]>,
    /// Unit of these numbers.
    pub unit: String,
    /// The verdict in a word or two.
    pub verdict: String,
    /// The reason.
    pub why: String,
    /// Source of the claim.
    pub source: String,
}

const HEADS: [&str; 7] = ["Claim", "Paper", "Here", "Confirmed from – to", "Verdict", "Why", "Read in"];
/// Number of significant digits of our values and of intervals.
const DIGITS: i32 = 3;

impl ClaimRow {
    fn cells(&self) -> [String; 7] {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| self.number(value));
        let interval = self.interval.map(|interval| interval.map(|bound| signed(bound, self.is_gain())));
        let interval = interval.map_or_else(|| "–".to_owned(), |[from, to]| format!("{from} – {to}"));
        let [says, verdict, why, source] =
            [&self.says, &self.verdict, &self.why, &self.source].map(Clone::clone);
        [says, number(self.paper), number(self.ours), interval, verdict, why, source]
    }

    fn json(&self) -> serde_json::Value {
        let ClaimRow { says, paper, ours, interval, unit, verdict, why, source } = self;
        serde_json::json!({
            "says": says, "paper": paper, "ours": ours, "interval": interval, "unit": unit, "verdict": verdict,
            "why": why, "source": source,
        })
    }

    /// The claim with its numbers, on one line.
    pub fn in_words(&self) -> String {
        let number = |name: &str, value: Option<f64>| {
            value.map_or_else(String::new, |value| format!("; {name} {}", self.number(value)))
        };
        let interval =
            self.interval.filter(|_| self.ours.is_some()).map_or_else(String::new, |[from, to]| {
                let gain = self.is_gain();
                format!("; confirmed from {} to {}", signed(from, gain), signed(to, gain))
            });
        format!("{}{}{}{interval}", self.says, number("paper", self.paper), number("here", self.ours))
    }

    /// Formats a number with its unit; a gain has a sign.
    fn number(&self, value: f64) -> String {
        format!("{} {}", signed(value, self.is_gain()), self.unit).trim_end().to_owned()
    }

    fn is_gain(&self) -> bool {
        self.unit == "%"
    }
}

fn signed(value: f64, with_plus: bool) -> String {
    let sign = match (value < 0.0, with_plus) {
        (true, _) => "−",
        (false, true) => "+",
        (false, false) => "",
    };
    format!("{sign}{}", trimmed(rounded(value.abs())))
}

/// Rounds to [`DIGITS`] significant digits, but at least to whole numbers.
fn rounded(value: f64) -> f64 {
    if value < f64::MIN_POSITIVE || !value.is_finite() {
        return value;
    }
    let whole = value.log10().floor() as i32 + 1;
    let factor = 10f64.powi((DIGITS - whole).clamp(0, 300));
    (value * factor).round() / factor
}

impl ReproductionPage {
    /// Number of claims per verdict, in order of appearance.
    fn tally(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for claim in self.figures.iter().flat_map(|figure| &figure.claims) {
            match counts.iter_mut().find(|(verdict, _)| *verdict == claim.verdict) {
                Some((_, count)) => *count += 1,
                None => counts.push((&claim.verdict, 1)),
            }
        }
        if counts.is_empty() {
            return "The study's files contain no claims.".to_owned();
        }
        let words = counts.iter().map(|count| match count {
            ("differs", 2..) => format!("{} differ", count.1),
            (verdict, count) => format!("{count} {verdict}"),
        });
        format!("Claims: {}.", words.collect::<Vec<_>>().join(", "))
    }

    /// The page as HTML.
    pub fn html(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(String::as_str).collect();
        let mut out = page::begin(&self.name, "reproduction", &facts);
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", Esc(&self.tally()));
        page::warning(&self.warnings, &mut out);
        for figure in &self.figures {
            self.write_section(figure, &mut out);
        }
        let what = "The measurements of each figure are defined in its file in experiments/; its points are in the result folder.";
        page::provenance(&self.command, "Method", what, &mut out);
        page::end(&[&"A claim is confirmed if our number is in the interval that its file gives."], &mut out);
        out
    }

    fn write_section(&self, figure: &ReproducedFigure, out: &mut String) {
        out.push_str(&page::section(&figure.name, &format!("{}: {}", figure.name, figure.title)));
        let _ = writeln!(out, "<p>{}</p>", Esc(&figure.about));
        if !figure.claims.is_empty() {
            let label = format!("Claims of {}", figure.name);
            let mut table = HtmlTable::begin(label, "numbers claims", HEADS, out);
            for claim in &figure.claims {
                let [says, rest @ ..] = claim.cells();
                table.name(&says).html(rest.iter().map(|cell| Prose(cell))).end_row();
            }
            table.end();
        }
        if !figure.parts.is_empty() {
            let link =
                |(name, page): &(String, String)| format!("<a href=\"{}\">{}</a>", Esc(page), Esc(name));
            let links: Vec<String> = figure.parts.iter().map(link).collect();
            let _ = writeln!(out, "<p class=\"facts\">All points: {}.</p>", links.join(", "));
        }
        if figure.plots.is_empty() {
            out.push_str("</section>\n");
            return;
        }
        out.push_str("<div class=\"figures\">\n");
        for (index, plot) in figure.plots.iter().enumerate() {
            let id = format!("{}-{index}", figure.name);
            write_figure(&id, &Ids::of(&id), &plot.figure(&id), &self.command, out);
        }
        out.push_str("</div>\n</section>\n");
    }

    /// The claims as JSON, by figure, without rounding.
    pub fn json(&self) -> String {
        let claims = |figure: &ReproducedFigure| figure.claims.iter().map(ClaimRow::json).collect::<Vec<_>>();
        let figures: serde_json::Map<_, _> =
            self.figures.iter().map(|figure| (figure.name.clone(), claims(figure).into())).collect();
        let page = serde_json::json!({ "study": self.name, "command": self.command, "figures": figures });
        serde_json::to_string_pretty(&page).expect("all map keys are strings") + "\n"
    }

    /// The claims as a document in Markdown.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "# {}\n\nMade by `{}`: {}.\n\n{}\n",
            self.name,
            self.command,
            self.facts.join(", "),
            self.tally()
        );
        for warning in &self.warnings {
            let _ = writeln!(out, "\n{warning}");
        }
        for figure in &self.figures {
            let _ = write!(out, "\n## {}: {}\n\n{}\n", figure.name, figure.title, figure.about.trim());
            if figure.claims.is_empty() {
                continue;
            }
            let _ = write!(out, "\n| {} |\n|{}\n", HEADS.join(" | "), "---|".repeat(HEADS.len()));
            for claim in &figure.claims {
                let cells = claim.cells().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> ReproductionPage {
        let claim = |says: &str, paper, ours, unit: &str, verdict: &str, why: &str| ClaimRow {
            says: says.into(),
            paper,
            ours,
            interval: paper.map(|paper: f64| [paper * 0.8, paper * 1.2]),
            unit: unit.into(),
            verdict: verdict.into(),
            why: why.into(),
            source: "p. 5".into(),
        };
        ReproductionPage {
            name: "A paper".into(),
            facts: vec!["quick".into()],
            command: "doorbell reproduce paper".into(),
            warnings: Vec::new(),
            figures: vec![ReproducedFigure {
                name: "fig14".into(),
                title: "DCA <on> and off".into(),
                about: "The effect of DCA.".into(),
                claims: vec![
                    claim("more", Some(96.3), Some(-2.5), "%", "differs", "the | engine"),
                    claim("about 53", Some(53.0), Some(52.0), "Gbps", "confirmed", ""),
                    claim("on silicon", None, None, "", "not testable", "no silicon"),
                ],
                plots: Vec::new(),
                parts: vec![("with & without".into(), "fig14/with/report.html".into())],
            }],
        }
    }

    #[test]
    fn claims_are_tabulated_and_counted_in_markdown() {
        let text = page().markdown();
        assert!(text.contains("Claims: 1 differs, 1 confirmed, 1 not testable."), "{text}");
        assert!(
            text.contains("| more | +96.3 % | −2.5 % | +77 – +116 | differs | the \\| engine | p. 5 |"),
            "{text}"
        );
        assert!(
            text.contains("| about 53 | 53 Gbps | 52 Gbps | 42.4 – 63.6 | confirmed |  | p. 5 |"),
            "{text}"
        );
        assert!(text.contains("| on silicon | – | – | – | not testable | no silicon | p. 5 |"), "{text}");
    }

    #[test]
    fn numbers_have_three_digits_and_whole_numbers_all_digits() {
        let rounds = [
            (0.0, 0.0),
            (0.012345, 0.0123),
            (9.996, 10.0),
            (77.04, 77.0),
            (5980.4, 5980.0),
            (1e-320, 1e-320),
        ];
        rounds.iter().for_each(|(value, expected)| assert_eq!(rounded(*value), *expected));
        assert!(rounded(f64::INFINITY).is_infinite());
    }

    #[test]
    fn claims_are_exported_as_json_with_their_numbers() {
        let json: serde_json::Value = serde_json::from_str(&page().json()).unwrap();
        let claim = &json["figures"]["fig14"][0];
        assert_eq!((claim["paper"].as_f64(), claim["verdict"].as_str()), (Some(96.3), Some("differs")));
        assert!(json["figures"]["fig14"][2]["ours"].is_null());
    }

    #[test]
    fn the_page_has_a_row_per_claim_and_no_raw_markup() {
        let html = page().html();
        assert_eq!(html.matches("<th scope=\"row\">").count(), 3);
        assert!(html.contains("All points: <a href=\"fig14/with/report.html\">with &amp; without</a>."));
        assert!(html.contains("DCA &lt;on&gt; and off") && !html.contains("DCA <on>"));
    }
}
