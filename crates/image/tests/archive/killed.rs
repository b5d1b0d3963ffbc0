//! Builds that are killed or run out of disk space, at steps that a controller of the file operations chooses
//! (`doorbell_files::control`) and at random times, and the next build after them. The build runs in a
//! separate process: this test program again, with [`child`] as its only test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use doorbell_archive::{World, options_in};
use doorbell_image::{BuildOptions, Image, Recipe, build};

const FOLDER: &str = "DOORBELL_TEST_BUILD_IN";
const REFRESH: &str = "DOORBELL_TEST_BUILD_REFRESH";
/// Operations that change the disk.
const CHANGES: [&str; 7] = ["create-folder", "write", "sync", "rename", "exchange", "remove", "unlock"];

/// The process that gets killed.
#[test]
#[ignore = "is started by other tests"]
fn child() {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from).expect("another test starts this one");
    let recipe = Recipe::load(folder.join("recipe")).unwrap();
    let options = BuildOptions { refresh: std::env::var_os(REFRESH).is_some(), ..options_in(&folder) };
    if let Err(error) = build(&recipe, &options, &mut |_| ()) {
        eprintln!("build error: {error}");
        std::process::exit(3);
    }
}

fn command(world: &World, refresh: bool) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "killed::child", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, world.dir.path());
    command.envs(refresh.then_some((REFRESH, "1")));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Outcome of a step.
enum Outcome {
    Done,
    Killed,
    Full,
}

/// Runs a build and decides the outcome of each step that changes the disk by `outcome`, called with the step's
/// number. Returns these steps, too.
fn controlled(world: &World, refresh: bool, outcome: impl Fn(usize) -> Outcome) -> (Vec<String>, Output) {
    let socket = world.path("control");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let mut child = command(world, refresh).env(doorbell_files::control::SOCKET, &socket).spawn().unwrap();
    let (stream, _): (UnixStream, _) = listener.accept().unwrap();
    let mut answers = stream.try_clone().unwrap();
    let mut steps = Vec::new();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        if line.starts_with("hello ") {
            continue;
        }
        let changes = CHANGES.contains(&line.split(' ').next().unwrap());
        let what = if changes { outcome(steps.len()) } else { Outcome::Done };
        if changes {
            steps.push(line);
        }
        let answer = match what {
            Outcome::Done => "go",
            Outcome::Full => "full 10",
            Outcome::Killed => {
                child.kill().unwrap();
                break;
            }
        };
        if writeln!(answers, "{answer}").is_err() {
            break;
        }
    }
    (steps, child.wait_with_output().unwrap())
}

/// Removes the results of builds.
fn clear(world: &World) {
    for folder in ["a cache", "images"] {
        let _ = fs::remove_dir_all(world.path(folder));
    }
}

/// Builds again, and checks that the result is as after an undisturbed build.
fn assert_resumes(world: &World, expected: &Image, after: &str) {
    let image = world.build(&world.options()).unwrap_or_else(|error| panic!("after {after}: {error}"));
    assert_eq!(image.manifest(), expected.manifest(), "after {after}");
    assert_eq!(world.images(), ["tiny"], "after {after}");
    let hidden = |folder: &Path| {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // A lock's empty file stays until the lock is next taken, which a build that finds its image whole
        // does not do.
        names.filter(|name| name.starts_with('.') && name != ".lock").collect::<Vec<_>>()
    };
    for folder in ["a cache", "a cache/debs"] {
        assert!(hidden(&world.path(folder)).is_empty(), "after {after}: {:?}", hidden(&world.path(folder)));
    }
}

#[test]
fn a_first_build_killed_at_any_step_is_resumed() {
    let world = World::new();
    let (steps, output) = controlled(&world, false, |_| Outcome::Done);
    assert!(output.status.success(), "{output:?}");
    let whole = Image::open(world.path("images/tiny")).unwrap();
    assert!(
        steps.iter().any(|step| step.starts_with("rename ") && step.ends_with("images/tiny")),
        "{steps:#?}"
    );
    // Killing before or after a sync makes no difference to the surviving files.
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| !step.starts_with("sync ")) {
        clear(&world);
        let (_, output) =
            controlled(&world, false, |step| if step == at { Outcome::Killed } else { Outcome::Done });
        assert!(!output.status.success(), "{step}");
        // There is no image, or it is whole.
        assert!(
            !world.path("images/tiny").exists() || Image::open(world.path("images/tiny")).is_ok(),
            "{step}"
        );
        assert_resumes(&world, &whole, step);
    }
}

#[test]
fn a_full_disk_is_reported_at_any_step_and_leaves_no_partial_files() {
    let world = World::new();
    let (steps, _) = controlled(&world, false, |_| Outcome::Done);
    let whole = Image::open(world.path("images/tiny")).unwrap();
    let may_fail = |step: &str| !step.starts_with("remove ") && !step.starts_with("unlock ");
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| may_fail(step)) {
        clear(&world);
        let (_, output) =
            controlled(&world, false, |step| if step == at { Outcome::Full } else { Outcome::Done });
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && printed.contains("no storage space"), "{step}: {printed}");
        let left: Vec<String> = world.images();
        assert!(
            left.is_empty() || (left == ["tiny"] && Image::open(world.path("images/tiny")).is_ok()),
            "{step}: {left:?}"
        );
        assert_resumes(&world, &whole, step);
    }
}

#[test]
fn a_rebuild_killed_at_any_step_leaves_the_old_or_the_new_image() {
    let world = World::new();
    let old = world.build(&world.options()).unwrap();
    world.publish("1:2.0-1", Some("archive"));
    let keep = world.path("keep");
    fs::rename(world.path("images"), &keep).unwrap();
    let (_, output) = controlled(&world, true, |_| Outcome::Done);
    assert!(output.status.success());
    let new = Image::open(world.path("images/tiny")).unwrap();
    let restore = || {
        let _ = fs::remove_dir_all(world.path("images"));
        let copied = Command::new("cp").arg("-r").args([&keep, &world.path("images")]).status().unwrap();
        assert!(copied.success());
    };
    restore();
    let (steps, _) = controlled(&world, true, |_| Outcome::Done);
    let exchange =
        steps.iter().position(|step| step.starts_with("exchange ")).expect("the images change places");
    for (at, step) in steps.iter().enumerate().skip(exchange.saturating_sub(3)) {
        restore();
        controlled(&world, true, |number| if number == at { Outcome::Killed } else { Outcome::Done });
        let left = Image::open(world.path("images/tiny")).unwrap_or_else(|error| panic!("{step}: {error}"));
        let expected = if at > exchange { &new } else { &old };
        assert_eq!(left.manifest(), expected.manifest(), "{step}");
        let refresh = BuildOptions { refresh: true, ..world.options() };
        assert_eq!(world.build(&refresh).unwrap().manifest(), new.manifest());
        assert_eq!(world.images(), ["tiny"]);
    }
}

#[test]
fn first_builds_killed_at_any_time_are_resumed() {
    let world = World::new();
    let begin = Instant::now();
    assert!(command(&world, false).output().unwrap().status.success());
    let (whole, took) = (Image::open(world.path("images/tiny")).unwrap(), begin.elapsed());
    const KILLS: u32 = 12;
    for kill in 0..KILLS {
        clear(&world);
        let mut child = command(&world, false).spawn().unwrap();
        let time = Duration::from_millis(5) + took * kill / KILLS;
        std::thread::sleep(time);
        // Child processes of the build may continue for a while; they hold the lock.
        child.kill().unwrap();
        child.wait().unwrap();
        assert_resumes(&world, &whole, &format!("{time:?} of {took:?}"));
    }
}

#[test]
fn concurrent_first_builds_in_separate_processes_agree() {
    let world = World::new();
    let children: Vec<_> = (0..3).map(|_| command(&world, false).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let image = Image::open(world.path("images/tiny")).unwrap();
    assert_resumes(&world, &image, "three builds");
}
