//! The files of a package in memory, within [`PackageLimits`]. Names are checked before a file is read, so that writing
//! the files into a folder later cannot reach outside of it.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Cursor, Read, Write};

use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

use super::PackageError;
use crate::limits::PackageLimits;

/// The files of a package by name. Names have `/` between their parts.
#[derive(Debug, Clone, Default)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// The content of a file.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Tests whether a file is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// All names with their contents, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The number of files.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// The SHA-256 of all names and contents, in hexadecimal digits. It does not depend on how the files were packed.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for (name, bytes) in &self.0 {
            for part in [name.as_bytes(), bytes] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Files {
    /// The files as a `.difypkg` file, without a signature.
    ///
    /// # Errors
    /// A file cannot be packed.
    pub fn packed(&self) -> io::Result<Vec<u8>> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in &self.0 {
            writer.start_file(name.as_str(), SimpleFileOptions::default())?;
            writer.write_all(bytes)?;
        }
        Ok(writer.finish()?.into_inner())
    }
}

/// Collects the files of a package.
pub(super) struct Collector<'l> {
    limits: &'l PackageLimits,
    files: BTreeMap<String, Vec<u8>>,
    /// The names without the difference of upper and lower case.
    folded: HashSet<String>,
    bytes: u64,
}

impl<'l> Collector<'l> {
    pub(super) fn new(limits: &'l PackageLimits) -> Self {
        Self { limits, files: BTreeMap::new(), folded: HashSet::new(), bytes: 0 }
    }

    /// Reads one file. No more bytes are read than the limits allow, whatever a header says.
    pub(super) fn add(&mut self, name: &str, content: impl Read) -> Result<(), PackageError> {
        check_name(name, self.limits)?;
        if self.files.len() >= self.limits.files_max {
            return Err(PackageError::Limit {
                what: "files",
                most: self.limits.files_max as u64,
                limit: "files_max",
            });
        }
        if !self.folded.insert(name.to_lowercase()) {
            return Err(PackageError::Name {
                name: shown(name),
                reason: "the name occurs twice (upper and lower case count as the same)",
            });
        }
        let left = self.limits.unpacked_bytes_max.saturating_sub(self.bytes);
        let most = left.min(self.limits.file_bytes_max);
        let mut bytes = Vec::new();
        content
            .take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| PackageError::Unreadable { name: shown(name), reason: error.to_string() })?;
        if bytes.len() as u64 > most {
            return Err(if most < self.limits.file_bytes_max {
                PackageError::Limit {
                    what: "bytes in all unpacked files",
                    most: self.limits.unpacked_bytes_max,
                    limit: "unpacked_bytes_max",
                }
            } else {
                PackageError::Limit { what: "bytes in one file", most, limit: "file_bytes_max" }
            });
        }
        self.bytes += bytes.len() as u64;
        self.files.insert(name.to_owned(), bytes);
        Ok(())
    }

    /// All files, if no name is a file and a folder at once.
    pub(super) fn finish(self) -> Result<Files, PackageError> {
        for name in self.files.keys() {
            let folders = name.match_indices('/').map(|(at, _)| &name[..at]);
            if folders.into_iter().any(|folder| self.folded.contains(&folder.to_lowercase())) {
                return Err(PackageError::Name {
                    name: shown(name),
                    reason: "one of its folders is also the name of a file",
                });
            }
        }
        Ok(Files(self.files))
    }
}

/// Tests whether a name stays inside a folder, on any system.
pub(super) fn check_name(name: &str, limits: &PackageLimits) -> Result<(), PackageError> {
    let refuse = |reason| Err(PackageError::Name { name: shown(name), reason });
    if name.len() > limits.path_bytes_max {
        return refuse("the name is longer than path_bytes_max");
    }
    if name.split('/').count() > limits.path_parts_max {
        return refuse("the name has more parts than path_parts_max");
    }
    if name.starts_with('/') {
        return refuse("the name begins at the root of the file system");
    }
    if name.chars().any(|c| c.is_control() || c == '\\') {
        return refuse("the name has a control character or a backslash");
    }
    if name.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return refuse("the name has an empty part, `.` or `..`");
    }
    Ok(())
}

/// A name for an error: short, and without control characters.
fn shown(name: &str) -> String {
    name.chars().take(200).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(names: &[&str]) -> Result<Files, PackageError> {
        let limits = PackageLimits::default();
        let mut collector = Collector::new(&limits);
        for name in names {
            collector.add(name, &b"x"[..])?;
        }
        collector.finish()
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in ["/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\\b", "a\0b", "a\nb", ""] {
            assert!(collect(&[name]).is_err(), "{name:?}");
        }
        assert!(collect(&[&"a/".repeat(40)]).is_err());
        assert!(collect(&[&"a".repeat(5000)]).is_err());
        assert_eq!(collect(&["a/b.py", "..a", "a/b..py"]).unwrap().count(), 3);
    }

    #[test]
    fn a_name_cannot_occur_twice_nor_be_a_file_and_a_folder() {
        assert!(collect(&["a/B.py", "A/b.py"]).is_err());
        assert!(collect(&["a", "a/b"]).is_err());
        assert!(collect(&["a/b", "A"]).is_err());
    }

    #[test]
    fn bytes_are_counted_as_they_are_read() {
        let limits = PackageLimits { file_bytes_max: 10, unpacked_bytes_max: 15, ..PackageLimits::default() };
        let mut collector = Collector::new(&limits);
        let error = collector.add("a", std::io::repeat(0)).unwrap_err().to_string();
        assert!(error.contains("10 bytes in one file (file_bytes_max)"), "{error}");
        let mut collector = Collector::new(&limits);
        collector.add("a", &[0; 10][..]).unwrap();
        let error = collector.add("b", &[0; 10][..]).unwrap_err().to_string();
        assert!(error.contains("15 bytes in all unpacked files (unpacked_bytes_max)"), "{error}");
    }

    #[test]
    fn the_hash_depends_on_names_and_contents_alone() {
        let (one, other) = (collect(&["a", "b"]).unwrap(), collect(&["b", "a"]).unwrap());
        assert_eq!(one.hash(), other.hash());
        assert_ne!(one.hash(), collect(&["ab"]).unwrap().hash());
        assert_ne!(one.hash(), collect(&["a", "c"]).unwrap().hash());
    }
}
