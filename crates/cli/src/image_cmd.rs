//! `doorbell image`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit::OrUsageError;
use crate::out::{errln, outln};
use crate::screen::interrupt_flag;
use clap::{Args, Subcommand};
use doorbell_bench::CachePaths;
use doorbell_image::{BUILTIN, BuildOptions, Image, ImageError, LockFile, Recipe, build};

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Build an image from Debian packages, unless it exists already
    Build {
        /// Name of a built-in recipe, or the path of your own recipe: a .toml file, or a folder with an
        /// image.toml
        recipe: String,
        #[command(flatten)]
        archive: ArchiveArgs,
        /// Check for newer packages
        #[arg(long)]
        refresh: bool,
        /// Build even if nothing has changed
        #[arg(long)]
        force: bool,
        /// Use exactly the packages listed in this file, written by `doorbell image lock`
        #[arg(long, value_name = "FILE", conflicts_with = "refresh")]
        locked: Option<PathBuf>,
    },
    /// Record the exact packages of an image in a lock file, so that the image can be rebuilt later
    Lock {
        /// Name of a built-in recipe, or the path of your own recipe; the image is built if it does not exist
        recipe: String,
        /// The file to write [default: the one named in the recipe, else NAME.lock]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        archive: ArchiveArgs,
        /// Check for newer packages first
        #[arg(long)]
        refresh: bool,
    },
    /// Fetch Debian's debugging symbols for an image's programs and libraries, for `doorbell run --profile
    /// --debug-symbols`, and print their folder
    Symbols {
        /// Name of a built-in recipe, or the path of your own recipe; the image is built if it does not exist
        recipe: String,
        #[command(flatten)]
        archive: ArchiveArgs,
        /// The archive of debugging symbols, or none [default: debian-debug next to the mirror]
        #[arg(long, env = "DOORBELL_DEBIAN_DEBUG_MIRROR", value_name = "URL")]
        debug_mirror: Option<String>,
    },
    /// List the built-in recipes
    List,
    /// Show the contents of a built image
    Show {
        /// Name of the image, or path of its recipe
        name: String,
    },
}

/// Source of packages.
#[derive(Args)]
pub struct ArchiveArgs {
    /// The Debian mirror [default: the host's mirror]
    #[arg(long, env = "DOORBELL_DEBIAN_MIRROR", value_name = "URL")]
    mirror: Option<String>,
    /// The archive's keyring [default: from the package debian-archive-keyring]
    #[arg(long, env = "DOORBELL_DEBIAN_KEYRING", value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Use only packages in the cache
    #[arg(long)]
    offline: bool,
}

impl ArchiveArgs {
    fn options(&self, recipe: &Recipe, places: &CachePaths) -> BuildOptions {
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

/// Runs a subcommand on images.
pub fn image(command: &ImageCommand, places: &CachePaths) -> anyhow::Result<ExitCode> {
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
            let image = build(&recipe, &options, &mut |line| errln!("{line}"))?;
            outln!("{}", image.dir().display());
        }
        ImageCommand::Lock { recipe, out, archive, refresh } => {
            let recipe = Recipe::load(recipe)?;
            let default = || PathBuf::from(format!("{}.lock", recipe.name()));
            let out = out.clone().or_else(|| recipe.lock().map(PathBuf::from)).unwrap_or_else(default);
            LockFile::refuse_other(&out).or_usage_error()?;
            // Without --refresh an existing image is not rebuilt, and its packages are locked.
            let recipe = recipe.unlocked();
            let options = BuildOptions { refresh: *refresh, ..archive.options(&recipe, places) };
            std::fs::create_dir_all(&places.cache)?;
            let image = build(&recipe, &options, &mut |line| errln!("{line}"))?;
            LockFile::of(&image).write(&out)?;
            outln!("{}", out.display());
        }
        ImageCommand::Symbols { recipe, archive, debug_mirror } => {
            let recipe = Recipe::load(recipe)?;
            let options = archive.options(&recipe, places);
            std::fs::create_dir_all(&places.cache)?;
            let image = build(&recipe, &options, &mut |line| errln!("{line}"))?;
            let options = BuildOptions { debug_mirror: debug_mirror.clone(), ..options };
            let symbols = places.debug_symbols(&image, options, &mut |line| errln!("{line}"))?;
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
                // A folder whose recipe no longer exists can still be shown by name.
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
