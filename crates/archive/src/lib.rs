//! Small signed Debian archive for tests, made with gpg and dpkg-deb, and folders for building an image from
//! it. Errors panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use doorbell_files::sha256;
use doorbell_image::{BuildOptions, Image, ImageError, Recipe, build};

/// Image recipe for the archive.
pub const RECIPE: &str = r#"
schema = 1
name = "tiny"
description = "a kernel that is no kernel"
suite = "testing-suite"
architecture = "riscv64"
ram_min = "1MiB"
command_line = "console=ttyS0"
firmware = { "fw.bin" = "usr/lib/fw-*.bin" }

[packages]
roots = ["tiny-kernel"]
leave_out = ["*-dev"]

[kernel]
image = "boot/vmlinux-*"

[initramfs]
elf = []
library_path = ["usr/lib"]
directories = ["proc"]
files = { "init" = { from = "init", executable = true } }
"#;

const TOOL_FILES: [(&str, &[u8]); 4] = [
    ("usr/bin/tool", b"#!/bin/sh"),
    ("etc/tool.conf", b"the package's"),
    ("usr/share/doc/tiny-tool/copyright", b"long"),
    ("usr/share/man/man1/tool.1", b"longer"),
];

const HEADERS: [(&str, &[u8]); 1] = [("usr/include/tiny/tool-status.h", b"#define STATUS 40\n")];

/// An archive, a keyring, a recipe and build folders; removed on drop.
pub struct World {
    /// Folder of everything.
    pub dir: tempfile::TempDir,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // gpg starts an agent per home folder, which would outlive the test.
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(self.path("gpg"))
            .args(["--kill", "gpg-agent"])
            .status();
    }
}

/// Build options for a [`World`]'s folder.
pub fn options_in(folder: &Path) -> BuildOptions {
    BuildOptions {
        cache_dir: folder.join("a cache"),
        out_dir: folder.join("images/tiny"),
        // With `file:`, apt would only keep links to the archive; `copy:` copies, like a download.
        mirror: Some(format!("copy:{}", folder.join("mirror/debian").display())),
        keyring: Some(folder.join("archive.gpg")),
        ..BuildOptions::default()
    }
}

impl World {
    /// Creates an archive with version 1 of its packages.
    pub fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        let recipe = world.path("recipe");
        fs::create_dir_all(&recipe).unwrap();
        fs::write(recipe.join("image.toml"), RECIPE).unwrap();
        fs::write(recipe.join("init"), "#!/bin/sh\n").unwrap();
        fs::create_dir_all(world.path("gpg")).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(world.path("gpg"), private).unwrap();
        world.make_key("archive");
        world.publish("1:1.0-1", Some("archive"));
        world
    }

    /// Creates a signing key, and a keyring file with its public part.
    pub fn make_key(&self, name: &str) {
        let user = format!("{name}@doorbell.invalid");
        self.gpg(&["--passphrase", "", "--quick-generate-key", &user, "ed25519", "sign", "never"]);
        let keyring = self.path(&format!("{name}.gpg"));
        self.gpg(&["--output", keyring.to_str().unwrap(), "--export", &user]);
    }

    fn gpg(&self, arguments: &[&str]) {
        let output = Command::new("gpg")
            .arg("--homedir")
            .arg(self.path("gpg"))
            .args(["--batch", "--yes", "--pinentry-mode", "loopback"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("these tests need gpg (apt-get install gpg gpg-agent)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Fills the archive with packages of a version, and signs it.
    pub fn publish(&self, version: &str, key: Option<&str>) {
        self.publish_changed(version, key, &|_, _| ());
    }

    /// The same, with a callback that changes each package, given its folder and name.
    pub fn publish_with(&self, version: &str, change: impl Fn(&Path, &str)) {
        self.publish_changed(version, Some("archive"), &change);
    }

    fn publish_changed(&self, version: &str, key: Option<&str>, change: &dyn Fn(&Path, &str)) {
        let mirror = self.path("mirror/debian");
        let _ = fs::remove_dir_all(&mirror);
        let dist = mirror.join("dists/testing-suite");
        fs::create_dir_all(dist.join("main/binary-riscv64")).unwrap();
        let mut image = vec![0u8; 4096];
        image[56..60].copy_from_slice(b"RSC\x05");
        image.extend_from_slice(version.as_bytes());
        let kernel_files: [(&str, &[u8]); 1] = [("boot/vmlinux-6.0-tiny", &image)];
        let firmware_files: [(&str, &[u8]); 1] = [("usr/lib/fw-1.bin", b"firmware")];
        let index = [
            self.package(
                &mirror,
                "tiny-kernel",
                version,
                "tiny-firmware | none, tiny-dev",
                &kernel_files,
                change,
            ),
            self.package(&mirror, "tiny-firmware", version, "", &firmware_files, change),
            self.package(&mirror, "tiny-dev", version, "", &[], change),
            self.package(&mirror, "tiny-headers", version, "tiny-none", &HEADERS, change),
            self.package(
                &mirror,
                "tiny-tool",
                version,
                "tiny-data, tiny-dev, tiny-firmware",
                &TOOL_FILES,
                change,
            ),
            self.package(
                &mirror,
                "tiny-data",
                version,
                "",
                &[("usr/share/tool/data", b"data".as_slice())],
                change,
            ),
        ]
        .join("\n");
        self.sign_suite(&dist, &index, key);
    }

    /// Creates a second archive with debug symbols. Each package has a name, a file named by build ID, and
    /// its contents.
    pub fn publish_debug(&self, packages: &[(&str, &str, &[u8])]) {
        let mirror = self.path("mirror/debian-debug");
        let _ = fs::remove_dir_all(&mirror);
        let dist = mirror.join("dists/testing-suite-debug");
        fs::create_dir_all(dist.join("main/binary-riscv64")).unwrap();
        let paragraph = |(name, id, content): &(&str, &str, &[u8])| {
            let file = format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
            let files = [(file.as_str(), *content), ("usr/share/doc/long", b"long")];
            let paragraph = self.package(&mirror, name, "1:1.0-1", "", &files, &|_, _| ());
            format!("{paragraph}Build-Ids: {id}\n")
        };
        let index: Vec<String> = packages.iter().map(paragraph).collect();
        self.sign_suite(&dist, &index.join("\n"), Some("archive"));
    }

    /// Writes and signs a suite's index.
    fn sign_suite(&self, dist: &Path, index: &str, key: Option<&str>) {
        fs::write(dist.join("main/binary-riscv64/Packages"), index).unwrap();
        let suite = dist.file_name().unwrap().to_str().unwrap();
        let release = format!(
            "Origin: Debian\nSuite: {suite}\nCodename: {suite}\nArchitectures: riscv64\nComponents: main\n\
             Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {} {} main/binary-riscv64/Packages\n",
            sha256(index.as_bytes()),
            index.len(),
        );
        fs::write(dist.join("Release"), release).unwrap();
        let Some(key) = key else { return };
        let (release, signed) = (dist.join("Release"), dist.join("InRelease"));
        let user = format!("{key}@doorbell.invalid");
        let files = [signed.to_str().unwrap(), "--clearsign", release.to_str().unwrap()];
        self.gpg(&[&["--local-user", &user, "--output"], files.as_slice()].concat());
    }

    /// Creates one package; returns its paragraph of the index.
    fn package(
        &self,
        mirror: &Path,
        name: &str,
        version: &str,
        depends: &str,
        files: &[(&str, &[u8])],
        change: &dyn Fn(&Path, &str),
    ) -> String {
        let tree = self.path(&format!("package-{name}"));
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: riscv64\nMaintainer: nobody\n{depends}Description: test\n"
        );
        fs::write(tree.join("DEBIAN/control"), &control).unwrap();
        for (path, content) in files {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        change(&tree, name);
        let deb = mirror.join(format!("{name}.deb"));
        // Reproducible: the same version always has the same bytes.
        let made = Command::new("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", "0")
            .args(["--root-owner-group", "-b"])
            .arg(&tree)
            .arg(&deb)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let content = fs::read(&deb).unwrap();
        format!("{control}Filename: {name}.deb\nSize: {}\nSHA256: {}\n", content.len(), sha256(&content))
    }

    /// Build options for this archive.
    pub fn options(&self) -> BuildOptions {
        options_in(self.dir.path())
    }

    /// The current recipe.
    pub fn recipe(&self) -> Recipe {
        Recipe::load(self.path("recipe")).unwrap()
    }

    /// Builds the image.
    pub fn build(&self, options: &BuildOptions) -> Result<Image, ImageError> {
        build(&self.recipe(), options, &mut |_| ())
    }

    /// Names in the images' folder, except for locks.
    pub fn images(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("images")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| !name.ends_with(".lock")).collect()
    }
}
