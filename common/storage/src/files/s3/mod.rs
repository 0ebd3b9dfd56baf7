//! Files in a bucket of S3, or of a compatible service (MinIO, Ceph, R2, Garage, …).
//!
//! Credentials come from `[files]`, else from the sources that AWS tools use: `AWS_ACCESS_KEY_ID` and related
//! variables, a web identity, or the role of a task or machine. A file of a node is written by one request: its size
//! is bounded. A large upload is written [in parts](parts).

mod parts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, RetryConfig};

use super::config::FilesConfig;
use super::uploads::{
    self, Content, Each, Pieces, Place, RECORD_BYTES_MAX, UPLOADS, Upload, UploadId, Uploads,
};
use super::{Files, FilesError, RUNS, is_reference, new_reference};
use tidemill_base::ids::RunId;

/// Longest time of a request. The largest file of the default settings then needs 1.4 Mbit/s.
const REQUEST: Duration = Duration::from_secs(60);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Retries of a request after a passing error; a node's own retries are extra.
const RETRIES: usize = 3;
/// No retry begins later than this after the first try.
const RETRY: Duration = Duration::from_secs(30);

/// A bucket and a prefix in it.
#[derive(Clone)]
pub struct S3 {
    bucket: String,
    prefix: String,
    pub(super) store: Arc<AmazonS3>,
}

// By hand, because the client holds the secrets.
impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl S3 {
    /// The storage after `s3://`: a bucket and an optional prefix, at the service that `config` describes.
    /// Sends no request yet.
    ///
    /// # Errors
    /// [`FilesError::Url`]: no bucket, only one of the two keys, or an invalid endpoint.
    pub fn at(place: &str, config: &FilesConfig) -> Result<Self, FilesError> {
        let wrong = |reason: String| FilesError::Url { url: config.url.masked(), reason };
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() || bucket.contains(['@', ':', '?', '#']) {
            return Err(wrong(
                "s3:// must be followed by the name of a bucket, optionally with /prefix".into(),
            ));
        }
        let store = client(bucket, config).map_err(wrong)?;
        Ok(Self { bucket: bucket.into(), prefix: prefix.trim_matches('/').into(), store: Arc::new(store) })
    }

    pub(super) fn path(&self, reference: &str) -> Path {
        match self.prefix.as_str() {
            "" => Path::from(reference),
            prefix => Path::from(format!("{prefix}/{reference}")),
        }
    }

    /// Removes objects. Missing ones are not an error.
    pub(super) async fn delete(&self, paths: Vec<Path>) -> Result<(), FilesError> {
        let paths = futures_util::stream::iter(paths).map(Ok).boxed();
        let mut removed = self.store.delete_stream(paths);
        while let Some(one) = removed.next().await {
            match one {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Reads an object of at most `max` bytes.
    pub(super) async fn get(&self, reference: &str, max: u64) -> Result<Bytes, FilesError> {
        let found =
            self.store.get(&self.path(reference)).await.map_err(|error| missing_or(error, reference))?;
        // Known from the response head, before the body is read.
        let bytes = found.meta.size;
        if bytes > max {
            return Err(FilesError::TooLarge { bytes, max });
        }
        found.bytes().await.map_err(failed)
    }
}

/// A client for a bucket, or the problem in the settings.
fn client(bucket: &str, config: &FilesConfig) -> Result<AmazonS3, String> {
    // The only TLS provider; if another was installed first, that one works, too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = ClientOptions::new()
        .with_timeout(REQUEST)
        .with_connect_timeout(CONNECT)
        .with_allow_http(config.endpoint.starts_with("http://"));
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY, ..RetryConfig::default() };
    let mut builder = match (config.access_key_id.as_str(), config.secret_access_key.as_str()) {
        ("", "") => AmazonS3Builder::from_env(),
        ("", _) | (_, "") => {
            return Err("files.access_key_id and files.secret_access_key belong together".into());
        }
        // Ignore the environment then: its session token belongs to other keys.
        (id, secret) => AmazonS3Builder::new().with_access_key_id(id).with_secret_access_key(secret),
    };
    if !config.region.is_empty() {
        builder = builder.with_region(&config.region);
    }
    if !config.endpoint.is_empty() {
        builder = builder.with_endpoint(endpoint(bucket, config)?);
    }
    let builder = builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(!config.path_style)
        // Not every service supports bulk deletes.
        .with_disable_bulk_delete(true)
        .with_client_options(options)
        .with_retry(retry);
    builder.build().map_err(|error| format!("{error} (see [files] in deploy/example.toml)"))
}

/// The endpoint in the client's form: with the bucket as its first label, unless the bucket is in the path.
fn endpoint(bucket: &str, config: &FilesConfig) -> Result<String, String> {
    let url = config.endpoint.trim_end_matches('/');
    let parts = url.split_once("://").filter(|(scheme, host)| {
        matches!(*scheme, "http" | "https") && !host.is_empty() && !host.contains(['/', '@', '?', '#'])
    });
    let Some((scheme, host)) = parts else {
        return Err("files.endpoint is not of the form http[s]://host[:port]".into());
    };
    Ok(if config.path_style { url.to_owned() } else { format!("{scheme}://{bucket}.{host}") })
}

#[async_trait]
impl Files for S3 {
    async fn keep(&self, run: &RunId, bytes: Bytes) -> Result<String, FilesError> {
        let reference = new_reference(run);
        self.store.put(&self.path(&reference), bytes.into()).await.map_err(failed)?;
        Ok(reference)
    }

    async fn read(&self, reference: &str, max: u64) -> Result<Bytes, FilesError> {
        if !is_reference(reference) {
            return Err(FilesError::Missing(reference.to_owned()));
        }
        self.get(reference, max).await
    }

    async fn remove(&self, run: &RunId, most: usize) -> Result<bool, FilesError> {
        let below = self.path(&format!("{RUNS}/{run}"));
        let mut listed: Vec<Path> = self
            .store
            .list(Some(&below))
            .take(most.saturating_add(1))
            .map_ok(|object| object.location)
            .try_collect()
            .await
            .map_err(failed)?;
        let is_all = listed.len() <= most;
        listed.truncate(most);
        self.delete(listed).await?;
        Ok(is_all)
    }
}

#[async_trait]
impl Uploads for S3 {
    async fn receive(&self, id: UploadId, pieces: Pieces<'_>, max: u64) -> Result<u64, FilesError> {
        parts::receive(&*self.store, &self.path(&id.path()?), pieces, max).await
    }

    async fn forget(&self, id: UploadId) -> Result<(), FilesError> {
        self.delete(vec![self.path(&id.record_path()?), self.path(&id.path()?)]).await
    }

    async fn content(&self, place: Place<'_>) -> Result<Content, FilesError> {
        let path = place.path()?;
        let found = self.store.get(&self.path(&path)).await;
        let found = found.map_err(|error| missing_or(error, &place.to_string()))?;
        let size = found.meta.size;
        Ok(Content { size, pieces: found.into_stream().map_err(Into::into).boxed() })
    }

    async fn record(&self, upload: &Upload) -> Result<(), FilesError> {
        let path = self.path(&upload.id.record_path()?);
        self.store.put(&path, uploads::written(upload).into()).await.map_err(failed)?;
        Ok(())
    }

    async fn find(&self, id: UploadId) -> Result<Upload, FilesError> {
        let bytes = self.get(&id.record_path()?, RECORD_BYTES_MAX).await;
        uploads::read(id, &bytes.map_err(|error| named(error, id))?)
    }

    async fn adopt(&self, id: UploadId, run: &RunId) -> Result<String, FilesError> {
        let reference = new_reference(run);
        let (from, to) = (id.path()?, self.path(&reference));
        let copied = self.store.copy(&self.path(&from), &to).await;
        copied.map_err(|error| named(missing_or(error, &from), id))?;
        Ok(reference)
    }

    async fn discard(&self, reference: &str) -> Result<(), FilesError> {
        match is_reference(reference) {
            true => self.delete(vec![self.path(reference)]).await,
            false => Ok(()),
        }
    }

    fn each(&self, from_day: &str) -> Each {
        // A bucket lists its objects by name.
        let root = self.path(UPLOADS);
        let listed = match from_day {
            "" => self.store.list(Some(&root)),
            day => self.store.list_with_offset(Some(&root), &self.path(&format!("{UPLOADS}/{day}"))),
        };
        uploads::recorded(self.clone(), listed.map_ok(|object| object.location.to_string()).map_err(failed))
    }

    async fn expire(&self, before: &str, most: usize) -> Result<bool, FilesError> {
        let root = self.path(UPLOADS);
        let is_old = |path: &Path| {
            let below = path.as_ref().strip_prefix(root.as_ref()).map(|rest| format!("{UPLOADS}{rest}"));
            below.as_deref().and_then(uploads::day_in).is_some_and(|day| day < before)
        };
        // A bucket lists its objects by name, so the oldest days come first.
        let mut listed = self.store.list(Some(&root));
        let mut old = Vec::new();
        while let Some(object) = listed.try_next().await.map_err(failed)? {
            if !is_old(&object.location) || old.len() > most {
                break;
            }
            old.push(object.location);
        }
        drop(listed);
        let is_all = old.len() <= most;
        old.truncate(most);
        self.delete(old).await?;
        Ok(is_all)
    }
}

/// The error of a request for an object.
fn missing_or(error: Error, reference: &str) -> FilesError {
    match error {
        Error::NotFound { .. } if !is_about_the_bucket(&error) => FilesError::Missing(reference.to_owned()),
        error => failed(error),
    }
}

/// A missing upload is named by its id.
fn named(error: FilesError, id: UploadId) -> FilesError {
    match error {
        FilesError::Missing(_) => FilesError::Missing(id.to_string()),
        other => other,
    }
}

/// A missing bucket is reported like a missing file; only the code differs.
fn is_about_the_bucket(error: &Error) -> bool {
    error.to_string().contains("NoSuchBucket")
}

pub(super) fn failed(error: Error) -> FilesError {
    let hint = match &error {
        Error::NotFound { .. } => "is the bucket there (files.url, files.endpoint, files.region)?",
        Error::Unauthenticated { .. } | Error::PermissionDenied { .. } => {
            "may these credentials read, write, list and delete in the bucket (files.access_key_id, or AWS_ACCESS_KEY_ID)?"
        }
        // For example a wrong address, no network, or a service that is down; the source says which.
        _ => "does files.endpoint lead to the service?",
    };
    FilesError::Service { hint, source: error.into() }
}

#[cfg(test)]
mod bucket;
#[cfg(test)]
mod tests;
