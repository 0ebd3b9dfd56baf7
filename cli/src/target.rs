//! Finds the scheduler that a command talks to: the one named by the user, or else the `tidemill dev` of this folder.

use std::path::PathBuf;

use clap::Args;

use crate::data_folder::{self, Address};

/// The address that is used when neither arguments nor the data folder give one.
pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:8700";

/// The address and the admin key of a scheduler.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) key: String,
}

impl std::fmt::Debug for Target {
    // The key must not get into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The arguments of every command that talks to a scheduler.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// Address of the scheduler [default: the `tidemill dev` of this folder, else http://127.0.0.1:8700]
    #[arg(long, env = "TIDEMILL_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Admin key of the scheduler
    #[arg(long, env = "TIDEMILL_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
}

/// The folder of `tidemill dev`, for commands that read it.
#[derive(Debug, Clone, Args)]
pub(crate) struct FolderArgs {
    /// Data folder of `tidemill dev`
    #[arg(long, value_name = "DIR", default_value = data_folder::NAME_DEFAULT)]
    pub(crate) data: PathBuf,
}

impl Default for FolderArgs {
    fn default() -> Self {
        Self { data: data_folder::NAME_DEFAULT.into() }
    }
}

impl TargetArgs {
    /// Returns the scheduler that the user named; `None` without an address and a key.
    pub(crate) fn named(&self) -> Option<Target> {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        match (
            set(&self.url),
            set(&self.key.clone().or_else(|| tidemill_common::config::variable("TIDEMILL_KEY"))),
        ) {
            (None, None) => None,
            (url, key) => {
                Some(Target { url: url.unwrap_or_else(|| URL_DEFAULT.into()), key: key.unwrap_or_default() })
            }
        }
    }

    /// Returns the scheduler that the user named, or the one of the data folder, or the default.
    pub(crate) fn resolve(&self, folder: &FolderArgs) -> Target {
        let running = data_folder::address(&folder.data).map(|Address { url, key }| Target { url, key });
        let fallback = || Target { url: URL_DEFAULT.into(), key: String::new() };
        match (self.named(), running) {
            (None, running) => running.unwrap_or_else(fallback),
            // Only the address was named and it is the one of the folder, so the folder's key fits.
            (Some(named), Some(running)) if named.key.is_empty() && named.url == running.url => running,
            (Some(named), _) => named,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_folder::DataFolder;

    #[test]
    fn the_named_scheduler_wins_over_the_running_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = FolderArgs { data: dir.path().join("data") };
        let args = |url: Option<&str>, key: Option<&str>| TargetArgs {
            url: url.map(Into::into),
            key: key.map(Into::into),
        };
        let resolved = |args: TargetArgs| {
            let Target { url, key } = args.resolve(&folder);
            (url, key)
        };
        let pair = |url: &str, key: &str| (url.to_string(), key.to_string());
        assert_eq!(resolved(args(None, None)), pair(URL_DEFAULT, ""));

        let data = DataFolder::open(&folder.data).expect("opens");
        data.write_address(&Address { url: "http://127.0.0.1:9".into(), key: "k".into() }).expect("writes");
        assert_eq!(resolved(args(None, None)), pair("http://127.0.0.1:9", "k"));
        assert_eq!(resolved(args(Some("http://127.0.0.1:9"), None)), pair("http://127.0.0.1:9", "k"));
        assert_eq!(resolved(args(Some("http://there"), None)), pair("http://there", ""));
        assert_eq!(resolved(args(Some("http://there"), Some("x"))), pair("http://there", "x"));
        assert_eq!(resolved(args(None, Some("x"))), pair(URL_DEFAULT, "x"));
        assert_eq!(resolved(args(Some(""), Some(""))), pair("http://127.0.0.1:9", "k"));
    }
}
