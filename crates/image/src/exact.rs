//! Packages that a recipe names exactly, beside those that it takes as the suite has them: one that the suite has not, or one on whose
//! version results depend. A file beside the recipe has their paragraphs as an archive's index has them (`apt-cache show NAME`
//! prints such a paragraph): name, version, dependencies, path in the archive and SHA-256.
//!
//! What it says is the user's word, as a recipe is, in place of the archive's signature.

use crate::index::{Index, Package, field, paragraphs};
use crate::recipe::{is_plain_name, is_relative_path};

/// The packages of a recipe and of those that it extends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exact {
    /// Paragraphs, each with an empty line behind it; of two with one name the last one counts.
    text: String,
}

impl Exact {
    /// Adds those of a file. Names, versions and paths become files' and apt's words, so they must be harmless.
    pub(crate) fn add(&mut self, text: &str, architecture: &str) -> Result<(), String> {
        let index = Index::new(text);
        for paragraph in paragraphs(text) {
            let Some(name) = field(paragraph, "Package").filter(|name| is_plain_name(name)) else {
                return Err(format!("\"{}\" begins no package", paragraph.lines().next().unwrap_or("")));
            };
            let package = index.package(name).expect("it is there")?;
            check(&package, architecture)?;
            self.text += paragraph.trim();
            self.text += "\n\n";
        }
        Ok(())
    }

    /// An index with these packages in place of those of the same names.
    pub(crate) fn over(&self, index: String) -> String {
        if self.text.is_empty() { index } else { format!("{index}\n\n{}", self.text) }
    }

    /// The package of this name, if there is one.
    pub(crate) fn package(&self, name: &str) -> Option<Package> {
        Some(Index::new(&self.text).package(name)?.expect("it was checked"))
    }
}

fn check(package: &Package, architecture: &str) -> Result<(), String> {
    let Package { name, version, sha256, .. } = package;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-._:~".contains(c);
    if !version.starts_with(|c: char| c.is_ascii_digit()) || !version.chars().all(plain) {
        return Err(format!("package {name}: \"{version}\" is no version"));
    }
    if package.architecture != architecture && package.architecture != "all" {
        return Err(format!(
            "package {name} is for {}, and the image for {architecture}",
            package.architecture
        ));
    }
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if sha256.len() != 64 || !sha256.chars().all(is_digit) {
        return Err(format!("package {name}: \"{sha256}\" is no SHA-256"));
    }
    let path = package.path.as_deref().unwrap_or_default();
    let harmless = |part: &str| part.chars().all(|c| plain(c) || c == '%');
    if !path.ends_with(".deb") || !is_relative_path(path) || !path.split('/').all(harmless) {
        return Err(format!("package {name}: Filename: \"{path}\" is no path of a package in an archive"));
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
    fn an_exact_package_takes_the_place_of_the_suites() {
        let mut exact = Exact::default();
        exact.add(&format!("\n{TOOL}\n\n"), "riscv64").unwrap();
        let suite = "Package: tool\nVersion: 1\nArchitecture: riscv64\nSize: 1\nSHA256: aa\n\n\
            Package: libc6\nVersion: 3\nArchitecture: riscv64\nSize: 1\nSHA256: bb\n";
        let all = exact.over(suite.to_owned());
        let chosen = Index::new(&all).closure(&["tool".to_owned()], &[]).unwrap();
        let names: Vec<(&str, &str)> =
            chosen.iter().map(|of| (of.name.as_str(), of.version.as_str())).collect();
        assert_eq!(names, [("libc6", "3"), ("tool", "2.0+git1-1")]);
        assert_eq!(exact.package("tool").unwrap(), chosen[1]);
        assert!(exact.package("libc6").is_none());
        assert_eq!(Exact::default().over("text".to_owned()), "text");
    }

    #[test]
    fn what_could_lead_elsewhere_or_names_nothing_is_refused() {
        for (from, to, says) in [
            ("Package: tool", "Package: ../tool", "begins no package"),
            ("Package: tool", "Packet: tool", "begins no package"),
            ("2.0+git1-1\nA", "1/../x\nA", "no version"),
            ("2.0+git1-1\nA", "-o\nA", "no version"),
            ("Architecture: riscv64", "Architecture: amd64", "for amd64"),
            ("SHA256: ab", "SHA256: AB", "no SHA-256"),
            ("SHA256: ab", "SHA256: ", "no SHA-256"),
            ("SHA256: ab", "MD5: ab", "no SHA256"),
            ("pool/main", "../main", "no path"),
            ("pool/main", "/main", "no path"),
            ("pool/main", "pool/ma in", "no path"),
            ("Filename: pool", "Elsewhere: pool", "no path"),
        ] {
            assert!(TOOL.contains(from));
            let error = Exact::default().add(&TOOL.replacen(from, to, 1), "riscv64").unwrap_err();
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
