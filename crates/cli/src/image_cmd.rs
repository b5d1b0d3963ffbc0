//! `doorbell image`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit::Asked;
use crate::out::{outln, tell};
use crate::screen::interrupt_flag;
use clap::{Args, Subcommand};
use doorbell_bench::Places;
use doorbell_image::{BUILTIN, BuildOptions, Image, ImageError, LockFile, Recipe, build};

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Build an image from Debian packages (or take the one that is there)
    Build {
        /// Name of a built-in recipe, or the path of a recipe of your own: a .toml file, or a folder with an image.toml
        recipe: String,
        #[command(flatten)]
        archive: ArchiveArgs,
        /// Look for newer packages
        #[arg(long)]
        refresh: bool,
        /// Build even if nothing changed
        #[arg(long)]
        force: bool,
        /// Take exactly the packages that this file names; `doorbell image lock` writes it
        #[arg(long, value_name = "FILE", conflicts_with = "refresh")]
        locked: Option<PathBuf>,
    },
    /// Write down which packages an image consists of, so that it can be built again when the archive has newer ones
    Lock {
        /// Name of a built-in recipe, or the path of a recipe of your own; its image is built if it is not there
        recipe: String,
        /// The file to write [default: the one that the recipe names, else NAME.lock]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        archive: ArchiveArgs,
        /// Look for newer packages first
        #[arg(long)]
        refresh: bool,
    },
    /// Fetch Debian's debugging symbols of an image's programs and libraries, for `doorbell run --profile --debug-symbols`, and print
    /// the folder that has them
    Symbols {
        /// Name of a built-in recipe, or the path of a recipe of your own; its image is built if it is not there
        recipe: String,
        #[command(flatten)]
        archive: ArchiveArgs,
        /// The archive of debugging symbols, or none [default: debian-debug beside the mirror]
        #[arg(long, env = "DOORBELL_DEBIAN_DEBUG_MIRROR", value_name = "URL")]
        debug_mirror: Option<String>,
    },
    /// List the built-in recipes
    List,
    /// Show what a built image is made of
    Show {
        /// Its name, or the path of its recipe
        name: String,
    },
}

/// Where packages come from.
#[derive(Args)]
pub struct ArchiveArgs {
    /// The Debian mirror [default: the host's]
    #[arg(long, env = "DOORBELL_DEBIAN_MIRROR", value_name = "URL")]
    mirror: Option<String>,
    /// The archive's keyring [default: that of the package debian-archive-keyring]
    #[arg(long, env = "DOORBELL_DEBIAN_KEYRING", value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Use only what is in the cache
    #[arg(long)]
    offline: bool,
}

impl ArchiveArgs {
    fn options(&self, recipe: &Recipe, places: &Places) -> BuildOptions {
        BuildOptions {
            cache_dir: places.cache.join("packages"),
            out_dir: places.image(recipe.folder_name()),
            mirror: self.mirror.clone(),
            keyring: self.keyring.clone(),
            offline: self.offline,
            ..BuildOptions::default()
        }
    }
}

/// Does what was asked about images.
pub fn image(command: &ImageCommand, places: &Places) -> anyhow::Result<ExitCode> {
    interrupt_flag()?;
    match command {
        ImageCommand::Build { recipe, archive, refresh, force, locked } => {
            let recipe = Recipe::load(recipe)?;
            let options = BuildOptions {
                refresh: *refresh,
                force: *force,
                locked: locked.clone(),
                ..archive.options(&recipe, places)
            };
            std::fs::create_dir_all(&places.cache)?;
            let image = build(&recipe, &options, &mut |line| tell!("{line}"))?;
            outln!("{}", image.dir().display());
        }
        ImageCommand::Lock { recipe, out, archive, refresh } => {
            let recipe = Recipe::load(recipe)?;
            let default = || PathBuf::from(format!("{}.lock", recipe.name()));
            let out = out.clone().or_else(|| recipe.lock().map(PathBuf::from)).unwrap_or_else(default);
            LockFile::refuse_other(&out).asked()?;
            // Without --refresh an image that is there stays as it is, and what it has is what is locked.
            let recipe = recipe.unlocked();
            let options = BuildOptions { refresh: *refresh, ..archive.options(&recipe, places) };
            std::fs::create_dir_all(&places.cache)?;
            let image = build(&recipe, &options, &mut |line| tell!("{line}"))?;
            LockFile::of(&image).write(&out)?;
            outln!("{}", out.display());
        }
        ImageCommand::Symbols { recipe, archive, debug_mirror } => {
            let recipe = Recipe::load(recipe)?;
            let options = archive.options(&recipe, places);
            std::fs::create_dir_all(&places.cache)?;
            let image = build(&recipe, &options, &mut |line| tell!("{line}"))?;
            let options = BuildOptions { debug_mirror: debug_mirror.clone(), ..options };
            let symbols = places.debug_symbols(&image, options, &mut |line| tell!("{line}"))?;
            outln!("{}", symbols.folder.display());
        }
        ImageCommand::List => {
            for builtin in BUILTIN {
                outln!("{:<10} {}", builtin.name, Recipe::load(builtin.name)?.description());
            }
        }
        ImageCommand::Show { name } => {
            let folder = match Recipe::load(name) {
                Ok(recipe) => recipe.folder_name().to_owned(),
                // A folder that is no recipe's any more can still be shown by its name.
                Err(ImageError::UnknownRecipe { .. }) if places.image(name).is_dir() => name.clone(),
                Err(error) => return Err(error.into()),
            };
            show(&Image::open(places.image(&folder))?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(image: &Image) {
    let manifest = image.manifest();
    outln!("{}: {}", manifest.image, manifest.description);
    outln!("folder   {}", image.dir().display());
    outln!("kernel   {}", manifest.kernel_release);
    outln!("boots    {}", image.command_line());
    outln!("sha256   {}", image.hash());
    outln!("\n{:<16} {:>12}  sha256", "file", "bytes");
    for file in &manifest.files {
        outln!("{:<16} {:>12}  {}", file.name, file.size_bytes, file.sha256);
    }
    outln!("\n{:<32} {:<28} sha256", "package", "version");
    for package in &manifest.packages {
        outln!("{:<32} {:<28} {}", package.name, package.version, package.sha256);
    }
}
