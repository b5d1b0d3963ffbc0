//! Recipe sources, and recipes that extend another: a user's own TOML file anywhere on disk names a recipe
//! with `extends` and gives only the additions. Lists are appended, single values replace. A file replaces
//! the base recipe's file at the same path. Extended recipes can be extended again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use doorbell_sim::Bytes;
use serde::Deserialize;

use crate::builtin::{BUILTIN, BuiltinRecipe};
use crate::compile::Build;
use crate::cpio::Node;
use crate::error::ImageError;
use crate::recipe::{LocalFile, RECIPE_FILE, Recipe, Spec};

/// The key that distinguishes a recipe that extends another from one that does not.
#[derive(Deserialize)]
struct Head {
    extends: Option<String>,
}

/// A recipe that extends another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extension {
    pub schema: u32,
    #[serde(rename = "extends")]
    _extends: String,
    name: Option<String>,
    description: Option<String>,
    ram_min: Option<Bytes>,
    /// Words to append.
    #[serde(default)]
    command_line: String,
    /// Shell lines that run after the base recipe's `init` has set up the machine.
    #[serde(default)]
    init: Vec<String>,
    #[serde(default)]
    packages: MorePackages,
    #[serde(default)]
    kernel: MoreKernel,
    #[serde(default)]
    initramfs: MoreInitramfs,
    build: Option<Build>,
    /// Not inherited: a lock file must also pin the packages that this recipe adds.
    lock: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MorePackages {
    roots: Vec<String>,
    install: Vec<String>,
    /// Replaces the base recipe's patterns, because these may leave out a package that is needed here.
    leave_out: Option<Vec<String>>,
    /// This recipe's own file; the packages that the base pins exactly stay.
    exact: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MoreKernel {
    modules: Vec<String>,
    drivers: Vec<String>,
    on_demand: Vec<String>,
    strip: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MoreInitramfs {
    elf: Vec<String>,
    data: Vec<String>,
    library_path: Vec<String>,
    directories: Vec<String>,
    links: BTreeMap<String, String>,
    files: BTreeMap<String, LocalFile>,
}

impl Extension {
    /// Applies the extension to a recipe; `stem` is the default name.
    pub(crate) fn apply(&self, base: &Recipe, stem: &str) -> Result<Spec, String> {
        let mut spec = base.spec.clone();
        spec.name = self.name.clone().unwrap_or_else(|| stem.to_owned());
        let described = || format!("{}, extended by {}", base.spec.description, spec.name);
        spec.description = self.description.clone().unwrap_or_else(described);
        spec.ram_min = self.ram_min.unwrap_or(spec.ram_min);
        spec.command_line = format!("{} {}", spec.command_line, self.command_line);
        spec.packages.roots.extend_from_slice(&self.packages.roots);
        spec.packages.install.extend_from_slice(&self.packages.install);
        if let Some(patterns) = &self.packages.leave_out {
            spec.packages.leave_out.clone_from(patterns);
        }
        spec.packages.exact.clone_from(&self.packages.exact);
        spec.kernel.modules.extend_from_slice(&self.kernel.modules);
        spec.kernel.drivers.extend_from_slice(&self.kernel.drivers);
        spec.kernel.on_demand.extend_from_slice(&self.kernel.on_demand);
        spec.kernel.strip |= self.kernel.strip;
        let (all, more) = (&mut spec.initramfs, &self.initramfs);
        all.elf.extend_from_slice(&more.elf);
        all.data.extend_from_slice(&more.data);
        all.library_path.extend_from_slice(&more.library_path);
        all.directories.extend_from_slice(&more.directories);
        all.links.extend(more.links.clone());
        all.files.clone_from(&more.files);
        spec.init.extend_from_slice(&self.init);
        if let Some(more) = &self.build {
            spec.build = Some(spec.build.map_or_else(|| more.clone(), |base| base.merge(more)));
        }
        spec.lock.clone_from(&self.lock);
        Ok(spec)
    }

    /// The folder with the sources of programs that the extension adds.
    pub(crate) fn build_folder(&self) -> Option<&str> {
        self.build.as_ref().map(|build| build.folder.as_str())
    }
}

/// Location of a recipe's TOML and of the files that it names.
pub(crate) enum Origin {
    Builtin(&'static BuiltinRecipe),
    /// A folder and the name of the TOML file in it.
    Folder(PathBuf, String),
}

/// Whether a path is a program's source file, by its extension.
fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ["c", "cc", "cpp", "S", "s", "rs", "py", "sh"].contains(&ending))
}

impl Origin {
    /// Resolves a name or path. A built-in name wins over a file of that name; write `./NAME` for the file.
    pub(crate) fn find(path: &Path) -> Result<Origin, ImageError> {
        let builtin = BUILTIN.iter().find(|builtin| Path::new(builtin.name).as_os_str() == path.as_os_str());
        if let Some(builtin) = builtin {
            return Ok(Origin::Builtin(builtin));
        }
        if path.is_dir() {
            return Ok(Origin::Folder(path.to_owned(), RECIPE_FILE.to_owned()));
        }
        let is_recipe_file = path.is_file() && path.extension().is_some_and(|ending| ending == "toml");
        match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
            (Some(folder), Some(name)) if is_recipe_file => {
                Ok(Origin::Folder(folder.to_owned(), name.to_owned()))
            }
            _ if path.is_file() || is_source(path) => {
                Err(ImageError::NoRecipe { name: path.display().to_string() })
            }
            _ => {
                let known = BUILTIN.iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ");
                Err(ImageError::UnknownRecipe { name: path.display().to_string(), known })
            }
        }
    }

    /// The name used in messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Origin::Builtin(builtin) => builtin.name.to_owned(),
            Origin::Folder(folder, file) if file == RECIPE_FILE => folder.display().to_string(),
            Origin::Folder(folder, file) => folder.join(file).display().to_string(),
        }
    }

    /// A unique name: a built-in recipe's name, or an absolute path.
    pub(crate) fn identity(&self) -> String {
        match self {
            Origin::Builtin(builtin) => builtin.name.to_owned(),
            Origin::Folder(folder, file) => {
                let path = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                path.canonicalize().unwrap_or_else(|_| path.to_owned()).join(file).display().to_string()
            }
        }
    }

    /// The default name of a recipe without a `name`.
    pub(crate) fn stem(&self) -> String {
        let file = match self {
            Origin::Builtin(builtin) => return builtin.name.to_owned(),
            Origin::Folder(folder, file) if file == RECIPE_FILE => folder.clone(),
            Origin::Folder(_, file) => PathBuf::from(file),
        };
        file.file_stem().map_or_else(|| "own".to_owned(), |stem| stem.to_string_lossy().into_owned())
    }

    pub(crate) fn toml_name(&self) -> &str {
        match self {
            Origin::Builtin(_) => RECIPE_FILE,
            Origin::Folder(_, file) => file,
        }
    }

    /// Path of a file next to the recipe; `None` for a built-in recipe.
    pub(crate) fn sibling(&self, name: &str) -> Option<PathBuf> {
        match self {
            Origin::Builtin(_) => None,
            Origin::Folder(folder, _) => Some(folder.join(name)),
        }
    }

    /// The recipe that the recipe `text` extends.
    pub(crate) fn base(&self, text: &str) -> Result<Option<Origin>, String> {
        let head: Head = toml::from_str(text).map_err(|error| error.to_string())?;
        let Some(name) = head.extends else { return Ok(None) };
        let path = match self {
            Origin::Folder(folder, _) if !BUILTIN.iter().any(|builtin| builtin.name == name) => {
                folder.join(&name)
            }
            _ => PathBuf::from(&name),
        };
        Origin::find(&path).map(Some).map_err(|error| format!("extends: {error}"))
    }

    /// The TOML text.
    pub(crate) fn read_toml(&self) -> Result<String, ImageError> {
        let name = self.toml_name();
        let fail = |problem| ImageError::Recipe { recipe: self.shown(), problem };
        let bytes = match self {
            Origin::Builtin(_) => self.builtin_file(name)?,
            Origin::Folder(folder, file) => {
                let path = folder.join(file);
                if !path.exists() {
                    return Err(fail(format!("the file {name} is missing")));
                }
                doorbell_files::read_bounded(&path, doorbell_files::TEXT_BYTES_MAX)
                    .map_err(ImageError::io("read", &path))?
            }
        };
        String::from_utf8(bytes).map_err(|error| fail(format!("{name} is not UTF-8: {error}")))
    }

    fn builtin_file(&self, file: &str) -> Result<Vec<u8>, ImageError> {
        let Origin::Builtin(builtin) = self else { unreachable!("called for built-in recipes only") };
        let found = builtin.files.iter().find(|(name, _)| *name == file);
        found.map(|(_, content)| content.as_bytes().to_vec()).ok_or_else(|| ImageError::Recipe {
            recipe: self.shown(),
            problem: format!("the file {file} is missing"),
        })
    }

    /// All C sources and headers of a folder next to the recipe, by path in that folder.
    pub(crate) fn read_sources(&self, name: &str) -> Result<BTreeMap<String, Node>, ImageError> {
        let mut nodes = BTreeMap::new();
        match self {
            Origin::Builtin(builtin) => {
                let inside = |file: &'static str| file.strip_prefix(name)?.strip_prefix('/');
                let files = builtin.files.iter().filter_map(|(file, content)| Some((inside(file)?, content)));
                nodes.extend(files.map(|(path, content)| {
                    (path.to_owned(), Node::File { mode: 0o644, content: content.as_bytes().to_vec() })
                }));
            }
            Origin::Folder(folder, _) => {
                let from = folder.join(name);
                if !from.is_dir() {
                    let problem = format!("the folder {name} is missing");
                    return Err(ImageError::Recipe { recipe: self.shown(), problem });
                }
                read_tree(&from, name, Some(0o644), &mut nodes)?;
                let inside = |path: String| Some(path.strip_prefix(name)?.strip_prefix('/')?.to_owned());
                nodes = nodes.into_iter().filter_map(|(path, node)| Some((inside(path)?, node))).collect();
                nodes.retain(|_, node| matches!(node, Node::File { .. }));
            }
        }
        nodes.retain(|path, _| path.ends_with(".c") || path.ends_with(".h"));
        Ok(nodes)
    }

    /// The file with the packages that the recipe pins exactly, by name; empty if the recipe names none.
    pub(crate) fn read_exact(&self, name: Option<&str>) -> Result<BTreeMap<String, Node>, ImageError> {
        let local = name.map(|name| {
            (name.to_owned(), LocalFile { from: name.to_owned(), executable: false, mode: None })
        });
        self.read_files(&local.into_iter().collect())
    }

    /// Reads the files, and folders with their contents, that a recipe's `files` put into the guest, by guest
    /// path.
    pub(crate) fn read_files(
        &self,
        files: &BTreeMap<String, LocalFile>,
    ) -> Result<BTreeMap<String, Node>, ImageError> {
        let mut nodes = BTreeMap::new();
        for (path, local) in files {
            let fail = |problem| ImageError::Recipe { recipe: self.shown(), problem };
            let mode = local.mode().map_err(fail)?;
            match self {
                Origin::Builtin(_) => {
                    let content = self.builtin_file(&local.from)?;
                    nodes.insert(path.clone(), Node::File { mode: mode.unwrap_or(0o644), content });
                }
                Origin::Folder(folder, _) => {
                    let from = folder.join(&local.from);
                    if !from.exists() {
                        return Err(fail(format!("the file {} is missing", local.from)));
                    }
                    check_inside(folder, &local.from).map_err(fail)?;
                    read_tree(&from, path, mode, &mut nodes)?;
                }
            }
        }
        Ok(nodes)
    }
}

/// Refuses a link that leads out of the recipe's folder: a third party's recipe must not copy this
/// machine's files into a guest.
fn check_inside(folder: &Path, name: &str) -> Result<(), String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("cannot read {name}: {error}"));
    let (folder, target) = (real(folder)?, real(&folder.join(name))?);
    match target.starts_with(&folder) {
        true => Ok(()),
        false => Err(format!(
            "{name} is a link to {}, outside the recipe's folder; put a copy in its place",
            target.display()
        )),
    }
}

/// Reads a file, or a folder with its contents. A link that the recipe names is followed; links in a folder
/// stay links. Without `mode`, the host file's executable bits decide whether it is a program.
fn read_tree(
    from: &Path,
    to: &str,
    mode: Option<u32>,
    nodes: &mut BTreeMap<String, Node>,
) -> Result<(), ImageError> {
    let meta = fs::metadata(from).map_err(ImageError::io("read", from))?;
    if meta.is_dir() {
        nodes.insert(to.to_owned(), Node::Directory);
        for entry in fs::read_dir(from).map_err(ImageError::io("read", from))? {
            let path = entry.map_err(ImageError::io("read", from))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
                let reason = std::io::Error::other("its name is not UTF-8");
                ImageError::io("take", &path)(reason)
            })?;
            let to = format!("{to}/{name}");
            if path.is_symlink() {
                let target = fs::read_link(&path).map_err(ImageError::io("read", &path))?;
                nodes.insert(to, Node::Link { target: target.to_string_lossy().into_owned() });
            } else {
                read_tree(&path, &to, mode, nodes)?;
            }
        }
    } else if meta.is_file() {
        let content = doorbell_files::read_bounded(from, doorbell_files::GUEST_FILE_BYTES_MAX)
            .map_err(ImageError::io("read", from))?;
        let own = if meta.permissions().mode() & 0o111 != 0 { 0o755 } else { 0o644 };
        nodes.insert(to.to_owned(), Node::File { mode: mode.unwrap_or(own), content });
    } else {
        let reason = std::io::Error::other("it is neither a file nor a folder");
        return Err(ImageError::io("take", from)(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with these files. A file whose name ends in `.toml` is a recipe and gets a schema line.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let schema = if name.ends_with(".toml") { "schema = 1\n" } else { "" };
            fs::write(path, format!("{schema}{content}")).unwrap();
        }
        dir
    }

    fn problem(dir: &tempfile::TempDir, recipe: &str) -> String {
        Recipe::load(dir.path().join(recipe)).unwrap_err().to_string()
    }

    #[test]
    fn extension_appends_lists_and_replaces_values_and_files() {
        let dir = folder(&[
            (
                "one.toml",
                "extends = \"net\"\nram_min = \"300MiB\"\ncommand_line = \"a=1\"\ninit = [\"first\"]\n[packages]\n\
                 install = [\"jq\"]\n[kernel]\nmodules = [\"dummy\"]\n[initramfs.files]\netc.from = \"tree\"\n\
                 \"etc/group\" = { from = \"group\", mode = \"0600\" }",
            ),
            (
                "sub/two.toml",
                "extends = \"../one.toml\"\nname = \"both\"\ncommand_line = \"b=2\"\ninit = [\"second\"]",
            ),
            ("tree/deep/file", "in a tree"),
            ("group", "a group file"),
        ]);
        symlink("deep/file", dir.path().join("tree/link")).unwrap();
        let (net, two) =
            (Recipe::load("net").unwrap(), Recipe::load(dir.path().join("sub/two.toml")).unwrap());
        assert_eq!((two.name(), two.ram_min()), ("both", Bytes(300 << 20)));
        assert_eq!(two.command_line(), format!("{} a=1 b=2", net.command_line()));
        assert_eq!(two.spec.init, ["first", "second"]);
        assert!(two.is_a("net") && !two.is_a("testpmd") && !two.is_a("both"));
        assert!(Recipe::load("dpdk").unwrap().is_a("testpmd"), "dpdk extends testpmd directly");
        assert_eq!(two.spec.packages.roots, net.spec.packages.roots);
        assert_eq!(two.spec.packages.install, ["jq"]);
        assert_eq!(two.spec.kernel.modules, ["8021q", "dummy"]);
        assert!(two.files.contains_key("init"), "the base's files stay");
        assert_eq!(two.files["etc/group"], Node::File { mode: 0o600, content: b"a group file".to_vec() });
        assert_eq!(two.files["etc/deep/file"], Node::File { mode: 0o644, content: b"in a tree".to_vec() });
        assert_eq!(two.files["etc/link"], Node::Link { target: "deep/file".into() });
    }

    #[test]
    fn a_link_may_stay_inside_the_recipes_folder_but_not_lead_out() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.c"), "secret").unwrap();
        let files = "extends = \"net\"\ninitramfs.files.x.from = \"link\"";
        let dir = folder(&[("files.toml", files), ("inside/file", "ours")]);
        let link = dir.path().join("link");
        symlink("inside/file", &link).unwrap();
        let recipe = Recipe::load(dir.path().join("files.toml")).unwrap();
        assert_eq!(recipe.files["x"], Node::File { mode: 0o644, content: b"ours".to_vec() });
        for target in [outside.path().join("secret.c"), outside.path().to_owned(), "/etc/passwd".into()] {
            fs::remove_file(&link).unwrap();
            symlink(&target, &link).unwrap();
            let error = problem(&dir, "files.toml");
            assert!(error.contains("link is a link to") && error.contains("outside"), "{error}");
        }
    }

    #[test]
    fn the_hash_covers_files_modes_and_base_but_the_folder_name_does_not() {
        let dir = folder(&[
            ("one.toml", "extends = \"net\"\ninitramfs.files.x.from = \"x\""),
            ("two.toml", "extends = \"one.toml\""),
            ("x", "1"),
        ]);
        let load = || Recipe::load(dir.path().join("two.toml")).unwrap();
        let (first, x) = (load(), dir.path().join("x"));
        assert_eq!(load().hash(), first.hash());
        fs::set_permissions(&x, PermissionsExt::from_mode(0o755)).unwrap();
        let second = load();
        fs::write(&x, "2").unwrap();
        let third = load();
        assert!(first.hash() != second.hash() && second.hash() != third.hash());
        assert_eq!(first.folder_name(), third.folder_name());
        assert!(first.folder_name().starts_with("two-"));
        let other = folder(&[("two.toml", "extends = \"net\"")]);
        let other = Recipe::load(other.path().join("two.toml")).unwrap();
        assert_ne!(other.folder_name(), first.folder_name(), "two recipes of one name have an image each");
    }

    #[test]
    fn an_invalid_extends_is_reported_by_name() {
        let dir = folder(&[
            ("a.toml", "extends = \"b.toml\""),
            ("b.toml", "extends = \"./a.toml\""),
            ("self.toml", "extends = \"self.toml\""),
            ("orphan.toml", "extends = \"absent.toml\""),
            ("typo.toml", "extends = \"nett\""),
            ("none.toml", "name = \"none\""),
        ]);
        let cycle = problem(&dir, "a.toml");
        assert!(cycle.contains("extends itself") && cycle.contains("b.toml"), "{cycle}");
        assert!(problem(&dir, "self.toml").contains("extends itself"));
        assert!(problem(&dir, "orphan.toml").contains("absent.toml"));
        let typo = problem(&dir, "typo.toml");
        assert!(typo.contains("nett") && typo.contains("testpmd") && typo.contains("dpdk"), "{typo}");
        assert!(problem(&dir, "none.toml").contains("missing field"), "{}", problem(&dir, "none.toml"));
        assert!(problem(&dir, "absent.toml").contains("absent.toml"));
    }

    #[test]
    fn a_wrong_line_of_an_extension_is_named() {
        for (line, parts) in [
            ("packages.instal = [\"jq\"]", ["instal", "unknown field"]),
            ("packages.install = [\"two words\"]", ["two words", "package name"]),
            ("initramfs.files.x.from = \"absent\"", ["absent", "missing"]),
            ("initramfs.files.x.from = \"../outside\"", ["../outside", "relative path"]),
            ("initramfs.files.x.from = \"/etc/passwd\"", ["/etc/passwd", "relative path"]),
            ("initramfs.files.\"/x\".from = \"w.toml\"", ["/x", "relative path"]),
            ("initramfs.files.x = { from = \"w.toml\", mode = \"rwx\" }", ["rwx", "octal"]),
            ("initramfs.files.x = { from = \"w.toml\", mode = \"77777\" }", ["77777", "octal"]),
            ("init = [\"a\\nb\"]", ["init", "more than one line"]),
            ("schema_version = 2", ["schema_version", "unknown field"]),
        ] {
            let dir = folder(&[("w.toml", &format!("extends = \"net\"\n{line}\n"))]);
            let error = problem(&dir, "w.toml");
            assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
        }
    }

    #[test]
    fn a_source_file_in_place_of_a_recipe_is_refused_with_a_hint() {
        let dir = folder(&[("count.c", "int main(void) { return 0; }\n"), ("own", "text")]);
        for name in [dir.path().join("count.c"), dir.path().join("own"), "gone/count.c".into()] {
            let error = Origin::find(&name).err().unwrap().to_string();
            assert!(
                error.contains("is not an image recipe") && error.contains("[build.programs]"),
                "{error}"
            );
        }
        assert!(
            Origin::find(Path::new("nope")).err().unwrap().to_string().contains("there is no image recipe")
        );
    }
}
