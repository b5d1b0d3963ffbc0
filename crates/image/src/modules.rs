//! The kernel modules of an image, decompressed, with their dependencies: those that `init` loads, in order;
//! the drivers that `init` loads if their devices are present (`kernel.drivers`); and those that the kernel
//! loads on request (`kernel.on_demand`).
//!
//! `init` loads a driver by its device's alias with busybox's modprobe. The kernel's `request_module` runs
//! /sbin/modprobe, here busybox's too. It reads `modules.dep` and
//! `modules.alias` of the kernel's release (modules.dep(5)), which depmod writes on an installed system;
//! aliases come from the modules' own `.modinfo`.

use std::collections::BTreeMap;
use std::fs;

use crate::confine::Bounds;
use crate::cpio::{Archive, Node};
use crate::elf::{module_aliases, module_depends};
use crate::error::ImageError;
use crate::host::{self, XZ};
use crate::labels::without_labels;
use crate::recipe::Spec;
use crate::tree::Tree;

/// The folder of the modules, and the list of their files in loading order.
const MODULE_FOLDER: &str = "usr/lib/modules";
const MODULE_ORDER: &str = "usr/lib/modules/order";
const BUSYBOX: &str = "usr/bin/busybox";

/// Modules by name, and a loading order that satisfies their dependencies.
#[derive(Default)]
struct Modules {
    order: Vec<String>,
    contents: BTreeMap<String, Vec<u8>>,
}

/// Puts modules into the archive, and the files that list them.
pub(crate) fn put_modules(
    spec: &Spec,
    tree: &Tree,
    release: &str,
    archive: &mut Archive,
) -> Result<(), ImageError> {
    let fail = |problem: String| ImageError::Content { image: spec.name.clone(), problem };
    let all = tree.walk(&format!("{MODULE_FOLDER}/{release}/kernel"));
    let mut modules = Modules::default();
    modules.add(&spec.kernel.modules, fail, |name| read_module(spec, tree, &all, name))?;
    let order: String = modules.order.iter().map(|name| format!("{name}.ko\n")).collect();
    archive.put(MODULE_ORDER, text(order)).map_err(fail)?;
    let by_name = [&spec.kernel.drivers[..], &spec.kernel.on_demand].concat();
    if !by_name.is_empty() {
        modules.add(&by_name, fail, |name| read_module(spec, tree, &all, name))?;
        put_modprobe(spec, &modules, release, archive).map_err(fail)?;
    }
    for (name, mut content) in modules.contents {
        if spec.kernel.strip {
            content = without_labels(&content)
                .map_err(|problem| fail(format!("module {name} cannot be stripped: {problem}")))?;
        }
        let node = Node::File { mode: 0o644, content };
        archive.put(&format!("{MODULE_FOLDER}/{name}.ko"), node).map_err(fail)?;
    }
    Ok(())
}

fn text(text: String) -> Node {
    Node::File { mode: 0o644, content: text.into_bytes() }
}

impl Modules {
    /// Adds modules and their dependencies, each after the modules it needs.
    fn add(
        &mut self,
        names: &[String],
        fail: impl Fn(String) -> ImageError,
        read: impl Fn(&str) -> Result<Vec<u8>, ImageError>,
    ) -> Result<(), ImageError> {
        // Depth first: a module is added when all its dependencies are in the list.
        let mut stack: Vec<String> = names.iter().rev().map(|name| canonical(name)).collect();
        while let Some(name) = stack.pop() {
            if self.order.contains(&name) {
                continue;
            }
            if !self.contents.contains_key(&name) {
                self.contents.insert(name.clone(), read(&name)?);
            }
            let needs = self.needs(&name).map_err(&fail)?;
            let missing: Vec<String> = needs.into_iter().filter(|need| !self.order.contains(need)).collect();
            if missing.is_empty() {
                self.order.push(name);
            } else if missing.iter().any(|need| stack.contains(need) && self.contents.contains_key(need)) {
                return Err(fail(format!("module {name} depends on itself")));
            } else {
                stack.push(name);
                stack.extend(missing);
            }
        }
        Ok(())
    }

    fn needs(&self, name: &str) -> Result<Vec<String>, String> {
        let needs =
            module_depends(&self.contents[name]).map_err(|problem| format!("module {name} is {problem}"))?;
        Ok(needs.iter().map(|need| canonical(need)).collect())
    }

    /// The lines of `modules.dep`. Each names all modules to load before a module, in reverse loading order.
    fn dependencies(&self) -> Result<String, String> {
        let file = |name: &str| format!("../{name}.ko");
        let mut lines = String::new();
        for name in &self.order {
            // Modules later in the order are not dependencies of this one.
            let (mut all, mut open) = (Vec::new(), self.needs(name)?);
            while let Some(need) = open.pop() {
                open.extend(self.needs(&need)?);
                all.push(need);
            }
            let needed = self.order.iter().rev().filter(|other| all.contains(other));
            let needed: String = needed.map(|need| format!(" {}", file(need))).collect();
            lines += &format!("{}:{needed}\n", file(name));
        }
        Ok(lines)
    }

    /// The lines of `modules.alias`.
    fn aliases(&self) -> Result<String, String> {
        let mut lines = String::new();
        for name in &self.order {
            let aliases = module_aliases(&self.contents[name])
                .map_err(|problem| format!("module {name} is {problem}"))?;
            lines.extend(aliases.iter().map(|alias| format!("alias {alias} {name}\n")));
        }
        Ok(lines)
    }
}

/// Puts the files that modprobe reads, and /sbin/modprobe for the kernel's requests.
fn put_modprobe(spec: &Spec, modules: &Modules, release: &str, archive: &mut Archive) -> Result<(), String> {
    let on_demand = !spec.kernel.on_demand.is_empty();
    if on_demand && spec.disk.is_some() {
        return Err(
            "kernel.on_demand is for images without a disk; here, list the modules in kernel.modules, or \
                    install kmod"
                .to_owned(),
        );
    }
    if !archive.has(BUSYBOX) {
        return Err(format!(
            "kernel.drivers and kernel.on_demand need {BUSYBOX}, which has modprobe: add it to initramfs.elf"
        ));
    }
    let folder = format!("{MODULE_FOLDER}/{release}");
    archive.put(&format!("{folder}/modules.dep"), text(modules.dependencies()?))?;
    archive.put(&format!("{folder}/modules.alias"), text(modules.aliases()?))?;
    let sbin = spec.initramfs.links.get("sbin").map_or("sbin", |target| target.trim_start_matches('/'));
    let modprobe = format!("{sbin}/modprobe");
    if on_demand && !archive.has(&modprobe) {
        archive.put(&modprobe, Node::Link { target: format!("/{BUSYBOX}") })?;
    }
    Ok(())
}

/// The kernel writes module names with underscores, whatever the file name.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn read_module(spec: &Spec, tree: &Tree, all: &[String], name: &str) -> Result<Vec<u8>, ImageError> {
    let fail = |problem: String| ImageError::Content { image: spec.name.clone(), problem };
    let stem = |path: &str| {
        path.rsplit('/').next().and_then(|file| file.split_once(".ko").map(|(stem, _)| canonical(stem)))
    };
    let path = all
        .iter()
        .find(|path| stem(path).as_deref() == Some(name))
        .ok_or_else(|| fail(format!("the kernel has no module \"{name}\" (it may be built in)")))?;
    let on_host = tree.on_host(path);
    match path.rsplit('.').next() {
        Some("ko") => fs::read(&on_host).map_err(ImageError::io("read", &on_host)),
        Some("xz") => {
            let bounds = Bounds::reader(&on_host);
            let mut command = host::command(XZ);
            host::run_within(&bounds, command.args(["-dc", "--"]).arg(&on_host), "unpacking a kernel module")
        }
        _ => Err(fail(format!("{path} has an unsupported compression; supported are none and xz"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with only `.modinfo`.
    fn module(info: &str) -> Vec<u8> {
        use object::write::{Object, StandardSegment};
        let mut file =
            Object::new(object::BinaryFormat::Elf, object::Architecture::Riscv64, object::Endianness::Little);
        let segment = file.segment_name(StandardSegment::Data).to_vec();
        let section = file.add_section(segment, b".modinfo".to_vec(), object::SectionKind::ReadOnlyData);
        file.append_section_data(section, info.as_bytes(), 1);
        file.write().unwrap()
    }

    fn add(names: &[&str]) -> Result<Modules, String> {
        let mut modules = Modules::default();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let read = |name: &str| {
            Ok(module(match name {
                "rxe" => "alias=rdma-link-rxe\0depends=ib-core,tunnel\0license=GPL\0",
                "ib_core" => "depends=tunnel,crc\0alias=rdma-netlink\0alias=ib:*\0",
                "tunnel" | "crc" => "depends=\0",
                "one" => "depends=two\0",
                "two" => "depends=one\0",
                other => panic!("{other}"),
            }))
        };
        let fail = |problem| ImageError::Content { image: "image".to_owned(), problem };
        modules.add(&names, fail, read).map_err(|error| error.to_string())?;
        Ok(modules)
    }

    #[test]
    fn modules_are_ordered_after_their_dependencies() {
        assert_eq!(add(&["rxe", "crc"]).unwrap().order, ["tunnel", "crc", "ib_core", "rxe"]);
        assert!(add(&["one"]).err().unwrap().contains("depends on itself"));
    }

    #[test]
    fn modprobe_finds_all_dependencies_and_aliases_of_a_module() {
        let modules = add(&["rxe"]).unwrap();
        assert_eq!(
            modules.dependencies().unwrap(),
            "../tunnel.ko:\n../crc.ko:\n../ib_core.ko: ../crc.ko ../tunnel.ko\n\
             ../rxe.ko: ../ib_core.ko ../crc.ko ../tunnel.ko\n"
        );
        assert_eq!(
            modules.aliases().unwrap(),
            "alias rdma-netlink ib_core\nalias ib:* ib_core\nalias rdma-link-rxe rxe\n"
        );
    }
}
