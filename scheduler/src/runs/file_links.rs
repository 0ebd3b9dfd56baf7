//! URLs under which a client without a key opens a file for some minutes, as on Dify. A URL says which file and from when,
//! and is signed with the secret of the namespace, so that any scheduler opens what another has signed.
//!
//! An upload is `/files/<id>/file-preview`, as on Dify. A file of a run, also its copy of an upload, is
//! `/files/runs/<run>/<file>`.
//!
//! Values are written by clients and by code in nodes, which can name files of others. So a file object never leads to an
//! upload, and the signature of a run's file has the app and the user to whom it is shown: it opens only files of runs of
//! this app and user.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::config::UploadsConfig;
use tidemill_common::files::{UploadId, run_of};
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY};
use url::form_urlencoded::Serializer;

use super::forms::FormTokens;

/// What the secret is used for here.
const PURPOSE: &str = "links of files";

/// Signs and checks URLs of files.
#[derive(Debug, Clone)]
pub struct FileLinks {
    tokens: FormTokens,
    /// What all URLs begin with.
    base: Arc<str>,
    /// How long a URL opens its file.
    seconds: u64,
    /// Whose files of runs are shown; with `None` these files get no URL.
    shown_to: Option<(Arc<str>, Arc<str>)>,
}

/// The app and the user of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerOfRun<'a> {
    /// The id of the app.
    pub app: &'a str,
    /// The user who started the run.
    pub user: &'a str,
}

/// What a signature is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed<'a> {
    /// The path of the URL.
    pub path: &'a str,
    /// Who may open a file of a run; `None` for an upload, whose id only its owner was told.
    pub owner: Option<OwnerOfRun<'a>>,
    /// Name and type of a file that has no record.
    pub name: &'a str,
    /// The media type.
    pub mime_type: &'a str,
    /// Unix seconds at which it was signed.
    pub timestamp: &'a str,
    /// Random.
    pub nonce: &'a str,
}

impl FileLinks {
    /// Creates it from the namespace's secret. It signs URLs of uploads only.
    pub fn new(tokens: FormTokens, config: &UploadsConfig) -> Self {
        let base = config.url.trim_end_matches('/').into();
        Self { tokens, base, seconds: config.url_seconds, shown_to: None }
    }

    /// The same, which also signs URLs of files of runs of this app and user.
    #[must_use]
    pub fn shown_to(self, owner: OwnerOfRun<'_>) -> Self {
        Self { shown_to: Some((owner.app.into(), owner.user.into())), ..self }
    }

    /// The URL of a file of a run; `None` for a file object whose bytes are not here.
    pub fn link(&self, file: &Json) -> Option<String> {
        let text = |key: &str| file.get(key).and_then(Json::as_str).unwrap_or_default();
        if text("transfer_method") == "remote_url" || run_of(text("reference")).is_none() {
            return None;
        }
        self.link_of(text("reference"), text("filename"), text("mime_type"))
    }

    /// The URL of the file of a run that this reference names; `None` if files of runs get no URL.
    pub(super) fn link_of(&self, reference: &str, name: &str, mime_type: &str) -> Option<String> {
        let (app, user) = self.shown_to.as_ref()?;
        let owner = Some(OwnerOfRun { app, user });
        Some(self.signed(&format!("/files/{reference}"), owner, name, mime_type))
    }

    /// The URL of an upload. The id must not come from a value of a run, where a client may have written it.
    pub fn of_upload(&self, id: UploadId) -> String {
        self.signed(&format!("/files/{id}/file-preview"), None, "", "")
    }

    fn signed(&self, path: &str, owner: Option<OwnerOfRun<'_>>, name: &str, mime_type: &str) -> String {
        let timestamp = SystemClock.now().seconds().to_string();
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let sign = self.sign(Signed { path, owner, name, mime_type, timestamp: &timestamp, nonce: &nonce });
        let mut query = Serializer::new(String::new());
        query.append_pair("timestamp", &timestamp).append_pair("nonce", &nonce).append_pair("sign", &sign);
        for (key, value) in [("name", name), ("type", mime_type)] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        format!("{}{path}?{}", self.base, query.finish())
    }

    fn sign(&self, it: Signed<'_>) -> String {
        // A list, so that no part can run into the next.
        let owner = it.owner.map(|owner| [owner.app, owner.user]);
        let text = json!([it.path, it.timestamp, it.nonce, it.mime_type, it.name, owner]).to_string();
        self.tokens.keyed(PURPOSE, &text)
    }

    /// Whether a signature opens the file at this time (Unix seconds). Takes the same time for every wrong one.
    pub fn opens(&self, it: Signed<'_>, sign: &str, now: i64) -> bool {
        let expected = self.sign(it);
        let differing = expected.bytes().zip(sign.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
        let age = it.timestamp.parse::<i64>().ok().map(|at| now.saturating_sub(at));
        let is_young = age.is_some_and(|age| u64::try_from(age.max(0)).is_ok_and(|age| age <= self.seconds));
        expected.len() == sign.len() && differing == 0 && is_young
    }

    /// Writes URLs into the file objects among these values, alone or in lists, that have none.
    pub fn fill<'a>(&self, values: impl Iterator<Item = &'a mut Json>) {
        for value in values {
            match value {
                Json::Array(items) => items.iter_mut().for_each(|item| self.fill_one(item)),
                one => self.fill_one(one),
            }
        }
    }

    fn fill_one(&self, file: &mut Json) {
        let is_file = file.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY);
        let has_url = || file.get("url").and_then(Json::as_str).is_some_and(|url| !url.is_empty());
        if is_file
            && !has_url()
            && let Some(url) = self.link(file)
        {
            file["url"] = url.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::ids::{RunId, ShardId};

    use super::*;

    fn links(url: &str) -> FileLinks {
        let config = UploadsConfig { url: url.into(), ..UploadsConfig::default() };
        let owner = OwnerOfRun { app: "a", user: "u" };
        FileLinks::new(FormTokens::of_secret("secret"), &config).shown_to(owner)
    }

    fn file(parts: Json) -> Json {
        let mut file = json!({FILE_IDENTITY_KEY: FILE_IDENTITY, "url": null});
        file.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        file
    }

    #[test]
    fn only_files_whose_bytes_are_here_get_a_url() {
        let (id, run) = (UploadId::generate(), RunId::generate(ShardId(1)));
        let reference = format!("runs/{run}/{}", "0".repeat(32));
        for (object, begins) in [
            (
                file(
                    json!({"transfer_method": "local_file", "related_id": id.to_string(), "reference": reference}),
                ),
                Some(format!("https://h/files/{reference}?timestamp=")),
            ),
            // A client can write the id of any upload into an object.
            (file(json!({"transfer_method": "tool_file", "related_id": id.to_string()})), None),
            (
                file(json!({"transfer_method": "local_file", "related_id": id.to_string(), "reference": ""})),
                None,
            ),
            (
                file(json!({"transfer_method": "tool_file", "reference": reference, "filename": "a b.png"})),
                Some(format!("https://h/files/{reference}?timestamp=")),
            ),
            (file(json!({"transfer_method": "remote_url", "reference": reference})), None),
            (file(json!({"transfer_method": "tool_file", "reference": "runs/x"})), None),
            (
                file(json!({"transfer_method": "tool_file", "reference": reference, "url": "https://own"})),
                Some("https://own".into()),
            ),
            (json!({"transfer_method": "tool_file", "reference": reference}), None),
        ] {
            let mut values = [json!([object.clone()]), object];
            links("https://h/").fill(values.iter_mut());
            for shown in [&values[0][0], &values[1]] {
                let url = shown["url"].as_str();
                assert_eq!(url.is_some(), begins.is_some(), "{shown}");
                assert!(
                    url.unwrap_or_default().starts_with(begins.as_deref().unwrap_or_default()),
                    "{shown}"
                );
            }
        }
        assert!(links("").of_upload(id).starts_with("/files/"));
        let of_uploads = FileLinks::new(FormTokens::of_secret("s"), &UploadsConfig::default());
        assert_eq!(of_uploads.link(&json!({"transfer_method": "tool_file", "reference": reference})), None);
    }

    #[test]
    fn a_url_opens_its_own_file_for_its_time() {
        let links = links("");
        let owner = Some(OwnerOfRun { app: "a", user: "u" });
        let it = Signed { path: "/files/a", owner, name: "n", mime_type: "m", timestamp: "1000", nonce: "x" };
        let sign = links.sign(it);
        for (now, opens) in [(1000, true), (1300, true), (1301, false), (900, true)] {
            assert_eq!(links.opens(it, &sign, now), opens, "{now}");
        }
        for other in [
            Signed { path: "/files/b", ..it },
            Signed { owner: None, ..it },
            Signed { owner: Some(OwnerOfRun { app: "b", user: "u" }), ..it },
            Signed { owner: Some(OwnerOfRun { app: "a", user: "v" }), ..it },
            Signed { name: "nm", mime_type: "", ..it },
            Signed { timestamp: "1001", ..it },
            Signed { nonce: "y", ..it },
            Signed { timestamp: "soon", ..it },
        ] {
            assert!(!links.opens(other, &sign, 1000), "{other:?}");
        }
        assert!(!links.opens(it, &sign[1..], 1000) && !links.opens(it, "", 1000));
    }
}
