//! The recipes that come with Doorbell, compiled into the program so that it works from any folder. This
//! ordered list is the registry: a recipe that is not named here is not built in.

/// A recipe folder as part of the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinRecipe {
    /// The name, as in `doorbell image build NAME`.
    pub name: &'static str,
    /// The folder's files: name and content. One of them is `image.toml`.
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
    recipe!("dpdk": "image.toml", "compute-app", "cores-app", "l3fwd-app", "ports-app", "routes.v4", "routes.v6",
        "programs/common/ports.c", "programs/common/ports.h", "programs/compute.c", "programs/cores.c", "programs/drive.c",
        "programs/memcached-dpdk/answer.h", "programs/memcached-dpdk/cells.h", "programs/memcached-dpdk/main.c", "programs/memcached-dpdk/memcached-shell.c",
        "programs/memcached-dpdk/net.c", "programs/memcached-dpdk/net.h", "programs/memcached-dpdk/number.c",
        "programs/memcached-dpdk/number.h", "programs/memcached-dpdk/protocol.c", "programs/memcached-dpdk/protocol.h",
        "programs/memcached-dpdk/reply.h", "programs/memcached-dpdk/store.c", "programs/memcached-dpdk/store.h",
        "programs/memcached-shards.c",
        "programs/rxptx.c", "programs/touch.h", "programs/touchdrop.c", "programs/touchfwd.c"),
    recipe!("net": "image.toml", "fstab", "group", "index.html", "init", "memcached", "nic-check", "passwd", "respond", "shrc"),
    recipe!("ovs": "image.toml", "ovs-app"),
    recipe!("neighbour": "image.toml", "neighbour-app", "programs/stream.c"),
    recipe!("netperf": "image.toml", "netperf.packages"),
    recipe!("apache": "image.toml", "apache.conf"),
    recipe!("nfs": "image.toml", "programs/blockwrite.c"),
    recipe!("nat": "image.toml"),
    recipe!("suricata": "image.toml", "classification.config", "doorbell.rules", "reference.config", "suricata", "suricata.yaml",
        "threshold.config"),
    recipe!("netperf-suricata": "image.toml", "netperf.packages"),
    recipe!("servers": "image.toml", "nginx.conf"),
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
        // The recipe's own files and, in subfolders, its C sources.
        let is_source = |name: &str| name.ends_with(".c") || name.ends_with(".h");
        let files_of = |dir: &Path| {
            let (mut all, mut open) = (Vec::new(), vec![String::new()]);
            while let Some(inside) = open.pop() {
                for name in list(&dir.join(&inside)) {
                    let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
                    match dir.join(&path).is_dir() {
                        true => open.push(path),
                        false if inside.is_empty() || is_source(&path) => all.push(path),
                        false => {}
                    }
                }
            }
            all.sort();
            all
        };
        let mut registered: Vec<&str> = BUILTIN.iter().map(|recipe| recipe.name).collect();
        registered.sort_unstable();
        assert_eq!(list(&folder), registered);
        for recipe in BUILTIN {
            let mut files: Vec<&str> = recipe.files.iter().map(|(name, _)| *name).collect();
            files.sort_unstable();
            assert_eq!(files_of(&folder.join(recipe.name)), files, "{}", recipe.name);
        }
    }

    #[test]
    fn a_built_in_recipe_equals_its_folder() {
        for builtin in BUILTIN {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/images").join(builtin.name);
            let by_name = Recipe::load(Path::new(builtin.name)).unwrap();
            let by_folder = Recipe::load(&folder).unwrap();
            assert_eq!(by_name.hash(), by_folder.hash());
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
