//! The listeners of a scheduler: one for the API, and a separate one for metrics if it is set. The number of
//! connections of each follows from the settings and from what the system allows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tidemill_common::config::Config;
use tidemill_common::open_files::{self, Need};
use tidemill_common::serve::{self, Listener, ListenerSettings, PROBE_CONNECTIONS, Tls};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::{self, ApiState};
use crate::app::StartError;
use crate::stopping::Stage;

/// Open files that a scheduler needs besides its clients' connections: to Redis, to the file store, and of its threads.
const OWN_FILES: u64 = 256;

/// The bound listeners and their addresses, and the certificate of the API's.
pub(crate) struct Listeners {
    pub(crate) api: (TcpListener, SocketAddr),
    tls: Option<Arc<Tls>>,
    pub(crate) metrics: Option<(TcpListener, SocketAddr)>,
}

impl Listeners {
    /// Listens on the addresses in the settings.
    pub(crate) async fn open(config: &Config) -> Result<Self, StartError> {
        let config = &config.scheduler;
        let every = Duration::from_secs(config.tls_check_seconds);
        let tls = config.tls_files().map(|files| Tls::start(files, every)).transpose()?;
        let api = listen(&config.listen, "scheduler.listen").await?;
        let metrics = match config.metrics_listen.as_str() {
            "" => None,
            address => Some(listen(address, "scheduler.metrics_listen").await?),
        };
        Ok(Self { api, tls, metrics })
    }

    /// Serves until the process drains and all requests in progress are answered.
    pub(crate) fn serve(
        self,
        config: &Config,
        state: ApiState,
        stages: watch::Receiver<Stage>,
    ) -> JoinHandle<()> {
        let config = &config.scheduler;
        let (side, setting) = (config.metrics_connections_max, "scheduler.connections_max");
        let own = OWN_FILES + side as u64 + PROBE_CONNECTIONS as u64;
        let connections =
            open_files::prepare(&Need { own, connections: config.connections_max, settings: setting });
        let settings = ListenerSettings { name: "api", setting, limits: config.limits(connections) };
        let listener = Listener::with(self.api.0, self.tls);
        let api = serve::serve(settings, listener, api::router(state.clone()), drains(stages.clone()));
        let metrics = self.metrics.map(|(listener, _)| {
            let setting = "scheduler.metrics_connections_max";
            let settings = ListenerSettings { name: "metrics", setting, limits: config.limits(side) };
            let router: Router = api::metrics_router().with_state(state);
            serve::serve(settings, listener, router, drains(stages))
        });
        tokio::spawn(async move {
            match metrics {
                Some(metrics) => {
                    tokio::join!(api, metrics);
                }
                None => api.await,
            }
        })
    }
}

async fn listen(address: &str, setting: &'static str) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { setting, address: address.into(), source };
    let listener = serve::listen(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

async fn drains(mut stages: watch::Receiver<Stage>) {
    // An error means that the sender is gone, which is also a reason to stop.
    let _ = stages.wait_for(|stage| *stage >= Stage::Draining).await;
}
