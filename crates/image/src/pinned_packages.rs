//! Packages that a recipe pins exactly, while it takes the others from the suite: versions that the suite
//! does not have, or on which results depend. A file next to the recipe has their paragraphs in the format of
//! an archive's index (`apt-cache show NAME` prints one): name, version, dependencies, path in the archive
//! and SHA-256.
//!
//! The user vouches for the file, as for the recipe; it replaces the archive's signature.

use crate::index::{Index, Package, field, paragraphs};
use crate::manifest::PackageRecord;
use crate::recipe::{is_plain_name, is_relative_path};

/// The pinned packages of a recipe and of those that it extends.
#[derive(Clone, Debug, Default)]
pub(crate) struct PinnedPackages {
    /// Paragraphs, each followed by an empty line; the last one of each name is used.
    text: String,
}

impl PinnedPackages {
    /// Adds a file's packages. Names, versions and paths become parts of file names and of apt's command
    /// line, so they must be harmless.
    pub(crate) fn add(&mut self, text: &str, architecture: &str) -> Result<(), String> {
        let index = Index::new(text);
        for paragraph in paragraphs(text) {
            let Some(name) = field(paragraph, "Package").filter(|name| is_plain_name(name)) else {
                return Err(format!(
                    "the paragraph of \"{}\" has no valid Package field",
                    paragraph.lines().next().unwrap_or("")
                ));
            };
            let package = index.package(name).expect("the paragraph has this name")?;
            check(&package, architecture)?;
            self.text += paragraph.trim();
            self.text += "\n\n";
        }
        Ok(())
    }

    /// Returns the index with these packages replacing those of the same names.
    pub(crate) fn replace_in(&self, index: String) -> String {
        if self.text.is_empty() { index } else { format!("{index}\n\n{}", self.text) }
    }

    /// The package of this name, if it is pinned.
    pub(crate) fn package(&self, name: &str) -> Option<Package> {
        Some(Index::new(&self.text).package(name)?.expect("it was checked"))
    }
}

fn check(package: &Package, architecture: &str) -> Result<(), String> {
    let PackageRecord { name, version, sha256, .. } = &package.record;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-._:~".contains(c);
    if !version.starts_with(|c: char| c.is_ascii_digit()) || !version.chars().all(plain) {
        return Err(format!("package {name}: \"{version}\" is not a version"));
    }
    if package.architecture != architecture && package.architecture != "all" {
        return Err(format!(
            "package {name} is for {}, but the image is for {architecture}",
            package.architecture
        ));
    }
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if sha256.len() != 64 || !sha256.chars().all(is_digit) {
        return Err(format!("package {name}: \"{sha256}\" is not a SHA-256"));
    }
    let path = package.path.as_deref().unwrap_or_default();
    let harmless = |part: &str| part.chars().all(|c| plain(c) || c == '%');
    if !path.ends_with(".deb") || !is_relative_path(path) || !path.split('/').all(harmless) {
        return Err(format!(
            "package {name}: Filename: \"{path}\" is not the path of a package in an archive"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &str = "Package: tool\nVersion: 2.0+git1-1\nArchitecture: riscv64\nDepends: libc6 (>= 2.38)\n\
        Filename: pool/main/t/tool/tool_2.0+git1-1_riscv64.deb\nSize: 12\n\
        SHA256: abababababababababababababababababababababababababababababababab\n";

    #[test]
    fn a_pinned_package_replaces_the_suites() {
        let mut exact = PinnedPackages::default();
        exact.add(&format!("\n{TOOL}\n\n"), "riscv64").unwrap();
        let suite = "Package: tool\nVersion: 1\nArchitecture: riscv64\nSize: 1\nSHA256: aa\n\n\
            Package: libc6\nVersion: 3\nArchitecture: riscv64\nSize: 1\nSHA256: bb\n";
        let all = exact.replace_in(suite.to_owned());
        let chosen = Index::new(&all).closure(&["tool".to_owned()], &[]).unwrap();
        let names: Vec<(&str, &str)> =
            chosen.iter().map(|of| (of.name.as_str(), of.version.as_str())).collect();
        assert_eq!(names, [("libc6", "3"), ("tool", "2.0+git1-1")]);
        assert_eq!(exact.package("tool").unwrap(), chosen[1]);
        assert!(exact.package("libc6").is_none());
        assert_eq!(PinnedPackages::default().replace_in("text".to_owned()), "text");
    }

    #[test]
    fn unsafe_and_malformed_paragraphs_are_refused() {
        for (from, to, says) in [
            ("Package: tool", "Package: ../tool", "no valid Package field"),
            ("Package: tool", "Packet: tool", "no valid Package field"),
            ("2.0+git1-1\nA", "1/../x\nA", "not a version"),
            ("2.0+git1-1\nA", "-o\nA", "not a version"),
            ("Architecture: riscv64", "Architecture: amd64", "for amd64"),
            ("SHA256: ab", "SHA256: AB", "not a SHA-256"),
            ("SHA256: ab", "SHA256: ", "not a SHA-256"),
            ("SHA256: ab", "MD5: ab", "no SHA256"),
            ("pool/main", "../main", "not the path"),
            ("pool/main", "/main", "not the path"),
            ("pool/main", "pool/ma in", "not the path"),
            ("Filename: pool", "Elsewhere: pool", "not the path"),
        ] {
            assert!(TOOL.contains(from));
            let error = PinnedPackages::default().add(&TOOL.replacen(from, to, 1), "riscv64").unwrap_err();
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
