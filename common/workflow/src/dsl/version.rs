//! The version of the export format, and the versions that Dify imports directly, with a warning, or only
//! after a question.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::Problems;
use super::fields::kind_of;

/// The newest version of Dify's export format that Tidemill knows.
pub const DSL_VERSION: &str = "0.6.0";
/// The assumed version of a file without one.
pub const DSL_VERSION_ASSUMED: &str = "0.1.0";

/// The result of Dify's importer for a file's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStatus {
    /// Imported.
    Completed,
    /// Imported, though from an older minor version.
    CompletedWithWarnings,
    /// Dify asks the user first: the file is newer than the importer, or of an older major version.
    Pending,
    /// Not a valid version.
    Failed,
}

impl ImportStatus {
    /// Returns Dify's name of the status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::CompletedWithWarnings => "completed-with-warnings",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

/// Returns the result of Dify's importer for a version.
pub fn import_status(version: &str) -> ImportStatus {
    let (Some(found), Some(known)) = (parse(version), parse(DSL_VERSION)) else {
        return ImportStatus::Failed;
    };
    if found.cmp(&known) == Ordering::Greater || found[0] < known[0] {
        ImportStatus::Pending
    } else if found[1] < known[1] {
        ImportStatus::CompletedWithWarnings
    } else {
        ImportStatus::Completed
    }
}

/// Reads `version` of an app file and reports problems with it.
pub(super) fn read(version: Option<&Json>, problems: &mut Problems) -> String {
    let text = match version {
        None | Some(Json::Null) => DSL_VERSION_ASSUMED,
        Some(Json::String(text)) => text,
        Some(other) => {
            let message = format!("Invalid version type, expected str, got {}", kind_of(other));
            problems.within("version", |problems| {
                problems.error_with_hint("version.invalid", message, "put the version in quotes");
            });
            return DSL_VERSION_ASSUMED.into();
        }
    };
    problems.within("version", |problems| match import_status(text) {
        // Old spellings are read as Dify reads them, so an older version alone is nothing to warn about.
        ImportStatus::Completed | ImportStatus::CompletedWithWarnings => {}
        ImportStatus::Pending => problems.warning(
            "version.unknown",
            format!("the file is of version {text}, this reader knows {DSL_VERSION}; what is new is ignored"),
        ),
        ImportStatus::Failed => {
            problems.error("version.invalid", format!("{text:?} is not a version such as {DSL_VERSION:?}"));
        }
    });
    text.into()
}

/// Parses major, minor and patch; a preview suffix is ignored.
fn parse(version: &str) -> Option<[u64; 3]> {
    let version = version.trim();
    let version = version.strip_prefix('v').unwrap_or(version);
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (numbers, mark) = version.split_at(end);
    let known_mark =
        mark.is_empty() || ["a", "b", "rc", "-", ".dev", "+"].iter().any(|start| mark.starts_with(start));
    let mut parsed = [0; 3];
    for (at, part) in numbers.split('.').enumerate() {
        let number = part.parse().ok()?;
        if let Some(place) = parsed.get_mut(at) {
            *place = number;
        }
    }
    known_mark.then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_taken_as_dify_takes_it() {
        for (version, status) in [
            ("0.6.0", "completed"),
            ("0.6", "completed"),
            ("0.6.0rc1", "completed"),
            ("0.3.1", "completed-with-warnings"),
            ("0.1.0", "completed-with-warnings"),
            ("0.6.1", "pending"),
            ("0.7.0", "pending"),
            ("1.0.0", "pending"),
            ("latest", "failed"),
            ("", "failed"),
            ("0..1", "failed"),
        ] {
            assert_eq!(import_status(version).name(), status, "{version}");
        }
    }
}
