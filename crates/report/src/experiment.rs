//! What a person reads of an experiment: its plots, and its points in a table with the figures that matter.

use std::fmt::Write;

use crate::escape::Esc;
use crate::figures::{Curve, Curves, Data, Figure, Ids, Point, write_figure};
use crate::number::{NONE, duration_ns, fixed, trimmed};
use crate::page::{self, Beside};

/// An experiment's page.
#[derive(Clone, Debug)]
pub struct ExperimentPage {
    /// What it is called.
    pub name: String,
    /// A few words each on what was done.
    pub facts: Vec<String>,
    /// The command that made this.
    pub command: String,
    /// The experiment's file.
    pub file: String,
    /// What is drawn.
    pub plots: Vec<ExperimentPlot>,
    /// Its points.
    pub table: ExperimentTable,
    /// What is to be said aloud, such as points that are missing.
    pub warnings: Vec<String>,
    /// What it is a part of.
    pub beside: Beside,
}

/// A plot.
#[derive(Clone, Debug, Default)]
pub struct ExperimentPlot {
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub x: String,
    /// The vertical axis.
    pub y: String,
    /// Whether equal distances are equal ratios.
    pub log_x: bool,
    /// The same.
    pub log_y: bool,
    /// Whether the vertical axis is in nanoseconds, and labelled with units that fit.
    pub is_time: bool,
    /// Words that stand at 1, 2, 3 … of the horizontal axis, where it has no numbers.
    pub names: Vec<String>,
    /// The curves.
    pub curves: Vec<ExperimentCurve>,
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct ExperimentCurve {
    /// Its name in the legend.
    pub name: String,
    /// Its points; several with the same place along the horizontal axis are repetitions.
    pub points: Vec<ExperimentPoint>,
    /// Where it was published, if it is not ours.
    pub source: Option<String>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExperimentPoint {
    /// Where it stands.
    pub x: f64,
    /// The same.
    pub y: f64,
    /// Between which values it lies, as far as it is known: of a search, or at 95 % confidence.
    pub interval: Option<(f64, f64)>,
}

/// All points of an experiment, a row each.
#[derive(Clone, Debug, Default)]
pub struct ExperimentTable {
    /// What was varied, and figures.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<ExperimentRow>,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub struct ExperimentRow {
    /// The point's page.
    pub page: String,
    /// Its number.
    pub index: String,
    /// A cell for each head.
    pub cells: Vec<ExperimentCell>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum ExperimentCell {
    /// Nothing.
    None,
    /// Words, or a value as it was given.
    Text(String),
    /// A figure.
    Number(f64),
    /// Nanoseconds.
    Time(f64),
}

impl ExperimentCell {
    fn text(&self) -> String {
        match self {
            ExperimentCell::None => NONE.to_owned(),
            ExperimentCell::Text(text) => text.clone(),
            ExperimentCell::Number(value) => number(*value),
            ExperimentCell::Time(ns) => duration_ns(*ns),
        }
    }
}

impl ExperimentCurve {
    /// The mean of the repetitions at each place, in the places' order, with their least and greatest, or of one alone its interval.
    fn means(&self) -> Vec<(f64, f64, f64, f64)> {
        let mut points = self.points.clone();
        points.retain(|point| point.x.is_finite() && point.y.is_finite());
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let mean = |run: &[ExperimentPoint]| {
            if let [ExperimentPoint { x, y, interval: Some((low, high)) }] = *run {
                return (x, y, low, high);
            }
            let heights = run.iter().map(|point| point.y);
            let (least, most) = (
                heights.clone().fold(f64::INFINITY, f64::min),
                heights.clone().fold(f64::NEG_INFINITY, f64::max),
            );
            (run[0].x, heights.sum::<f64>() / run.len() as f64, least, most)
        };
        points.chunk_by(|a, b| a.x == b.x).map(mean).collect()
    }
}

impl ExperimentPage {
    /// The page.
    pub fn html(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(String::as_str).collect();
        let mut out = page::begin_with(&self.name, "sweep", &facts, &self.beside);
        if !self.warnings.is_empty() {
            out.push_str("<div class=\"warning\" role=\"note\">\n");
            for warning in &self.warnings {
                let _ = writeln!(out, "<p>{}</p>", Esc(warning));
            }
            out.push_str("</div>\n");
        }
        if !self.plots.is_empty() {
            out.push_str(
                "<section aria-labelledby=\"plots\">\n<h2 id=\"plots\">Plots</h2>\n<div class=\"figures\">\n",
            );
        }
        for (index, plot) in self.plots.iter().enumerate() {
            let id = format!("plot-{index}");
            write_figure(&id, &Ids::of(&id), &plot.figure(&id), &self.command, &mut out);
        }
        if !self.plots.is_empty() {
            out.push_str("</div>\n</section>\n");
        }
        self.table.html(&mut out);
        page::provenance(&self.command, "The experiment's file", &self.file, &mut out);
        let note = "Every point is in table.csv and table.parquet with all its figures, a row a point, and has a result folder of \
                    its own. Repetitions are drawn as their mean; bars reach from the least to the greatest of them, or of a \
                    point that was measured once over the interval of 95 % confidence, or that in which a search ended.";
        page::end(&[&note], &mut out);
        out
    }
}

impl ExperimentTable {
    fn html(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        out.push_str(
            "<section aria-labelledby=\"points\">\n<h2 id=\"points\">Points</h2>\n\
             <div class=\"scroll\" role=\"region\" aria-label=\"Points, table\" tabindex=\"0\">\n<table class=\"numbers points\">\n\
             <thead><tr><th scope=\"col\">Point</th>",
        );
        for head in &self.heads {
            let _ = write!(out, "<th scope=\"col\">{}</th>", Esc(head));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            let (page, index) = (Esc(&row.page), Esc(&row.index));
            let _ = write!(out, "<tr><th scope=\"row\"><a href=\"{page}\">{index}</a></th>");
            for cell in &row.cells {
                let _ = write!(out, "<td>{}</td>", Esc(cell.text()));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n</section>\n");
    }
}

impl ExperimentPlot {
    pub(crate) fn figure(&self, id: &str) -> Figure {
        self.curves().figure(&Ids::of(id), self.data())
    }

    fn curves(&self) -> Curves {
        let curve = |own: &ExperimentCurve| {
            let value = |y| if self.is_time { duration_ns(y) } else { number(y) };
            let tip = |(x, y, least, most): (f64, f64, f64, f64)| {
                let spread = match least < most {
                    true => format!(" (from {} to {})", value(least), value(most)),
                    false => String::new(),
                };
                let tip = format!("{}: {} at {}{spread}", own.name, value(y), self.place(x));
                Point { x, y, tip, interval: Some((least, most)) }
            };
            Curve {
                name: own.name.clone(),
                points: own.means().into_iter().map(tip).collect(),
                published: own.source.is_some(),
                // Between words there is nothing.
                line: self.names.is_empty(),
            }
        };
        let sources = self
            .curves
            .iter()
            .filter_map(|curve| curve.source.as_ref().map(|source| format!("{}: {source}.", curve.name)));
        let caption: Vec<String> =
            [format!("{} against {}.", self.y, self.x)].into_iter().chain(sources).collect();
        Curves {
            title: self.title.clone(),
            caption: caption.join(" "),
            x: self.x.clone(),
            y: self.y.clone(),
            log_x: self.log_x,
            log_y: self.log_y,
            is_time: self.is_time,
            names: self.names.clone(),
            band: None,
            curves: self.curves.iter().map(curve).collect(),
        }
    }

    /// What stands at a place of the horizontal axis.
    fn place(&self, x: f64) -> String {
        let name = self.names.get((x as usize).wrapping_sub(1));
        name.cloned().unwrap_or_else(|| number(x))
    }

    fn data(&self) -> Data {
        let y = if self.is_time { format!("{}, ns", self.y) } else { self.y.clone() };
        let heads = [self.x.as_str(), "Curve", y.as_str(), "From", "To"];
        let rows = self.curves.iter().flat_map(|curve| {
            curve.means().into_iter().map(|(x, y, least, most)| {
                vec![self.place(x), curve.name.clone(), number(y), number(least), number(most)]
            })
        });
        Data { heads: heads.map(str::to_owned).to_vec(), rows: rows.collect() }
    }
}

/// With as many digits as it takes to tell neighbours apart.
fn number(value: f64) -> String {
    match value {
        v if v < 0.0 => format!("\u{2212}{}", number(-v)),
        v if v >= 1.0 || v == 0.0 => trimmed(v),
        v => fixed(v, 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> ExperimentPage {
        let curve = |name: &str, points: &[(f64, f64)], source: Option<&str>| ExperimentCurve {
            name: name.to_owned(),
            points: points.iter().map(|(x, y)| ExperimentPoint { x: *x, y: *y, interval: None }).collect(),
            source: source.map(str::to_owned),
        };
        ExperimentPage {
            name: "dca".into(),
            facts: vec!["testpmd".into()],
            command: "doorbell sweep dca.toml".into(),
            file: "benchmark = \"<testpmd>\"".into(),
            warnings: vec!["2 points are missing".into()],
            beside: Beside::default(),
            table: ExperimentTable {
                heads: vec!["frame_size, B".into(), "p99".into()],
                rows: vec![ExperimentRow {
                    page: "points/0a/report.html".into(),
                    index: "0".into(),
                    cells: vec![ExperimentCell::Text("64".into()), ExperimentCell::Time(2_140.0)],
                }],
            },
            plots: vec![ExperimentPlot {
                title: "MSB".into(),
                x: "frame_size".into(),
                y: "low_gbps".into(),
                log_x: true,
                log_y: false,
                is_time: false,
                names: Vec::new(),
                curves: vec![
                    curve("ours", &[(512.0, 50.0), (64.0, 10.0), (64.0, 20.0)], None),
                    curve("[G]", &[(512.0, 53.0)], Some("ISPASS 2024, figure 5")),
                ],
            }],
        }
    }

    #[test]
    fn repetitions_are_drawn_as_their_mean_in_the_order_of_the_axis() {
        assert_eq!(page().plots[0].curves[0].means(), [(64.0, 15.0, 10.0, 20.0), (512.0, 50.0, 50.0, 50.0)]);
        let html = page().html();
        assert!(html.contains("<td>15</td><td>10</td><td>20</td>"), "{html}");
    }

    #[test]
    fn a_published_curve_is_dashed_and_its_source_named() {
        let html = page().html();
        for part in ["c-core published", "ISPASS 2024, figure 5", "2 points are missing", "&lt;testpmd&gt;"] {
            assert!(html.contains(part), "{part}");
        }
        assert_eq!(html.matches("class=\"mark").count(), 3);
    }

    #[test]
    fn a_plot_without_a_number_says_so() {
        let mut page = page();
        let point = |x, y| ExperimentPoint { x, y, interval: None };
        page.plots[0]
            .curves
            .iter_mut()
            .for_each(|curve| curve.points = vec![point(0.0, 1.0), point(f64::NAN, 2.0)]);
        assert!(page.html().contains("Nothing to draw"));
    }

    #[test]
    fn a_point_is_a_row_with_a_link_to_its_page() {
        let html = page().html();
        let row = "<th scope=\"row\"><a href=\"points/0a/report.html\">0</a></th><td>64</td><td>2.14 µs</td>";
        assert!(html.contains(row), "{html}");
    }

    #[test]
    fn a_point_that_was_measured_once_has_its_own_interval_and_words_stand_along_the_axis() {
        let mut page = page();
        let plot = &mut page.plots[0];
        plot.names = vec!["pcie".into(), "occ".into()];
        (plot.log_x, plot.is_time) = (false, true);
        plot.curves.truncate(1);
        plot.curves[0].points = vec![
            ExperimentPoint { x: 1.0, y: 2000.0, interval: Some((1900.0, 2100.0)) },
            ExperimentPoint { x: 2.0, y: 1000.0, interval: None },
        ];
        let html = page.html();
        assert_eq!(html.matches("class=\"spread").count(), 1);
        assert!(html.contains("ours: 2.00 µs at pcie (from 1.90 µs to 2.10 µs)"), "{html}");
        assert!(html.contains("data-names=\"pcie\nocc\"") && html.contains("data-unit=\"time\""));
        assert!(!html.contains("<polyline class=\"line"));
    }
}
