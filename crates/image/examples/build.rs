//! Builds an image: `build RECIPE OUT [CACHE]`, where RECIPE is a built-in name or a recipe folder.

use std::path::PathBuf;
use std::process::ExitCode;

use doorbell_image::{BuildOptions, Recipe, build};

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let [recipe, out, rest @ ..] = words.as_slice() else {
        eprintln!("usage: build RECIPE OUT [CACHE] [--offline] [--refresh] [--force]");
        return ExitCode::from(2);
    };
    let flag = |name: &str| flags.iter().any(|flag| flag == name);
    let options = BuildOptions {
        cache_dir: rest.first().map_or_else(|| ".cache/packages".into(), PathBuf::from),
        out_dir: out.into(),
        offline: flag("--offline"),
        refresh: flag("--refresh"),
        force: flag("--force"),
        ..BuildOptions::default()
    };
    let built =
        Recipe::load(recipe).and_then(|recipe| build(&recipe, &options, &mut |step| eprintln!("{step}")));
    match built {
        Ok(image) => {
            println!(
                "{} in {}: {} packages",
                image.name(),
                image.dir().display(),
                image.manifest().packages.len()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
