//! Checks of the test suite itself: each test runs and asserts something, none returns before its assertions,
//! and the closing line of a run counts omitted tests correctly.

mod tests_of;
mod tokens;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tests_of::{Function, faults, functions};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All functions of the workspace, by crate.
fn workspace() -> Vec<Function> {
    let mut found = Vec::new();
    let crates = repository().join("crates");
    let mut names: Vec<_> = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.push(repository().join("scenarios"));
    for path in names {
        functions(&path, &mut found);
    }
    let tests = found.iter().filter(|function| function.is_test).count();
    assert!(tests > 2000, "only {tests} tests were found");
    found
}

/// The faults of the tests in one file, treated as a crate's `tests/x.rs`.
fn faults_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    tests_of::read(Path::new("own/tests/x.rs"), "own", text, &mut found);
    faults(&found)
}

#[test]
fn every_test_asserts_something_and_none_returns_early() {
    let wrong = faults(&workspace());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_test_without_an_assertion_is_found() {
    let silent = |body: &str| faults_of(&format!("#[test]\nfn silent() {{ {body} }}\n"));
    for body in [
        "",
        "let x = 5; println!(\"{x}\");",
        "// assert!(true)\n",
        "let x = \"assert!(false)\"; let y = r#\"x.unwrap()\"#;",
        "let assert = 5; drop(assert);",
        "Some(1).unwrap();",
        // Merely having the name of an asserting function is not an assertion.
        "nothing();",
        // Code that only some environments run.
        "if std::env::var_os(\"X\").is_some() { assert!(false); }",
        "if long() { assert!(false); } else { panic!(\"never\"); }",
    ] {
        let text =
            format!("{body} }}\nfn nothing() {{}}\nfn long() -> bool {{ std::env::var_os(\"L\").is_some()");
        assert_eq!(silent(&text), ["own/tests/x.rs: silent asserts nothing"], "{body}");
    }
    for body in [
        "assert_eq!(1, 1);",
        "go().unwrap_err();",
        "check(1);",
        "outer();",
        "mine!(1);",
        "let c = |x: u8| { if x == 1 { return; } panic!() }; c(1);",
        "if long() { more(); } check(2);",
    ] {
        let text = format!(
            "{body} }}\nfn check(x: u8) {{ assert!(x > 0); }}\nfn outer() {{ check(1) }}\n\
             macro_rules! mine {{ ($x:expr) => {{ assert!($x > 0) }} }}\n\
             fn long() -> bool {{ std::env::var_os(\"L\").is_some()"
        );
        assert_eq!(silent(&text), [""; 0], "{body}");
    }
    assert_eq!(faults_of("#[test]\n#[should_panic]\nfn x() { go() }"), [""; 0]);
    assert_eq!(faults_of("#[test]\nfn x() -> Result<(), E> { go()?; Ok(()) }"), [""; 0]);
}

#[test]
fn a_test_that_returns_early_is_found() {
    for early in ["if left_out() { return; }", "let Some(x) = std::env::var_os(\"X\") else { return };"] {
        let found = faults_of(&format!("#[test]\nfn early() {{ {early} assert!(true); }}"));
        assert_eq!(found.len(), 1, "{early}: {found:?}");
        assert!(found[0].contains("early returns early"), "{found:?}");
    }
    // A property may reject single cases.
    let property = "proptest! { #[test] fn p(x in 0..9) { let Ok(y) = go(x) else { return Ok(()) }; prop_assert!(y); } }";
    assert_eq!(faults_of(property), [""; 0]);
}

#[test]
fn ignored_tests_have_a_reason_and_are_long_or_left_out_by_name() {
    let by_name = std::fs::read_to_string(repository().join("tests/leave-out")).unwrap();
    let mut long = 0;
    for test in workspace().iter().filter(|function| function.is_test) {
        let Some(reason) = &test.ignored else { continue };
        assert!(!reason.is_empty(), "{}: {} is ignored without a reason", test.file, test.name);
        if reason == "long: make test-long runs it" {
            long += 1;
        } else {
            let named = by_name.lines().any(|line| line.contains("leave_out") && line.contains(&test.name));
            assert!(
                named,
                "{}: tests/leave-out does not name {}, which is ignored: {reason}",
                test.file, test.name
            );
        }
    }
    assert!(long > 50, "only {long} tests are left to make test-long");
}

/// The test programs of crates, and the files that list their modules.
#[test]
fn no_test_file_is_left_out_of_its_program() {
    let crates = std::fs::read_dir(repository().join("crates")).unwrap();
    let mut folders: Vec<_> = crates.map(|entry| entry.unwrap().path().join("tests")).collect();
    folders.push(repository().join("crates/acceptance/tests/acceptance"));
    let mut listed = 0;
    for tests in folders {
        let Ok(main) = std::fs::read_to_string(tests.join("main.rs")) else { continue };
        for file in std::fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap().path()) {
            let module = file.file_stem().unwrap().to_str().unwrap().to_owned();
            if module != "main"
                && (file.extension().is_some_and(|ending| ending == "rs") || file.join("mod.rs").exists())
            {
                assert!(
                    main.contains(&format!("\nmod {module};\n")),
                    "{} lacks mod {module};",
                    tests.display()
                );
                listed += 1;
            }
        }
    }
    assert!(listed > 80, "only {listed} test files were found");
}

#[test]
fn every_benchmark_has_its_page_and_its_whole_runs() {
    let scenarios = std::fs::read_to_string(repository().join("scenarios/acceptance.rs")).unwrap();
    let mut folders = 0;
    for folder in
        std::fs::read_dir(repository().join("scenarios")).unwrap().map(|entry| entry.unwrap().path())
    {
        if !folder.is_dir() {
            continue;
        }
        folders += 1;
        let name = folder.file_name().unwrap().to_str().unwrap();
        for file in ["mod.rs", "README.md"] {
            assert!(folder.join(file).is_file(), "scenarios/{name} lacks {file}");
        }
        let has_runs = ["acceptance.rs", "acceptance/mod.rs"].iter().any(|file| folder.join(file).is_file());
        assert!(has_runs, "scenarios/{name} lacks acceptance.rs");
        let line = format!("mod {name} {{\n    mod acceptance;\n}}\n");
        assert!(scenarios.contains(&line), "scenarios/acceptance.rs lacks mod {name}");
    }
    assert!(folders >= 19, "only {folders} benchmarks were found");
}

fn tally(output_text: &str) -> Output {
    let mut child = Command::new(repository().join("tests/tally"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(output_text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

const OUTPUT: &str = "\
running 4 tests
test a::quick ... ok <0.001s>
test a::slow ... ignored, long: make test-long runs it
test a::b ... ignored, long: make test-long runs it
test c ... ok <2.100s>

test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 3 filtered out; finished in 2.10s

running 3 tests
test d ... ok <0.001s>
test e - should panic ... ok <0.001s>
test in_a_process ... ignored, is started by other tests

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

#[test]
fn the_closing_line_counts_executed_and_omitted_tests() {
    let output = tally(OUTPUT);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "left out: 2 tests: long: make test-long runs it",
            "left out: 1 test: is started by other tests",
            "left out: 3 tests: by name",
            "4 tests passed, 6 were left out.",
        ]
    );
    let whole =
        tally("test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s\n");
    assert_eq!(String::from_utf8(whole.stdout).unwrap(), "7 tests passed, 0 were left out.\n");
}

#[test]
fn a_count_that_differs_from_the_named_tests_is_rejected() {
    for (from, to) in [
        ("2 ignored", "3 ignored"),
        ("test a::b ... ignored, long: make test-long runs it\n", ""),
        ("test c ... ok <2.100s>\n", ""),
        (OUTPUT, ""),
    ] {
        let output = tally(&OUTPUT.replace(from, to));
        assert!(!output.status.success(), "{from} → {to}: {output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("tests/tally: "));
    }
}

/// Runs this test program itself: its output has the format that the script reads.
#[test]
fn the_harness_output_has_the_format_that_the_script_reads() {
    let mut command = Command::new(repository().join("tests/timed"));
    command.arg(std::env::current_exe().unwrap()).args(["started_by_another_test", "a_test_without"]);
    let output_text = command.output().unwrap();
    assert!(output_text.status.success(), "{output_text:?}");
    let output_text = String::from_utf8(output_text.stdout).unwrap();
    let text = String::from_utf8(tally(&output_text).stdout).unwrap();
    assert!(text.contains("left out: 1 test: is started by other tests\n"), "{output_text}\n{text}");
    assert!(text.contains("\n1 test passed, "), "{output_text}\n{text}");
}

#[test]
#[ignore = "is started by other tests"]
fn started_by_another_test() {
    assert!(std::env::args().any(|word| word.ends_with("ignored")), "it runs although it is ignored");
}
