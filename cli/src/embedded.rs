//! Starts an engine in this process, for one run: no Redis, no port. Its data is gone when it stops.

use tidemill_common::config::Config;
use tidemill_common::telemetry;
use tidemill_embed::{Engine, EngineConfig};
use tidemill_mock_llm::Running;

use crate::client::Client;
use crate::error::Error;
use crate::stack::{ModelArgs, of_process, start_mock, without_waits};

/// A running engine, and the mock model if one was wanted.
pub(crate) struct Embedded {
    engine: Engine,
    mock: Option<Running>,
}

impl Embedded {
    /// Starts it with the settings of this process.
    ///
    /// # Errors
    /// Settings that cannot be used, or a thread that the system refuses.
    pub(crate) async fn start(models: &ModelArgs) -> Result<Self, Error> {
        let mut settings: Config = of_process("error")?;
        without_waits(&mut settings);
        telemetry::start_logs(&settings.log);
        let mock = start_mock(models, &mut settings).await?;
        let engine = Engine::create(EngineConfig { settings, ..EngineConfig::default() }).await?;
        Ok(Self { engine, mock })
    }

    /// A client of the engine.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        Ok(Client::inside(self.engine.router(), self.engine.admin_key())?)
    }

    /// Stops it. `hurry` ends the waiting for nodes early.
    pub(crate) async fn stop(self, hurry: impl Future<Output = ()>) {
        tokio::select! {
            () = self.engine.stop() => {}
            () = hurry => {}
        }
        if let Some(mock) = self.mock {
            mock.stop().await;
        }
    }
}
