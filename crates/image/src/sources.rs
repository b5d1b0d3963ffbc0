//! Finds the host's Debian mirror: the first Debian main archive in apt's sources, in the one-line format of
//! sources.list(5) or in deb822. Security and third-party archives are skipped, because only the main archive
//! has every suite and architecture.

use std::fs;
use std::path::{Path, PathBuf};

use crate::index::paragraphs;

/// An archive that a source file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: String,
}

/// The address of the host's Debian mirror, from the apt configuration folder `etc` (usually `/etc/apt`).
/// `None` if there are no sources, or none is Debian's.
pub(crate) fn find_mirror(etc: &Path) -> Option<String> {
    let mut entries = Vec::new();
    for path in source_files(etc) {
        // Skips files that cannot be read or are not text; apt itself would complain about them.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if path.extension().is_some_and(|extension| extension == "sources") {
            entries.extend(parse_deb822(&text));
        } else {
            entries.extend(parse_one_line(&text));
        }
    }
    // Third parties also publish "/debian main"; Debian's keyring takes precedence over the mere path.
    let debian = || entries.iter().filter(|entry| is_debian_main(entry));
    debian()
        .find(|entry| entry.signed_by.contains("debian-archive"))
        .or_else(|| debian().find(|entry| entry.signed_by.is_empty()))
        .map(|entry| entry.uri.trim_end_matches('/').to_owned())
}

/// Source files in the order in which apt reads them: sources.list, then the parts by name.
fn source_files(etc: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = fs::read_dir(etc.join("sources.list.d"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    parts.retain(|path| {
        path.extension().is_some_and(|extension| extension == "list" || extension == "sources")
    });
    parts.sort();
    parts.insert(0, etc.join("sources.list"));
    parts
}

fn is_debian_main(entry: &Entry) -> bool {
    let uri = entry.uri.trim_end_matches('/');
    let last = uri.rsplit('/').next().unwrap_or(uri);
    (last == "debian" || last == "debian.list" || entry.signed_by.contains("debian-archive"))
        && !uri.contains("debian-security")
        && !uri.starts_with("cdrom:")
        && entry.components.iter().any(|component| component == "main")
        && entry.suites.iter().any(|suite| !suite.contains("-security") && !suite.contains("/updates"))
}

/// Parses lines `deb [option=value …] URI SUITE COMPONENT…`
fn parse_one_line(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        let Some(rest) = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t'])) else {
            continue;
        };
        let mut rest = rest.trim_start();
        let mut signed_by = String::new();
        if let Some((options, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            let value = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
            signed_by = value.unwrap_or("").to_owned();
            rest = after.trim_start();
        }
        let mut words = rest.split_whitespace().map(str::to_owned);
        if let (Some(uri), Some(suite)) = (words.next(), words.next()) {
            entries.push(Entry { uri, suites: vec![suite], components: words.collect(), signed_by });
        }
    }
    entries
}

/// Parses paragraphs of `Field: value`, continued by lines that start with white space.
fn parse_deb822(text: &str) -> Vec<Entry> {
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::trim_end);
    let text = lines.collect::<Vec<_>>().join("\n").replace("\n ", " ").replace("\n\t", " ");
    paragraphs(&text).flat_map(entries_of).collect()
}

fn entries_of(paragraph: &str) -> Vec<Entry> {
    let field = |name: &str| {
        let mut fields = paragraph.lines().filter_map(|line| line.split_once(':'));
        fields
            .find(|(field, _)| field.trim().eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.trim())
    };
    let words = |name: &str| field(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let disabled = ["no", "false", "without", "off", "disable"]
        .contains(&field("enabled").to_ascii_lowercase().as_str());
    if disabled || !words("types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    let entry = |uri| Entry {
        uri,
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").to_owned(),
    };
    words("uris").into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror_of(files: &[(&str, &str)]) -> Option<String> {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir(etc.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(etc.path().join(name), text).unwrap();
        }
        find_mirror(etc.path())
    }

    #[test]
    fn a_one_line_source_with_options_and_comments_is_parsed() {
        let text = "# deb http://old.example/debian stable main\n\
                    deb-src http://src.example/debian trixie main\n\
                    deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://a.example/debian/ trixie main # x\n";
        assert_eq!(mirror_of(&[("sources.list", text)]).as_deref(), Some("http://a.example/debian"));
    }

    #[test]
    fn a_deb822_source_is_parsed_and_a_disabled_one_skipped() {
        let text = "Types: deb\nURIs: http://off.example/debian\nSuites: trixie\nComponents: main\nEnabled: no\n\n\
                    # a comment\nTypes: deb deb-src\nURIs:\n http://a.example/debian\n http://b.example/debian\n\
                    Suites: trixie trixie-updates\nComponents: main contrib\n";
        assert_eq!(
            mirror_of(&[("sources.list.d/debian.sources", text)]).as_deref(),
            Some("http://a.example/debian")
        );
    }

    #[test]
    fn security_and_third_party_archives_are_skipped() {
        let security = "deb http://a.example/debian-security trixie-security main\n\
                        deb http://b.example/debian trixie-security main\n";
        let third = "Types: deb\nURIs: http://tool.example/linux/debian\nSuites: trixie\nComponents: main\n\
                     Signed-By: /etc/apt/keyrings/tool.gpg\n";
        let files = [("sources.list", security), ("sources.list.d/a-tool.sources", third)];
        assert_eq!(mirror_of(&files), None);
        let debian = "deb http://c.example/debian trixie main\n";
        let files = [files[0], files[1], ("sources.list.d/z.list", debian)];
        assert_eq!(mirror_of(&files).as_deref(), Some("http://c.example/debian"));
    }

    #[test]
    fn debians_keyring_takes_precedence_over_an_earlier_look_alike() {
        let look_alike = "deb http://tool.example/debian trixie main\n";
        let debian = "Types: deb\nURIs: http://c.example/pub/debian/\nSuites: trixie\nComponents: main\n\
                      Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
        let files = [("sources.list", look_alike), ("sources.list.d/debian.sources", debian)];
        assert_eq!(mirror_of(&files).as_deref(), Some("http://c.example/pub/debian"));
    }

    #[test]
    fn ubuntus_sources_and_an_empty_configuration_yield_no_mirror() {
        let ubuntu = "Types: deb\nURIs: http://archive.example/ubuntu/\nSuites: noble\nComponents: main universe\n\
                      Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg\n";
        assert_eq!(mirror_of(&[("sources.list.d/ubuntu.sources", ubuntu)]), None);
        assert_eq!(find_mirror(Path::new("/nonexistent")), None);
    }
}
