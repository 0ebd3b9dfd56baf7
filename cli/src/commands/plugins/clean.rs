//! `tidemill plugins clean`: removes packages and environments from the cache folder of this machine that no process uses.

use std::time::Duration;

use serde_json::json;
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
    if arguments.json {
        let removed: Vec<String> = cleaned.removed.iter().map(|path| path.display().to_string()).collect();
        let shown = json!({
            "removed": removed, "bytes": cleaned.bytes, "in_use": cleaned.in_use, "kept": cleaned.kept,
        });
        json::whole(&shown, console)?;
        return Ok(Exit::Succeeded);
    }
    for folder in &cleaned.removed {
        console.line(folder.display())?;
    }
    console.note(format_args!(
        "{} removed ({}), {} in use, {} kept",
        count(cleaned.removed.len(), "folder"),
        size(cleaned.bytes),
        cleaned.in_use,
        cleaned.kept
    ));
    Ok(Exit::Succeeded)
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
}
