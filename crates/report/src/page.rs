//! What every page has in common: it is one file that needs no network and no build, and forbids itself to load anything. It can be read
//! and printed without its script, which makes its plots and tables ones to work with.
//!
//! The script is ours, over the drawings that stand in the page anyway. A library of plots (uPlot was looked at) would draw each a second
//! time, on a canvas: nothing there for a keyboard, a screen reader, a printer or a file that scales, which all have the drawing.

use std::fmt::{Display, Write};
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use crate::escape::Esc;

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("script/axis.js"),
    include_str!("script/plot.js"),
    include_str!("script/flame.js"),
    include_str!("script/table.js"),
    include_str!("script/save.js"),
    include_str!("script/page.js"),
    "})();\n"
);

/// Nothing is loaded from anywhere; the style stands in the page, the (empty) icon in its address, and no script runs but this one.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64(&Sha256::digest(SCRIPT));
    format!("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'")
});

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, index| word << 8 | u32::from(*three.get(index).unwrap_or(&0)));
        for index in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * index) & 63) as usize] as char;
            out.push(if index <= three.len() { digit } else { '=' });
        }
    }
    out
}

/// What a page has beside its summary. Other pages are addresses from where it lies.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The page that it is a part of, and what that is called.
    pub up: Option<(String, String)>,
    /// Of several loads, the page of each.
    pub loads: Vec<String>,
    /// Folded stacks (`functions.folded`), each with whose they are where there are several nodes.
    pub stacks: Vec<(String, String)>,
}

impl Beside {
    /// What a part has of what lies `depth` folders above.
    pub fn up(depth: usize, name: &str) -> Beside {
        let up = Some((format!("{}report.html", "../".repeat(depth)), name.to_owned()));
        Beside { up, ..Beside::default() }
    }
}

/// Begins a page called `name`, of a `kind`, with facts in a line below its name.
pub(crate) fn begin(name: &str, kind: &str, facts: &[&str]) -> String {
    begin_with(name, kind, facts, &Beside::default())
}

/// The same of a page that may be a part of another.
pub(crate) fn begin_with(name: &str, kind: &str, facts: &[&str], beside: &Beside) -> String {
    let mut out = String::with_capacity(64 << 10);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{} · Doorbell</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        *POLICY,
        Esc(name)
    );
    let facts: Vec<String> = facts.iter().map(|fact| Esc(fact).to_string()).collect();
    let up = beside.up.as_ref().map_or(String::new(), |(page, name)| {
        format!("<p class=\"up\"><a href=\"{}\">\u{2191} {}</a></p>\n", Esc(page), Esc(name))
    });
    let _ = writeln!(
        out,
        "<header>\n{up}<p class=\"eyebrow\">Doorbell {kind}</p>\n<h1>{}</h1>\n\
         <p class=\"facts\">{}</p>\n</header>\n<main>",
        Esc(name),
        facts.join(" <span aria-hidden=\"true\">·</span> ")
    );
    out
}

/// The command and the configuration: all that is needed to have this again.
pub(crate) fn provenance(command: &str, what: &str, config: &str, out: &mut String) {
    let _ = write!(
        out,
        "<section aria-labelledby=\"provenance\">\n<h2 id=\"provenance\">How this was made</h2>\n\
         <pre class=\"command\">{}</pre>\n\
         <details>\n<summary>{what}</summary>\n<pre>{}</pre>\n</details>\n</section>\n",
        Esc(command),
        Esc(config)
    );
}

/// Ends a page with notes.
pub(crate) fn end(notes: &[&dyn Display], out: &mut String) {
    out.push_str("</main>\n<footer>\n");
    for note in notes {
        let _ = writeln!(out, "<p>{}</p>", Esc(note));
    }
    out.push_str("</footer>\n<script>");
    out.push_str(SCRIPT);
    out.push_str("</script>\n</body>\n</html>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_the_rfc_has_it() {
        let encoded = [&b""[..], b"f", b"fo", b"foo", b"foob", b"fooba", b"foobar"].map(base64);
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn the_script_is_the_only_one_that_the_page_lets_run_and_cannot_end_its_element() {
        let mut page = begin("a", "run", &[]);
        end(&[], &mut page);
        let script = page.split("<script>").nth(1).and_then(|rest| rest.split("</script>").next());
        assert_eq!(script, Some(SCRIPT));
        assert!(page.contains(&format!("script-src 'sha256-{}'", base64(&Sha256::digest(SCRIPT)))));
        assert!(!SCRIPT.contains("<!--") && !SCRIPT.contains("<script"));
    }
}
