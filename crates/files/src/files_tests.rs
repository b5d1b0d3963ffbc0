use std::fs;
use std::path::Path;

use crate::*;

fn names(folder: &Path) -> Vec<String> {
    list(folder).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn lock_has_one_owner_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let first = Lock::try_take(&path).unwrap().unwrap();
    assert!(Lock::try_take(&path).unwrap().is_none());
    drop(first);
    assert!(names(folder.path()).is_empty());
    assert!(Lock::try_take(&path).unwrap().is_some());
}

#[test]
fn waiting_for_a_lock_can_be_abandoned_or_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let first = Lock::try_take(&path).unwrap().unwrap();
    assert_eq!(Lock::wait(&path, || Err("enough")).unwrap().unwrap_err(), "enough");
    let nowhere = folder.path().join("nowhere/a.lock");
    assert!(Lock::wait(&nowhere, || Err("enough")).is_err(), "a missing folder ends the wait");
    let mut first = Some(first);
    let mut attempts = 0;
    let got = Lock::wait_always(&path, || {
        attempts += 1;
        first = None;
    });
    assert!(got.is_ok());
    assert_eq!(attempts, 1);
}

#[test]
fn recreated_lock_file_never_has_two_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    // Many threads take the lock, check that they are alone, and release it.
    let inside = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let Some(_lock) = Lock::try_take(&path).unwrap() else { continue };
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn folder_is_replaced_atomically() {
    let scratch = tempfile::tempdir().unwrap();
    let (new, target) = (scratch.path().join("new"), scratch.path().join("target"));
    for (round, content) in ["one", "two"].iter().enumerate() {
        create_folder(&new).unwrap();
        write(&new.join(format!("file-{round}")), content.as_bytes()).unwrap();
        sync_tree(&new).unwrap();
        put_in_place(&new, &target).unwrap();
        assert_eq!(names(scratch.path()), ["target"]);
        assert_eq!(names(&target), [format!("file-{round}")]);
    }
}

#[test]
fn file_is_replaced_atomically_and_failures_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    replace(&path, b"one").unwrap();
    replace(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(names(folder.path()), ["a"]);
    fs::create_dir(folder.path().join("in-the-way")).unwrap();
    assert!(replace(&folder.path().join("in-the-way"), b"three").is_err());
    assert_eq!(names(folder.path()), ["a", "in-the-way"]);
}

#[test]
fn replace_follows_links_to_files_and_refuses_everything_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a"), "one").unwrap();
    for (target, link) in [("a", "link"), ("nowhere", "dangling"), ("/dev/null", "device")] {
        std::os::unix::fs::symlink(target, path(link)).unwrap();
    }
    replace(&path("link"), b"two").unwrap();
    assert_eq!(fs::read(path("a")).unwrap(), b"two");
    let problem = |path: &Path| replace(path, b"three").unwrap_err().to_string();
    for refused in [path("dangling"), path("device"), folder.path().to_owned(), "/dev/null".into()] {
        assert_eq!(problem(&refused), "it exists and is not a regular file");
    }
    for name in ["link", "dangling", "device"] {
        assert_eq!(kind(&path(name)).unwrap(), Some(Kind::Other), "{name}");
    }
    let nowhere = path("deeper/a");
    assert!(problem(&nowhere).starts_with("there is no folder ") && written_at(&nowhere).is_err());
    assert_eq!(written_at(&path("new")).unwrap(), path("new"));
}

#[test]
fn copied_tree_has_the_files_but_no_links() {
    let scratch = tempfile::tempdir().unwrap();
    let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
    create_folders(&one.join("deeper")).unwrap();
    write(&one.join("deeper/a"), b"a").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", one.join("link")).unwrap();
    copy_tree(&one, &other).unwrap();
    assert_eq!(fs::read(other.join("deeper/a")).unwrap(), b"a");
    assert_eq!(names(&other), ["deeper"]);
    assert_eq!(kind(&one.join("link")).unwrap(), Some(Kind::Other));
}

#[test]
fn sha256_matches_the_standard() {
    // Example of FIPS 180-4: SHA-256 of "abc".
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "abc").unwrap();
    assert_eq!(sha256_of(&folder.path().join("a")).unwrap(), (expected.to_owned(), 3));
    assert_eq!(sha256(b"abc"), expected);
}

#[test]
fn remove_accepts_missing_paths_and_keeps_link_targets() {
    let scratch = tempfile::tempdir().unwrap();
    remove(&scratch.path().join("nothing")).unwrap();
    fs::create_dir(scratch.path().join("kept")).unwrap();
    std::os::unix::fs::symlink(scratch.path().join("kept"), scratch.path().join("link")).unwrap();
    remove(&scratch.path().join("link")).unwrap();
    assert_eq!(names(scratch.path()), ["kept"]);
}

#[test]
fn paths_in_use_are_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    assert!(hold(&path).unwrap().is_none());
    assert_eq!(remove_unheld(&path).unwrap(), Removal::Missing);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("kernel"), "a kernel").unwrap();
    let (one, two) = (hold(&path).unwrap().unwrap(), hold(&path).unwrap().unwrap());
    assert!(is_held(&path).unwrap());
    drop(one);
    assert_eq!(remove_unheld(&path).unwrap(), Removal::InUse);
    assert!(path.join("kernel").exists());
    // A replacement is not in use.
    fs::rename(&path, folder.path().join("old")).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(remove_unheld(&path).unwrap(), Removal::Removed);
    assert!(is_held(&folder.path().join("old")).unwrap());
    drop(two);
    assert_eq!(remove_unheld(&folder.path().join("old")).unwrap(), Removal::Removed);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn hold_waits_for_a_concurrent_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    fs::write(&path, "a guest").unwrap();
    let looks = fs::File::open(&path).unwrap();
    rustix::fs::flock(&looks, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let holds = std::thread::spawn({
        let path = path.clone();
        move || hold(&path).unwrap().is_some()
    });
    std::thread::sleep(std::time::Duration::from_millis(30));
    drop(looks);
    assert!(holds.join().unwrap());
}

#[test]
fn leftovers_are_removed_unless_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a.ckpt", ".a.ckpt.tmp-12-0", ".a.ckpt.tmp-13-7", ".b.tmp-14-0", ".hidden", "c.tmp-1-1"] {
        fs::write(path(name), name).unwrap();
    }
    let writing = Lock::try_take(&Lock::path_for(&path("b"))).unwrap().unwrap();
    remove_parts_in(folder.path()).unwrap();
    assert_eq!(names(folder.path()), [".b.lock", ".b.tmp-14-0", ".hidden", "a.ckpt", "c.tmp-1-1"]);
    drop(writing);
    remove_parts_in(folder.path()).unwrap();
    assert_eq!(names(folder.path()), [".hidden", "a.ckpt", "c.tmp-1-1"]);
}
