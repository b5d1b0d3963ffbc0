//! The package list compiled into this program: packages of the built-in images and of the examples, with
//! path and SHA-256, as the suite's index had them when `tools/known-packages` was last run.
//!
//! It is a fallback. While a mirror is being updated, for hours or days, its index does not match the signed
//! Release file, and apt rightly refuses it. The packages themselves are still there, and each can be checked
//! against the SHA-256 in this list.

/// By suite and architecture.
const LISTS: [(&str, &str, &str); 1] =
    [("trixie", "riscv64", include_str!("../../../guest/debian/trixie-riscv64.packages"))];

/// The list of a suite, as paragraphs of the suite's index.
pub(crate) fn packages(suite: &str, architecture: &str) -> Option<&'static str> {
    let found = LISTS.iter().find(|(of, on, _)| (*of, *on) == (suite, architecture));
    found.map(|(_, _, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::builtin::BUILTIN;
    use crate::packages::resolve;
    use crate::recipe::Recipe;

    #[test]
    fn every_built_in_image_can_be_built_from_the_list() {
        for builtin in BUILTIN {
            let recipe = Recipe::load(Path::new(builtin.name)).unwrap();
            let text = packages(&recipe.spec.suite, &recipe.spec.architecture).expect("the suite has a list");
            let all = resolve(&recipe, &recipe.exact.replace_in(text.to_owned()))
                .unwrap_or_else(|error| panic!("{error}"));
            for package in &all {
                let digits = package.sha256.chars().all(|c| c.is_ascii_hexdigit());
                assert!(digits && package.sha256.len() == 64 && package.size_bytes > 0, "{package:?}");
                let path = package.path.as_deref().unwrap_or_default();
                assert!(path.starts_with("pool/main/") && path.ends_with(".deb"), "{package:?}");
            }
            let kernel = all.iter().any(|package| package.name.starts_with("linux-image-6"));
            assert!(kernel, "dependencies are included");
        }
    }

    #[test]
    fn other_suites_have_no_list() {
        assert!(packages("sid", "riscv64").is_none() && packages("trixie", "arm64").is_none());
    }
}
