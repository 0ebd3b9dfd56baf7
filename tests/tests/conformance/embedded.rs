//! An embedded engine that runs the cases. Its HTTP interface is served, so that the cases are driven as on a fleet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_common::config::{Config, Sources};
use tidemill_embed::{Engine, EngineConfig};
use tidemill_tests::binaries::binary;
use tidemill_tests::client::Client;
use tokio::task::JoinHandle;

/// The system's clock, moved ahead.
#[derive(Default)]
struct MovedClock(AtomicI64);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().micros() + self.0.load(Ordering::Relaxed))
    }
}

/// The engine, and the file with its settings.
pub(crate) struct Embedded {
    engine: Option<Engine>,
    client: Client,
    clock: Arc<MovedClock>,
    server: JoinHandle<()>,
    file: PathBuf,
}

impl Embedded {
    pub(crate) async fn start(file: &Path) -> Self {
        let clock = Arc::new(MovedClock::default());
        let engine = Engine::create(config(file, clock.clone())).await.expect("an engine starts");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address").to_string();
        let client = Client::new(&address, Some(engine.admin_key()));
        let router = engine.router();
        let server = tokio::spawn(async move {
            // It ends when it is aborted.
            let _ = axum::serve(listener, router).await;
        });
        Self { engine: Some(engine), client, clock, server, file: file.into() }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Begins again with a new engine, which reads the settings again and knows nothing of earlier cases.
    pub(crate) async fn restart(&mut self) {
        self.server.abort();
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
        *self = Self::start(&self.file.clone()).await;
    }

    /// Moves the clock past the end of a form.
    pub(crate) fn expire(&self, pause: &Json) {
        let seconds = pause["expires_at"].as_f64().expect("the form expires");
        let ahead =
            (seconds * 1e6) as i64 - SystemClock.now().micros() + Duration::from_secs(1).as_micros() as i64;
        self.clock.0.store(ahead.max(0), Ordering::Relaxed);
    }
}

fn config(file: &Path, clock: Arc<MovedClock>) -> EngineConfig {
    let flags = vec![("scheduler.secret_key".to_owned(), "seals the secrets of the cases".to_owned())];
    let sources = Sources { file: Some(file.into()), environment: Vec::new(), flags };
    let settings = Config::load(&sources).expect("the settings of the cases are right");
    EngineConfig { settings, tidemill: Some(binary("tidemill")), clock, ..EngineConfig::default() }
}
