//! Machine files: their bases, and the errors about invalid files.

use doorbell_machine::playback::Pages;
use doorbell_machine::{Base, MachineConfig};

/// A folder with these files.
fn files(all: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in all {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn config(base: &Base) -> MachineConfig {
    let mut all = base.preset_overlay();
    let mut own = base.user_table().clone();
    own.remove("run");
    all.merge(own);
    all.resolve().unwrap()
}

fn refused(folder: &tempfile::TempDir, name: &str) -> String {
    Base::read(&folder.path().join(name)).unwrap_err().to_string()
}

#[test]
fn file_overrides_its_base_which_is_a_preset_or_another_file() {
    let folder = files(&[
        ("mine.toml", "base = \"server\"\npipeline.rob = 256\n[core]\nfrequency = \"2GHz\"\n"),
        ("wider.toml", "base = \"mine.toml\"\n[core]\nfrequency = \"4GHz\"\n[run]\ndisks = [\"d.img\"]\n"),
    ]);
    let wider = Base::read(&folder.path().join("wider.toml")).unwrap();
    let machine = config(&wider);
    assert_eq!((machine.pipeline.rob, machine.core.frequency.0), (256, 4_000_000_000));
    assert_eq!(machine.nic, config(&Base::find("server").unwrap()).nic, "the rest is the preset's");
    let disk = folder.path().join("d.img").display().to_string();
    assert_eq!(wider.user_table()["run"]["disks"][0].as_str(), Some(disk.as_str()));
    let by_path = Base::find(&folder.path().join("mine.toml").display().to_string()).unwrap();
    assert_eq!(config(&by_path).pipeline.rob, 256);
    let same = Base::find("server").unwrap();
    assert!(same.user_table().is_empty() && same.name() == "server" && !same.is_result());
}

#[test]
fn file_without_a_base_must_be_complete() {
    let whole = toml::to_string(&MachineConfig::default()).unwrap();
    let folder = files(&[
        ("part.toml", "[pipeline]\nrob = 64\n"),
        ("whole.toml", &whole),
        ("lacks.toml", &whole.replacen("iq = 120\n", "", 1)),
        ("result.toml", &format!("# config_hash = \"0\"\n\n{}", whole.replacen("iq = 120\n", "", 1))),
    ]);
    let error = refused(&folder, "part.toml");
    assert!(
        error.contains("part.toml: ") && error.contains("[core], ") && error.contains("base = \"server\""),
        "{error}"
    );
    assert!(error.contains(" more. Name a base"), "{error}");
    let error = refused(&folder, "lacks.toml");
    assert!(error.contains("missing: pipeline.iq. Name a base"), "{error}");
    let read = |name: &str| Base::read(&folder.path().join(name)).unwrap();
    assert_eq!(config(&read("whole.toml")), MachineConfig::default());
    assert!(read("result.toml").is_result(), "keys missing in a result have today's defaults");
}

#[test]
fn file_inherits_the_page_tables_of_its_preset() {
    let folder = files(&[("mine.toml", "base = \"champsim\"\n")]);
    assert_eq!(Base::read(&folder.path().join("mine.toml")).unwrap().pages(), Pages::ChampSim);
}

#[test]
fn errors_about_invalid_files_name_the_file() {
    let folder = files(&[
        ("a.toml", "base = \"b.toml\"\n"),
        ("b.toml", "base = \"a.toml\"\n"),
        ("self.toml", "base = \"./self.toml\"\n"),
        ("number.toml", "base = 3\n"),
        ("unknown.toml", "base = \"sever\"\n"),
        ("lost.toml", "base = \"not-there.toml\"\n"),
        ("broken.toml", "core = [\n"),
    ]);
    std::fs::write(folder.path().join("bytes.toml"), [0xff, 0xfe]).unwrap();
    for (name, part) in [
        ("a.toml", "`base` forms a cycle: "),
        ("self.toml", "`base` forms a cycle: "),
        ("number.toml", "number.toml: base: 3 is not a string"),
        ("unknown.toml", "unknown.toml: base: there is no preset \"sever\"; did you mean \"server\"?"),
        ("lost.toml", "not-there.toml: there is no such file"),
        ("broken.toml", "broken.toml: "),
        ("bytes.toml", "bytes.toml: it is not UTF-8 text"),
        (".", "it is a folder; name a file"),
        ("not-there.toml", "there is no such file"),
    ] {
        let error = refused(&folder, name);
        assert!(error.contains(part), "{name}: {error}");
    }
    let result = files(&[("config.toml", "")]);
    assert!(refused(&result, "").contains("config.toml"), "a result's folder");
}
