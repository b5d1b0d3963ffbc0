//! The suite's package index (deb822 paragraphs, as `apt-cache dumpavail` prints them), and which packages an image
//! needs: the recipe's roots and what they depend on.
//!
//! Version constraints are not looked at, because a released suite is consistent; of alternatives the first that exists
//! is taken; a virtual package without a real one of its name is passed over. If that leaves a library out, the search for
//! it in [`crate::assemble`] fails by name.

use std::collections::{BTreeMap, VecDeque};

use crate::manifest::PackageRecord;

/// One package of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// Dependencies, each a list of alternatives.
    pub depends: Vec<Vec<String>>,
    pub size_bytes: u64,
    pub sha256: String,
    /// Where in the archive it is, if the index says it.
    pub path: Option<String>,
}

impl Package {
    /// The name that apt gives a downloaded file; the colon of an epoch is escaped.
    pub(crate) fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version.replace(':', "%3a"), self.architecture)
    }

    pub(crate) fn record(&self) -> PackageRecord {
        PackageRecord {
            name: self.name.clone(),
            version: self.version.clone(),
            architecture: self.architecture.clone(),
            size_bytes: self.size_bytes,
            sha256: self.sha256.clone(),
        }
    }
}

/// An index whose paragraphs are parsed as they are asked for: there are 66,000, and an image needs a hundred.
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

    /// If the archive has not this very package any more: what it has instead, for a message.
    pub(crate) fn gone(&self, wanted: &Package) -> Option<String> {
        let (name, version) = (&wanted.name, &wanted.version);
        match self.package(name) {
            Some(Ok(there)) if there.version != *version => {
                Some(format!("{name} {version} (it has {} instead)", there.version))
            }
            Some(Ok(there)) if there.sha256 != wanted.sha256 => Some(format!(
                "{name} {version} (it has one of that version with the SHA-256 {})",
                there.sha256
            )),
            Some(Ok(_)) => None,
            Some(Err(problem)) => Some(format!("{name} {version} ({problem})")),
            None => Some(format!("{name} {version} (it has no version of {name})")),
        }
    }

    /// The roots and what they depend on, without what matches a `leave_out` pattern, by name.
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

/// An index is paragraphs with empty lines between them.
pub(crate) fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty())
}

/// The value of a one-line field.
pub(crate) fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim);
    paragraph.lines().find_map(value)
}

/// The package that a paragraph describes.
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
    Ok(Package {
        name: name.to_owned(),
        version: required("Version")?,
        architecture: required("Architecture")?,
        depends,
        size_bytes: size.parse().map_err(|_| format!("package \"{name}\" has the size \"{size}\""))?,
        sha256: required("SHA256")?,
        path: field(paragraph, "Filename").map(str::to_owned),
    })
}

/// `a (>= 1) | b:any, c [arch]` without versions and qualifiers.
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

/// Whether a name matches a pattern in which `*` stands for anything.
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
    fn the_closure_follows_dependencies_round_cycles_but_not_what_is_left_out() {
        let index = Index::new(TEXT);
        let packages = index.closure(&words(&["tool"]), &words(&["*-dev", "python*"])).unwrap();
        assert_eq!(names(&packages), ["liba1", "libb1", "libc6", "tool"]);
        assert_eq!(packages[3].file_name(), "tool_1%3a2.0-1_riscv64.deb");
        assert_eq!((packages[3].size_bytes, packages[3].sha256.as_str()), (12, "aa"));
    }

    #[test]
    fn what_the_archive_has_not_any_more_is_told_with_what_it_has() {
        let index = Index::new(TEXT);
        let there = index.package("libc6").unwrap().unwrap();
        assert_eq!(index.gone(&there), None);
        let told = |package: Package| index.gone(&package).unwrap();
        assert_eq!(
            told(Package { version: "2.40".into(), ..there.clone() }),
            "libc6 2.40 (it has 2.41 instead)"
        );
        assert!(told(Package { sha256: "ff".into(), ..there.clone() }).contains("with the SHA-256 dd"));
        assert!(told(Package { name: "libd".into(), ..there }).contains("no version of libd"));
    }

    #[test]
    fn a_root_is_taken_even_if_a_pattern_leaves_it_out() {
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
    fn a_star_stands_for_anything() {
        for (pattern, name) in [("*", ""), ("a*", "a"), ("*-dev", "x-dev"), ("a*c*e", "abcde"), ("a", "a")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a*", "ba"), ("*-dev", "x-dev1"), ("a*c*e", "abde"), ("a", "aa"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
