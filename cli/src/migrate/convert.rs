//! Writes apps of mode chat, agent-chat and completion as the chatflows and workflows that they are read as.

use std::path::{Path, PathBuf};

use tidemill_common::dsl;

use crate::error::Error;

/// Returns the file for a converted app: its place below the folder, and its text. `None` for a file that is not
/// converted.
pub(crate) fn converted(relative: &str, source: &[u8]) -> Option<(PathBuf, String)> {
    let file = dsl::converted(source)?;
    // The whole name stays, so that a.yml and a.yaml do not meet. JSON is YAML as well, so Dify imports the file too.
    Some((PathBuf::from(format!("{relative}.converted.json")), format!("{file:#}\n")))
}

/// Writes a file below a folder. A file that is there already stays, unless it has the same content.
///
/// # Errors
/// The file cannot be written, or is there with another content.
pub(crate) fn write(folder: &Path, (name, text): &(PathBuf, String)) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let failed = |reason: String| Error::Failed(format!("cannot write {}: {reason}", path.display()));
    match std::fs::read(&path) {
        Ok(there) if there == text.as_bytes() => return Ok(path),
        Ok(_) => return Err(failed("it is there already, with another content; remove it first".into())),
        Err(_) => {}
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| failed(error.to_string()))?;
    }
    std::fs::write(&path, text).map_err(|error| failed(error.to_string()))?;
    Ok(path)
}
