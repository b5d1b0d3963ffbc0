//! Common parts of all pages. A page is a single file that needs no network and no build, and its policy
//! forbids loading anything. It can be read and printed without its script, which adds interactive plots and
//! tables.
//!
//! The script is our own and works on the drawings that are in the page anyway. A plot library (uPlot was
//! considered) would draw each plot a second time, on a canvas, which does not support keyboards, screen
//! readers, printers or scaling, unlike the drawing.

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

/// Nothing is loaded: the style is in the page, the (empty) icon is in its own URL, and only this script may
/// run.
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

/// Related pages and files of a page. Other pages are given relative to it.
#[derive(Clone, Debug, Default)]
pub struct PageLinks {
    /// The page that contains it, and the title of that page.
    pub up: Option<(String, String)>,
    /// Pages of the individual loads, if there are several.
    pub loads: Vec<String>,
    /// Folded stacks (`functions.folded`), each with the name of its node if there are several.
    pub stacks: Vec<(String, String)>,
}

impl PageLinks {
    /// Links of a page whose parent page is `depth` folders above.
    pub fn up(depth: usize, name: &str) -> PageLinks {
        let up = Some((format!("{}report.html", "../".repeat(depth)), name.to_owned()));
        PageLinks { up, ..PageLinks::default() }
    }
}

/// Begins a page with the title `name`; `facts` are in a line below it.
pub(crate) fn begin(name: &str, kind: &str, facts: &[&str]) -> String {
    begin_with(name, kind, facts, &PageLinks::default())
}

/// The same for a page that may have a parent page.
pub(crate) fn begin_with(name: &str, kind: &str, facts: &[&str], links: &PageLinks) -> String {
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
    let up = links.up.as_ref().map_or(String::new(), |(page, name)| {
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

/// The beginning of a section.
pub(crate) fn section(id: &str, title: &str) -> String {
    let (id, title) = (Esc(id), Esc(title));
    format!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n")
}

/// A box with a paragraph per line, if there are lines.
pub(crate) fn warning<T: Display>(lines: impl IntoIterator<Item = T>, out: &mut String) {
    let paragraphs: String = lines.into_iter().map(|line| format!("<p>{}</p>\n", Esc(line))).collect();
    if !paragraphs.is_empty() {
        let _ = write!(out, "<div class=\"warning\" role=\"note\">\n{paragraphs}</div>\n");
    }
}

/// The command and the configuration: everything needed to reproduce the page.
pub(crate) fn provenance(command: &str, what: &str, config: &str, out: &mut String) {
    out.push_str(&section("provenance", "Command and configuration"));
    let _ = write!(
        out,
        "<pre class=\"command\">{}</pre>\n\
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
    fn base64_matches_the_rfcs_examples() {
        let encoded = [&b""[..], b"f", b"fo", b"foo", b"foob", b"fooba", b"foobar"].map(base64);
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn only_the_page_script_may_run_and_it_contains_no_end_tag() {
        let mut page = begin("a", "run", &[]);
        end(&[], &mut page);
        let script = page.split("<script>").nth(1).and_then(|rest| rest.split("</script>").next());
        assert_eq!(script, Some(SCRIPT));
        assert!(page.contains(&format!("script-src 'sha256-{}'", base64(&Sha256::digest(SCRIPT)))));
        assert!(!SCRIPT.contains("<!--") && !SCRIPT.contains("<script"));
    }
}
