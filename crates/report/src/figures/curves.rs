//! Curves over any two measures, as a search or an experiment asks for them.

use super::{Data, Figure, Ids};
use crate::number::trimmed;
use crate::scale::Scale;
use crate::svg::Plot;

/// Classes of as many curves as can be told apart.
const CLASSES: [&str; 8] =
    ["c-delivered", "c-core", "c-tx", "c-other", "c-dma", "c-link", "c-corrupt", "c-guest"];

/// A curve by name.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub name: String,
    /// Points in the order of a line through them, each with what a pointer resting on it reads.
    pub points: Vec<(f64, f64, String)>,
    /// Somebody else's: drawn dashed.
    pub published: bool,
    /// Whether there is a line through the points.
    pub line: bool,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub title: String,
    pub caption: String,
    pub x: String,
    pub y: String,
    pub log_x: bool,
    pub log_y: bool,
    /// A part of the horizontal axis to mark.
    pub band: Option<(f64, f64)>,
    pub curves: Vec<Curve>,
}

impl Curves {
    /// The figure.
    pub fn figure(self, ids: &Ids, data: Data) -> Figure {
        let drawn = |point: &&(f64, f64, String)| {
            point.0.is_finite()
                && point.1.is_finite()
                && (!self.log_x || point.0 > 0.0)
                && (!self.log_y || point.1 > 0.0)
        };
        let all = || self.curves.iter().flat_map(|curve| curve.points.iter()).filter(drawn);
        let legend = self.curves.iter().enumerate().filter(|_| self.curves.len() > 1);
        let legend = legend.map(|(index, curve)| (class(index, curve), curve.name.clone())).collect();
        if all().next().is_none() {
            let caption = format!("{} Nothing that can be drawn on these axes was measured.", self.caption);
            return Figure { title: self.title, caption, legend, svg: None, data };
        }
        let scale = |values: Vec<f64>, log: bool| match log {
            true => Scale::log(&values),
            false => Scale::linear(values.into_iter().fold(0.0, f64::max), 5),
        };
        let x = scale(all().map(|point| point.0).collect(), self.log_x);
        let y = scale(all().map(|point| point.1).collect(), self.log_y);
        let mut plot = Plot::new(x, y, 56.0, 24.0);
        plot.y_axis(&self.y, label);
        if let Some((from, to)) = self.band {
            let (left, right) = (plot.x(from), plot.x(to));
            let box_ = [left, plot.top(), (right - left).max(1.0), plot.floor() - plot.top()];
            plot.svg.bar(box_, "loss", &format!("{} to {}", trimmed(from), trimmed(to)));
        }
        plot.x_axis(&self.x, label);
        for (index, curve) in self.curves.iter().enumerate() {
            let class = class(index, curve);
            let points: Vec<&(f64, f64, String)> = curve.points.iter().filter(drawn).collect();
            let path: Vec<(f64, f64)> = points.iter().map(|point| (point.0, point.1)).collect();
            if curve.line && path.len() > 1 {
                plot.line(&path, &class);
            }
            points.iter().for_each(|(x, y, tip)| plot.mark((*x, *y), &class, tip));
        }
        let svg = Some(plot.svg.finish(&ids.title, &ids.caption));
        Figure { title: self.title, caption: self.caption, legend, svg, data }
    }
}

fn class(index: usize, curve: &Curve) -> String {
    let own = CLASSES[index % CLASSES.len()];
    if curve.published { format!("{own} published") } else { own.to_owned() }
}

/// Small values keep their digits, large ones have few, so that they stand beside the axis.
fn label(value: f64) -> String {
    match value.abs() {
        0.0 => trimmed(value),
        small if small < 0.001 => format!("{value:e}"),
        large if large >= 1e7 => format!("{} M", trimmed(value / 1e6)),
        large if large >= 1e4 => format!("{} k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}
