//! Network files: merges a network file's settings with those of the machine, of the nodes' benchmarks and of the nodes'
//! own machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use doorbell_loadgen::Rate;
use doorbell_machine::overlay::Overlay;
use doorbell_machine::{Base, ConfigError, is_path};
use toml::{Table, Value};

use crate::error::RunError;
use crate::plan::options;
use crate::plan::resolved::Resolved;
use crate::registry::{self, benchmark};
use crate::request::network::config::{in_member, keys_of_the_run};
use crate::request::reference::with_hint;
use crate::request::resolve::resolved;

/// A network file that was read.
#[derive(Clone, Debug)]
pub struct NetworkFile {
    name: String,
    /// The file's settings. The contents of script files are already inserted.
    tree: Table,
    /// The machines that nodes name as `preset`.
    bases: BTreeMap<String, Base>,
    /// For the configuration of a result, which sets every key: an empty base machine.
    whole: Option<Base>,
}

impl NetworkFile {
    /// Reads a network file and the files that it names (scripts, disks, image recipes, machines), whose paths are relative
    /// to it. A result's `config.toml` is read unchanged.
    pub fn read(path: &Path) -> Result<NetworkFile, RunError> {
        let name = path.display().to_string();
        let read = |path: &Path| doorbell_files::read_text(path).map_err(RunError::io("read", path));
        let text = read(path)?;
        let mut tree = Overlay::from_toml(&name, &text)?.into_table();
        if Base::is_result_config(&text) {
            let whole = Some(Base::defaults_only(name.clone()));
            return Ok(NetworkFile { name, tree, bases: BTreeMap::new(), whole });
        }
        let mut bases = BTreeMap::new();
        let nodes = tree.get_mut("node").and_then(Value::as_table_mut);
        for (node, table) in nodes.into_iter().flatten() {
            let Some(table) = table.as_table_mut() else { continue };
            resolve_paths(table, path);
            if let Some(Value::String(machine)) = table.get("preset") {
                let place =
                    if is_path(machine) { path.with_file_name(machine) } else { PathBuf::from(machine) };
                let base = Base::find(&place.to_string_lossy());
                bases.insert(
                    machine.clone(),
                    base.map_err(|error| in_member(&format!("node.{node}"), error))?,
                );
            }
            let script = match table.remove("script_file") {
                None => continue,
                Some(Value::String(script)) => script,
                Some(other) => {
                    let problem = format!("{other} is not a file name; name a file, such as \"client.sh\"");
                    return Err(ConfigError::new(format!("node.{node}.script_file"), problem).into());
                }
            };
            let lines = read(&path.with_file_name(script))?;
            if table.insert("script".to_owned(), Value::String(lines)).is_some() {
                return Err(ConfigError::new(
                    format!("node.{node}.script"),
                    "the node has both script and script_file; give only one of them",
                )
                .into());
            }
        }
        Ok(NetworkFile { name, tree, bases, whole: None })
    }

    /// As [`NetworkFile::resolve`], with this rate for every generator.
    pub fn resolve_at(&self, base: &Base, overrides: &[String], rate: Rate) -> Result<Resolved, ConfigError> {
        let config = self.resolve(base, overrides)?;
        let all = config.generator.keys().map(|name| format!("generator.{name}.traffic.rate={rate}"));
        let overrides: Vec<String> = overrides.iter().cloned().chain(all).collect();
        self.resolve(base, &overrides)
    }

    /// The machine of nodes without one of their own: the user's `base`, or none for a result's configuration, which sets
    /// every key.
    pub fn base<'a>(&'a self, base: &'a Base) -> &'a Base {
        self.whole.as_ref().unwrap_or(base)
    }

    /// Resolves the configuration. The layers, in ascending priority: the machine's preset, the settings of the nodes'
    /// benchmarks, the machine's file, this file, and the user's overrides.
    pub fn resolve(&self, base: &Base, overrides: &[String]) -> Result<Resolved, ConfigError> {
        let base = self.base(base);
        let mut own = Overlay::from_table(self.tree.clone());
        overrides.iter().try_for_each(|assignment| own.set(assignment))?;
        let mut whole = base.preset_overlay();
        for (node, name) in benchmarks_named(own.table()) {
            // An unknown benchmark is reported later, with the key of its node.
            let defaults = benchmark(&name).map_or(&[][..], |known| known.defaults);
            let (of_traffic, of_run): (Vec<&str>, Vec<&str>) =
                defaults.iter().partition(|assignment| assignment.starts_with("loadgen."));
            of_run.iter().try_for_each(|assignment| whole.set(assignment))?;
            set_generators(&mut own, &node, &of_traffic)?;
        }
        whole.merge(base.user_table().clone());
        let own = match &self.whole {
            Some(_) => own.into_table(),
            None => self.with_node_machines(own.into_table())?,
        };
        whole.merge(own);
        let config =
            registry::defaults().with(whole.table()).map_err(|error| with_hint(error, whole.table()))?;
        let problem =
            "it has none of [node.NAME], [switch.NAME], [generator.NAME] and [cable.NAME] (docs/networks.md)";
        options::reject_if(!config.is_network(), self.name.clone(), problem)?;
        resolved(config)
    }

    /// Expands the settings of each node with a machine of its own: those of that machine, the file's common settings, and
    /// the node's own.
    fn with_node_machines(&self, mut tree: Table) -> Result<Table, ConfigError> {
        let mut common = tree.clone();
        let of_the_run = keys_of_the_run();
        common.retain(|key, _| !of_the_run.contains(&key));
        let nodes = tree.get_mut("node").and_then(Value::as_table_mut);
        for (name, node) in nodes.into_iter().flatten() {
            let Some(node) = node.as_table_mut() else { continue };
            let Some(Value::String(machine)) = node.get("preset") else { continue };
            let in_node = |error| in_member(&format!("node.{name}"), error);
            let base = match self.bases.get(machine) {
                Some(base) => base.clone(),
                None => Base::find(machine).map_err(in_node)?,
            };
            let mut whole = base.preset_overlay();
            let benchmark =
                node.get("benchmark").and_then(Value::as_str).and_then(|name| benchmark(name).ok());
            let defaults = benchmark.map_or(&[][..], |known| known.defaults).iter();
            let mut of_run = defaults.filter(|assignment| !assignment.starts_with("loadgen."));
            of_run.try_for_each(|assignment| whole.set(assignment)).map_err(in_node)?;
            whole.merge(base.user_table().clone());
            whole.merge(common.clone());
            // Keys that none of these set have their defaults, and not the values of the other nodes.
            let resolved = registry::defaults()
                .with(whole.table())
                .map_err(|error| in_node(with_hint(error, whole.table())))?;
            // The sections of the machine and of its program.
            let mut of_machine = resolved.to_table();
            of_machine.retain(|key, _| !of_the_run.contains(&key));
            let mut merged = Overlay::from_table(of_machine);
            merged.merge(std::mem::take(node));
            *node = merged.into_table();
        }
        Ok(tree)
    }
}

/// Resolves the paths of a node's disks and image recipe relative to the network file.
fn resolve_paths(node: &mut Table, file: &Path) {
    let moved = |value: &mut Value| {
        if let Value::String(path) = value {
            *path = file.with_file_name(&*path).display().to_string();
        }
    };
    node.get_mut("disks").and_then(Value::as_array_mut).into_iter().flatten().for_each(moved);
    // A built-in image is given by name, not by path.
    node.get_mut("image").filter(|image| image.as_str().is_some_and(is_path)).into_iter().for_each(moved);
}

/// Pairs of a node and the benchmark that it runs.
fn benchmarks_named(tree: &Table) -> Vec<(String, String)> {
    let nodes = tree.get("node").and_then(Value::as_table);
    let named =
        |(name, node): (&String, &Value)| Some((name.clone(), node.get("benchmark")?.as_str()?.to_owned()));
    nodes.into_iter().flatten().filter_map(named).collect()
}

/// Sets the benchmark's traffic settings for the generators that send to its node, unless the file or the user sets them.
fn set_generators(own: &mut Overlay, node: &str, defaults: &[&str]) -> Result<(), ConfigError> {
    let generators = own.table().get("generator").and_then(Value::as_table);
    let sends = |generator: &Value| {
        generator.get("to").and_then(Value::as_str).is_some_and(|to| to.split('.').next() == Some(node))
    };
    let names: Vec<String> = generators
        .into_iter()
        .flatten()
        .filter(|(_, table)| sends(table))
        .map(|(name, _)| name.clone())
        .collect();
    for assignment in defaults {
        let (path, value) = assignment.split_once('=').expect("a benchmark's settings are assignments");
        let rest = path.strip_prefix("loadgen.").expect("only those of generators are given");
        // The generator's addresses follow from the node's.
        let follows = rest == "traffic.destination_ip" && has(own.table(), &format!("node.{node}.ip"));
        if follows || rest == "traffic.source_ip" {
            continue;
        }
        for name in &names {
            if !has(own.table(), path) && !has(own.table(), &format!("generator.{name}.{rest}")) {
                own.set(&format!("generator.{name}.{rest}={value}"))?;
            }
        }
    }
    Ok(())
}

/// Whether a tree has a value at a dotted path.
fn has(tree: &Table, path: &str) -> bool {
    let Some((first, rest)) = path.split_once('.') else { return tree.contains_key(path) };
    tree.get(first).and_then(Value::as_table).is_some_and(|part| has(part, rest))
}

#[cfg(test)]
mod tests {
    use doorbell_sim::Bytes;

    use super::*;

    const NODES: &str = "
[node.one]
ip = \"10.0.0.1/24\"
[node.two]
ip = \"10.0.0.2/24\"
[cable.wire]
between = [\"one\", \"two\"]
";

    fn of_text(text: &str) -> Result<Resolved, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        match NetworkFile::read(&path) {
            Ok(file) => file.resolve(&Base::find("server").unwrap(), &[]),
            Err(RunError::Config(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn script_file_must_be_a_file_name() {
        let error = of_text(&NODES.replace("[node.two]", "[node.two]\nscript_file = 5")).unwrap_err();
        assert_eq!(error.key, "node.two.script_file");
        assert!(error.problem.contains("name a file"), "{}", error.problem);
    }

    #[test]
    fn every_example_network_resolves_timed_and_functional() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/networks");
        let files = std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
        let mut count = 0;
        for path in files.filter(|path| !std::fs::read_to_string(path).unwrap().starts_with("network")) {
            let network = NetworkFile::read(&path).unwrap();
            for preset in ["server", "fast"] {
                let config =
                    network.resolve(&Base::find(preset).unwrap(), &[]).and_then(|config| config.topology());
                config.unwrap_or_else(|error| panic!("{}, {preset}: {error}", path.display()));
            }
            count += 1;
        }
        assert!(count >= 4, "{count} networks");
    }

    #[test]
    fn network_configuration_lists_the_defaults_of_the_attachment_kind() {
        let own = "[node.two]\nattach.kind = \"llc\"\nport.0.attach.kind = \"memory-bus\"";
        let text = format!("attach.kind = \"memory-bus\"\n{}", NODES.replace("[node.two]", own));
        let config = of_text(&text).unwrap();
        assert_eq!(config.to_toml().matches("outstanding = 64").count(), 3, "{}", config.to_toml());
        let back = registry::defaults().with(&config.to_toml().parse().unwrap()).unwrap();
        assert_eq!(back, *config);
        let other = NODES.replace("[node.two]", "[node.two]\nattach.kind = \"pcie\"");
        let config = of_text(&format!("attach.kind = \"memory-bus\"\n{other}")).unwrap();
        config.topology().expect("an attachment of another kind has only keys of its own");
    }

    #[test]
    fn paths_are_relative_to_the_network_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("small.toml", "base = \"server\"\npipeline.rob = 16\n");
        let own = "[node.two]\npreset = \"./small.toml\"\nimage = \"images/own.toml\"\ndisks = [\"d.img\"]\n";
        write("net.toml", &NODES.replace("[node.two]", own));
        let network = NetworkFile::read(&folder.path().join("net.toml")).unwrap();
        let config = network.resolve(&Base::find("fast").unwrap(), &[]).unwrap();
        let node = &config.node["two"];
        let in_folder = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(node.image.as_deref(), Some(in_folder("images/own.toml").as_str()));
        assert_eq!(node.disks, [folder.path().join("d.img")]);
        let nodes = config.topology().unwrap().nodes;
        assert_eq!([nodes[0].pipeline.rob, nodes[1].pipeline.rob], [128, 16]);
        assert_eq!(node.preset.as_deref(), Some("./small.toml"), "as it is written");
        write("net.toml", &NODES.replace("[node.two]", "[node.two]\nimage = \"net\""));
        let network = NetworkFile::read(&folder.path().join("net.toml")).unwrap();
        let config = network.resolve(&Base::find("fast").unwrap(), &[]).unwrap();
        assert_eq!(config.node["two"].image.as_deref(), Some("net"), "a built-in image has no path");
        write("net.toml", &NODES.replace("[node.two]", "[node.two]\npreset = \"lost.toml\""));
        let error = NetworkFile::read(&folder.path().join("net.toml")).unwrap_err().to_string();
        assert!(error.starts_with("node.two.") && error.contains("no such file"), "{error}");
    }

    #[test]
    fn benchmark_settings_apply_to_a_node_with_its_own_machine() {
        let ram = |own: &str| {
            let text = NODES.replace("[node.two]", &format!("[node.two]\nbenchmark = \"l3fwd\"\n{own}"));
            of_text(&text).unwrap().topology().unwrap().nodes[1].platform.ram
        };
        let all = ["", "preset = \"fast\"\n", "preset = \"fast\"\nplatform.ram = \"1GiB\"\n"];
        assert_eq!(all.map(ram), [Bytes(768 << 20), Bytes(768 << 20), Bytes(1 << 30)]);
    }

    #[test]
    fn configuration_of_a_network_result_resolves_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let own = "[node.two]\npreset = \"fast\"\nbenchmark = \"l3fwd\"\nport.0.attach.kind = \"llc\"\n";
        let generator = "[generator.load]\nto = \"one\"\n[cable.side]\nbetween = [\"load\", \"one.1\"]\n";
        let text = format!(
            "nic.rx_fifo = \"48KiB\"\nplatform.nics = 2\n{}{generator}",
            NODES.replace("[node.two]", own)
        );
        let config = of_text(&text).unwrap();
        std::fs::write(&path, format!("# config_hash = \"{}\"\n\n{}", config.hash(), config.to_toml()))
            .unwrap();
        for machine in ["server", "champsim", "m5-occ"] {
            let again =
                NetworkFile::read(&path).unwrap().resolve(&Base::find(machine).unwrap(), &[]).unwrap();
            assert_eq!(again.hash(), config.hash(), "whatever machine is the default");
        }
    }
}
