//! The cache folder: unpacked packages and environments, the processes that use them, and the removal of those that no process
//! uses.
//!
//! Each of them has a lock file beside it. A process that makes or removes it holds the lock alone; those that use it hold it
//! together. The system releases locks when a process ends, also by SIGKILL. The time of the lock file is that of the last use.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidemill_sandbox::guest::remove;

/// The folders in the cache folder: of packages, and of environments.
pub(crate) const PARTS: [&str; 2] = ["packages", "environments"];
/// The start of names of folders that are not complete, or are being removed.
pub(crate) const MAKING: &str = ".making-";
const LOCK: &str = ".lock-";

/// A folder of the cache that this process uses. No process removes it as long as this lives.
#[derive(Debug)]
pub(crate) struct InUse {
    lock: File,
}

impl InUse {
    /// Notes that it is used now.
    pub(crate) fn touch(&self) {
        // Without the time it is removed earlier, and made again when it is needed.
        let _ = self.lock.set_modified(SystemTime::now());
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.touch();
    }
}

/// What a process may do with a folder of the cache.
pub(crate) enum Hold {
    /// It is there.
    Use(InUse),
    /// It is not there, and no other process makes it as long as this file is open.
    Make(File),
    /// Another process makes or removes it.
    Busy,
}

/// Takes a folder for use, or for its making.
///
/// # Errors
/// The lock file cannot be opened or locked.
pub(crate) fn hold(path: &Path) -> io::Result<Hold> {
    loop {
        let lock = open(path)?;
        if !is_locked(lock.try_lock_shared())? {
            return Ok(Hold::Busy);
        }
        if is_current(&lock, path) && path.is_dir() {
            let used = InUse { lock };
            used.touch();
            return Ok(Hold::Use(used));
        }
        lock.unlock()?;
        if !is_locked(lock.try_lock())? {
            return Ok(Hold::Busy);
        }
        // It may have been made or removed in between.
        if is_current(&lock, path) && !path.is_dir() {
            return Ok(Hold::Make(lock));
        }
    }
}

/// A new name for a folder that is not complete. What others left of it is removed: the caller holds the lock alone.
pub(crate) fn making(path: &Path) -> PathBuf {
    remove_left_over(path);
    let random = RandomState::new().build_hasher().finish();
    path.with_file_name(format!("{MAKING}{}-{random:016x}", name_of(path)))
}

/// What was found in a cache folder.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// The folders that were removed.
    pub removed: Vec<PathBuf>,
    /// The bytes of them.
    pub bytes: u64,
    /// Folders that a living process uses or makes.
    pub in_use: usize,
    /// Folders that were used since.
    pub kept: usize,
}

/// Removes the packages and environments that no living process uses or makes, and that none has used for this time, with what
/// killed processes left.
///
/// # Errors
/// The cache folder cannot be read.
pub fn clean(cache: &Path, unused: Duration) -> io::Result<Cleaned> {
    let mut cleaned = Cleaned::default();
    for part in PARTS {
        let folder = cache.join(part);
        let listed = match std::fs::read_dir(&folder) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let names: BTreeSet<String> = listed
            .flatten()
            .filter_map(|entry| own_name(&entry.file_name().to_string_lossy()).map(str::to_owned))
            .collect();
        for name in names {
            clean_one(&folder.join(name), unused, &mut cleaned)?;
        }
    }
    Ok(cleaned)
}

fn clean_one(path: &Path, unused: Duration, cleaned: &mut Cleaned) -> io::Result<()> {
    let lock = open(path)?;
    if !is_locked(lock.try_lock())? || !is_current(&lock, path) {
        cleaned.in_use += 1;
        return Ok(());
    }
    let is_there = path.is_dir();
    if is_there && lock.metadata()?.modified()?.elapsed().unwrap_or_default() < unused {
        remove_left_over(path);
        cleaned.kept += 1;
        return Ok(());
    }
    if is_there {
        cleaned.bytes = cleaned.bytes.saturating_add(size(path));
        // So that a half of it never has its name.
        std::fs::rename(path, making(path))?;
        cleaned.removed.push(path.to_owned());
    }
    remove_left_over(path);
    // A process that has opened it in the meantime sees that it is not the current one.
    std::fs::remove_file(lock_of(path))
}

/// Removes the folders that are not complete. The caller holds the lock alone.
fn remove_left_over(path: &Path) {
    let start = format!("{MAKING}{}", name_of(path));
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    for entry in beside.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&start)) {
        remove(&entry.path());
    }
}

/// The bytes of all files below a folder. Links are not followed.
fn size(folder: &Path) -> u64 {
    let (mut open, mut bytes) = (vec![folder.to_owned()], 0_u64);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => open.push(entry.path()),
                Ok(about) => bytes = bytes.saturating_add(about.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// The name of a package or an environment to which a file in their folder belongs. `None` for a foreign file.
fn own_name(file: &str) -> Option<&str> {
    let name = file.strip_prefix(LOCK).or_else(|| file.strip_prefix(MAKING)).unwrap_or(file);
    let name = name.split('-').next().unwrap_or_default();
    (matches!(name.len(), 32 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn lock_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{LOCK}{}", name_of(path)))
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(lock_of(path))
}

/// False if another process holds the lock.
fn is_locked(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Tests whether a lock file that was opened still has its name: the process that removed the folder removed it, too.
fn is_current(lock: &File, path: &Path) -> bool {
    let id = |about: io::Result<std::fs::Metadata>| about.ok().map(|about| (about.dev(), about.ino()));
    let own = id(lock.metadata());
    own.is_some() && own == id(std::fs::metadata(lock_of(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "0123456789abcdef0123456789abcdef";

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
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    for _ in 0..40 {
                        match hold(path).unwrap() {
                            Hold::Use(_used) => assert!(path.join("file").is_file()),
                            Hold::Make(_lock) => {
                                let making = making(path);
                                std::fs::create_dir(&making).unwrap();
                                std::fs::write(making.join("file"), "1").unwrap();
                                std::fs::rename(making, path).unwrap();
                            }
                            Hold::Busy => std::thread::yield_now(),
                        }
                    }
                });
            }
            scope.spawn(move || (0..40).for_each(|_| drop(clean(cache, Duration::ZERO))));
        });
    }
}
