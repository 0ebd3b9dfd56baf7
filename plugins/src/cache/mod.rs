//! The cache folder: unpacked packages and environments, the processes that use them, and the removal of those that no process
//! uses.
//!
//! Each of them has a lock file beside it. A process that makes or removes it holds the lock alone; those that use it hold it
//! together. The system releases locks when a process ends, also by SIGKILL. The time of the lock file is that of the last use.
//!
//! Processes of an earlier version hold a lock only while they make a folder, and leave its lock file empty. This version writes a
//! [`MARK`] into it.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidemill_sandbox::guest::remove;

/// The folders in the cache folder: of packages, and of environments.
pub(crate) const PARTS: [&str; 2] = ["packages", "environments"];
/// The start of names of folders that are not complete, or are being removed.
pub(crate) const MAKING: &str = ".making-";
const LOCK: &str = ".lock-";
/// The content of lock files whose time is that of the last use.
const MARK: &[u8] = b"1";

/// A folder of the cache that this process uses. No process removes it as long as this lives.
#[derive(Debug)]
pub(crate) struct InUse {
    /// `None` in a folder that no process can write to.
    lock: Option<File>,
}

impl InUse {
    /// Notes that it is used now.
    pub(crate) fn touch(&self) {
        // Without the time it is removed earlier, and made again when it is needed.
        if let Some(lock) = &self.lock {
            let _ = lock.set_modified(SystemTime::now());
        }
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

/// Takes a folder for use, or for its making. Tries it once.
///
/// # Errors
/// The lock file cannot be opened or locked.
pub(crate) fn hold(path: &Path) -> io::Result<Hold> {
    hold_with(open(path), path)
}

fn hold_with(opened: io::Result<File>, path: &Path) -> io::Result<Hold> {
    let lock = match opened {
        Ok(lock) => lock,
        Err(error) => return hold_read_only(error, path),
    };
    if !is_locked(lock.try_lock_shared())? || !is_current(&lock, path) {
        return Ok(Hold::Busy);
    }
    if path.is_dir() {
        mark(&lock);
        return Ok(Hold::Use(using(lock)));
    }
    lock.unlock()?;
    // It may have been made or removed in between.
    if !is_locked(lock.try_lock())? || !is_current(&lock, path) || path.is_dir() {
        return Ok(Hold::Busy);
    }
    mark(&lock);
    Ok(Hold::Make(lock))
}

/// Takes a folder for use in a cache that this process cannot write to, because of this error. Another user may remove it, unless
/// the file system is read-only: so its lock is needed there.
fn hold_read_only(error: io::Error, path: &Path) -> io::Result<Hold> {
    let is_read_only = error.kind() == ErrorKind::ReadOnlyFilesystem;
    if !(is_read_only || error.kind() == ErrorKind::PermissionDenied) || !path.is_dir() {
        return Err(error);
    }
    let lock = match File::open(lock_of(path)) {
        Ok(lock) => lock,
        Err(_) if is_read_only => return Ok(Hold::Use(InUse { lock: None })),
        Err(_) => return Err(error),
    };
    let is_held = is_locked(lock.try_lock_shared())? && is_current(&lock, path) && path.is_dir();
    Ok(if is_held { Hold::Use(using(lock)) } else { Hold::Busy })
}

fn using(lock: File) -> InUse {
    let used = InUse { lock: Some(lock) };
    used.touch();
    used
}

/// A new name for a folder that is not complete. What others left of it is removed: the caller holds the lock alone.
pub(crate) fn making(path: &Path) -> PathBuf {
    // What stays is removed later: this name is another one.
    let _ = remove_left_over(path);
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
    /// Those that cannot be cleaned, with the reasons.
    pub failed: Vec<(PathBuf, String)>,
}

/// Removes the packages and environments that no living process uses or makes, and that none has used for this time, with what
/// killed processes left. One that cannot be removed does not stop the others.
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
            let path = folder.join(name);
            if let Err(error) = clean_one(&path, unused, &mut cleaned) {
                cleaned.failed.push((path, error.to_string()));
            }
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
    let about = lock.metadata()?;
    let is_there = path.is_dir();
    if about.len() == 0 {
        // A process of an earlier version may use it without a lock: the time of the last use is not known.
        mark(&lock);
        lock.set_modified(SystemTime::now())?;
        cleaned.kept += usize::from(is_there);
        return remove_left_over(path);
    }
    let age = match about.modified()?.elapsed() {
        Ok(age) => age,
        // The clock was wrong, now or then.
        Err(_) => {
            lock.set_modified(SystemTime::now())?;
            Duration::ZERO
        }
    };
    if is_there && age < unused {
        cleaned.kept += 1;
        return remove_left_over(path);
    }
    if is_there {
        let bytes = size(path);
        // So that a half of it never has its name.
        std::fs::rename(path, making(path))?;
        cleaned.bytes = cleaned.bytes.saturating_add(bytes);
        cleaned.removed.push(path.to_owned());
    }
    remove_left_over(path)?;
    // A process that has opened it in the meantime sees that it is not the current one.
    std::fs::remove_file(lock_of(path))
}

/// Removes the folders that are not complete. The caller holds the lock alone.
fn remove_left_over(path: &Path) -> io::Result<()> {
    let start = format!("{MAKING}{}", name_of(path));
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    let mut result = Ok(());
    for entry in beside.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&start)) {
        let path = entry.path();
        remove(&path);
        if path.symlink_metadata().is_ok() {
            let stays = format!("{} cannot be removed", path.display());
            result = Err(io::Error::other(stays));
        }
    }
    result
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
    // NFS wants a file that is open for reading for a shared lock.
    File::options().create(true).read(true).append(true).open(lock_of(path))
}

/// Marks a lock file of which this process holds the lock.
fn mark(mut lock: &File) {
    if lock.metadata().is_ok_and(|about| about.len() == 0) {
        // Without the mark the folder is kept longer.
        let _ = lock.write_all(MARK);
    }
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
mod tests;
