//! Guest images: the kernel, firmware and initial RAM file system that a machine boots.
//!
//! An image is described by a recipe (`guest/images/NAME/image.toml`, see [`Recipe`]) and built on the host, without
//! root, from the packages of a Debian suite for a foreign architecture:
//!
//! 1. `apt` sets up a private apt in the cache folder, which fetches the suite's index and verifies its signature;
//! 2. `index` follows the recipe's packages to what they depend on, and apt downloads those, hash by hash;
//! 3. `tree` and `elf` pick from the unpacked packages only the files that the recipe's programs need;
//! 4. `cpio` packs them, with the recipe's own files, into a byte-for-byte reproducible initramfs;
//! 5. `m5` assembles the program by which a guest's shell scripts speak to the simulator; `disk` and `ext2` write what is too
//!    much for the guest's memory as a file system for a virtio disk;
//! 6. `manifest` records every package and file with its size and SHA-256, and [`Image::open`] checks them;
//!    `provenance` is what a result says of them.
//!
//! `packages` says which packages: the suite's, or those that a lock file (`pins`) names, or, while a mirror's index does not fit its
//! signature, those that are `known`. `place` has the folders and their locks.
//!
//! `debug_symbols` gets, on request, the names of functions that Debian's programs have not in themselves.
//!
//! `unpacked` and `host_programs` get programs of a suite that tests and recorders run on the host, such as QEMU.
//!
//! Nothing here runs guest code: no package script is executed, and no binary of the image is run on the host. The host's
//! own programs work within bounds (`confine`), and a recipe chooses only compiler options that `flags` knows to be
//! harmless; `docs/threat-model.md` says what stands against what.

#![forbid(unsafe_code)]

mod apt;
mod architecture;
mod assemble;
mod builder;
mod builtin;
mod by_hand;
mod compile;
mod confine;
mod cpio;
mod debug_symbols;
mod disk;
mod elf;
mod error;
mod exact;
mod ext2;
mod extend;
mod flags;
mod host;
mod host_programs;
mod image;
mod index;
mod init_lines;
mod install;
mod interrupt;
mod known;
mod labels;
mod m5;
mod manifest;
mod modules;
mod overlay;
mod packages;
mod pins;
mod place;
mod places;
mod provenance;
mod recipe;
mod source_file;
mod sources;
mod tree;
mod unpacked;

pub use builder::{BuildOptions, build};
pub use builtin::{BUILTIN, BuiltinRecipe};
pub use by_hand::image_by_hand;
pub use debug_symbols::{ByBuildId, DebugSymbols, fetch_debug_symbols};
pub use doorbell_results::{PackageVersion, Provenance};
pub use error::ImageError;
pub use host_programs::HostPrograms;
pub use image::Image;
pub use init_lines::INIT_FAILED;
pub use interrupt::interrupted_by;
pub use manifest::{FileRecord, Manifest, PackageRecord};
pub use overlay::{GuestFile, delivery, overlay};
pub use pins::Pins;
pub use places::{cache_folder, user_cache};
pub use recipe::Recipe;
pub use source_file::{SourceFile, fetch_source_file};
pub use unpacked::{Unpacked, fetch_unpacked, find_unpacked};
