//! Asks the servers of a request's remote files what the files are: name, type and size. All files of a request are asked
//! about at once, within `scheduler.remote_files_ms` in all. A server that does not answer in time is no error: the URL
//! says what it can then. [`Answers`] also has the records of the request's uploads.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_common::config::{Config, HttpConfig};
use tidemill_common::files::{Upload, UploadId};
use tidemill_common::http::{Http, Said};
use tidemill_common::limits::REMOTE_FILES_AT_ONCE;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, timeout_at};

/// What is known about the files that a request names.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// What servers said, by URL.
    said: HashMap<String, Said>,
    /// The records of uploads; `None` where a request cannot use uploads.
    uploads: Option<HashMap<UploadId, Upload>>,
    /// The values come from a client with an app's key, so they are checked.
    is_for_a_client: bool,
    /// A file may be of another type than the request says.
    trusts_types: bool,
}

impl Answers {
    /// The answer about the file at a URL.
    pub(crate) fn of(&self, url: &str) -> Option<&Said> {
        self.said.get(url)
    }

    /// The same answers with the records of the request's uploads.
    pub(crate) fn with_uploads(self, uploads: HashMap<UploadId, Upload>) -> Self {
        Self { uploads: Some(uploads), ..self }
    }

    /// The same answers for values of a client with an app's key, or not.
    pub(crate) fn for_a_client(self, is_for_a_client: bool) -> Self {
        Self { is_for_a_client, ..self }
    }

    /// The same answers for an app that takes a file as what the request says, or not.
    pub(crate) fn trusting_types(self, trusts_types: bool) -> Self {
        Self { trusts_types, ..self }
    }

    /// Returns true if a file may be of another type than the request says.
    pub(crate) fn trust_types(&self) -> bool {
        self.trusts_types
    }

    /// Returns true if the values come from a client with an app's key.
    pub(crate) fn are_for_a_client(&self) -> bool {
        self.is_for_a_client
    }

    /// The records of uploads that the request may use; `None` if it cannot use any.
    pub(crate) fn uploads(&self) -> Option<&HashMap<UploadId, Upload>> {
        self.uploads.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn given(answers: impl IntoIterator<Item = (String, Said)>) -> Self {
        Self { said: answers.into_iter().collect(), ..Self::default() }
    }
}

/// Asks about files. The client is built for the first file, so that a scheduler without remote files has none.
pub(crate) struct RemoteFiles {
    http: HttpConfig,
    client: OnceCell<Option<Http>>,
    within: Duration,
    files_max: usize,
    /// Bounds the calls of all requests together.
    calls: Semaphore,
}

impl RemoteFiles {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            http: config.http.clone(),
            client: OnceCell::new(),
            within: Duration::from_millis(config.scheduler.remote_files_ms),
            files_max: config.scheduler.remote_files_max,
            calls: Semaphore::new(REMOTE_FILES_AT_ONCE),
        }
    }

    /// Asks about all these files at once. Files that are not asked about, or have no answer in time, are missing in the
    /// result.
    pub(crate) async fn ask(&self, urls: BTreeSet<String>) -> Answers {
        if urls.is_empty() || self.within.is_zero() {
            return Answers::default();
        }
        if urls.len() > self.files_max {
            tracing::info!(
                files = urls.len(),
                asked = self.files_max,
                "a request has more remote files than servers are asked about (scheduler.remote_files_max)"
            );
        }
        let until = Instant::now() + self.within;
        let Ok(Some(client)) = timeout_at(until, self.client()).await else { return Answers::default() };
        let asked = urls.into_iter().take(self.files_max).map(|url| async move {
            let asking = async {
                let _call = self.calls.acquire().await.ok()?;
                client.ask(&url, until.saturating_duration_since(Instant::now())).await
            };
            let said = timeout_at(until, asking).await.ok().flatten()?;
            Some((url, said))
        });
        Answers { said: join_all(asked).await.into_iter().flatten().collect(), ..Answers::default() }
    }

    /// The client, or `None` if the settings of `[http]` cannot be used; workers refuse to start with them.
    async fn client(&self) -> Option<&Http> {
        let build = || async {
            let config = self.http.clone();
            // It reads the certificates of the machine.
            let built = tokio::task::spawn_blocking(move || Http::new(&config)).await;
            match built {
                Ok(Ok(client)) => Some(client),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "servers are not asked about remote files");
                    None
                }
                Err(error) => {
                    tracing::warn!(%error, "servers are not asked about remote files: their client was not built");
                    None
                }
            }
        };
        self.client.get_or_init(build).await.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::any;
    use tokio::net::TcpListener;

    use super::*;

    async fn files(change: impl Fn(&mut Config)) -> (RemoteFiles, String) {
        let router = Router::new()
            .route("/a", any(|| async { "hello" }))
            .route("/never", any(|| async { std::future::pending::<()>().await }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let mut config = Config::default();
        config.http.allow = vec!["127.0.0.1".into()];
        change(&mut config);
        (RemoteFiles::new(&config), base)
    }

    async fn answered(files: &RemoteFiles, urls: &[String]) -> Vec<bool> {
        let answers = files.ask(urls.iter().cloned().collect()).await;
        urls.iter().map(|url| answers.of(url).is_some()).collect()
    }

    #[tokio::test]
    async fn one_silent_server_takes_no_answer_from_the_others() {
        let (files, base) = files(|config| config.scheduler.remote_files_ms = 500).await;
        let urls = ["/a", "/never", "/none", "/a?2"].map(|path| format!("{base}{path}"));
        assert_eq!(answered(&files, &urls).await, [true, false, false, true]);
    }

    #[tokio::test]
    async fn servers_are_asked_about_a_bounded_number_of_files_or_none() {
        let (some, base) = files(|config| config.scheduler.remote_files_max = 2).await;
        let urls = ["/a?1", "/a?2", "/a?3"].map(|path| format!("{base}{path}"));
        assert_eq!(answered(&some, &urls).await, [true, true, false]);
        let (none, base) = files(|config| config.scheduler.remote_files_ms = 0).await;
        assert_eq!(answered(&none, &[format!("{base}/a")]).await, [false]);
    }

    #[tokio::test]
    async fn no_server_is_asked_that_the_guard_or_wrong_settings_forbid() {
        let (guarded, base) = files(|config| config.http.allow.clear()).await;
        assert_eq!(answered(&guarded, &[format!("{base}/a")]).await, [false]);
        let (wrong, base) = files(|config| config.http.ca_file = "/nowhere".into()).await;
        assert_eq!(answered(&wrong, &[format!("{base}/a")]).await, [false]);
    }
}
