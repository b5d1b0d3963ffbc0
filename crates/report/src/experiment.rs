//! What a person reads of an experiment: its plots, and where its table is.

use std::fmt::Write;

use crate::escape::Esc;
use crate::figures::{Curve, Curves, Data, Figure, Ids, Point, write_figure};
use crate::number::trimmed;
use crate::page;

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
    /// What is to be said aloud, such as points that are missing.
    pub warnings: Vec<String>,
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
    /// The curves.
    pub curves: Vec<ExperimentCurve>,
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct ExperimentCurve {
    /// Its name in the legend.
    pub name: String,
    /// Its points; several with the same place along the horizontal axis are repetitions.
    pub points: Vec<(f64, f64)>,
    /// Where it was published, if it is not ours.
    pub source: Option<String>,
}

impl ExperimentCurve {
    /// The mean of the repetitions at each place, in the places' order, with their least and greatest.
    fn means(&self) -> Vec<(f64, f64, f64, f64)> {
        let mut points = self.points.clone();
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mean = |run: &[(f64, f64)]| {
            let heights = run.iter().map(|point| point.1);
            let (least, most) = (
                heights.clone().fold(f64::INFINITY, f64::min),
                heights.clone().fold(f64::NEG_INFINITY, f64::max),
            );
            (run[0].0, heights.sum::<f64>() / run.len() as f64, least, most)
        };
        points.chunk_by(|a, b| a.0 == b.0).map(mean).collect()
    }
}

impl ExperimentPage {
    /// The page.
    pub fn html(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(String::as_str).collect();
        let mut out = page::begin(&self.name, "sweep", &facts);
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
        page::provenance(&self.command, "The experiment's file", &self.file, &mut out);
        let note = "Every point is in table.csv and table.parquet, a row a point, and has a result folder of its own. \
                    Repetitions are drawn as their mean.";
        page::end(&[&note], &mut out);
        out
    }
}

impl ExperimentPlot {
    pub(crate) fn figure(&self, id: &str) -> Figure {
        self.curves().figure(&Ids::of(id), self.data())
    }

    fn curves(&self) -> Curves {
        let curve = |own: &ExperimentCurve| {
            let tip = |(x, y, least, most): (f64, f64, f64, f64)| {
                let spread = if least < most { format!(" (from {least} to {most})") } else { String::new() };
                let tip = format!("{}: {} at {}{spread}", own.name, number(y), number(x));
                Point { x, y, tip, interval: Some((least, most)) }
            };
            Curve {
                name: own.name.clone(),
                points: own.means().into_iter().map(tip).collect(),
                published: own.source.is_some(),
                line: true,
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
            names: Vec::new(),
            band: None,
            curves: self.curves.iter().map(curve).collect(),
        }
    }

    fn data(&self) -> Data {
        let heads = [self.x.as_str(), "Curve", self.y.as_str(), "Least", "Greatest"];
        let rows = self.curves.iter().flat_map(|curve| {
            curve.means().into_iter().map(|(x, y, least, most)| {
                vec![number(x), curve.name.clone(), number(y), number(least), number(most)]
            })
        });
        Data { heads: heads.map(str::to_owned).to_vec(), rows: rows.collect() }
    }
}

/// With as many digits as it takes to tell neighbours apart.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 1.0 => trimmed(v),
        v => format!("{v:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> ExperimentPage {
        let curve = |name: &str, points: &[(f64, f64)], source: Option<&str>| ExperimentCurve {
            name: name.to_owned(),
            points: points.to_vec(),
            source: source.map(str::to_owned),
        };
        ExperimentPage {
            name: "dca".into(),
            facts: vec!["testpmd".into()],
            command: "doorbell sweep dca.toml".into(),
            file: "benchmark = \"<testpmd>\"".into(),
            warnings: vec!["2 points are missing".into()],
            plots: vec![ExperimentPlot {
                title: "MSB".into(),
                x: "frame_size".into(),
                y: "low_gbps".into(),
                log_x: true,
                log_y: false,
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
        page.plots[0].curves.iter_mut().for_each(|curve| curve.points = vec![(0.0, 1.0), (f64::NAN, 2.0)]);
        assert!(page.html().contains("Nothing to draw"));
    }
}
