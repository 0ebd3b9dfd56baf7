//! `tidemill plugins clean`: removes packages and environments from the cache folder of this machine that no process uses.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_plugins::cache::clean;
use tidemill_plugins::settings::default_cache;

use super::Clean;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json;
use crate::output::text::size;
use crate::workflow_file::count;

pub(super) async fn perform(arguments: &Clean, console: &mut Console) -> Result<Exit, Error> {
    let cache = arguments.cache.clone().unwrap_or_else(default_cache);
    let unused = Duration::from_secs(arguments.unused);
    let folder = cache.clone();
    let cleaned = tokio::task::spawn_blocking(move || clean(&folder, unused)).await;
    let cleaned = cleaned.map_err(|error| Error::Failed(format!("cleaning was interrupted: {error}")))?;
    let cleaned = cleaned.map_err(|error| Error::Failed(format!("{}: {error}", cache.display())))?;
    let exit = if cleaned.failed.is_empty() { Exit::Succeeded } else { Exit::Failed };
    if arguments.json {
        let removed: Vec<String> = cleaned.removed.iter().map(|path| path.display().to_string()).collect();
        let failed = |(path, reason): &(PathBuf, String)| json!({"path": path.display().to_string(), "reason": reason});
        let failed: Vec<Json> = cleaned.failed.iter().map(failed).collect();
        let shown = json!({
            "removed": removed, "bytes": cleaned.bytes, "in_use": cleaned.in_use, "kept": cleaned.kept, "failed": failed,
        });
        json::whole(&shown, console)?;
        return Ok(exit);
    }
    for folder in &cleaned.removed {
        console.line(folder.display())?;
    }
    for (path, reason) in &cleaned.failed {
        console.note(format_args!("{} cannot be cleaned: {reason}", path.display()));
    }
    console.note(format_args!(
        "{} removed ({}), {} in use, {} kept",
        count(cleaned.removed.len(), "folder"),
        size(cleaned.bytes),
        cleaned.in_use,
        cleaned.kept
    ));
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::captured;

    #[tokio::test]
    async fn a_folder_without_a_cache_is_clean() {
        let cache = tempfile::tempdir().unwrap();
        let arguments = Clean { cache: Some(cache.path().join("none")), unused: 0, json: false };
        let (mut console, out, notes) = captured();
        assert_eq!(perform(&arguments, &mut console).await.unwrap(), Exit::Succeeded);
        assert_eq!(out.text(), "");
        assert!(notes.text().contains("0 folders removed"), "{}", notes.text());
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_cleaned_is_named() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("packages");
        let path = folder.join("0".repeat(64));
        std::fs::create_dir_all(&path).unwrap();
        // It cannot be opened as a file.
        std::fs::create_dir(folder.join(format!(".lock-{}", "0".repeat(64)))).unwrap();
        let arguments = |json| Clean { cache: Some(cache.path().into()), unused: 0, json };
        let (mut console, _, notes) = captured();
        assert_eq!(perform(&arguments(false), &mut console).await.unwrap(), Exit::Failed);
        assert!(
            notes.text().contains(&format!("{} cannot be cleaned: ", path.display())),
            "{}",
            notes.text()
        );
        let (mut console, out, _) = captured();
        assert_eq!(perform(&arguments(true), &mut console).await.unwrap(), Exit::Failed);
        let shown: Json = serde_json::from_str(&out.text()).unwrap();
        assert_eq!(shown["failed"][0]["path"], path.display().to_string());
    }
}
