//! The uploads that a request names: finds them, checks whose they are, and gives the run copies of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::{self, FilesConfig, FilesError, Upload, UploadId, Uploads};
use tidemill_common::ids::RunId;
use tidemill_common::store::StoreError;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, Segment};

use super::{Prepared, SubmitError, Submitter};

/// Begins the reference of a file that the run has not adopted yet. No stored file has such a reference.
const WAITING: &str = "upload:";

/// The apps and users who may use an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    /// `None` for a workflow that comes with its request.
    pub(crate) app: Option<&'a str>,
    pub(crate) user: &'a str,
}

/// The storage of uploads. It is opened at the first upload: a scheduler without uploads needs none.
pub(crate) struct UploadPlace {
    config: FilesConfig,
    opened: OnceLock<Arc<dyn Uploads>>,
}

impl UploadPlace {
    pub(crate) fn new(config: &FilesConfig) -> Self {
        Self { config: config.clone(), opened: OnceLock::new() }
    }

    /// The storage.
    ///
    /// # Errors
    /// [`FilesError::Url`].
    pub(crate) fn open(&self) -> Result<Arc<dyn Uploads>, FilesError> {
        match self.opened.get() {
            Some(opened) => Ok(opened.clone()),
            None => {
                let opened = files::open_uploads(&self.config)?;
                Ok(self.opened.get_or_init(|| opened).clone())
            }
        }
    }

    /// The records of those uploads that exist and belong to this owner.
    pub(crate) async fn find(
        &self,
        ids: BTreeSet<UploadId>,
        owner: Owner<'_>,
    ) -> Result<HashMap<UploadId, Upload>, SubmitError> {
        let mut found = HashMap::with_capacity(ids.len());
        for id in ids {
            match self.open().map_err(away)?.find(id).await {
                Ok(upload) if owner.has(&upload) => {
                    found.insert(id, upload);
                }
                Ok(_) | Err(FilesError::Missing(_)) => {}
                Err(error) => return Err(away(error)),
            }
        }
        Ok(found)
    }

    /// Gives a run copies of its uploads, and returns their references. If it fails, no copy is left.
    pub(super) async fn adopt(
        &self,
        prepared: &mut Prepared,
        run: &RunId,
    ) -> Result<Vec<String>, SubmitError> {
        let segments = prepared.inputs.iter_mut().chain(&mut prepared.conversation);
        let values = segments.map(|(_, Segment { value, .. })| value).chain(&mut prepared.files);
        self.adopt_into(&prepared.uploads, values, run).await
    }

    /// Gives a run copies of uploads, and writes their references into the file objects of these values.
    pub(crate) async fn adopt_into<'a>(
        &self,
        uploads: &BTreeSet<UploadId>,
        values: impl Iterator<Item = &'a mut Json> + Send,
        run: &RunId,
    ) -> Result<Vec<String>, SubmitError> {
        if uploads.is_empty() {
            return Ok(Vec::new());
        }
        let (place, mut copies) = (self.open().map_err(away)?, HashMap::new());
        for id in uploads {
            match place.adopt(*id, run).await {
                Ok(reference) => {
                    copies.insert(*id, reference);
                }
                Err(error) => {
                    self.discard(copies.into_values()).await;
                    return Err(away(error));
                }
            }
        }
        values.for_each(|value| refer(value, &copies));
        Ok(copies.into_values().collect())
    }

    /// Removes copies of a run that was not created.
    pub(crate) async fn discard(&self, references: impl IntoIterator<Item = String>) {
        let Ok(place) = self.open() else { return };
        for reference in references {
            if let Err(error) = place.discard(&reference).await {
                tracing::warn!(%error, "a file of a refused request is left behind");
            }
        }
    }
}

impl Owner<'_> {
    /// The fields of a run's record that say whose it is. Each run has a status.
    const FIELDS: [&'static str; 3] = ["app", "user", "status"];

    fn has(self, upload: &Upload) -> bool {
        upload.app.as_deref() == self.app && upload.user == self.user
    }

    /// Returns true for a run of this app and user, by the fields of its record.
    fn has_run(self, fields: &HashMap<String, String>) -> bool {
        let field = |name: &str| fields.get(name).map(String::as_str);
        field("status").is_some()
            && field("app") == self.app
            && field("user").unwrap_or_default() == self.user
    }
}

impl Submitter {
    /// Notes that files will be stored for a run that does not exist yet. The process may die before it creates the run:
    /// then they are found by this note and removed.
    pub(crate) async fn note_early_files(&self, run: RunId) -> Result<(), StoreError> {
        let at = self.clock.now(&*self.store).await?;
        self.store.note_early_files(run, at).await?;
        crash::pass(CrashPoint::EarlyFilesNoted);
        Ok(())
    }

    /// Refuses files of runs that belong to another app or user, or are gone: what a client writes into a file object
    /// gives no access. Reads nothing where no file is named.
    pub(crate) async fn check_files(
        &self,
        runs: BTreeSet<RunId>,
        owner: Owner<'_>,
    ) -> Result<(), SubmitError> {
        if runs.is_empty() {
            return Ok(());
        }
        self.check_count(runs.len(), "runs with files")?;
        let runs: Vec<RunId> = runs.into_iter().collect();
        let found = self.store.app_records().fields_of_runs(&runs, &Owner::FIELDS).await?;
        if found.len() == runs.len() && found.iter().all(|fields| owner.has_run(fields)) {
            return Ok(());
        }
        Err(SubmitError::Inputs { message: super::files::NO_UPLOAD.into(), invalid_param: true })
    }

    /// Refuses a request that names too many stored files, before any of them is looked up.
    pub(crate) fn check_count(&self, count: usize, what: &str) -> Result<(), SubmitError> {
        let max = self.config.uploads.request_files_max;
        if count <= max {
            return Ok(());
        }
        let message =
            format!("a request may name {max} {what} at most (uploads.request_files_max), not {count}");
        Err(SubmitError::Inputs { message, invalid_param: true })
    }
}

/// The reference of an upload until the run has adopted it.
pub(super) fn waiting(id: UploadId) -> String {
    format!("{WAITING}{id}")
}

/// Writes the references of copies into file objects. Other references stay: a client may have invented one, and no
/// worker finds a file under it.
fn refer(value: &mut Json, copies: &HashMap<UploadId, String>) {
    match value {
        Json::Object(map) if map.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY) => {
            let waits =
                map.get("reference").and_then(Json::as_str).and_then(|text| text.strip_prefix(WAITING));
            if let Some(copy) = waits.and_then(|id| copies.get(&id.parse().ok()?)) {
                map.insert("reference".into(), copy.as_str().into());
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| refer(item, copies)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {}
    }
}

fn away(error: FilesError) -> SubmitError {
    match error {
        // It has expired since it was found. The text is Dify's.
        FilesError::Missing(_) => {
            SubmitError::Inputs { message: super::files::NO_UPLOAD.into(), invalid_param: true }
        }
        error => {
            tracing::error!(%error, "uploads cannot be used");
            SubmitError::Uploads
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_files_whose_copy_is_known_get_a_reference() {
        let (known, unknown) = (UploadId::generate(), UploadId::generate());
        let copies = HashMap::from([(known, "runs/r/f".to_owned())]);
        let file = |reference: &str| json!({FILE_IDENTITY_KEY: FILE_IDENTITY, "reference": reference});
        for (value, expected) in [
            (file(&waiting(known)), file("runs/r/f")),
            (json!([file(&waiting(known)), "x"]), json!([file("runs/r/f"), "x"])),
            (file(&waiting(unknown)), file(&waiting(unknown))),
            (file("runs/x/y"), file("runs/x/y")),
            (json!({"reference": waiting(known)}), json!({"reference": waiting(known)})),
        ] {
            let mut referred = value.clone();
            refer(&mut referred, &copies);
            assert_eq!(referred, expected, "{value}");
        }
    }

    #[test]
    fn an_upload_is_for_its_user_and_its_app() {
        let upload = |app: Option<&str>| Upload {
            id: UploadId::generate(),
            app: app.map(Into::into),
            user: "u".into(),
            name: "n".into(),
            extension: ".n".into(),
            mime_type: "m/n".into(),
            size: 1,
            created_at: 0,
        };
        for (app, asks, user, has) in [
            (None, None, "u", true),
            (Some("a"), Some("a"), "u", true),
            (Some("a"), Some("b"), "u", false),
            (Some("a"), None, "u", false),
            (None, Some("a"), "u", false),
            (Some("a"), Some("a"), "v", false),
        ] {
            assert_eq!(Owner { app: asks, user }.has(&upload(app)), has, "{app:?} {asks:?} {user}");
        }
    }

    #[test]
    fn a_run_is_of_its_app_and_user() {
        let fields = |app: Option<&str>, user: &str| {
            let pairs = [("app", app), ("user", Some(user)), ("status", Some("running"))];
            pairs.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.to_owned()))).collect()
        };
        for (app, user, has) in
            [(Some("a"), "u", true), (Some("b"), "u", false), (Some("a"), "v", false), (None, "u", false)]
        {
            assert_eq!(
                Owner { app: Some("a"), user: "u" }.has_run(&fields(app, user)),
                has,
                "{app:?} {user}"
            );
        }
        for app in [Some("a"), None] {
            assert!(!Owner { app, user: "" }.has_run(&HashMap::new()), "a run that is gone");
        }
    }
}
