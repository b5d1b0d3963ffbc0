//! The recipes that come with Doorbell, compiled into the program so that it works from any folder. The build
//! script finds them.

use crate::recipe::RECIPE_FILE;

/// A recipe and the files next to it as part of the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinRecipe {
    /// The name, as in `doorbell image build NAME`.
    pub name: &'static str,
    /// The recipe's path in the repository.
    pub path: &'static str,
    /// The files: name and content. The first one is the recipe, `image.toml`.
    pub files: &'static [(&'static str, &'static str)],
}

/// Every built-in recipe: the shared ones by name, then those of the benchmarks.
pub const BUILTIN: &[BuiltinRecipe] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Recipe;

    #[test]
    fn every_recipe_is_built_in_once() {
        let mut names: Vec<&str> = BUILTIN.iter().map(|recipe| recipe.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BUILTIN.len(), "{names:?}");
        assert!(["net", "netperf-suricata", "nfs", "testpmd"].iter().all(|name| names.contains(name)));
        let files = |name: &str| BUILTIN.iter().find(|recipe| recipe.name == name).unwrap().files;
        let has = |of: &str, file: &str| files(of).iter().any(|(name, _)| *name == file);
        assert!(has("nfs", "programs/blockwrite.c") && has("dpdk", "programs/common/ports.h"));
        assert!(!has("dpdk", "programs/Makefile") && !has("netperf", "netperf-suricata.toml"));
    }

    #[test]
    fn a_built_in_recipe_equals_its_file() {
        for builtin in BUILTIN {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(builtin.path);
            let by_name = Recipe::load(Path::new(builtin.name)).unwrap();
            let by_path = Recipe::load(&path).unwrap();
            assert_eq!(by_name.hash(), by_path.hash());
            assert_eq!(by_name.name(), builtin.name);
        }
    }

    #[test]
    fn every_init_and_application_is_valid_shell() {
        let is_shell = |name: &str| name == "init" || name.ends_with("-app");
        for builtin in BUILTIN {
            for (name, text) in builtin.files.iter().filter(|(name, _)| is_shell(name)) {
                assert!(*name != "init" || text.starts_with("#!/bin/busybox sh\n"), "{}", builtin.name);
                let script = &format!("{text}\n{}", include_str!("../../../guest/host-script"));
                let checked = std::process::Command::new("sh").args(["-n", "-c", script]).output().unwrap();
                let problem = String::from_utf8_lossy(&checked.stderr);
                assert!(checked.status.success(), "{} {name}: {problem}", builtin.name);
            }
        }
    }
}
