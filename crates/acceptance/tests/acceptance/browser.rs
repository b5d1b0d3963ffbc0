//! The report in a real browser (package chromium): nothing on its console, every plot drawn, nothing cut off, on a desk and
//! on a phone, light and dark.

use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_acceptance::{doorbell, scratch};
use serde_json::Value;

/// Widths of a window on a desk and of a phone, in CSS pixels.
const WIDTHS: [u32; 2] = [1200, 390];

/// The browser. Where no package has one, `--skip browser::` leaves these tests out, as tests/short does.
fn browser() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    found.expect("a browser is installed (package chromium; tools/setup test installs it)")
}

/// Opens a page: its document when it has loaded, and what came on the console.
fn open(browser: &Path, page: &Path, dark: bool) -> (String, Vec<String>) {
    let profile = scratch();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    command.args(["--enable-logging=stderr", "--window-size=1400,4000", "--virtual-time-budget=2000"]);
    command.arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }));
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    let output = command.arg(format!("file://{}", page.display())).output().expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let console = String::from_utf8_lossy(&output.stderr);
    let console = console.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8(output.stdout).expect("a document is text"), console)
}

/// What the page is like from inside: a copy of it that may run a script, in a frame of this width.
fn measure(browser: &Path, page: &Path, width: u32, dark: bool) -> Value {
    const SCRIPT: &str = "<script>addEventListener('load', () => {
        const box = element => element.getBoundingClientRect();
        const plots = [...document.querySelectorAll('figure svg')];
        const empty = plots.filter(plot => box(plot).width < 200 || box(plot).height < 20
            || !plot.querySelector('rect, polyline, circle')).length;
        const cut = plots.flatMap(plot => [...plot.querySelectorAll('text')].filter(text => {
            const [inner, outer] = [box(text), box(plot)];
            return inner.left < outer.left - 2 || inner.right > outer.right + 2
                || inner.top < outer.top - 2 || inner.bottom > outer.bottom + 2;
        }).map(text => text.textContent));
        const light = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)
            .every(part => part > 200);
        const wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
        const figures = document.querySelectorAll('figure').length;
        parent.document.body.dataset.seen =
            JSON.stringify({ plots: plots.length, figures, empty, cut, light, wider });
    })</script></body>";
    let text = std::fs::read_to_string(page).expect("the page is there");
    let policy = text
        .find("<meta http-equiv=\"Content-Security-Policy\"")
        .expect("the page forbids itself to load anything");
    let end = policy + text[policy..].find('>').expect("a tag ends") + 1;
    let text = format!("{}{}", &text[..policy], &text[end..]).replace("</body>", SCRIPT);
    let framed = text.replace('&', "&amp;").replace('"', "&quot;");
    let folder = scratch();
    let wrapper = folder.path().join("framed.html");
    let html = format!(
        "<!DOCTYPE html><body><iframe width={width} height=3000 srcdoc=\"{framed}\"></iframe></body>"
    );
    std::fs::write(&wrapper, html).expect("a page can be written");
    let (document, console) = open(browser, &wrapper, dark);
    assert_eq!(console, [""; 0], "{width} wide");
    let seen = document
        .split_once("data-seen=\"")
        .expect("the page has loaded")
        .1
        .split_once('"')
        .expect("an end")
        .0;
    serde_json::from_str(&seen.replace("&quot;", "\"")).expect("what the script says")
}

#[test]
fn a_report_has_all_its_plots_and_nothing_cut_off_on_a_desk_and_on_a_phone_in_light_and_dark() {
    let browser = browser();
    let folder = scratch();
    let out = folder.path().to_str().expect("a path that is text");
    let run = ["run", "testpmd", "--preset", "server", "--rate", "2Mpps,20Mpps,34Mpps", "--warmup", "1ms"];
    doorbell(
        &[&run[..], &["--duration", "1ms", "-q", "--set", "memory.l2.size=512KiB", "--out", out]].concat(),
    )
    .success();
    for (page, figures) in [("report.html", 7), ("point-02/report.html", 7)] {
        let page = folder.path().join(page);
        let (document, console) = open(&browser, &page, false);
        assert_eq!(console, [""; 0]);
        assert!(document.contains("Not as in server"), "what differs from the preset is said");
        for (width, dark) in WIDTHS.into_iter().zip([false, true]) {
            let seen = measure(&browser, &page, width, dark);
            let expected = serde_json::json!({
                "plots": figures, "figures": figures, "empty": 0, "cut": [], "light": !dark, "wider": 0
            });
            assert_eq!(seen, expected, "{} at {width}", page.display());
        }
    }
}

#[test]
fn the_check_sees_what_it_is_for() {
    let browser = browser();
    let folder = scratch();
    let page = folder.path().join("bad.html");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\">";
    let svg = "<svg viewBox=\"0 0 480 300\" width=480><text x=\"470\" y=\"20\">cut off here</text></svg>";
    let html = format!(
        "<!DOCTYPE html><head>{policy}</head><body><figure>{svg}</figure>\
                        <div style=\"width: 9000px\">x</div><script>1</script></body>"
    );
    std::fs::write(&page, html).expect("a page can be written");
    assert!(!open(&browser, &page, false).1.is_empty(), "a forbidden script is on the console");
    let seen = measure(&browser, &page, 1200, false);
    assert_eq!((&seen["empty"], &seen["cut"]), (&1.into(), &serde_json::json!(["cut off here"])));
    assert!(seen["wider"].as_i64() > Some(5_000));
}
