//! What a folder leaves out of its package: the patterns of its `.difyignore`, else of its `.gitignore`, as Dify's packer reads
//! them. So an installed folder has the same files as the package that is made from it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::PackageError;

/// The files with patterns; only the first one that is there counts.
const FILES: [&str; 2] = [".difyignore", ".gitignore"];
/// Most bytes of such a file that are read.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the patterns of a folder. A line that is no pattern is passed over. As with Dify's packer, spaces around a line do not
/// count, and a line that begins with `!` brings nothing back.
pub(super) fn patterns(root: &Path) -> Result<Gitignore, PackageError> {
    let Some(path) = FILES.map(|name| root.join(name)).into_iter().find(|path| path.is_file()) else {
        return Ok(Gitignore::empty());
    };
    let failed = |error: std::io::Error| PackageError::Open { path: path.clone(), error };
    let mut bytes = Vec::new();
    File::open(&path).map_err(failed)?.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(failed(std::io::Error::other(format!("it has more than {BYTES_MAX} bytes"))));
    }
    // Names in a package have no folder before them.
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&bytes).lines().map(str::trim) {
        if !line.starts_with('!') {
            let _ = builder.add_line(None, line);
        }
    }
    // Patterns that were taken one by one are valid together, unless they are too large for the matcher.
    builder.build().map_err(|error| failed(std::io::Error::other(error)))
}
