//! Report pages in a real browser (package chromium): no console message, every plot drawn, nothing cut off,
//! at three window widths, light and dark. The interactive tools are exercised too.

mod drive;

use std::path::Path;

use doorbell_acceptance::{doorbell, scratch};
use serde_json::Value;

use drive::Browser;

/// Widths of a full desktop window, half of it and a phone, in CSS pixels, and whether the dark scheme is
/// used.
const WIDTHS: [(u32, bool); 3] = [(1300, false), (800, true), (420, true)];

/// Function bodies that inspect the layout of a page and operate its tools.
const LOOK: &str = include_str!("browser/look.js");
const USE: &str = include_str!("browser/use.js");
const FLAME: &str = "const calls = [...document.querySelectorAll('.flame .call')];
    const widths = () => calls.map(call => call.getAttribute('width')).join();
    const [before, narrow] = [widths(), calls.find(call => parseFloat(call.getAttribute('width')) < 60)];
    narrow.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    const enlarged = narrow.getAttribute('width');
    document.querySelector('.flame').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    const same = widths().split(',').every((width, n) => Math.abs(parseFloat(width) - parseFloat(before.split(',')[n])) < 0.01);
    return [calls.length > 3, enlarged, same];";

#[test]
fn report_plots_and_tools_work_at_all_widths_in_light_and_dark() {
    let mut browser = Browser::start();
    let folder = scratch();
    let out = folder.path().to_str().expect("a path that is text");
    let run = [
        "run",
        "testpmd",
        "--preset",
        "server",
        "--rate",
        "2Mpps,20Mpps,34Mpps",
        "--warmup",
        "1ms",
        "--profile",
    ];
    doorbell(
        &[&run[..], &["--duration", "1ms", "-q", "--set", "memory.l2.size=512KiB", "--out", out]].concat(),
    )
    .success();
    let (whole, point) = (folder.path().join("report.html"), folder.path().join("point-02/report.html"));
    for page in [&whole, &point] {
        let written = std::fs::read(page).expect("the page is there");
        doorbell(&["report", page.parent().and_then(Path::to_str).expect("a folder")]).success();
        assert!(std::fs::read(page).expect("a page") == written, "a regenerated page has the same bytes");
    }
    let document = std::fs::read_to_string(&whole).expect("a page");
    assert!(document.contains("Not as in server"), "the page lists differences from the preset");
    let both =
        format!("const look = (() => {{\n{LOOK}}})();\nreturn [look, await (async () => {{\n{USE}}})()];");
    for window in WIDTHS {
        assert_eq!(browser.open(&whole, window), [""; 0], "at {window:?}");
        let result = browser.evaluate(&both);
        check_layout(&result[0], window, 10);
        check_tools(&result[1]);
    }
    let both = format!("const look = (() => {{\n{LOOK}}})();\nreturn [look, (() => {{\n{FLAME}}})()];");
    assert_eq!(browser.open(&point, WIDTHS[2]), [""; 0]);
    let result = browser.evaluate(&both);
    check_layout(&result[0], WIDTHS[2], 11);
    assert_eq!(
        result[1],
        serde_json::json!([true, "100%", true]),
        "a click enlarges a call, and Escape restores the widths"
    );
}

/// Checks the layout that `look.js` reports.
fn check_layout(layout: &Value, window: (u32, bool), figures: u64) {
    let expected = serde_json::json!({
        "plots": figures, "figures": figures, "empty": 0, "cut": [], "light": !window.1, "wider": 0
    });
    assert_eq!(*layout, expected, "at {window:?}");
}

/// Checks the results of the tools that `use.js` operates.
fn check_tools(did: &Value) {
    let expected = serde_json::json!({
        "whole": "0 5 10 15 20 25 30 35", "again": "0 5 10 15 20 25 30 35", "logarithmic": "2 5 10 20 50",
        "crosshair": "20.000 Mpps offered: 20.000 Mpps (10.240 Gbps) delivered, 0.000 % lost", "left": true,
        "off": ["false", "none"], "on": [false, "0 5 10 15 20 25 30 35"], "filtered": "3", "png": "PNG",
        "sorted": ["size duration warmup", "ascending: size duration warmup",
            "descending: warmup duration size"],
        "svg": ["svg", "Throughput", true],
        "names": ["throughput-64.csv text/csv", "throughput-64.png image/png", "throughput-64.svg image/svg+xml"]
    });
    for (what, wanted) in expected.as_object().expect("an object") {
        assert_eq!(&did[what], wanted, "{what} of {did}");
    }
    let enlarged: Vec<f64> =
        did["enlarged"].as_str().unwrap_or("").split(' ').map(|tick| tick.parse().unwrap_or(0.0)).collect();
    assert!(enlarged.len() > 2 && enlarged.iter().all(|tick| (15.0..30.0).contains(tick)), "{did}");
    assert!(did["keys"].as_str().is_some_and(|tip| tip.starts_with("20.000 Mpps offered")), "{did}");
    assert_eq!(did["csv"][1], "2.000,1.024,2.000,1.024,0.000", "{did}");
}

/// A grid of four points, without a plot section.
const GRID: &str = "benchmark = \"testpmd\"\npreset = \"fast\"\nset = [\"run.warmup=20us\", \"run.duration=20us\"]\n\
    [measure]\nrates = [\"1Mpps\", \"20Mpps\"]\n[grid]\n\"core.ipc\" = [1, 2]\n";

#[test]
fn sweep_and_search_pages_start_with_an_overview_and_link_to_their_points() {
    let mut browser = Browser::start();
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let text = |path: &Path| path.to_str().expect("a path that is text").to_owned();
    std::fs::write(path("grid.toml"), GRID).expect("a file can be written");
    doorbell(&["sweep", &text(&path("grid.toml")), "-q", "--out", &text(&path("sweep"))]).success();
    let search =
        ["search", "testpmd", "--preset", "fast", "--frame-size", "64,1518", "--precision", "10%", "-q"];
    doorbell(&[&search[..], &["--out", &text(&path("search"))]].concat()).success();

    const SORT: &str = "const table = document.querySelector('.points');
        const head = [...table.tHead.rows[0].cells].find(head => head.textContent === 'Rate');
        head.querySelector('button').click();
        head.querySelector('button').click();
        const links = [...table.querySelectorAll('a')].map(link => [link.textContent, link.getAttribute('href')]);
        return [links, document.querySelectorAll('.legend button').length];";
    let sweep = path("sweep/report.html");
    let both = format!("const look = (() => {{\n{LOOK}}})();\nreturn [look, (() => {{\n{SORT}}})()];");
    assert_eq!(browser.open(&sweep, WIDTHS[2]), [""; 0]);
    let result = browser.evaluate(&both);
    let figures = result[0]["figures"].as_u64().unwrap_or(0);
    assert!(figures >= 2, "delivered and lost frames are plotted: {result}");
    check_layout(&result[0], WIDTHS[2], figures);
    // The first point at the higher rate.
    assert_eq!(result[1][0][0][0], "1", "{result}");
    assert_eq!(result[1][1], 2 * figures, "two curves per plot: {result}");
    let point = path("sweep").join(result[1][0][0][1].as_str().expect("a link"));
    let page = std::fs::read_to_string(&point).expect("the point has a page");
    assert!(page.contains("<a href=\"../../report.html\">"), "the point links back to the overview");

    assert_eq!(browser.open(&path("search/report.html"), WIDTHS[1]), [""; 0]);
    check_layout(&browser.evaluate(LOOK), WIDTHS[1], 4);
    let page = std::fs::read_to_string(path("search/report.html")).expect("a page");
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(at("id=\"rate-by-size\"") < at("id=\"frames-64\"") && page.contains("href=\"#frames-1518\""));
}

#[test]
fn the_layout_check_detects_a_bad_page() {
    let mut browser = Browser::start();
    let folder = scratch();
    let page = folder.path().join("bad.html");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
    let svg = "<svg viewBox=\"0 0 480 300\" width=480><text x=\"470\" y=\"20\">cut off here</text></svg>";
    let html = format!(
        "<!DOCTYPE html><head>{policy}</head><body><figure>{svg}</figure>\
                        <div style=\"width: 9000px\">x</div><script>1</script></body>"
    );
    std::fs::write(&page, html).expect("a page can be written");
    assert!(!browser.open(&page, WIDTHS[0]).is_empty(), "the console reports a blocked script");
    let layout = browser.evaluate(LOOK);
    assert_eq!((&layout["empty"], &layout["cut"]), (&1.into(), &serde_json::json!(["cut off here"])));
    assert!(layout["wider"].as_i64() > Some(5_000), "{layout}");
}
