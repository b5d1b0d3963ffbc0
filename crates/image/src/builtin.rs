//! The recipes that come with Doorbell, compiled into the program so that it works from any folder.
//! This ordered list is the registry: a recipe that is not named here is not built in.

/// A recipe folder as part of the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinRecipe {
    /// The name, as in `doorbell image build NAME`.
    pub name: &'static str,
    /// The folder's files: name and content. One is `image.toml`.
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! recipe {
    ($name:literal: $($file:literal),+) => {
        BuiltinRecipe {
            name: $name,
            files: &[$(($file, include_str!(concat!("../../../guest/images/", $name, "/", $file)))),+],
        }
    };
}

/// Every built-in recipe, in the order in which they are listed to the user.
pub const BUILTIN: &[BuiltinRecipe] = &[
    recipe!("testpmd": "image.toml", "fstab", "init"),
    recipe!("net": "image.toml", "fstab", "group", "index.html", "init", "memcached", "nic-check", "passwd", "respond", "shrc"),
    recipe!("server": "image.toml", "disk-init", "fstab", "group", "hosts", "init", "passwd", "profile"),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Recipe;

    #[test]
    fn every_recipe_folder_is_registered_with_all_its_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/images");
        let list = |dir: &Path| {
            let mut names: Vec<String> = std::fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let mut registered: Vec<&str> = BUILTIN.iter().map(|recipe| recipe.name).collect();
        registered.sort_unstable();
        assert_eq!(list(&folder), registered);
        for recipe in BUILTIN {
            let mut files: Vec<&str> = recipe.files.iter().map(|(name, _)| *name).collect();
            files.sort_unstable();
            assert_eq!(list(&folder.join(recipe.name)), files, "{}", recipe.name);
        }
    }

    #[test]
    fn a_built_in_recipe_and_its_folder_are_the_same_recipe() {
        for builtin in BUILTIN {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/images").join(builtin.name);
            let by_name = Recipe::load(Path::new(builtin.name)).unwrap();
            let by_folder = Recipe::load(&folder).unwrap();
            assert_eq!(by_name.hash(), by_folder.hash());
            assert_eq!(by_name.name(), builtin.name);
        }
    }

    #[test]
    fn every_init_is_a_shell_script_without_syntax_errors() {
        for builtin in BUILTIN {
            let (_, init) = builtin.files.iter().find(|(name, _)| *name == "init").unwrap();
            let script = &format!("{init}\n{}", include_str!("../../../guest/host-script"));
            assert!(script.starts_with("#!/bin/busybox sh\n"), "{}", builtin.name);
            let checked = std::process::Command::new("sh").args(["-n", "-c", script]).output().unwrap();
            assert!(
                checked.status.success(),
                "{}: {}",
                builtin.name,
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }
}
