//! `doorbell image`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::screen::end_on_closed_pipe;
use clap::Subcommand;
use doorbell_bench::Places;
use doorbell_image::{BUILTIN, BuildOptions, Image, Recipe, build};

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Build an image from Debian packages (or take the one that is there)
    Build {
        /// Name of a built-in recipe, or the path of a recipe of your own: a .toml file, or a folder with an image.toml
        recipe: String,
        /// The Debian mirror [default: the host's]
        #[arg(long, env = "DOORBELL_DEBIAN_MIRROR", value_name = "URL")]
        mirror: Option<String>,
        /// The archive's keyring [default: that of the package debian-archive-keyring]
        #[arg(long, env = "DOORBELL_DEBIAN_KEYRING", value_name = "FILE")]
        keyring: Option<PathBuf>,
        /// Use only what is in the cache
        #[arg(long)]
        offline: bool,
        /// Look for newer packages
        #[arg(long)]
        refresh: bool,
        /// Build even if nothing changed
        #[arg(long)]
        force: bool,
    },
    /// List the built-in recipes
    List,
    /// Show what a built image is made of
    Show {
        /// Its name, or the path of its recipe
        name: String,
    },
}

/// Does what was asked about images.
pub fn image(command: &ImageCommand, places: &Places) -> anyhow::Result<ExitCode> {
    end_on_closed_pipe()?;
    match command {
        ImageCommand::Build { recipe, mirror, keyring, offline, refresh, force } => {
            let recipe = Recipe::load(recipe)?;
            let options = BuildOptions {
                cache_dir: places.cache.join("packages"),
                out_dir: places.image(recipe.folder_name()),
                mirror: mirror.clone(),
                keyring: keyring.clone(),
                offline: *offline,
                refresh: *refresh,
                force: *force,
            };
            std::fs::create_dir_all(&places.cache)?;
            let image = build(&recipe, &options, &mut |line| eprintln!("{line}"))?;
            println!("{}", image.dir().display());
        }
        ImageCommand::List => {
            for builtin in BUILTIN {
                println!("{:<10} {}", builtin.name, Recipe::load(builtin.name)?.description());
            }
        }
        ImageCommand::Show { name } => {
            // A folder that is no recipe's any more can still be shown by its name.
            let folder = Recipe::load(name).map_or_else(|_| name.clone(), |r| r.folder_name().to_owned());
            show(&Image::open(places.image(&folder))?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(image: &Image) {
    let manifest = image.manifest();
    println!("{}: {}", manifest.image, manifest.description);
    println!("folder   {}", image.dir().display());
    println!("kernel   {}", manifest.kernel_release);
    println!("boots    {}", image.command_line());
    println!("sha256   {}", image.hash());
    println!("\n{:<16} {:>12}  sha256", "file", "bytes");
    for file in &manifest.files {
        println!("{:<16} {:>12}  {}", file.name, file.size_bytes, file.sha256);
    }
    println!("\n{:<32} {:<28} sha256", "package", "version");
    for package in &manifest.packages {
        println!("{:<32} {:<28} {}", package.name, package.version, package.sha256);
    }
}
