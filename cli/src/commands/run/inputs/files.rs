//! Files for a run: a path or a URL, for an input of the form or for the message of a chatflow. Files of this machine are
//! uploaded before the run is submitted.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::client::Client;
use crate::error::Error;

/// A file as the user gives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    /// A file of this machine.
    Local(PathBuf),
    /// A file on a server, which the workers fetch.
    Remote(String),
}

impl Given {
    /// Reads `@PATH`, a path or a URL.
    ///
    /// # Errors
    /// No file is there.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        if ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Self::Remote(text.into()));
        }
        let path = PathBuf::from(text.strip_prefix('@').unwrap_or(text));
        let failed = |reason: String| Error::Usage(format!("cannot read {}: {reason}", path.display()));
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => Ok(Self::Local(path)),
            Ok(_) => Err(failed("it is not a file".into())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Uploads the file if it is on this machine; returns the mapping for the request. The form decides about the type.
    ///
    /// # Errors
    /// The file cannot be read, or the scheduler does not take it.
    pub(super) async fn mapping(&self, client: &Client, user: &str) -> Result<Json, Error> {
        match self {
            Self::Local(path) => {
                let id = client.upload(open(path).await?, &name_of(path), user).await?;
                Ok(json!({"transfer_method": "local_file", "upload_file_id": id}))
            }
            Self::Remote(url) => Ok(json!({"transfer_method": "remote_url", "url": url})),
        }
    }
}

async fn open(path: &Path) -> Result<tokio::fs::File, Error> {
    let opened = tokio::fs::File::open(path).await;
    opened.map_err(|error| Error::Usage(format!("cannot read {}: {error}", path.display())))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned())
}

/// Splits `NAME=FILE`. A file without a name is for the message of a chatflow; a path or a URL may contain `=`, too.
pub(super) fn split(text: &str) -> Result<(Option<String>, String), String> {
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && chars.all(|c| c.is_alphanumeric() || c == '_')
    };
    match text.split_once('=') {
        Some((name, file)) if is_name(name) && !file.is_empty() => Ok((Some(name.into()), file.into())),
        _ if text.is_empty() || text.ends_with('=') => Err("write NAME=PATH or NAME=URL".into()),
        _ => Ok((None, text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_off_and_what_has_none_is_for_the_message() {
        for (text, name, file) in [
            ("doc=@a.pdf", Some("doc"), "@a.pdf"),
            ("doc=a=b.pdf", Some("doc"), "a=b.pdf"),
            ("doc=https://h/?a=b", Some("doc"), "https://h/?a=b"),
            ("https://h/?a=b", None, "https://h/?a=b"),
            ("./a=b.pdf", None, "./a=b.pdf"),
            ("@a=b.pdf", None, "@a=b.pdf"),
            ("a.pdf", None, "a.pdf"),
        ] {
            assert_eq!(split(text), Ok((name.map(Into::into), file.into())), "{text}");
        }
        assert!(split("").is_err() && split("doc=").is_err());
    }

    #[test]
    fn a_file_is_a_url_or_must_be_there() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for text in [here.to_string(), format!("@{here}")] {
            assert_eq!(Given::read(&text).expect("is there"), Given::Local(here.into()));
        }
        assert_eq!(Given::read("https://h/a").expect("a URL"), Given::Remote("https://h/a".into()));
        let refused = |text: &str| Given::read(text).expect_err("refused").to_string();
        assert!(refused("@/nowhere/a.pdf").contains("cannot read /nowhere/a.pdf: "));
        assert!(refused(env!("CARGO_MANIFEST_DIR")).contains("it is not a file"));
    }
}
