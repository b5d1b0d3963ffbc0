//! The page as a browser parses it: balanced, self-contained, escaped and deterministic.

use crate::sample;
use crate::{RunSummary, html};

/// Elements that have no end tag.
const VOID: [&str; 2] = ["meta", "link"];

/// The page without its own script, which is at its end.
fn markup(page: &str) -> String {
    let (before, rest) = page.rsplit_once("<script>").expect("a script");
    let (_, after) = rest.split_once("</script>").expect("an end of the script");
    format!("{before}{after}")
}

/// Checks that tags nest, and returns all start tags with their attributes. Any literal `<` in the text is an
/// error, because the page escapes them.
fn tags(page: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut starts = Vec::new();
    let page = markup(page);
    let body = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    // Style is not markup.
    let (before, rest) = body.split_once("<style>").expect("a style");
    let (style, after) = rest.split_once("</style>").expect("an end of the style");
    assert!(!style.contains('<') && !style.contains("url(") && !style.contains("@import"));
    for part in before.split('<').skip(1).chain(after.split('<').skip(1)) {
        let (tag, text) = part.split_once('>').expect("an end of the tag");
        assert!(!text.contains('>'), "unescaped > after <{tag}>: {text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing tag");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "unbalanced quotes in <{tag}>");
        starts.push(tag.to_owned());
        let name = tag.split_whitespace().next().expect("a name");
        if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "left open");
    starts
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split('"').next()
}

fn pages() -> Vec<(&'static str, RunSummary)> {
    let mut none = sample::loads();
    none.points.clear();
    let mut unanswered = sample::loads();
    for point in &mut unanswered.points {
        let silent = sample::silent().points.remove(0);
        *point = doorbell_results::PointSummary { offered_mpps: point.offered_mpps, ..silent };
    }
    let mut idle = sample::silent();
    let point = &mut idle.points[0];
    (point.frames_offered, point.drop_rate, point.offered_mpps, point.offered_gbps) = (0, f64::NAN, 0.0, 0.0);
    point.drops = doorbell_results::Drops::default();
    let mut idle_twice = idle.clone();
    idle_twice.points.push(idle.points[0].clone());
    let mut sizes = sample::loads();
    sizes.points[0].frame_size = 1518;
    sizes.points[1].frame_size = 1518;
    let mut lossless = sample::loads();
    lossless.points.truncate(3);
    let mut everything = sample::loads();
    everything.points.iter_mut().for_each(sample::everything_lost);
    vec![
        ("six loads", sample::loads()),
        ("one load", sample::single(5)),
        ("one lossless load", sample::single(0)),
        ("silence", sample::silent()),
        ("six silences", unanswered),
        ("nothing offered", idle),
        ("nothing offered twice", idle_twice),
        ("no point", none),
        ("two sizes", sizes),
        ("no loss", lossless),
        ("every loss", everything),
    ]
}

#[test]
fn every_page_is_balanced_and_its_references_resolve() {
    for (name, summary) in pages() {
        let starts = tags(&html(&summary, "seed = 1\n"));
        let mut ids: Vec<&str> = starts.iter().filter_map(|tag| attribute(tag, "id")).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{name}: an identifier occurs twice");
        for tag in &starts {
            for reference in ["aria-labelledby", "aria-describedby"].iter().filter_map(|a| attribute(tag, a))
            {
                assert!(ids.contains(&reference), "{name}: {reference} names nothing");
            }
        }
    }
}

#[test]
fn no_coordinate_is_not_a_number() {
    for (name, summary) in pages() {
        let page = html(&summary, "");
        assert!(!markup(&page).contains("NaN") && !page.contains("inf\""), "{name}");
        for tag in tags(&page) {
            for name_of_place in ["x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height"] {
                let Some(text) = attribute(&tag, name_of_place) else { continue };
                let place: f64 = text.parse().unwrap_or_else(|_| panic!("{name}: {tag}"));
                assert!((0.0..=480.0).contains(&place), "{name}: {tag}");
            }
        }
    }
}

#[test]
fn the_page_loads_nothing_and_runs_only_its_own_script() {
    let page = html(&sample::loads(), "seed = 1\n");
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
    let page = markup(&page);
    for forbidden in ["http:", "https:", "//", "<script", "src=", "@import", "url(", "javascript:"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn input_text_is_escaped() {
    let evil = "</title></pre><script>alert('1')</script>\"&\0";
    let mut summary = sample::loads();
    let before = tags(&html(&summary, "")).len();
    summary.benchmark = evil.to_owned();
    summary.preset = evil.to_owned();
    summary.doorbell_version = evil.to_owned();
    summary.command = evil.to_owned();
    for point in &mut summary.points {
        point.rate = evil.to_owned();
        point.config_hash = evil.to_owned();
        point.state_hash = evil.to_owned();
    }
    let page = html(&summary, evil);
    assert_eq!(tags(&page).len(), before, "the input added or removed an element");
    assert!(!markup(&page).contains("<script") && !page.contains('\0'));
}

#[test]
fn the_same_summary_gives_the_same_page() {
    assert_eq!(html(&sample::loads(), "a = 1"), html(&sample::loads(), "a = 1"));
}

#[test]
fn several_loads_are_curves_and_one_load_is_bars() {
    let several = html(&sample::loads(), "");
    for id in ["throughput-64", "losses-64", "latency-64", "work-64"] {
        assert!(several.contains(&format!("<figure id=\"{id}\">")), "{id}");
    }
    assert_eq!(several.matches("<svg ").count(), 4);
    let one = html(&sample::single(5), "");
    for id in ["fate-64", "percentiles-64"] {
        assert!(one.contains(&format!("<figure id=\"{id}\">")), "{id}");
    }
    assert_eq!(one.matches("<svg ").count(), 2);
    assert!(!one.contains("<polyline"));
}

#[test]
fn without_round_trips_the_page_shows_the_reason() {
    let page = html(&sample::silent(), "");
    assert!(page.contains("No frame came back, so no latency was measured."));
    assert_eq!(page.matches("<svg ").count(), 1);
}

#[test]
fn the_page_contains_all_numbers_the_command_and_the_configuration() {
    let summary = sample::loads();
    let page = html(&summary, "[nic]\nrx_fifo = \"40KiB\"\n");
    for text in [
        &summary.command,
        "rx_fifo = &quot;40KiB&quot;",
        "<td>148,800</td>",
        "<td>53,067</td>",
        "<td>1,873</td>",
        "<td>36.922</td>",
        "<td>203.500</td>",
        &format!("title=\"{}\"", summary.points[5].state_hash),
    ] {
        assert!(page.contains(text), "{text}");
    }
}
