//! Reads the files of a package from a `.difypkg` file (a zip archive) or from a folder with `manifest.yaml`.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use super::files::{Collector, Files};
use super::ignored;
use super::{MANIFEST, PackageError};
use crate::limits::PackageLimits;

/// Names in a folder that do not belong to the plugin. `.env` often has keys of the person who develops it.
const LEFT_OUT: [&str; 7] = [".git", ".venv", "venv", "__pycache__", ".env", ".DS_Store", ".idea"];
/// The bytes at the beginning of the record at the end of a zip archive.
const END: &[u8] = b"PK\x05\x06";
/// The bytes of that record without its comment.
const END_BYTES: usize = 22;
/// Where that record has the number of files.
const END_COUNT: usize = 10;
/// Most bytes of the comment of a zip archive.
const COMMENT_BYTES_MAX: usize = 0xffff;

/// The content of a package before it is understood.
pub(super) struct Opened {
    pub(super) files: Files,
    /// The files in the order of the archive, and its comment: what a signature covers.
    pub(super) archive: Option<Archive>,
}

pub(super) struct Archive {
    pub(super) order: Vec<String>,
    pub(super) comment: Vec<u8>,
}

/// Reads a package.
pub(super) fn open(path: &Path, limits: &PackageLimits) -> Result<Opened, PackageError> {
    let failed = |error: std::io::Error| PackageError::Open { path: path.into(), error };
    let about = std::fs::metadata(path).map_err(failed)?;
    if about.is_dir() {
        return folder(path, limits);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limits.packed_bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limits.packed_bytes_max {
        return Err(PackageError::Limit {
            what: "bytes in the package",
            most: limits.packed_bytes_max,
            limit: "packed_bytes_max",
        });
    }
    archive(&bytes, limits)
}

/// Reads the bytes of a `.difypkg` file.
pub(super) fn archive(bytes: &[u8], limits: &PackageLimits) -> Result<Opened, PackageError> {
    let broken = |reason: String| PackageError::NotAnArchive { reason };
    // The number is checked first, because the directory of an archive is read as a whole.
    let count = count(bytes).ok_or_else(|| broken("it has no record at its end".into()))?;
    if usize::from(count) > limits.files_max {
        return Err(PackageError::Limit { what: "files", most: limits.files_max as u64, limit: "files_max" });
    }
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(error.to_string()))?;
    if archive.has_duplicate_names() || archive.len() != usize::from(count) {
        return Err(broken("a name occurs twice, or its directory does not agree with its end".into()));
    }
    let mut collector = Collector::new(limits);
    let mut order = Vec::new();
    for at in 0..archive.len() {
        let entry = archive.by_index(at).map_err(|error| broken(error.to_string()))?;
        let name = entry.name().map_err(|error| broken(error.to_string()))?.into_owned();
        if entry.is_symlink() {
            return Err(PackageError::Link { name });
        }
        order.push(name.clone());
        if !entry.is_dir() {
            collector.add(&name, entry)?;
        }
    }
    let comment = archive.comment().to_vec();
    Ok(Opened { files: collector.finish()?, archive: Some(Archive { order, comment }) })
}

/// The number of files that the end of an archive states. `None` without an end, and for the large form (zip64), which
/// no package of this size needs.
fn count(bytes: &[u8]) -> Option<u16> {
    let from = bytes.len().saturating_sub(END_BYTES + COMMENT_BYTES_MAX);
    let at = from + bytes[from..].windows(END.len()).rposition(|window| window == END)?;
    let count = bytes.get(at + END_COUNT..at + END_COUNT + 2)?;
    Some(u16::from_le_bytes([count[0], count[1]])).filter(|count| *count != u16::MAX)
}

fn folder(root: &Path, limits: &PackageLimits) -> Result<Opened, PackageError> {
    if !root.join(MANIFEST).is_file() {
        return Err(PackageError::NoManifest);
    }
    let ignored = ignored::patterns(root)?;
    let mut collector = Collector::new(limits);
    // Folders that are still to be read, with the beginning of their names: no recursion, so no stack is needed.
    let mut open: Vec<(PathBuf, String)> = vec![(root.into(), String::new())];
    let mut folders = 0;
    while let Some((path, before)) = open.pop() {
        let failed = |error: std::io::Error| PackageError::Open { path: path.clone(), error };
        folders += 1;
        if folders > limits.files_max {
            return Err(PackageError::Limit {
                what: "folders",
                most: limits.files_max as u64,
                limit: "files_max",
            });
        }
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let own = entry.file_name();
            let own = own.to_str().ok_or_else(|| PackageError::Name {
                name: entry.path().display().to_string(),
                reason: "the name is not UTF-8",
            })?;
            if LEFT_OUT.contains(&own) {
                continue;
            }
            let name = format!("{before}{own}");
            if name != MANIFEST && ignored.matched(&name, kind.is_dir()).is_ignore() {
                continue;
            }
            if kind.is_dir() {
                super::files::check_name(&name, limits)?;
                open.push((entry.path(), format!("{name}/")));
            } else if kind.is_file() {
                let file = File::open(entry.path())
                    .map_err(|error| PackageError::Open { path: entry.path(), error })?;
                collector.add(&name, file)?;
            } else {
                return Err(PackageError::Link { name });
            }
        }
    }
    Ok(Opened { files: collector.finish()?, archive: None })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in entries {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn an_archive_is_read_and_bounded() {
        let limits = PackageLimits::default();
        let opened = archive(&zip_of(&[("manifest.yaml", b"a: b"), ("x/y.py", b"1")]), &limits).unwrap();
        assert_eq!(opened.files.get("x/y.py"), Some(&b"1"[..]));
        assert_eq!(opened.archive.unwrap().order, ["manifest.yaml", "x/y.py"]);

        let small = PackageLimits { unpacked_bytes_max: 1000, ..PackageLimits::default() };
        let error = archive(&zip_of(&[("a", &[0; 100_000])]), &small).err().unwrap().to_string();
        assert!(error.contains("unpacked_bytes_max"), "{error}");
        let few = PackageLimits { files_max: 1, ..PackageLimits::default() };
        let error = archive(&zip_of(&[("a", b""), ("b", b"")]), &few).err().unwrap().to_string();
        assert!(error.contains("files_max"), "{error}");
        assert!(archive(b"no archive", &limits).is_err());
        assert!(archive(&zip_of(&[("../a", b"")]), &limits).is_err());
    }

    #[test]
    fn a_header_that_states_another_size_changes_nothing() {
        let mut bytes = zip_of(&[("a", &[b'x'; 4000])]);
        // The size in the directory (at 24 of its record) says 1.
        let at = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap() + 24;
        bytes[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
        let limits = PackageLimits { file_bytes_max: 100, ..PackageLimits::default() };
        assert!(archive(&bytes, &limits).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_read_without_links_and_private_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        for name in ["manifest.yaml", "tools/a.py", ".env", ".git/config", "tools/__pycache__/a.pyc"] {
            file(name);
        }
        let opened = open(folder.path(), &PackageLimits::default()).unwrap();
        assert_eq!(opened.files.names().collect::<Vec<_>>(), ["manifest.yaml", "tools/a.py"]);
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("tools/b.py")).unwrap();
        let error = open(folder.path(), &PackageLimits::default()).err().unwrap().to_string();
        assert!(error.contains("tools/b.py"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_read_without_what_its_difyignore_names_or_else_its_gitignore() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let names = || {
            let opened = open(folder.path(), &PackageLimits::default()).unwrap();
            opened.files.names().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        for name in ["manifest.yaml", "main.py", "uv.lock", "test/a.py", "tools/test/b.py", "tools/c.log"] {
            file(name, "x");
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("test/link")).unwrap();
        file(".gitignore", "test/\n[\n");
        assert_eq!(names(), ".gitignore main.py manifest.yaml tools/c.log uv.lock");
        file(".difyignore", "# not needed\n  /test/ \n*.log\n!tools/c.log\nuv.lock\n.*ignore\n*.yaml\n");
        assert_eq!(names(), "main.py manifest.yaml tools/test/b.py");
        file(".difyignore", &"# long\n".repeat(200_000));
        let error = open(folder.path(), &PackageLimits::default()).err().unwrap().to_string();
        assert!(error.contains(".difyignore") && error.contains("1048576"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn damaged_archives_never_end_the_process(at in 0_usize..400, byte in 0_u8..=255) {
            let mut bytes = zip_of(&[("manifest.yaml", b"name: a\nversion: 1\n"), ("tools/x.py", b"print(1)")]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = archive(&bytes, &PackageLimits::default());
        }
    }
}
