use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;

const NAME: &str = "0123456789abcdef0123456789abcdef";
const MINUTE: Duration = Duration::from_secs(60);

fn folder() -> (tempfile::TempDir, PathBuf) {
    let cache = tempfile::tempdir().unwrap();
    let path = cache.path().join("environments").join(NAME);
    std::fs::create_dir(cache.path().join("environments")).unwrap();
    (cache, path)
}

fn made(path: &Path) -> InUse {
    let Hold::Make(lock) = hold(path).unwrap() else { panic!("it is not there") };
    assert!(matches!(hold(path).unwrap(), Hold::Busy), "another one makes it");
    let making = making(path);
    std::fs::create_dir(&making).unwrap();
    std::fs::write(making.join("file"), "12345").unwrap();
    std::fs::rename(making, path).unwrap();
    drop(lock);
    let Hold::Use(used) = hold(path).unwrap() else { panic!("it is there") };
    used
}

#[test]
fn what_is_used_or_made_is_never_removed() {
    let (cache, path) = folder();
    let Hold::Make(lock) = hold(&path).unwrap() else { panic!("it is not there") };
    std::fs::create_dir(making(&path)).unwrap();
    let cleaned = clean(cache.path(), Duration::ZERO).unwrap();
    assert_eq!(cleaned, Cleaned { in_use: 1, ..Cleaned::default() });
    drop(lock);
    let used = made(&path);
    let Hold::Use(again) = hold(&path).unwrap() else { panic!("others use it together") };
    drop(used);
    assert_eq!(clean(cache.path(), Duration::ZERO).unwrap().in_use, 1);
    drop(again);
    assert_eq!(clean(cache.path(), Duration::from_secs(60)).unwrap().kept, 1);
    let cleaned = clean(cache.path(), Duration::ZERO).unwrap();
    assert_eq!((cleaned.removed, cleaned.bytes), (vec![path.clone()], 5));
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(left, 0, "neither lock files nor parts stay");
}

#[test]
fn what_a_killed_process_left_is_removed_and_foreign_files_stay() {
    let (cache, path) = folder();
    drop(made(&path));
    let beside = path.parent().unwrap();
    let left = beside.join(format!("{MAKING}{NAME}-00"));
    let foreign = beside.join("notes");
    for folder in [&left, &foreign] {
        std::fs::create_dir(folder).unwrap();
    }
    assert_eq!(clean(cache.path(), Duration::from_secs(60)).unwrap().kept, 1);
    assert!(!left.exists() && foreign.exists() && path.exists());
    clean(cache.path(), Duration::ZERO).unwrap();
    assert!(foreign.exists() && !path.exists());
}

#[test]
fn a_lock_file_that_was_removed_while_it_was_opened_counts_for_nothing() {
    let (cache, path) = folder();
    drop(made(&path));
    let opened = open(&path).unwrap();
    clean(cache.path(), Duration::ZERO).unwrap();
    assert!(opened.try_lock().is_ok() && !is_current(&opened, &path));
    assert!(matches!(hold(&path).unwrap(), Hold::Make(_)));
}

#[test]
fn many_processes_that_make_use_and_clean_at_once_never_see_a_half() {
    let (cache, path) = folder();
    let (cache, path) = (cache.path(), path.as_path());
    let until = Instant::now() + Duration::from_secs(120);
    let is_removed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut rounds = 0;
                while rounds < 40 || !is_removed.load(Ordering::SeqCst) {
                    assert!(Instant::now() < until, "it was never removed");
                    rounds += 1;
                    match hold(path).unwrap() {
                        Hold::Use(_used) => assert!(path.join("file").is_file()),
                        Hold::Make(_lock) => {
                            let making = making(path);
                            std::fs::create_dir(&making).unwrap();
                            std::fs::write(making.join("file"), "1").unwrap();
                            std::fs::rename(making, path).unwrap();
                        }
                        Hold::Busy => {}
                    }
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            while !is_removed.load(Ordering::SeqCst) {
                assert!(Instant::now() < until, "it was always in use");
                let cleaned = clean(cache, Duration::ZERO).unwrap();
                assert_eq!(cleaned.failed, []);
                is_removed.fetch_or(!cleaned.removed.is_empty(), Ordering::SeqCst);
                std::thread::yield_now();
            }
        });
    });
}

#[test]
fn what_an_earlier_version_has_made_is_kept_for_the_time_after_it_was_first_seen() {
    let (cache, path) = folder();
    std::fs::create_dir(&path).unwrap();
    let lock = open(&path).unwrap();
    lock.set_modified(SystemTime::now() - 1000 * MINUTE).unwrap();
    let kept = Cleaned { kept: 1, ..Cleaned::default() };
    assert_eq!(clean(cache.path(), MINUTE).unwrap(), kept);
    assert_eq!(clean(cache.path(), MINUTE).unwrap(), kept, "the time counts from the first look");
    lock.set_modified(SystemTime::now() - 2 * MINUTE).unwrap();
    assert_eq!(clean(cache.path(), MINUTE).unwrap().removed, [path]);
}

#[test]
fn one_that_cannot_be_removed_does_not_stop_the_others() {
    let (cache, path) = folder();
    drop(made(&path));
    let broken = path.with_file_name("0".repeat(32));
    std::fs::create_dir(&broken).unwrap();
    // It cannot be opened as a file.
    std::fs::create_dir(lock_of(&broken)).unwrap();
    let cleaned = clean(cache.path(), Duration::ZERO).unwrap();
    assert_eq!(cleaned.removed, [path]);
    assert!(matches!(&cleaned.failed[..], [(path, reason)] if *path == broken && !reason.is_empty()));
}

#[test]
fn a_time_in_the_future_is_set_to_now() {
    let (cache, path) = folder();
    drop(made(&path));
    let lock = open(&path).unwrap();
    lock.set_modified(SystemTime::now() + 1000 * MINUTE).unwrap();
    assert_eq!(clean(cache.path(), MINUTE).unwrap().kept, 1);
    assert!(lock.metadata().unwrap().modified().unwrap() <= SystemTime::now());
}

#[test]
fn a_cache_that_can_only_be_read_is_used() {
    let (cache, path) = folder();
    let refused = |kind: ErrorKind| hold_with(Err(kind.into()), &path);
    assert!(refused(ErrorKind::ReadOnlyFilesystem).is_err(), "it is not there");
    drop(made(&path));
    for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied] {
        let Hold::Use(used) = refused(kind).unwrap() else { panic!("it is there") };
        assert_eq!(clean(cache.path(), Duration::ZERO).unwrap().in_use, 1, "it has the lock");
        drop(used);
    }
    std::fs::remove_file(lock_of(&path)).unwrap();
    assert!(matches!(refused(ErrorKind::ReadOnlyFilesystem).unwrap(), Hold::Use(InUse { lock: None })));
    assert!(refused(ErrorKind::PermissionDenied).is_err(), "its owner could remove it");
    assert!(refused(ErrorKind::StorageFull).is_err());
}
