//! A flame graph of call stacks. The width of a call is its share of the cycles, including the functions it
//! calls. Made from the folded stacks of a run with `--profile`. Widths are relative to the figure, so that
//! text keeps its size on any screen.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Data, Figure, Ids};
use crate::escape::Esc;
use crate::number::{fixed, grouped, percent_label};

/// Height of a call, in pixels.
const ROW: usize = 20;
/// Minimum share of a call to be drawn. Smaller ones are not visible, and would be most of the page.
const SHARE_MIN: f64 = 0.001;
/// Minimum width of a call to show its name, in percent of the figure's width.
const NAMED_MIN: f64 = 1.5;
/// Number of rows in the data table; `functions.folded` has all stacks.
const ROWS: usize = 40;
/// CSS classes of programs.
const CLASSES: [&str; 6] = ["c-dma", "c-delivered", "c-tx", "c-core", "c-other", "c-corrupt"];

/// Cycles spent at a position in a stack, including its calls.
#[derive(Default)]
struct Call {
    cycles: u64,
    calls: BTreeMap<String, Call>,
}

impl Call {
    fn of(folded: &str) -> Call {
        let mut all = Call::default();
        for line in folded.lines() {
            let Some((stack, cycles)) = line.rsplit_once(' ') else { continue };
            let Ok(cycles) = cycles.parse::<u64>() else { continue };
            all.cycles += cycles;
            let mut place = &mut all;
            for name in stack.split(';') {
                place = place.calls.entry(name.to_owned()).or_default();
                place.cycles += cycles;
            }
        }
        all
    }

    /// Height of the stack of drawn calls.
    fn depth(&self, least: u64) -> usize {
        let drawn = self.calls.values().filter(|call| call.cycles >= least);
        drawn.map(|call| 1 + call.depth(least)).max().unwrap_or(0)
    }
}

/// The figure; `None` if no cycles were counted.
pub(crate) fn figure(ids: &Ids, whose: &str, folded: &str) -> Option<Figure> {
    let all = Call::of(folded);
    if all.cycles == 0 {
        return None;
    }
    let least = ((all.cycles as f64 * SHARE_MIN) as u64).max(1);
    let height = all.depth(least) * ROW;
    let mut drawing = Drawing { all: all.cycles, least, height, body: String::new() };
    drawing.calls(&all, 0.0, 0, "");
    let svg = format!(
        "<svg class=\"flame\" width=\"100%\" height=\"{height}\" role=\"img\" aria-labelledby=\"{}\" aria-describedby=\"{}\">\n{}</svg>\n",
        Esc(&ids.title),
        Esc(&ids.caption),
        drawing.body
    );
    let mut stacks: Vec<(&str, u64)> = folded
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(stack, cycles)| Some((stack, cycles.parse().ok()?)))
        .collect();
    // A stable sort keeps the order of the file for equal counts.
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.1));
    let row = |(stack, cycles): &(&str, u64)| {
        vec![
            stack.replace(';', " › "),
            grouped(*cycles),
            fixed(100.0 * *cycles as f64 / all.cycles as f64, 2),
        ]
    };
    Some(Figure {
        title: if whose.is_empty() { "Calls".to_owned() } else { format!("Calls, {whose}") },
        caption: format!(
            "Callers and callees, with the programs at the bottom. The width of a call is its share of the {} cycles, with \
             those of its callees. Calls below {} are left out; functions.folded has all.",
            grouped(all.cycles),
            percent_label(SHARE_MIN)
        ),
        legend: Vec::new(),
        svg: Some(svg),
        data: Data {
            heads: ["Stack", "Cycles of its own", "Share, %"].map(str::to_owned).to_vec(),
            rows: stacks.iter().take(ROWS).map(row).collect(),
        },
    })
}

struct Drawing {
    all: u64,
    least: u64,
    height: usize,
    body: String,
}

impl Drawing {
    /// Draws what is called at a place that begins at `left` percent, `depth` calls above the bottom.
    fn calls(&mut self, place: &Call, mut left: f64, depth: usize, class: &str) {
        for (index, (name, call)) in place.calls.iter().enumerate() {
            let width = 100.0 * call.cycles as f64 / self.all as f64;
            if call.cycles >= self.least {
                let class = if class.is_empty() { CLASSES[index % CLASSES.len()] } else { class };
                self.call(name, call, left, width, depth, class);
                self.calls(call, left, depth + 1, class);
            }
            left += width;
        }
    }

    fn call(&mut self, name: &str, call: &Call, left: f64, width: f64, depth: usize, class: &str) {
        let (y, shade) = (self.height - (depth + 1) * ROW, if depth.is_multiple_of(2) { "" } else { " odd" });
        let own = call.cycles - call.calls.values().map(|callee| callee.cycles).sum::<u64>();
        let share = |cycles: u64| percent_label(cycles as f64 / self.all as f64);
        let (whole, own) = (share(call.cycles), share(own));
        let (cycles, high) = (grouped(call.cycles), ROW - 1);
        let _ = write!(
            self.body,
            "<svg class=\"call {class}{shade}\" x=\"{left:.3}%\" y=\"{y}\" width=\"{width:.3}%\" height=\"{high}\" \
             data-at=\"{left:.3} {width:.3}\"><title>{}: {whole}, {cycles} cycles; {own} its own</title>\
             <rect width=\"100%\" height=\"100%\"/>",
            Esc(name)
        );
        if width >= NAMED_MIN {
            let _ = write!(self.body, "<text x=\"4\" y=\"14\">{}</text>", Esc(name));
        }
        self.body.push_str("</svg>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: &str =
        "init;main 10\ninit;main;f<T> 60\ninit;main;g 30\nkernel;idle 99900\nkernel 0\nbroken\n";

    #[test]
    fn a_call_is_as_wide_as_its_share_and_above_its_caller() {
        let figure = figure(&Ids::of("flame"), "", &FOLDED.replace("99900", "100")).expect("cycles");
        let svg = figure.svg.expect("a drawing");
        assert!(svg.contains("height=\"60\""), "three calls deep: {svg}");
        assert!(svg.contains("x=\"0.000%\" y=\"40\" width=\"50.000%\""), "init: {svg}");
        assert!(svg.contains("x=\"0.000%\" y=\"0\" width=\"30.000%\""), "f: {svg}");
        assert!(svg.contains("f&lt;T&gt;: 30.0\u{a0}%, 60 cycles; 30.0\u{a0}% its own"), "{svg}");
        assert!(svg.contains("main: 50.0\u{a0}%, 100 cycles; 5.00\u{a0}% its own"), "{svg}");
        assert_eq!(figure.data.rows[0], ["kernel › idle", "100", "50.00"]);
    }

    #[test]
    fn tiny_calls_are_not_drawn_and_an_empty_profile_has_no_figure() {
        let svg = figure(&Ids::of("flame"), "", FOLDED).and_then(|figure| figure.svg).expect("a drawing");
        // init and main have a share of 0.001, their callees less.
        assert_eq!(svg.matches("class=\"call").count(), 4, "{svg}");
        assert!(
            figure(&Ids::of("flame"), "", "").is_none() && figure(&Ids::of("flame"), "", "a;b 0\n").is_none()
        );
    }
}
