//! The installed program alone, as after `cargo install`: in its own folder, without the repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The program, and an empty working folder.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let folder = TempDir::new().unwrap();
        for name in ["bin", "here"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::copy(env!("CARGO_BIN_EXE_doorbell"), folder.path().join("bin/doorbell")).unwrap();
        Installed { folder }
    }

    fn here(&self) -> std::path::PathBuf {
        self.folder.path().join("here")
    }

    /// Returns whether a command succeeds, and its output.
    fn run(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(self.folder.path().join("bin/doorbell"));
        command.current_dir(self.here()).env_clear().env("HOME", self.folder.path()).args(words);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn done(&self, words: &[&str]) -> String {
        let (is_done, output) = self.run(words);
        assert!(is_done, "{words:?}: {output}");
        output
    }
}

#[test]
fn the_program_alone_has_its_machines_images_studies_pages_and_examples() {
    let installed = Installed::new();
    assert!(installed.done(&["config", "presets"]).contains("skylake-sp"));
    assert!(installed.done(&["config", "show", "--preset", "ispass24"]).contains("[pipeline]"));
    assert!(installed.done(&["config", "explain", "pipeline.rob"]).contains("1 to 4096"));
    assert!(installed.done(&["image", "list"]).contains("netperf"));
    for study in ["ispass24", "ddio", "fdio", "ddiosim", "m5-nics"] {
        assert!(installed.done(&["reproduce", study, "--plan"]).contains("points of"), "{study}");
    }
    assert!(installed.done(&["completions", "bash"]).contains("complete -F"));
    installed.done(&["man", "man1"]);
    assert!(installed.here().join("man1/doorbell-sweep.1").exists());

    let (is_done, output) = installed.run(&["reproduce", "experiments/placement", "--plan"]);
    assert!(!is_done && output.contains("`doorbell examples` writes experiments/placement here"), "{output}");
    installed.done(&["examples"]);
    assert!(installed.done(&["reproduce", "experiments/placement", "--plan"]).contains("points of"));
    for name in ["examples/mix.toml", "experiments/networks/incast.toml", "guest/examples/reflect/reflect.c"]
    {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        assert_eq!(fs::read(installed.here().join(name)).unwrap(), fs::read(own).unwrap(), "{name}");
    }
    // Repeating succeeds; a file changed by the user is not overwritten.
    installed.done(&["examples", "."]);
    fs::write(installed.here().join("examples/mix.toml"), "mine").unwrap();
    let (is_done, output) = installed.run(&["examples"]);
    assert!(!is_done && output.contains("examples/mix.toml exists with different contents"), "{output}");
    assert_eq!(fs::read_to_string(installed.here().join("examples/mix.toml")).unwrap(), "mine");
}
