//! Guest images: the kernel, firmware and initial RAM file system that a machine boots.
//!
//! An image is described by a recipe (such as `guest/images/net/image.toml`, see [`Recipe`]) and built on the host,
//! without root, from the packages of a Debian suite for a foreign architecture:
//!
//! 1. `apt` sets up a private apt in the cache folder, which fetches the suite's index and verifies its
//!    signature;
//! 2. `index` resolves the dependencies of the recipe's packages, and apt downloads the packages and checks
//!    their hashes;
//! 3. `tree` and `elf` pick from the unpacked packages only the files that the recipe's programs need;
//! 4. `cpio` packs them, with the recipe's own files, into a byte-for-byte reproducible initramfs;
//! 5. `m5` assembles the program by which shell scripts in the guest call the simulator; `disk` and `ext2`
//!    write what does not fit in the guest's memory as a file system for a virtio disk;
//! 6. `manifest` records every package and file with its size and SHA-256, and [`Image::open`] checks them;
//!    `provenance` is the summary that goes into results.
//!
//! `packages` chooses the packages: the suite's, or those named in a lock file (`lock_file`).
//! `fallback_index` is used while a mirror's index does not match its signature. `workspace` has the
//! folders of a build and their locks.
//!
//! `debug_symbols` fetches, on request, the function names that Debian strips from its programs.
//!
//! `unpacked` and `host_programs` fetch programs of a suite that tests and recorders run on the host, such as
//! QEMU.
//!
//! Nothing here runs guest code: no package script is executed, and no binary of the image is run on the
//! host. The host's own programs run confined (`confine`). A recipe may use only the compiler options that
//! `flags` lists as harmless. `docs/threat-model.md` lists the threats and the defences.

#![forbid(unsafe_code)]

mod apt;
mod architecture;
mod assemble;
mod builder;
mod builtin;
mod compile;
mod confine;
mod cpio;
mod debug_symbols;
mod disk;
mod elf;
mod error;
mod ext2;
mod extend;
mod fallback_index;
mod flags;
mod host;
mod host_programs;
mod image;
mod index;
mod init_lines;
mod install;
mod interrupt;
mod labels;
mod lock_file;
mod manifest;
mod modules;
mod overlay;
mod packages;
mod paths;
mod pinned_packages;
mod provenance;
mod recipe;
mod source_file;
mod sources;
mod tree;
mod unpacked;
mod workspace;

pub use architecture::{Architecture, SIMULATED};
pub use builder::{BUILDER, BuildOptions, build};
pub use builtin::{BUILTIN, BuiltinRecipe};
pub use debug_symbols::{ByBuildId, DebugSymbols, fetch_debug_symbols};
pub use doorbell_results::{PackageVersion, Provenance};
pub use error::ImageError;
pub use host_programs::HostPrograms;
pub use image::Image;
pub use init_lines::INIT_FAILED;
pub use interrupt::interrupted_by;
pub use lock_file::LockFile;
pub use manifest::{FileRecord, Manifest, PackageRecord};
pub use overlay::{GuestFile, delivery, overlay};
pub use paths::{cache_folder, user_cache};
pub use recipe::Recipe;
pub use source_file::{SourceFile, fetch_source_file};
pub use unpacked::{Unpacked, fetch_unpacked, find_unpacked};
