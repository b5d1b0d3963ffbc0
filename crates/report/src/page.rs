//! What every page has in common: it is one file that needs no network, no script and no build, and forbids itself to load
//! anything.

use std::fmt::{Display, Write};

use crate::escape::Esc;

const STYLE: &str = include_str!("page.css");

/// Nothing is loaded from anywhere; the style stands in the page, the (empty) icon in its address.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Begins a page called `name`, of a `kind`, with facts in a line below its name.
pub(crate) fn begin(name: &str, kind: &str, facts: &[&str]) -> String {
    let mut out = String::with_capacity(64 << 10);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{} · Doorbell</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        Esc(name)
    );
    let facts: Vec<String> = facts.iter().map(|fact| Esc(fact).to_string()).collect();
    let _ = writeln!(
        out,
        "<header>\n<p class=\"eyebrow\">Doorbell {kind}</p>\n<h1>{}</h1>\n\
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
    out.push_str("</footer>\n</body>\n</html>\n");
}
