//! The suite's package index (deb822 paragraphs, as `apt-cache dumpavail` prints them), and the packages that
//! an image needs: the recipe's roots and their dependencies.
//!
//! Version constraints are ignored, because a released suite is consistent. Among alternatives, the first that
//! exists is taken. A virtual package without a real package of the same name is skipped. If this
//! omits a library, [`crate::assemble`] fails and names it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;

use crate::manifest::PackageRecord;

/// One package of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub record: PackageRecord,
    /// Dependencies, each a list of alternatives.
    pub depends: Vec<Vec<String>>,
    /// Path in the archive, if the index has it.
    pub path: Option<String>,
}

impl Package {
    /// The name that apt gives a downloaded file; the colon of an epoch is escaped.
    pub(crate) fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version.replace(':', "%3a"), self.architecture)
    }
}

impl Deref for Package {
    type Target = PackageRecord;

    fn deref(&self) -> &PackageRecord {
        &self.record
    }
}

/// An index whose paragraphs are parsed on demand: it has 66,000, and an image needs about a hundred.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    paragraphs: BTreeMap<&'a str, &'a str>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let name = |paragraph: &'a str| field(paragraph, "Package");
        Self {
            paragraphs: paragraphs(text)
                .filter_map(|paragraph| Some((name(paragraph)?, paragraph)))
                .collect(),
        }
    }

    pub(crate) fn package(&self, name: &str) -> Option<Result<Package, String>> {
        self.paragraphs.get(name).map(|paragraph| parse(paragraph))
    }

    /// Describes, for a message, the archive's version of a package if it is not this one; `None` if it is
    /// the same.
    pub(crate) fn current_version(&self, wanted: &Package) -> Option<String> {
        let (name, version) = (&wanted.name, &wanted.version);
        match self.package(name) {
            Some(Ok(there)) if there.version != *version => {
                Some(format!("{name} {version} (it has {} instead)", there.version))
            }
            Some(Ok(there)) if there.sha256 != wanted.sha256 => {
                Some(format!("{name} {version} (it has this version with the SHA-256 {})", there.sha256))
            }
            Some(Ok(_)) => None,
            Some(Err(problem)) => Some(format!("{name} {version} ({problem})")),
            None => Some(format!("{name} {version} (it has no version of {name})")),
        }
    }

    /// The roots and their dependencies, without packages that match a `leave_out` pattern, by name.
    pub(crate) fn closure(&self, roots: &[String], leave_out: &[String]) -> Result<Vec<Package>, String> {
        let mut chosen: BTreeMap<String, Package> = BTreeMap::new();
        let mut open: VecDeque<String> = roots.iter().cloned().collect();
        while let Some(name) = open.pop_front() {
            if chosen.contains_key(&name) {
                continue;
            }
            let package =
                self.package(&name).ok_or_else(|| format!("the suite has no package \"{name}\""))??;
            for alternatives in &package.depends {
                let existing = alternatives.iter().find(|name| self.paragraphs.contains_key(name.as_str()));
                open.extend(
                    existing.filter(|name| !leave_out.iter().any(|pattern| matches(pattern, name))).cloned(),
                );
            }
            chosen.insert(name, package);
        }
        Ok(chosen.into_values().collect())
    }
}

/// Splits an index into its paragraphs, which are separated by empty lines.
pub(crate) fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty())
}

/// The value of a one-line field.
pub(crate) fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim);
    paragraph.lines().find_map(value)
}

/// Parses the paragraph of a package.
pub(crate) fn parse(paragraph: &str) -> Result<Package, String> {
    let name = field(paragraph, "Package").unwrap_or_default();
    let required = |key: &str| {
        let value = field(paragraph, key).filter(|value| !value.is_empty());
        value
            .map(str::to_owned)
            .ok_or_else(|| format!("package \"{name}\" has no {key} in the suite's index"))
    };
    let size = required("Size")?;
    let mut depends = dependencies(field(paragraph, "Pre-Depends").unwrap_or_default());
    depends.extend(dependencies(field(paragraph, "Depends").unwrap_or_default()));
    let record = PackageRecord {
        name: name.to_owned(),
        version: required("Version")?,
        architecture: required("Architecture")?,
        size_bytes: size.parse().map_err(|_| format!("package \"{name}\" has the size \"{size}\""))?,
        sha256: required("SHA256")?,
    };
    Ok(Package { record, depends, path: field(paragraph, "Filename").map(str::to_owned) })
}

/// Parses `a (>= 1) | b:any, c [arch]`, dropping versions and qualifiers.
fn dependencies(value: &str) -> Vec<Vec<String>> {
    let name = |alternative: &str| {
        alternative
            .trim()
            .split(|c: char| c.is_whitespace() || "(:[<".contains(c))
            .next()
            .unwrap_or("")
            .to_owned()
    };
    let alternatives =
        |group: &str| group.split('|').map(name).filter(|name| !name.is_empty()).collect::<Vec<_>>();
    value.split(',').map(alternatives).filter(|group| !group.is_empty()).collect()
}

/// Whether a name matches a pattern in which `*` matches any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(tail) = name.strip_prefix(head) else { return false };
    (0..=tail.len()).any(|skip| tail.is_char_boundary(skip) && matches(rest, &tail[skip..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Package: tool\nVersion: 1:2.0-1\nArchitecture: riscv64\nPre-Depends: libc6 (>= 2.38)\n\
        Depends: liba1 (>= 1.0), virtual-thing, missing | libb1 | liba1, tool-dev, python3:any\n\
        Description: Depends: nothing\n Size: not this\nSize: 12\nSHA256: aa\n\n\
        Package: liba1\nVersion: 3\nArchitecture: riscv64\nDepends: libc6, libb1\nSize: 5\nSHA256: bb\n\n\
        Package: libb1\nVersion: 4\nArchitecture: all\nDepends: liba1\nSize: 6\nSHA256: cc\n\n\
        Package: libc6\nVersion: 2.41\nArchitecture: riscv64\nSize: 7\nSHA256: dd\n\n\
        Package: tool-dev\nVersion: 1\nArchitecture: all\nSize: 8\nSHA256: ee\n\n\
        Package: python3\nVersion: 3\nArchitecture: all\nSize: 8\n";

    fn names(packages: &[Package]) -> Vec<&str> {
        packages.iter().map(|package| package.name.as_str()).collect()
    }

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_closure_follows_cyclic_dependencies_and_skips_left_out_packages() {
        let index = Index::new(TEXT);
        let packages = index.closure(&words(&["tool"]), &words(&["*-dev", "python*"])).unwrap();
        assert_eq!(names(&packages), ["liba1", "libb1", "libc6", "tool"]);
        assert_eq!(packages[3].file_name(), "tool_1%3a2.0-1_riscv64.deb");
        assert_eq!((packages[3].size_bytes, packages[3].sha256.as_str()), (12, "aa"));
    }

    #[test]
    fn a_version_that_the_archive_no_longer_has_is_described_with_its_current_one() {
        let index = Index::new(TEXT);
        let there = index.package("libc6").unwrap().unwrap();
        assert_eq!(index.current_version(&there), None);
        let message = |change: fn(&mut PackageRecord)| {
            let mut package = there.clone();
            change(&mut package.record);
            index.current_version(&package).unwrap()
        };
        assert_eq!(message(|package| package.version = "2.40".into()), "libc6 2.40 (it has 2.41 instead)");
        assert!(message(|package| package.sha256 = "ff".into()).contains("with the SHA-256 dd"));
        assert!(message(|package| package.name = "libd".into()).contains("no version of libd"));
    }

    #[test]
    fn a_root_is_included_even_if_a_pattern_leaves_it_out() {
        let packages = Index::new(TEXT).closure(&words(&["tool-dev"]), &words(&["*-dev"])).unwrap();
        assert_eq!(names(&packages), ["tool-dev"]);
    }

    #[test]
    fn an_unknown_root_and_a_package_without_hash_are_named() {
        let index = Index::new(TEXT);
        assert!(index.closure(&words(&["tol"]), &[]).unwrap_err().contains("\"tol\""));
        assert!(index.closure(&words(&["python3"]), &[]).unwrap_err().contains("SHA256"));
    }

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name) in [("*", ""), ("a*", "a"), ("*-dev", "x-dev"), ("a*c*e", "abcde"), ("a", "a")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a*", "ba"), ("*-dev", "x-dev1"), ("a*c*e", "abde"), ("a", "aa"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
