//! The packages that this program knows of a suite without asking: those of the built-in images and of the examples, with where
//! in the archive they are and the SHA-256 of each, as the suite's index had them when `tools/known-packages` last wrote them down.
//!
//! They are a spare. A mirror that is brought up to date has, for hours or days, an index that is not the one that its signed
//! Release file names. apt refuses it, rightly, and nobody could build an image meanwhile. The packages themselves are
//! there, and each can be held to the SHA-256 that came with this program.

/// By suite and architecture.
const KNOWN: [(&str, &str, &str); 1] =
    [("trixie", "riscv64", include_str!("../../../guest/debian/trixie-riscv64.packages"))];

/// Paragraphs as in the suite's index.
pub(crate) fn packages(suite: &str, architecture: &str) -> Option<&'static str> {
    let found = KNOWN.iter().find(|(of, on, _)| (*of, *on) == (suite, architecture));
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
    fn every_built_in_image_can_be_built_of_what_is_known() {
        for builtin in BUILTIN {
            let recipe = Recipe::load(Path::new(builtin.name)).unwrap();
            let text = packages(&recipe.spec.suite, &recipe.spec.architecture).expect("its suite is known");
            let all = resolve(&recipe, &recipe.exact.over(text.to_owned()))
                .unwrap_or_else(|error| panic!("{error}"));
            for package in &all {
                let digits = package.sha256.chars().all(|c| c.is_ascii_hexdigit());
                assert!(digits && package.sha256.len() == 64 && package.size_bytes > 0, "{package:?}");
                let path = package.path.as_deref().unwrap_or_default();
                assert!(path.starts_with("pool/main/") && path.ends_with(".deb"), "{package:?}");
            }
            let kernel = all.iter().any(|package| package.name.starts_with("linux-image-6"));
            assert!(kernel, "what packages depend on comes along");
        }
    }

    #[test]
    fn of_another_suite_nothing_is_known() {
        assert!(packages("sid", "riscv64").is_none() && packages("trixie", "arm64").is_none());
    }
}
