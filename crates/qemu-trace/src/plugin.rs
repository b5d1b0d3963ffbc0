//! QEMU plugin: a separate program (`tools/qemu-trace`, GPL-2.0-or-later), compiled on the user's machine
//! against the header in QEMU's source package.

use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_files as files;
use doorbell_image::{BuildOptions, HostPrograms, ImageError, SourceFile, fetch_source_file};

use crate::target::Target;

const HEADER: &str = "qemu-plugin.h";

macro_rules! sources {
    ($($name:literal),+) => { [$(($name, include_str!(concat!("../../../tools/qemu-trace/", $name)))),+] };
}

/// A file's name and contents.
pub type Source = (&'static str, &'static str);

/// Source files of the plugin, except for that of the instruction set. Only `.c` files are compiled.
const SOURCES: [Source; 20] = sources! {
    "accesses.c", "accesses.h", "blocks.c", "blocks.h", "device.c", "device.h", "events.c", "events.h",
    "glib.h", "isa.h", "plugin.c", "plugin.h", "registers.c", "registers.h", "sleep.c", "sleep.h",
    "stream.c", "stream.h", "watchdog.c", "watchdog.h"
};
const COMPILER: &str = "cc";
const OPTIONS: &str =
    "-std=c99 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -I.";

/// Library of the plugin for a target, compiled below `cache` if necessary.
pub fn plugin(target: &Target, cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, ImageError> {
    let folder = cache.join("recorder");
    let options = BuildOptions {
        cache_dir: cache.join("packages"),
        out_dir: folder.clone(),
        ..BuildOptions::default()
    };
    // From the same Debian suite as QEMU.
    let wanted =
        SourceFile { suite: HostPrograms::SUITE, package: "qemu", path: "include/qemu/qemu-plugin.h" };
    let header = fetch_source_file(&wanted, &options, progress)?;
    let header = std::fs::read(&header).map_err(ImageError::io("read", &header))?;
    let mut all = header.clone();
    let sources = || SOURCES.iter().chain([&target.plugin]);
    for (_, text) in sources() {
        all.extend_from_slice(text.as_bytes());
    }
    let library = folder.join(format!("plugin-{}.so", &files::sha256(&all)[..16]));
    if library.is_file() {
        return Ok(library);
    }
    progress("compiling the plugin");
    let work = tempfile::Builder::new().prefix(".plugin-").tempdir_in(&folder);
    let work = work.map_err(ImageError::io("create a folder in", &folder))?;
    let write = |name: &str, content: &[u8]| {
        let path = work.path().join(name);
        std::fs::write(&path, content).map_err(ImageError::io("write", &path))
    };
    write(HEADER, &header)?;
    for (name, text) in sources() {
        write(name, text.as_bytes())?;
    }
    let mut command = Command::new(COMPILER);
    command.current_dir(work.path()).args(OPTIONS.split(' ')).args(["-o", "plugin.so"]);
    command.args(sources().map(|(name, _)| *name).filter(|name| name.ends_with(".c")));
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ImageError::MissingTool { tool: COMPILER, package: "gcc" },
        _ => ImageError::io("run", Path::new(COMPILER))(error),
    })?;
    if !output.status.success() {
        return Err(ImageError::Tool {
            what: "compiling the plugin for QEMU".to_owned(),
            status: output.status.to_string(),
            hint: String::new(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    let compiled = work.path().join("plugin.so");
    files::rename(&compiled, &library).map_err(ImageError::io("move", &compiled))?;
    Ok(library)
}
