//! The limits of uploads: sizes by kind, names, extensions. Pure, with Dify's rules and words.

use axum::http::StatusCode;
use tidemill_common::config::Config;
use tidemill_common::value::file_name::{FileFacts, Known};

use super::error::ApiError;

/// Longest name that is kept whole, in characters, as on Dify.
const NAME_CHARS_MAX: usize = 200;
/// Characters that no name may have: they separate folders, or mean something to some file system or shell.
const REFUSED_IN_NAMES: [char; 9] = ['/', '\\', ':', '*', '?', '"', '<', '>', '|'];

/// The largest size of a file, and the setting that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) max: u64,
    pub(super) setting: &'static str,
}

/// The limit of a file with this name.
pub(super) fn limit_of(config: &Config, name: &str) -> Limit {
    let known = Known { given_name: Some(name), ..Known::default() };
    let (max, setting) = match FileFacts::of(known).kind {
        Some("image") => (config.uploads.image_bytes_max, "uploads.image_bytes_max"),
        Some("video") => (config.uploads.video_bytes_max, "uploads.video_bytes_max"),
        Some("audio") => (config.uploads.audio_bytes_max, "uploads.audio_bytes_max"),
        Some(_) | None => (config.scheduler.upload_bytes_max, "scheduler.upload_bytes_max"),
    };
    Limit { max, setting }
}

/// The largest file of any kind, in bytes.
pub(super) fn largest(config: &Config) -> u64 {
    let (uploads, other) = (&config.uploads, config.scheduler.upload_bytes_max);
    uploads.image_bytes_max.max(uploads.video_bytes_max).max(uploads.audio_bytes_max).max(other)
}

/// The error for a file that is too large.
pub(super) fn too_large(limit: Limit) -> ApiError {
    let message =
        format!("File size exceeded: the file has more than {} bytes ({})", limit.max, limit.setting);
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", message)
}

/// The extension of a name, without its dot and in lower case; empty for a name without one.
pub(super) fn extension_of(name: &str) -> String {
    // A dot at the beginning begins no extension.
    let ending = name.trim_start_matches('.').rsplit_once('.').map(|(_, extension)| extension);
    ending.unwrap_or_default().to_lowercase()
}

/// The name under which an upload is kept.
///
/// # Errors
/// 400 `filename_not_exists_error` for an empty one, and `invalid_param` for one that is refused.
pub(super) fn checked_name(config: &Config, given: &str) -> Result<String, ApiError> {
    if given.is_empty() {
        let message = "The specified filename does not exist.";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "filename_not_exists_error", message));
    }
    if given.chars().any(|c| REFUSED_IN_NAMES.contains(&c) || c.is_control()) {
        return Err(ApiError::invalid_param("Filename contains invalid characters"));
    }
    let extension = extension_of(given);
    let is_refused =
        |refused: &String| refused.trim().trim_start_matches('.').eq_ignore_ascii_case(&extension);
    if !extension.is_empty() && config.uploads.refused_extensions.iter().any(is_refused) {
        let message = format!("File extension '.{extension}' is not allowed for security reasons");
        return Err(ApiError::invalid_param(message));
    }
    if given.chars().count() <= NAME_CHARS_MAX {
        return Ok(given.to_owned());
    }
    let stem: String = given.split('.').next().unwrap_or_default().chars().take(NAME_CHARS_MAX).collect();
    let extension: String = extension.chars().take(NAME_CHARS_MAX / 4).collect();
    Ok(format!("{stem}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1024 * 1024;

    #[test]
    fn each_kind_has_its_limit() {
        let config = Config::default();
        for (name, megabytes, setting) in [
            ("a.PNG", 10, "uploads.image_bytes_max"),
            ("a.mp4", 100, "uploads.video_bytes_max"),
            ("a.pdf", 15, "scheduler.upload_bytes_max"),
            ("a", 15, "scheduler.upload_bytes_max"),
        ] {
            assert_eq!(limit_of(&config, name), Limit { max: megabytes * MEGABYTE, setting }, "{name}");
        }
        assert_eq!(largest(&config), 100 * MEGABYTE);
    }

    #[test]
    fn names_that_lead_elsewhere_and_extensions_of_the_list_are_refused() {
        let mut config = Config::default();
        config.uploads.refused_extensions = vec![".EXE".into(), String::new()];
        let invalid = Err("Filename contains invalid characters".to_owned());
        let refused = |text: &str| Err(text.to_owned());
        let long = "ä".repeat(300);
        for (given, kept) in [
            ("tide table.pdf", Ok("tide table.pdf".to_owned())),
            ("港.tar.gz", Ok("港.tar.gz".to_owned())),
            ("no ending", Ok("no ending".to_owned())),
            ("", refused("The specified filename does not exist.")),
            ("a.exe", refused("File extension '.exe' is not allowed for security reasons")),
            (&format!("{long}.Pdf"), Ok(format!("{}.pdf", "ä".repeat(200)))),
            ("../a", invalid.clone()),
            ("a\nb", invalid.clone()),
        ] {
            let checked = checked_name(&config, given).map_err(|error| error.message().to_owned());
            assert_eq!(checked, kept, "{given}");
        }
        for c in REFUSED_IN_NAMES {
            let checked =
                checked_name(&config, &format!("a{c}b")).map_err(|error| error.message().to_owned());
            assert_eq!(checked, invalid, "{c}");
        }
        for (name, extension) in [("a.TXT", "txt"), (".bashrc", ""), ("a", ""), ("a.b.c", "c"), ("a.", "")] {
            assert_eq!(extension_of(name), extension, "{name}");
        }
    }
}
