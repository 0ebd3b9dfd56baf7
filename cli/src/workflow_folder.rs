//! Finds workflow files in folders. A folder also holds files that are no workflows: they are passed over, and counted.

use std::path::{Path, PathBuf};

use tidemill_common::dsl::ParseOptions;

use crate::error::Error;
use crate::workflow_file::WorkflowFile;

/// The endings of workflow files.
const ENDINGS: [&str; 4] = ["yml", "yaml", "json", "dsl"];
/// Folders of other programs.
const PASSED_OVER: [&str; 2] = ["node_modules", "target"];
/// Most levels of folders.
const DEPTH_MAX: usize = 32;
/// The problems of a text that is no workflow at all.
const NO_WORKFLOW: [&str; 3] = ["kind.missing", "kind.unsupported", "parse.expected_mapping"];

/// A file, or the reason why it cannot be read.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    pub(crate) read: Result<WorkflowFile, String>,
}

/// The files of some paths.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) files: Vec<Candidate>,
    /// The number of files in folders that are no workflows.
    pub(crate) others: usize,
}

/// Reads files, and all files with the ending of a workflow below folders, in the order of their names. A file that
/// the user named is always in the result; a file of a folder only if it may be a workflow.
pub(crate) fn read(paths: &[PathBuf]) -> Candidates {
    let mut all = Candidates::default();
    for path in paths {
        if path.is_dir() {
            let mut found = Vec::new();
            let failed = walk(path, 0, &mut found);
            all.files.extend(failed.into_iter().map(|(path, reason)| Candidate { path, read: Err(reason) }));
            for path in found {
                let candidate = read_one(&path);
                if is_other(&candidate) {
                    all.others += 1;
                } else {
                    all.files.push(candidate);
                }
            }
        } else {
            all.files.push(read_one(path));
        }
    }
    all
}

/// Requires that each path exists.
///
/// # Errors
/// A path does not exist, or cannot be reached.
pub(crate) fn require(paths: &[PathBuf]) -> Result<(), Error> {
    for path in paths {
        std::fs::metadata(path)
            .map_err(|error| Error::Usage(format!("cannot read {}: {error}", path.display())))?;
    }
    Ok(())
}

fn read_one(path: &Path) -> Candidate {
    let bytes_max = ParseOptions::default().bytes_max as u64;
    let is_too_large = std::fs::metadata(path).is_ok_and(|found| found.len() > bytes_max);
    let read = if is_too_large {
        Err(format!("the file has more than {bytes_max} bytes"))
    } else {
        WorkflowFile::read(path).map_err(|error| error.to_string())
    };
    Candidate { path: path.into(), read }
}

fn is_other(candidate: &Candidate) -> bool {
    let Ok(file) = &candidate.read else { return false };
    file.imported.document.is_none()
        && file.diagnostics().iter().filter(|found| found.is_error()).any(|found| NO_WORKFLOW.contains(&found.code))
        // A chat app or a pipeline is a file of Dify's.
        && !file.diagnostics().iter().any(|found| found.code == "plan.unsupported")
}

/// Collects the files below a folder. Returns the folders that cannot be read. Links to folders are not followed.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Vec<(PathBuf, String)> {
    let failed = |reason: String| vec![(folder.to_path_buf(), reason)];
    if depth > DEPTH_MAX {
        return failed(format!("the folder is more than {DEPTH_MAX} levels deep"));
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return failed(format!("cannot read the folder: {error}")),
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut unread = Vec::new();
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if name.starts_with('.') || (is_folder && PASSED_OVER.contains(&name.as_str())) {
            continue;
        }
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        if is_folder {
            unread.extend(walk(&path, depth + 1, found));
        } else if path.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) {
            found.push(path);
        }
    }
    unread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflows_below_a_folder_are_found_and_other_files_are_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
            std::fs::write(path, text).expect("writes");
        };
        put("b.yml", "graph: {nodes: [], edges: []}");
        put("deep/er/a.JSON", r#"{"graph": {"nodes": [], "edges": []}}"#);
        put("broken.yaml", "kind: [");
        put("package.json", "{}");
        put("compose.yaml", "services: {}");
        put("notes.txt", "kind: app");
        put(".git/x.yml", "kind: app");
        put("node_modules/x.yml", "kind: app");
        put("rag.yml", "kind: rag_pipeline");
        let all = read(&[dir.path().to_path_buf()]);
        let names: Vec<_> =
            all.files.iter().map(|file| file.path.strip_prefix(dir.path()).unwrap()).collect();
        assert_eq!(names, ["b.yml", "broken.yaml", "deep/er/a.JSON", "rag.yml"].map(Path::new));
        assert_eq!(all.others, 2);

        let named = read(&[dir.path().join("package.json"), dir.path().join("absent.yml")]);
        assert_eq!((named.files.len(), named.others), (2, 0));
        assert!(named.files[1].read.as_ref().is_err_and(|reason| reason.contains("absent.yml")));
        let required = require(&[dir.path().to_path_buf(), dir.path().join("absent.yml")]);
        assert!(required.is_err_and(|error| error.to_string().contains("absent.yml")));
        assert!(require(&[dir.path().join("b.yml")]).is_ok());
    }
}
