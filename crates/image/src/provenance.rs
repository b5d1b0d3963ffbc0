//! Provenance of an image, as results state it: enough to decide whether two results used the same software,
//! and which.

use doorbell_results::{PackageVersion, Provenance};

use crate::image::Image;
use crate::manifest::{Manifest, PackageRecord};

impl Image {
    /// The image's provenance, as results state it.
    pub fn provenance(&self) -> Provenance {
        let manifest = self.manifest();
        let kernel = kernel(manifest);
        let is_included = |package: &&PackageRecord| {
            manifest.named.contains(&package.name)
                || package.name == "libc6"
                || kernel.is_some_and(|kernel| kernel.name == package.name)
        };
        let version = |package: &PackageRecord| PackageVersion {
            name: package.name.clone(),
            version: package.version.clone(),
            sha256: package.sha256.clone(),
        };
        Provenance {
            image: manifest.image.clone(),
            image_sha256: self.hash(),
            recipe_sha256: manifest.recipe_sha256.clone(),
            suite: manifest.suite.clone(),
            architecture: manifest.architecture.clone(),
            kernel_release: manifest.kernel_release.clone(),
            kernel_version: kernel.map(|package| package.version.clone()),
            dpdk_version: dpdk(manifest).map(|package| package.version.clone()),
            compiler: manifest.compiler.clone(),
            packages: manifest.packages.iter().filter(is_included).map(version).collect(),
        }
    }
}

/// Debian names a kernel's package after its release; the package that a recipe names is usually empty and
/// depends on it.
fn kernel(manifest: &Manifest) -> Option<&PackageRecord> {
    manifest.package(&format!("linux-image-{}", manifest.kernel_release))
}

/// All packages of DPDK's source have the same version; its environment abstraction layer is in every DPDK
/// program.
fn dpdk(manifest: &Manifest) -> Option<&PackageRecord> {
    manifest.packages.iter().find(|package| package.name.starts_with("librte-eal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{FileRecord, MANIFEST_FILE, MANIFEST_SCHEMA};

    #[test]
    fn provenance_has_the_versions_of_named_and_essential_packages_only() {
        let dir = tempfile::tempdir().unwrap();
        let package = |name: &str, version: &str| PackageRecord {
            name: name.into(),
            version: version.into(),
            architecture: "riscv64".into(),
            size_bytes: 1,
            sha256: "0".repeat(64),
        };
        for name in ["kernel", "initramfs.cpio"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let files =
            ["initramfs.cpio", "kernel"].map(|name| FileRecord::of(name, &dir.path().join(name)).unwrap());
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA,
            builder: 1,
            image: "small".into(),
            description: "a small image".into(),
            recipe_sha256: "1".repeat(64),
            suite: "trixie".into(),
            architecture: "riscv64".into(),
            ram_min: doorbell_sim::Bytes(1 << 27),
            command_line: String::new(),
            kernel_release: "6.12.1-riscv64".into(),
            files: files.to_vec(),
            packages: vec![
                package("dpdk-dev", "24.11.4-1"),
                package("libc6", "2.41"),
                package("libnuma1", "2.0"),
                package("librte-eal25", "24.11.4-1"),
                package("linux-image-6.12.1-riscv64", "6.12.1-1"),
                package("linux-image-riscv64", "6.12.1-1"),
            ],
            named: vec!["dpdk-dev".into(), "linux-image-riscv64".into()],
            compiler: None,
            seal: String::new(),
        };
        std::fs::write(dir.path().join(MANIFEST_FILE), manifest.to_json()).unwrap();
        let image = Image::open(dir.path()).unwrap();
        let provenance = image.provenance();
        assert_eq!(provenance.kernel_version.as_deref(), Some("6.12.1-1"));
        assert_eq!(provenance.dpdk_version.as_deref(), Some("24.11.4-1"));
        let names: Vec<&str> = provenance.packages.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["dpdk-dev", "libc6", "linux-image-6.12.1-riscv64", "linux-image-riscv64"]);
        assert_eq!(provenance.image_sha256, image.hash());
        // The hash covers the files' contents, not the manifest's text.
        std::fs::write(
            dir.path().join(MANIFEST_FILE),
            Manifest { description: "other".into(), ..manifest }.to_json(),
        )
        .unwrap();
        assert_eq!(Image::open(dir.path()).unwrap().hash(), image.hash());
        std::fs::write(dir.path().join("kernel"), "other").unwrap();
        assert!(Image::open(dir.path()).is_err());
    }
}
