//! Locations of images, packages and checkpoints in the cache, and reading of images.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::PathBuf;

use doorbell_image::{BuildOptions, DebugSymbols, Image, Recipe, SIMULATED, build, fetch_debug_symbols};
use doorbell_machine::{ConfigError, Guest, MachineConfig, PlatformConfig};
use doorbell_symbols::stripped;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::RunError;
use crate::plan::options;

/// Maximum length of the kernel's command line (COMMAND_LINE_SIZE without the final zero). Linux on RISC-V
/// silently drops the rest.
const COMMAND_LINE_BYTES_MAX: usize = 1023;

/// Locations of images, packages and checkpoints.
#[derive(Clone, Debug)]
pub struct CachePaths {
    /// The cache folder.
    pub cache: PathBuf,
    /// The commit from which the program was built, for results.
    pub commit: &'static str,
}

impl CachePaths {
    /// The folder of an image.
    pub fn image(&self, name: &str) -> PathBuf {
        self.cache.join("images").join(name)
    }

    /// Folder in which traces are searched that are not next to the file that names them.
    pub fn traces(&self) -> PathBuf {
        self.cache.join("traces")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.cache.join("checkpoints")
    }

    /// Builds an image, or opens the existing one. `name` is a built-in image or the path of a recipe.
    pub fn build_image(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<Image, RunError> {
        let recipe = Recipe::load(name)?;
        fs::create_dir_all(&self.cache).map_err(RunError::io("create the cache folder", &self.cache))?;
        let options = BuildOptions {
            cache_dir: self.cache.join("packages"),
            out_dir: self.image(recipe.folder_name()),
            ..Default::default()
        };
        Ok(build(&recipe, &options, say)?)
    }

    /// The debugging symbols of an image's programs and libraries. They are downloaded if they are not in the
    /// cache. The folders in `options` are replaced by those of the cache.
    pub fn debug_symbols(
        &self,
        image: &Image,
        options: BuildOptions,
        say: &mut dyn FnMut(&str),
    ) -> Result<DebugSymbols, RunError> {
        let initramfs = fs::read(image.initramfs()).map_err(RunError::io("read", image.initramfs()))?;
        let programs = stripped(&initramfs).into_iter().map(|file| (file.build_id, file.path)).collect();
        let (cache_dir, out_dir) = (self.cache.join("packages"), self.cache.join("symbols"));
        Ok(fetch_debug_symbols(image, &programs, &BuildOptions { cache_dir, out_dir, ..options }, say)?)
    }

    /// Builds the image of a workload: the user's (`instead`, from `run.image`), which must extend the
    /// workload's `own` image, or else `own`.
    pub fn build_image_for(
        &self,
        own: &str,
        instead: Option<&str>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Image, RunError> {
        let Some(chosen) = instead else { return self.build_image(own, say) };
        if Recipe::load(chosen)?.is_a(own) {
            return self.build_image(chosen, say);
        }
        let problem = format!(
            "\"{chosen}\" does not extend \"{own}\", the image of this benchmark; begin the recipe with extends = \"{own}\""
        );
        Err(ConfigError::new("run.image", problem).into())
    }
}

/// Opened images. Each is opened once, because opening an image checks every byte of its files.
pub struct Images<'a> {
    places: &'a CachePaths,
    /// By the workload's own image, and the user's replacement.
    opened: BTreeMap<(String, Option<String>), Image>,
}

impl Images<'_> {
    /// An empty set.
    pub fn new(places: &CachePaths) -> Images<'_> {
        Images { places, opened: BTreeMap::new() }
    }

    /// As [`CachePaths::build_image_for`], once per image.
    pub(crate) fn get(
        &mut self,
        own: &str,
        instead: Option<&str>,
        say: &mut dyn FnMut(&str),
    ) -> Result<&Image, RunError> {
        match self.opened.entry((own.to_owned(), instead.map(str::to_owned))) {
            Entry::Occupied(opened) => Ok(opened.into_mut()),
            Entry::Vacant(new) => {
                let image = self.places.build_image_for(&new.key().0, instead, say)?;
                Ok(new.insert(image))
            }
        }
    }
}

/// Whether Linux drives the ports of a guest with this image, with numbered names: eth0, eth1.
fn has_linux_ports(image: &str) -> bool {
    Recipe::load(image).is_ok_and(|recipe| recipe.is_a("net") || recipe.is_a("server"))
}

/// Checks that a user's script in a built-in image, or one derived from it, can rely on Linux' port numbers.
/// Linux numbers ports driver by driver, in the order of each driver's first port. With cards in turn (A, B,
/// A) ethN would not be port N. Benchmarks rename the ports by PCI location instead (`kernel.rs`).
pub(crate) fn check_cards(image: &str, machine: &MachineConfig) -> Result<(), ConfigError> {
    let models: Vec<_> =
        (0..machine.platform.nics as usize).map(|port| machine.port(port).nic.model).collect();
    let apart = (1..models.len()).find(|&port| {
        let first = models.iter().position(|model| *model == models[port]);
        models[port] != models[port - 1] && first != Some(port)
    });
    match apart.filter(|_| has_linux_ports(image)) {
        None => Ok(()),
        Some(port) => Err(ConfigError::new(
            format!("port.{port}.nic.model"),
            format!(
                "Linux numbers ports driver by driver, and a port of another card is between this port and the first of its card, so eth{port} \
                 would not be port {port}. For a user's script or a network's node, put ports of the same card together"
            ),
        )),
    }
}

/// Returns the image if the machine has enough RAM for it.
pub(crate) fn require_ram(image: Image, platform: &PlatformConfig) -> Result<Image, RunError> {
    let problem = format!("{} is too little: this image needs {}", platform.ram, image.ram_min());
    options::reject_if(platform.ram < image.ram_min(), "platform.ram", problem)?;
    Ok(image)
}

/// Identifies an image's contents and its kernel command line.
pub fn guest_identity(image: &Image, bootargs: &str) -> String {
    let files: String = image.manifest().files.iter().map(|file| file.sha256.as_str()).collect();
    format!("{} {:016x} {bootargs}", image.name(), xxh3_64(files.as_bytes()))
}

/// Identifies a bare-metal program.
pub fn bare_identity(program: &[u8]) -> String {
    format!("bare {:016x}", xxh3_64(program))
}

/// Reads an image's files.
pub fn read_guest(image: &Image, bootargs: String) -> Result<Guest, RunError> {
    let problem = format!(
        "the kernel's command line has {} bytes, but Linux reads only the first {COMMAND_LINE_BYTES_MAX}; use fewer or shorter words",
        bootargs.len()
    );
    options::reject_if(bootargs.len() > COMMAND_LINE_BYTES_MAX, "command line", problem)?;
    let architecture = &image.manifest().architecture;
    let problem = format!(
        "is for {architecture}, and the simulated machine executes {}; such images are for recording under QEMU",
        SIMULATED.name
    );
    options::reject_if(architecture != SIMULATED.name, "image", problem)?;
    let read = |path: PathBuf| fs::read(&path).map_err(RunError::io("read", path));
    let firmware = image.firmware("fw_dynamic.bin").ok_or_else(|| RunError::Io {
        action: "find",
        path: image.dir().join("fw_dynamic.bin"),
        error: std::io::ErrorKind::NotFound.into(),
    })?;
    Ok(Guest {
        firmware: read(firmware)?,
        kernel: read(image.kernel())?,
        initramfs: read(image.initramfs())?,
        bootargs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::resolve::on_fast;

    #[test]
    fn cards_in_turn_are_rejected_in_images_where_linux_numbers_ports() {
        let cards = |models: [&str; 3]| {
            let of = |port: usize| format!("port.{port}.nic.model={}", models[port]);
            on_fast(&["platform.nics=3", &of(0), &of(1), &of(2)]).unwrap().machine()
        };
        let in_turn = cards(["82540em", "82576", "82540em"]);
        let error = check_cards("net", &in_turn).unwrap_err();
        assert!(
            error.key == "port.2.nic.model" && error.problem.contains("eth2 would not be port 2"),
            "{error}"
        );
        check_cards("testpmd", &in_turn).unwrap();
        assert!(check_cards("server", &in_turn).is_err() && check_cards("nat", &in_turn).is_err());
        let in_groups =
            [["82540em", "82576", "82576"], ["82576", "82576", "82540em"], ["82576", "82576", "82576"]];
        for models in in_groups {
            check_cards("nat", &cards(models)).unwrap();
        }
    }
}
