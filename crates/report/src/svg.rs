//! A plot as inline SVG: a frame with axes, and marks in the units of its scales. Colours, weights and fonts
//! are CSS classes defined in the page's style sheet, so that one drawing serves light, dark and print.
//!
//! The drawing is [`WIDTH`] by [`HEIGHT`] units, narrow enough that its text stays legible when a phone
//! scales it down.

use std::fmt::{Display, Write};

use crate::escape::Esc;
use crate::scale::{Scale, Tick};

/// Width of every plot, in SVG units.
pub(crate) const WIDTH: f64 = 480.0;
/// Height of a plot with two axes.
pub(crate) const HEIGHT: f64 = 300.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
/// Approximate width of a digit on a phone, where characters are larger.
const LETTER_WIDTH: f64 = 9.5;

/// Which end of a text is at its position.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// A drawing under construction.
pub(crate) struct Svg {
    height: f64,
    /// Attributes read by the page's script.
    script_attributes: String,
    body: String,
}

impl Svg {
    /// An empty drawing.
    pub fn new(height: f64) -> Svg {
        Svg { height, script_attributes: String::new(), body: String::new() }
    }

    /// A rectangle with a tooltip.
    pub fn bar(&mut self, [x, y, width, height]: [f64; 4], class: &str, tip: &str) {
        let _ = writeln!(
            self.body,
            "<rect class=\"bar {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
             <title>{}</title></rect>",
            Esc(tip)
        );
    }

    /// A text.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: impl Display) {
        let anchor = anchor.name();
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            Esc(text)
        );
    }

    /// A straight line.
    pub fn rule(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, class: &str) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// The complete element, named and described by the elements with these identifiers.
    pub fn finish(self, title_id: &str, description_id: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\" aria-labelledby=\"{}\" aria-describedby=\"{}\"{}>\n{}</svg>\n",
            self.height,
            Esc(title_id),
            Esc(description_id),
            self.script_attributes,
            self.body
        )
    }
}

/// A drawing with two axes. Its marks carry their values, which the page's script uses to zoom
/// (`script/plot.js`).
pub(crate) struct Plot {
    pub svg: Svg,
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    /// Whether the vertical axis is a time in nanoseconds.
    is_time: bool,
    /// Labels at 1, 2, 3 … of the horizontal axis, if it is not numeric.
    names: Vec<String>,
}

impl Plot {
    /// A plot without axes, with `left` and `right` units reserved for labels.
    pub fn new(x: Scale, y: Scale, left: f64, right: f64) -> Plot {
        Plot { svg: Svg::new(HEIGHT), x, y, left, right, is_time: false, names: Vec::new() }
    }

    /// Makes the vertical axis a time in nanoseconds.
    pub fn of_time(self) -> Plot {
        Plot { is_time: true, ..self }
    }

    /// Sets the labels at 1, 2, 3 … of the horizontal axis.
    pub fn named(self, names: &[String]) -> Plot {
        Plot { names: names.to_vec(), ..self }
    }

    /// Position of a value on the horizontal axis.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * self.inner_width()
    }

    /// Position of a value on the vertical axis.
    pub fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// Width between the axes' ends.
    pub fn inner_width(&self) -> f64 {
        WIDTH - self.left - self.right
    }

    /// The right end of the horizontal axis.
    pub fn end(&self) -> f64 {
        WIDTH - self.right
    }

    /// The upper end of the vertical axis.
    pub fn top(&self) -> f64 {
        TOP
    }

    /// Position of the horizontal axis.
    pub fn floor(&self) -> f64 {
        HEIGHT - BOTTOM
    }

    /// Grid lines, their labels, and the axis's title above them.
    pub fn y_axis(&mut self, title: &str, label: impl Fn(f64) -> String) {
        self.svg.text(0.0, 14.0, Anchor::Start, "axis-title", title);
        self.svg.body.push_str("<g class=\"axis-y\">\n");
        for Tick { value, label } in self.y.ticks(label) {
            let y = self.y(value);
            self.svg.rule(self.left, y, self.end(), y, "grid");
            self.svg.text(self.left - 8.0, y + 4.5, Anchor::End, "tick", label);
        }
        self.svg.body.push_str("</g>\n");
    }

    /// Ticks, their labels, and the axis's title below them.
    pub fn x_axis(&mut self, title: &str, label: impl Fn(f64) -> String) {
        self.svg.body.push_str("<g class=\"axis-x\">\n");
        for Tick { value, label } in self.x_ticks(label) {
            let x = self.x(value);
            self.svg.rule(x, self.floor(), x, self.floor() + 4.0, "axis");
            // A long label at the end of the axis must not exceed the drawing.
            let reach = x + LETTER_WIDTH * label.chars().count() as f64 / 2.0;
            let (x, anchor) = if reach > WIDTH { (WIDTH, Anchor::End) } else { (x, Anchor::Middle) };
            self.svg.text(x, self.floor() + 19.0, anchor, "tick", label);
        }
        self.svg.body.push_str("</g>\n");
        self.x_line(title);
    }

    fn x_ticks(&self, label: impl Fn(f64) -> String) -> Vec<Tick> {
        if self.names.is_empty() {
            return self.x.ticks(label);
        }
        // Maximum number of characters without overlapping the neighbouring label.
        let apart = self.inner_width() / (self.names.len() + 1) as f64;
        let room = ((apart / LETTER_WIDTH) as usize).max(3);
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| Tick { value: (index + 1) as f64, label: cut(name, room) }).collect()
    }

    /// The horizontal axis without ticks.
    pub fn x_line(&mut self, title: &str) {
        let floor = self.floor();
        self.svg.rule(self.left, floor, self.end(), floor, "axis");
        self.svg.text(self.end(), HEIGHT - 6.0, Anchor::End, "axis-title", title);
    }

    /// A line through points given in the axes' units.
    pub fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let (path, values) = (self.path(points), values(points));
        let _ = writeln!(
            self.svg.body,
            "<polyline class=\"line {class}\" points=\"{path}\" data-p=\"{values}\"/>"
        );
    }

    /// A filled outline through points given in the axes' units.
    pub fn area(&mut self, outline: &[(f64, f64)], class: &str) {
        let (path, values) = (self.path(outline), values(outline));
        let _ = writeln!(self.svg.body, "<polygon class=\"{class}\" points=\"{path}\" data-p=\"{values}\"/>");
    }

    /// The interval of a point's value.
    pub fn interval(&mut self, x: f64, low: f64, high: f64, class: &str) {
        let ends = [(x, low), (x, high)];
        let (path, values) = (self.path(&ends), values(&ends));
        let _ = writeln!(
            self.svg.body,
            "<polyline class=\"spread {class}\" points=\"{path}\" data-p=\"{values}\"/>"
        );
    }

    /// A range of the horizontal axis, over the full height.
    pub fn band(&mut self, from: f64, to: f64, class: &str, tip: &str) {
        let (left, top, floor) = (self.x(from), self.top(), self.floor());
        let width = (self.x(to) - left).max(1.0);
        let ends = values(&[(from, 0.0), (to, 0.0)]);
        let _ = writeln!(
            self.svg.body,
            "<rect class=\"band {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
             data-p=\"{ends}\"><title>{}</title></rect>",
            floor - top,
            Esc(tip)
        );
    }

    /// A point with a tooltip.
    pub fn mark(&mut self, at: (f64, f64), class: &str, tip: &str) {
        let (x, y, values) = (self.x(at.0), self.y(at.1), values(&[at]));
        let _ = writeln!(
            self.svg.body,
            "<g class=\"mark {class}\" data-p=\"{values}\"><title>{}</title>\
             <circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"10\"/>\
             <circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/></g>",
            Esc(tip)
        );
    }

    /// The complete element, named and described by the elements with these identifiers. The position of the
    /// axes is passed to the script.
    pub fn finish(mut self, title_id: &str, description_id: &str) -> String {
        let [left, right, top, floor] = [self.left, self.end(), self.top(), self.floor()];
        let _ = write!(
            self.svg.script_attributes,
            " data-box=\"{left:.0} {right:.0} {top:.0} {floor:.0}\" data-x=\"{}\" data-y=\"{}\"",
            self.x, self.y
        );
        if self.is_time {
            self.svg.script_attributes.push_str(" data-unit=\"time\"");
        }
        if !self.names.is_empty() {
            let _ = write!(self.svg.script_attributes, " data-names=\"{}\"", Esc(self.names.join("\n")));
        }
        self.svg.finish(title_id, description_id)
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let places: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        places.join(" ")
    }
}

/// Points in the format of the script.
fn values(points: &[(f64, f64)]) -> String {
    let values: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", exact(*x), exact(*y))).collect();
    values.join(" ")
}

/// Rounds a number to more digits than a drawing can show.
pub(crate) fn exact(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// Truncates a text to the available number of characters.
fn cut(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Moves labels apart to at least `gap` with the least movement, keeping their order (`wanted` ascends), with
/// none below `lowest`.
pub(crate) fn spread(wanted: &[f64], gap: f64, lowest: f64) -> Vec<f64> {
    // With its share of the gaps subtracted, each position only has to be non-descending. Positions that
    // descend are replaced by their mean.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (index, place) in wanted.iter().enumerate() {
        let mut block = (place - gap * index as f64, 1);
        while let Some(before) = blocks.pop_if(|before| before.0 > block.0) {
            let count = before.1 + block.1;
            block = ((before.0 * before.1 as f64 + block.0 * block.1 as f64) / count as f64, count);
        }
        blocks.push(block);
    }
    let apart = blocks.into_iter().flat_map(|(place, count)| std::iter::repeat_n(place, count));
    let last = wanted.len().saturating_sub(1);
    apart
        .enumerate()
        .map(|(n, place)| (place + gap * n as f64).min(lowest - gap * (last - n) as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::trimmed;

    #[test]
    fn the_ends_of_the_axes_are_the_corners_of_the_plot() {
        let plot = Plot::new(Scale::linear(10.0, 5), Scale::linear(4.0, 4), 50.0, 20.0);
        assert_eq!((plot.x(0.0), plot.x(10.0)), (50.0, 460.0));
        assert_eq!((plot.y(0.0), plot.y(4.0)), (254.0, 34.0));
        assert_eq!((plot.x(5.0), plot.y(2.0)), (255.0, 144.0));
    }

    #[test]
    fn an_axis_draws_a_line_and_a_label_per_tick() {
        let mut plot = Plot::new(Scale::linear(10.0, 5), Scale::linear(4.0, 4), 50.0, 20.0);
        plot.y_axis("Things", trimmed);
        let svg = plot.svg.finish("t", "d");
        assert_eq!(svg.matches("class=\"grid\"").count(), 5);
        assert_eq!(svg.matches("class=\"tick\"").count(), 5);
        assert!(svg.contains("aria-labelledby=\"t\" aria-describedby=\"d\""));
    }

    #[test]
    fn tooltips_are_escaped() {
        let mut svg = Svg::new(100.0);
        svg.bar([0.0, 0.0, 1.0, 1.0], "c-dma", "</title><script>");
        svg.text(0.0, 0.0, Anchor::Start, "tick", "<b>");
        let text = svg.finish("t", "d");
        assert!(text.contains("&lt;/title&gt;&lt;script&gt;") && text.contains("&lt;b&gt;"), "{text}");
    }

    #[test]
    fn overlapping_labels_are_moved_apart_minimally() {
        assert_eq!(spread(&[10.0, 50.0, 90.0], 15.0, 200.0), [10.0, 50.0, 90.0]);
        assert_eq!(spread(&[49.0, 50.0, 51.0], 15.0, 200.0), [35.0, 50.0, 65.0]);
        assert_eq!(spread(&[10.0, 50.0, 50.0], 10.0, 200.0), [10.0, 45.0, 55.0]);
        assert_eq!(spread(&[98.0, 99.0], 15.0, 90.0), [75.0, 90.0]);
        assert_eq!(spread(&[], 15.0, 90.0), [0.0; 0]);
    }
}
