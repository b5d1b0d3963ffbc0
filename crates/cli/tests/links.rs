//! No page has a dead link, and the book has every page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Pages in these folders, and in those that are in them where that is said.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, depth) in [(".", 0), ("docs", 0), ("guest", 0), ("fuzz", 0), ("experiments", 1)] {
        collect(&root().join(folder), depth, &mut found);
    }
    found.sort();
    assert!(found.len() > 40, "only {} pages were found", found.len());
    found
}

fn collect(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// A page without what stands in fences, where brackets are no links and a # is no heading.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Where links of a text lead: what stands between `](` and `)`.
fn links(text: &str) -> Vec<&str> {
    let behind = text.split("](").skip(1);
    behind
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains('\n'))
        .collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let mut seen: Vec<String> = Vec::new();
    for heading in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = seen.iter().filter(|own| **own == anchor).count();
        seen.push(anchor.clone());
        if before > 0 {
            seen.push(format!("{anchor}-{before}"));
        }
    }
    seen.into_iter().collect()
}

#[test]
fn no_link_of_a_page_is_dead() {
    let mut dead = Vec::new();
    for page in pages() {
        let text = prose(&std::fs::read_to_string(&page).unwrap());
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let is_there = match anchor {
                Some(anchor) if target.extension().is_some_and(|ending| ending == "md") => {
                    std::fs::read_to_string(&target).is_ok_and(|text| anchors(&prose(&text)).contains(anchor))
                }
                _ => target.exists(),
            };
            if !is_there {
                dead.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let summary = root().join("docs/SUMMARY.md");
    let text = std::fs::read_to_string(&summary).unwrap();
    let named = links(&text);
    let mut listed = BTreeSet::new();
    for link in &named {
        let path =
            root().join("docs").join(link).canonicalize().unwrap_or_else(|error| panic!("{link}: {error}"));
        assert!(listed.insert(path), "docs/SUMMARY.md has {link} twice");
    }
    let missing: Vec<PathBuf> =
        pages().into_iter().filter(|page| *page != summary && !listed.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md has no line for {missing:?}");
}
