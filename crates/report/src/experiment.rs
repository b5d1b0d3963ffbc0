//! Report of an experiment: its plots, and a table of its points with the main figures.

use crate::figures::{Curve, Curves, Data, Figure, Ids, Point, write_figure};
use crate::html_table::HtmlTable;
use crate::number::{NONE, duration_ns, fixed, trimmed};
use crate::page::{self, PageLinks};

/// The page of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentPage {
    /// Name of the experiment.
    pub name: String,
    /// Short facts on the experiment.
    pub facts: Vec<String>,
    /// The command that created the page.
    pub command: String,
    /// Text of the experiment's file.
    pub file: String,
    /// The plots.
    pub plots: Vec<ExperimentPlot>,
    /// The points.
    pub table: ExperimentTable,
    /// Warnings, for example about missing points.
    pub warnings: Vec<String>,
    /// Links to related pages.
    pub links: PageLinks,
}

/// A plot.
#[derive(Clone, Debug, Default)]
pub struct ExperimentPlot {
    /// Title.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// Logarithmic horizontal axis.
    pub log_x: bool,
    /// Logarithmic vertical axis.
    pub log_y: bool,
    /// Whether the vertical axis is in nanoseconds, and labelled with suitable units.
    pub is_time: bool,
    /// Labels at 1, 2, 3 … of the horizontal axis, if it is not numeric.
    pub names: Vec<String>,
    /// The curves.
    pub curves: Vec<ExperimentCurve>,
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct ExperimentCurve {
    /// Name in the legend.
    pub name: String,
    /// The points; several with the same horizontal value are repetitions.
    pub points: Vec<ExperimentPoint>,
    /// Citation, for a published curve.
    pub source: Option<String>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExperimentPoint {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Interval of the vertical value, if available: of a search, or at 95 % confidence.
    pub interval: Option<(f64, f64)>,
}

/// All points of an experiment, one row each.
#[derive(Clone, Debug, Default)]
pub struct ExperimentTable {
    /// Column heads: varied parameters and figures.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<ExperimentRow>,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub struct ExperimentRow {
    /// Path of the point's page.
    pub page: String,
    /// Index of the point.
    pub index: String,
    /// One cell per head.
    pub cells: Vec<ExperimentCell>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum ExperimentCell {
    /// Empty.
    None,
    /// Text, or a value as configured.
    Text(String),
    /// A figure.
    Number(f64),
    /// A time in nanoseconds.
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
    /// The points averaged over repetitions, in ascending order: position, mean, and minimum and maximum. A
    /// single point has its interval instead.
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
    /// The page as HTML.
    pub fn html(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(String::as_str).collect();
        let mut out = page::begin_with(&self.name, "sweep", &facts, &self.links);
        page::warning(&self.warnings, &mut out);
        if !self.plots.is_empty() {
            out.push_str(&page::section("plots", "Plots"));
            out.push_str("<div class=\"figures\">\n");
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
        let note = "Every point is in table.csv and table.parquet with all its figures, one row per point, and has its own result \
                    folder. Repetitions are drawn as their mean, with bars from minimum to maximum. For a point measured \
                    once, the bar is the 95 % confidence interval or the final interval of a search.";
        page::end(&[&note], &mut out);
        out
    }
}

impl ExperimentTable {
    fn html(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        out.push_str(&page::section("points", "Points"));
        let heads = ["Point"].into_iter().chain(self.heads.iter().map(String::as_str));
        let mut table = HtmlTable::begin("Points, table", "numbers points", heads, out);
        for row in &self.rows {
            table
                .linked_name(&row.index, &row.page)
                .cells(row.cells.iter().map(ExperimentCell::text))
                .end_row();
        }
        table.end();
        out.push_str("</section>\n");
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
                // No line between categories.
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

    /// The label at a position of the horizontal axis.
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

/// Formats a number with enough digits to distinguish neighbouring values.
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
            links: PageLinks::default(),
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
    fn a_plot_without_numbers_shows_a_note() {
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
    fn a_point_measured_once_shows_its_interval_and_axis_labels_may_be_words() {
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
