//! Receives an upload for either surface of the API: streams its bytes to the storage of files, then writes its record. The
//! client gets the id when both are stored.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::config::Config;
use tidemill_common::files::{FilesError, Pieces, Upload, UploadId, Uploads, day_of};
use tidemill_common::limits::{UPLOAD_SECONDS_MAX, UPLOAD_TEXT_CHARS_MAX};
use tidemill_common::store::{Runs, UploadCharge, UploadCharged};
use tidemill_common::value::file_name::{FileFacts, Known};

use super::ApiState;
use super::error::ApiError;
use super::upload_limits::{Limit, limit_of, too_large};
use crate::background::uploads::first_kept;
use crate::submit::{SubmitError, USER_CHARS_MAX};

/// All datasets, among the payers of uploads.
const DATASETS: &str = "datasets:";
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// The longest time for which counts of quotas are kept: a hundred years.
const COUNT_SECONDS_MAX: u64 = 36_500 * DAY_SECONDS;

/// The file that a client sends.
pub(crate) struct Sent<'a> {
    pub(crate) name: &'a str,
    /// The media type that the client gives.
    pub(crate) media_type: Option<&'a str>,
    /// The app whose runs may use the file; `None`: runs of workflows that come with their request.
    pub(crate) app: Option<String>,
    pub(crate) user: &'a str,
}

/// Bytes that are stored and have no record yet. Unless they get one, they are removed and count for no quota, also when the
/// client is gone.
pub(crate) struct Held {
    id: UploadId,
    size: u64,
    place: Arc<dyn Uploads>,
    /// What was counted for them.
    charged: Option<(Arc<dyn Runs>, UploadCharge)>,
    is_recorded: bool,
}

/// Who an upload counts for.
pub(super) struct Payer {
    app: String,
    user: String,
}

impl Payer {
    /// The app and the user of an upload; `None` for uploads of no app, which are the admin's.
    pub(super) fn of(upload: &Upload) -> Option<Self> {
        Some(Self { app: name_of_app(upload.app.as_deref()?), user: upload.user.clone() })
    }

    /// A dataset. All datasets together have the quota of an app, each of them that of a user.
    pub(super) fn of_dataset(id: &str) -> Self {
        Self { app: DATASETS.into(), user: id.into() }
    }
}

/// The name under which an app pays for its uploads: its id. An id that could be the name of another payer is marked.
fn name_of_app(id: &str) -> String {
    if id.contains(':') { format!("app:{id}") } else { id.to_owned() }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_recorded {
            return;
        }
        let (place, id, charged) = (self.place.clone(), self.id, self.charged.take());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Some((store, charge)) = charged
                    && let Err(error) = store.refund_upload(&charge).await
                {
                    tracing::warn!(upload = %id, %error, "a refused upload counts until its day is removed");
                }
                if let Err(error) = place.forget(id).await {
                    tracing::warn!(upload = %id, %error, "a refused upload is left until its day is removed");
                }
            });
        }
    }
}

/// Stores a file whose bytes are the body of the request.
///
/// # Errors
/// 400 for a name, a media type or a user that is too long, 413 for a file above its limit, 408 for one that takes too long,
/// 400 for one that broke off, 403 above a quota, 503 when the storage does not answer.
pub(crate) async fn receive(state: &ApiState, sent: Sent<'_>, mut body: Body) -> Result<Upload, ApiError> {
    check(&sent)?;
    let limit = limit_of(&state.config, sent.name);
    let held = store(state, pieces(&mut body), limit).await?;
    let upload = record(&held, sent);
    let payer = Payer::of(&upload);
    keep(state, held, upload, payer).await
}

/// Stores the bytes of a file as they come.
///
/// # Errors
/// 413, 408, 400 and 503, as [`receive`]; nothing is left then.
pub(super) async fn store(state: &ApiState, pieces: Pieces<'_>, limit: Limit) -> Result<Held, ApiError> {
    let place = state.submitter.uploads.open().map_err(unreadable)?;
    let id = UploadId::generate();
    let receiving = place.receive(id, pieces, limit.max);
    match tokio::time::timeout(Duration::from_secs(UPLOAD_SECONDS_MAX), receiving).await {
        Ok(Ok(size)) => Ok(Held { id, size, place, charged: None, is_recorded: false }),
        Ok(Err(FilesError::UploadTooLarge { .. })) => Err(too_large(limit)),
        Ok(Err(error)) => Err(unreadable(error)),
        Err(_) => {
            let message = format!("the file did not arrive within {UPLOAD_SECONDS_MAX} seconds");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message))
        }
    }
}

/// Counts stored bytes for the quotas, and writes their record: then requests can name the upload.
///
/// # Errors
/// 403 `upload_quota_exceeded`, or 503; nothing is left then, and nothing counts.
pub(super) async fn keep(
    state: &ApiState,
    mut held: Held,
    upload: Upload,
    payer: Option<Payer>,
) -> Result<Upload, ApiError> {
    // By the time in the record, because a removal of the upload gives the bytes of that day back.
    let at = upload.created_at;
    if let Some(charge) = payer.and_then(|payer| charge(&state.config, payer, upload.size, at)) {
        let [app, user] =
            if charge.app == DATASETS { ["all datasets", "this dataset"] } else { ["this app", "this user"] };
        match state.store.charge_upload(&charge).await? {
            UploadCharged::Taken => held.charged = Some((state.store.clone(), charge)),
            UploadCharged::AppFull { used } => {
                return Err(over(app, used, charge.app_max, "uploads.app_bytes_max"));
            }
            UploadCharged::UserFull { used } => {
                return Err(over(user, used, charge.user_max, "uploads.user_bytes_max"));
            }
        }
    }
    held.place.record(&upload).await.map_err(unreadable)?;
    held.is_recorded = true;
    let Upload { id, size, .. } = upload;
    tracing::info!(upload = %id, app = upload.app.as_deref().unwrap_or(""), size, "file uploaded");
    Ok(upload)
}

/// What an upload counts for; `None` where nothing is limited.
fn charge(config: &Config, payer: Payer, bytes: u64, now: i64) -> Option<UploadCharge> {
    let (app_max, user_max) = (config.uploads.app_bytes_max, config.uploads.user_bytes_max);
    let Payer { app, user } = Some(payer).filter(|_| app_max > 0 || user_max > 0)?;
    let days = config.scheduler.upload_days;
    let keep_days = if days == 0 { 0 } else { days.saturating_add(2) };
    Some(UploadCharge {
        app,
        user,
        day: day_of(now)?,
        first_day: first_kept(now, days).unwrap_or_default(),
        bytes,
        app_max,
        user_max,
        // Redis takes no time that is longer than its clock.
        keep_seconds: keep_days.saturating_mul(DAY_SECONDS).min(COUNT_SECONDS_MAX),
    })
}

fn over(whose: &str, used: u64, max: u64, setting: &str) -> ApiError {
    let message = format!(
        "the uploads of {whose} have {used} bytes, and with this file they have more than the {max} that are kept ({setting})"
    );
    ApiError::new(StatusCode::FORBIDDEN, "upload_quota_exceeded", message)
}

/// Checks the texts that the record of a file keeps. A record that is too large could not be read again.
pub(super) fn check(sent: &Sent<'_>) -> Result<(), ApiError> {
    if sent.user.chars().count() > USER_CHARS_MAX {
        return Err(SubmitError::User.into());
    }
    for (what, text) in [("name", sent.name), ("Content-Type", sent.media_type.unwrap_or_default())] {
        if text.chars().count() > UPLOAD_TEXT_CHARS_MAX {
            let message = format!("{what} must have at most {UPLOAD_TEXT_CHARS_MAX} characters");
            return Err(ApiError::invalid_param(message));
        }
    }
    Ok(())
}

/// The record of a file, with what its name and type say.
pub(super) fn record(held: &Held, sent: Sent<'_>) -> Upload {
    record_of(held.id, sent, held.size)
}

fn record_of(id: UploadId, sent: Sent<'_>, size: u64) -> Upload {
    let known = Known { given_name: Some(sent.name), said_type: sent.media_type, ..Known::default() };
    let facts = FileFacts::of(known);
    let name = facts.name.unwrap_or_else(|| format!("file{}", facts.extension));
    Upload {
        id,
        app: sent.app,
        user: sent.user.replace('\0', ""),
        name,
        extension: facts.extension,
        mime_type: facts.mime_type,
        size,
        created_at: SystemClock.now().seconds(),
    }
}

/// The bytes of a body, as they come.
pub(super) fn pieces(body: &mut Body) -> Pieces<'_> {
    stream::unfold(body, |body| async move {
        loop {
            match body.frame().await? {
                // Trailers are no part of the file.
                Ok(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Some((Ok(bytes), body));
                    }
                }
                Err(error) => return Some((Err(error.into()), body)),
            }
        }
    })
    .boxed()
}

/// The error of a storage that cannot be used now, or of bytes that did not come.
pub(super) fn unreadable(error: FilesError) -> ApiError {
    if let FilesError::Broken(_) = error {
        return ApiError::bad_request("the upload broke off");
    }
    tracing::error!(%error, "the storage of files cannot be used");
    ApiError::unavailable("the storage of files does not answer (files.url); try again in a moment")
}

#[cfg(test)]
mod tests {
    use tidemill_common::config::UploadsConfig;
    use tidemill_common::files::FilesConfig;
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    #[test]
    fn texts_that_make_a_record_too_large_are_refused_by_their_name() {
        let (most, long) = ("ä".repeat(UPLOAD_TEXT_CHARS_MAX), "ä".repeat(UPLOAD_TEXT_CHARS_MAX + 1));
        for (name, media_type, refused) in [
            ("a.pdf", None, None),
            (most.as_str(), Some(most.as_str()), None),
            (long.as_str(), None, Some("name must have at most 255 characters")),
            ("a.pdf", Some(long.as_str()), Some("Content-Type must have at most 255 characters")),
        ] {
            let checked = check(&Sent { name, media_type, app: None, user: "u" });
            let error = checked.err().map(|error| format!("{error:?}"));
            assert_eq!(error.is_some(), refused.is_some(), "{name} {media_type:?}: {error:?}");
            if let (Some(error), Some(refused)) = (error, refused) {
                assert!(error.contains("invalid_param") && error.contains(refused), "{error}");
            }
        }
    }

    #[test]
    fn the_record_says_what_name_and_type_say() {
        for (name, media_type, expected) in [
            ("a.PDF", None, ("a.PDF", ".pdf", "application/pdf")),
            ("../x/note", Some("text/plain; charset=utf-8"), ("note", ".txt", "text/plain")),
            ("a.csv", Some("application/octet-stream"), ("a.csv", ".csv", "text/csv")),
            ("..", None, ("file.bin", ".bin", "application/octet-stream")),
        ] {
            let sent = Sent { name, media_type, app: None, user: "u" };
            let record = record_of(UploadId::generate(), sent, 1);
            let have = (record.name.as_str(), record.extension.as_str(), record.mime_type.as_str());
            assert_eq!(have, expected, "{name} {media_type:?}");
        }
    }

    #[test]
    fn uploads_of_an_app_are_counted_while_they_are_kept() {
        let payer = |app: Option<&str>| {
            let sent = Sent { name: "a", media_type: None, app: app.map(Into::into), user: "u" };
            Payer::of(&record_of(UploadId::generate(), sent, 7))
        };
        let charge = |config: &Config| charge(config, payer(Some("a"))?, 7, 1_738_324_800);
        let mut config = Config::default();
        // Noon of 2025-01-31.
        let counted = charge(&config).unwrap();
        assert_eq!(
            (counted.bytes, counted.day.as_str(), counted.first_day.as_str()),
            (7, "2025-01-31", "2025-01-01")
        );
        assert_eq!(counted.keep_seconds, 32 * DAY_SECONDS);
        assert!(payer(None).is_none());
        config.scheduler.upload_days = 0;
        let counted = charge(&config).unwrap();
        assert_eq!((counted.first_day.as_str(), counted.keep_seconds), ("", 0));
        (config.uploads.app_bytes_max, config.uploads.user_bytes_max) = (0, 0);
        assert_eq!(charge(&config), None);
    }

    #[test]
    fn no_id_of_an_app_pays_from_the_quota_of_datasets_or_of_another_app() {
        let names: Vec<String> =
            ["a", "datasets", "datasets:", "app:datasets:", "app:a"].into_iter().map(name_of_app).collect();
        assert_eq!(names[0], "a", "as it was counted before");
        for (at, name) in names.iter().enumerate() {
            assert_ne!(*name, Payer::of_dataset("d").app);
            assert!(!names[..at].contains(name), "{name}");
        }
    }

    #[tokio::test]
    async fn an_upload_without_a_record_counts_for_nothing() {
        let folder = std::env::temp_dir().join(UploadId::generate().to_string());
        let config =
            FilesConfig { url: folder.display().to_string().as_str().into(), ..FilesConfig::default() };
        let place = tidemill_common::files::open_uploads(&config).unwrap();
        let store: Arc<dyn Runs> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let config = Config {
            uploads: UploadsConfig { user_bytes_max: 10, ..UploadsConfig::default() },
            ..Config::default()
        };
        let charge = charge(&config, Payer::of_dataset("d"), 10, 1_738_324_800).unwrap();
        for is_recorded in [false, false, true] {
            let charged = async || match store.charge_upload(&charge).await.unwrap() {
                UploadCharged::Taken => Some(()),
                UploadCharged::AppFull { .. } | UploadCharged::UserFull { .. } => None,
            };
            let mut tries = 0;
            while charged().await.is_none() {
                tries += 1;
                assert!(tries < 1000, "the bytes of the upload before were not given back");
                tokio::task::yield_now().await;
            }
            let (place, charged) = (place.clone(), Some((store.clone(), charge.clone())));
            drop(Held { id: UploadId::generate(), size: 10, place, charged, is_recorded });
        }
        tokio::task::yield_now().await;
        let full = UploadCharged::UserFull { used: 10 };
        assert_eq!(store.charge_upload(&charge).await.unwrap(), full, "an upload that is kept counts");
        let _ = std::fs::remove_dir_all(folder);
    }
}
