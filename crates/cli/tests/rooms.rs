//! The house's rule: models know `sim` only, neighbours meet through ports, and one room wires them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which rooms each room may know. A room that is not listed here fails the test.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("sim", &[]),
    ("files", &[]),
    ("results", &[]),
    ("wire", &["sim"]),
    ("loadgen", &["sim", "wire", "results"]),
    ("nic", &["sim", "wire", "pcie"]),
    ("pcie", &["sim"]),
    ("attach", &["sim", "pcie"]),
    ("memory", &["sim"]),
    ("core", &["sim"]),
    ("riscv", &["sim"]),
    ("platform", &["sim"]),
    ("trace", &["sim"]),
    ("image", &["sim", "files", "results"]),
    ("symbols", &["sim"]),
    ("qemu-trace", &["sim", "files", "image", "riscv", "trace"]),
    ("drmemtrace", &["sim", "qemu-trace", "trace"]),
    (
        "machine",
        &[
            "sim", "files", "wire", "loadgen", "nic", "pcie", "attach", "memory", "core", "riscv",
            "platform", "trace",
        ],
    ),
    (
        "bench",
        &[
            "sim",
            "files",
            "wire",
            "loadgen",
            "nic",
            "pcie",
            "machine",
            "image",
            "symbols",
            "results",
            "trace",
            "drmemtrace",
        ],
    ),
    ("study", &["sim", "files", "loadgen", "machine", "bench", "results"]),
    ("report", &["results"]),
    ("gdb", &["sim", "riscv", "machine"]),
    (
        "cli",
        &[
            "sim",
            "files",
            "loadgen",
            "nic",
            "machine",
            "image",
            "bench",
            "study",
            "report",
            "gdb",
            "trace",
            "qemu-trace",
            "drmemtrace",
        ],
    ),
    // Tools that only tests use.
    ("assembler", &[]),
    ("example", &["sim", "pcie", "machine"]),
    ("archive", &["files", "image"]),
    ("faults", &["sim", "files", "assembler", "platform", "image", "bench", "archive"]),
    ("oracle", &["image"]),
    ("qtest", &["sim", "oracle"]),
    ("lockstep", &["sim", "riscv", "platform", "image", "oracle"]),
    (
        "acceptance",
        &[
            "sim",
            "wire",
            "loadgen",
            "nic",
            "memory",
            "core",
            "assembler",
            "platform",
            "trace",
            "machine",
            "image",
            "bench",
            "report",
            "oracle",
        ],
    ),
    (
        "harness",
        &["sim", "wire", "loadgen", "nic", "pcie", "riscv", "platform", "trace", "machine", "drmemtrace"],
    ),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The rooms that a manifest's `[dependencies]` name; what only tests use is free.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let dependencies = table.get("dependencies").and_then(|value| value.as_table());
    let names = dependencies.into_iter().flat_map(|table| table.keys());
    names.filter_map(|name| name.strip_prefix("doorbell-")).map(str::to_owned).collect()
}

#[test]
fn no_room_knows_one_that_it_may_not() {
    let rules: BTreeMap<&str, &[&str]> = MAY_KNOW.iter().copied().collect();
    let mut seen = 0;
    for entry in std::fs::read_dir(crates()).unwrap() {
        let folder = entry.unwrap().path();
        let room = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let allowed =
            rules.get(room.as_str()).unwrap_or_else(|| panic!("no rule says what crates/{room} may know"));
        for dependency in dependencies(&folder.join("Cargo.toml")) {
            assert!(allowed.contains(&dependency.as_str()), "crates/{room} must not know {dependency}");
        }
        seen += 1;
    }
    assert!(seen >= 12, "only {seen} rooms were found");
}

/// The rooms of a crate's modules: each may import itself and those before it.
const LAYERS: &[(&str, &[&str])] = &[(
    "bench",
    &[
        "error",
        "ratio",
        "plan",
        "store",
        "figures",
        "testbed",
        "window",
        "measure",
        "scenarios",
        "registry",
        "request",
    ],
)];

/// Crates whose modules import each other in no circle, with groups of modules that are one thing.
const WITHOUT_CIRCLES: &[(&str, &[&[&str]])] = &[("bench", &[&["plan::config", "plan::options"]])];

/// The text of each module of a crate, by its path below `src`, without tests. The scenarios are modules of bench.
fn texts(room: &str) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let source = crates().join(room).join("src");
    let mut folders = vec![(source.clone(), source)];
    if room == "bench" {
        let repository = crates().parent().unwrap().to_owned();
        folders.push((repository.join("scenarios"), repository));
    }
    while let Some((folder, source)) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&source).unwrap().with_extension("").display().to_string();
            if path.is_dir() {
                folders.push((path, source.clone()));
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && name != "lib"
                && !["tests", "acceptance"].iter().any(|end| name.ends_with(end))
                && !name.contains("/acceptance/")
            {
                let module = name.trim_end_matches("/mod").replace('/', "::");
                let text = std::fs::read_to_string(&path).unwrap();
                texts.insert(module, text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned());
            }
        }
    }
    texts
}

/// The modules of a crate, and for each the modules of its own crate that it imports. Left out are the parent module
/// and modules in the same folder.
fn imports(room: &str) -> BTreeMap<String, Vec<String>> {
    let texts = texts(room);
    let module = |path: &str| {
        let end = path.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(path.len());
        let mut parts: Vec<&str> = path[..end].split("::").collect();
        while !parts.is_empty() && !texts.contains_key(&parts.join("::")) {
            parts.pop();
        }
        (!parts.is_empty()).then(|| parts.join("::"))
    };
    let imported = |text: &String| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code: String = lines.flat_map(|line| [line.trim(), " "]).collect();
        let paths = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => {
                group.split('}').next().unwrap().split(',').map(|path| path.trim().to_owned()).collect()
            }
            None => vec![rest.to_owned()],
        });
        paths.filter_map(|path| module(&path)).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), imported(text))).collect()
}

/// A circle of imports, if there is one: modules that import nothing but each other's importers are what is left.
fn circle(mut imports: BTreeMap<String, Vec<String>>, as_one: &[&[&str]]) -> Vec<String> {
    let group = |name: &String| as_one.iter().position(|group| group.contains(&name.as_str()));
    loop {
        let left: Vec<String> = imports.keys().cloned().collect();
        let is_free = |module: &String, of: &Vec<String>| {
            of.iter().all(|to| {
                to == module || !left.contains(to) || group(to).is_some() && group(to) == group(module)
            })
        };
        imports.retain(|module, of| !is_free(module, of));
        if imports.len() == left.len() {
            return left;
        }
    }
}

#[test]
fn no_module_imports_one_of_a_later_layer() {
    for (room, layers) in LAYERS {
        let layer = |module: &str| {
            let name = module.split("::").next().unwrap();
            layers.iter().position(|layer| *layer == name).unwrap_or_else(|| panic!("{name} is in no layer"))
        };
        for (module, of) in imports(room) {
            let later: Vec<&String> = of.iter().filter(|to| layer(to) > layer(&module)).collect();
            assert!(later.is_empty(), "crates/{room}: {module} must not import {later:?}, of a later layer");
        }
    }
}

#[test]
fn only_the_registry_imports_the_scenarios_and_no_module_of_bench_imports_a_chip() {
    for (module, of) in imports("bench") {
        let knows = of.iter().any(|to| to.starts_with("scenarios"));
        assert!(!knows || module == "registry" || module.starts_with("scenarios"), "{module} imports {of:?}");
    }
    for (module, text) in texts("bench") {
        assert!(!text.to_lowercase().contains("e825"), "{module} names a chip; ask its NicModel instead");
    }
}

#[test]
fn modules_import_each_other_in_no_circle() {
    for (room, as_one) in WITHOUT_CIRCLES {
        let imports = imports(room);
        assert!(imports.len() > 100, "only {} modules of crates/{room} were found", imports.len());
        let found = circle(imports, as_one);
        assert!(found.is_empty(), "modules of crates/{room} in or above a circle of imports: {found:?}");
    }
    let two = [("a", vec!["b"]), ("b", vec!["a"]), ("c", vec!["a"]), ("d", vec![])];
    let two = two.map(|(name, of)| (name.to_owned(), of.iter().map(|&to| to.to_owned()).collect()));
    assert_eq!(circle(two.clone().into(), &[]), ["a", "b", "c"]);
    assert!(circle(two.into(), &[&["a", "b"]]).is_empty());
}
