//! Starts everything that runs need, in order, and stops it in the opposite order: a Redis, on request a mock model,
//! a scheduler and workers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use tidemill_common::config::{Config, FilesConfig, Sources};
use tidemill_common::telemetry;

use crate::data_folder::DataFolder;
use crate::error::Error;
use crate::local::Local;
use crate::redis_server::RedisServer;
use crate::target::Target;
use tidemill_mock_llm::{self as mock_llm, MockLlm, Rules, Running};

/// The models of a local stack.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelArgs {
    /// Answer model calls from a built-in mock; with =RULES according to a rules file
    #[arg(long, value_name = "RULES", num_args = 0..=1, require_equals = true, conflicts_with = "provider_url")]
    pub(crate) mock_llm: Option<Option<PathBuf>>,
    /// Send all model calls to this OpenAI-compatible API (URL up to /v1); its key comes from OPENAI_API_KEY
    #[arg(long, value_name = "URL")]
    pub(crate) provider_url: Option<String>,
}

/// Settings of a stack.
#[derive(Debug)]
pub(crate) struct StackSettings<'a> {
    /// A running Redis to use; `None` starts a private one in the data folder.
    pub(crate) redis: Option<&'a str>,
    /// Address for the API; `None` takes it from the settings.
    pub(crate) listen: Option<&'a str>,
    pub(crate) workers: usize,
    /// True if it joins a fleet for a while: secrets are sealed with the key of the settings, and files are where the
    /// settings say, because others must read both. Otherwise the data folder has them.
    pub(crate) is_guest: bool,
    pub(crate) models: &'a ModelArgs,
    /// The log level unless the environment sets one.
    pub(crate) log_level: &'static str,
}

/// A running stack.
pub(crate) struct Stack {
    local: Local,
    mock: Option<Running>,
    redis: Option<RedisServer>,
    target: Target,
}

impl Stack {
    /// Starts a stack on a data folder.
    ///
    /// # Errors
    /// A part does not start. The parts that did start are stopped again.
    pub(crate) async fn start(folder: &DataFolder, settings: &StackSettings<'_>) -> Result<Self, Error> {
        let mut config = configure(folder, settings)?;
        telemetry::start_logs(&config.log);
        let mock = start_mock(settings.models, &mut config).await?;
        let redis = match settings.redis {
            Some(_) => None,
            None => {
                let server = RedisServer::start(&folder.redis()?).await?;
                config.redis.url = server.url().into();
                Some(server)
            }
        };
        match Local::start(&config, settings.workers).await {
            Ok(local) => {
                let target = Target { url: url_of(local.addr()), key: config.scheduler.admin_key.0.clone() };
                Ok(Self { local, mock, redis, target })
            }
            Err(error) => {
                if let Some(redis) = redis {
                    redis.stop().await;
                }
                Err(error.into())
            }
        }
    }

    /// The address and key to reach it with.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns when the private Redis has ended. Never returns without one.
    pub(crate) async fn broken(&mut self) -> &'static str {
        match &mut self.redis {
            Some(redis) => {
                redis.ended().await;
                "redis-server has ended"
            }
            None => std::future::pending().await,
        }
    }

    /// Stops everything. `hurry` ends the waiting for runs early, but never the saving of Redis.
    pub(crate) async fn stop(self, hurry: impl Future<Output = ()>) {
        tokio::select! {
            () = self.local.stop() => {}
            () = hurry => {}
        }
        if let Some(mock) = self.mock {
            mock.stop().await;
        }
        if let Some(redis) = self.redis {
            redis.stop().await;
        }
    }
}

/// Longest grace period when a stack stops, in seconds: a user waits at the terminal, and unfinished work continues
/// at the next start.
const GRACE_SECONDS: u64 = 5;
/// The same for clients that follow a run: the next start of the stack serves them again.
const STREAM_GRACE_SECONDS: u64 = 1;

fn configure(folder: &DataFolder, settings: &StackSettings<'_>) -> Result<Config, Error> {
    let mut config = of_process(settings.log_level)?;
    if let Some(url) = settings.redis {
        config.redis.url = url.into();
    }
    if let Some(listen) = settings.listen {
        config.scheduler.listen = listen.into();
    }
    if config.scheduler.admin_key.is_empty() {
        config.scheduler.admin_key = folder.admin_key()?.into();
    }
    if config.scheduler.secret_key.is_empty() && !settings.is_guest {
        config.scheduler.secret_key = folder.secret_key()?.into();
    }
    if config.files == FilesConfig::default() && !settings.is_guest {
        config.files.url = folder.files().display().to_string().into();
    }
    // Several workers in one process: the scheduler's port serves health and metrics for all of them.
    config.worker.listen = String::new();
    without_waits(&mut config);
    Ok(config)
}

/// The settings of this process: its file, its environment.
///
/// # Errors
/// A setting is wrong.
pub(crate) fn of_process(log_level: &'static str) -> Result<Config, Error> {
    let mut sources = Sources::of_process(None, Vec::new());
    // A flag would win over the environment, but this log level is only a default.
    let says_log =
        |(name, _): &(String, String)| ["TIDEMILL_LOG", "TIDEMILL_LOG_LEVEL"].contains(&name.as_str());
    if !sources.environment.iter().any(says_log) {
        sources.flags.push(("log.level".into(), log_level.into()));
        sources.flags.push(("log.format".into(), "text".into()));
    }
    Config::load(&sources).map_err(|error| Error::Usage(error.to_string()))
}

/// Shortens what a stop waits for: a user waits at the terminal.
pub(crate) fn without_waits(config: &mut Config) {
    config.worker.grace_seconds = config.worker.grace_seconds.min(GRACE_SECONDS);
    config.scheduler.grace_seconds = config.scheduler.grace_seconds.min(STREAM_GRACE_SECONDS);
    // No proxy is in front of it.
    config.scheduler.unready_ms = 0;
}

/// Starts the mock model if it is wanted, and leads model calls where the arguments say.
///
/// # Errors
/// Its rules cannot be used, or no port is free.
pub(crate) async fn start_mock(models: &ModelArgs, config: &mut Config) -> Result<Option<Running>, Error> {
    if let Some(url) = &models.provider_url {
        use_provider(config, url, Some("OPENAI_API_KEY"));
    }
    let Some(file) = &models.mock_llm else { return Ok(None) };
    let rules = load_rules(file.as_deref())?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let mock = MockLlm::start(rules, any_port)
        .await
        .map_err(|error| Error::Failed(format!("cannot start the mock model: {error}")))?;
    use_provider(config, &mock.base_url(), None);
    // So that a workflow that names no profile works without any settings.
    let text = |text: &str| text.to_string().into();
    let table = [("provider".into(), text("default")), ("model".into(), text("mock"))];
    config.profiles.entry("default".into()).or_insert_with(|| table.into_iter().collect());
    // So that the features of an app that need a model work, too.
    let features = &mut config.features;
    for setting in [
        &mut features.suggested_model,
        &mut features.speech_to_text,
        &mut features.text_to_speech,
        &mut features.moderation_openai_model,
    ] {
        if setting.is_empty() {
            "default/mock".clone_into(setting);
        }
    }
    Ok(Some(mock))
}

/// Keys with which a profile sets its own connection, in both spellings.
const OWN_CONNECTION: [&str; 7] =
    ["base_url", "baseUrl", "api_key", "apiKey", "api_key_env", "apiKeyEnv", "headers"];

/// Sends all model calls to one address, whatever provider or profile they use.
fn use_provider(config: &mut Config, url: &str, key_from: Option<&str>) {
    let text = |text: &str| text.to_string().into();
    let mut table: Vec<(String, _)> = vec![("base_url".into(), text(url))];
    // A server on the same machine may need no key.
    table.extend(
        key_from
            .filter(|variable| std::env::var_os(variable).is_some())
            .map(|variable| ("api_key_env".into(), text(variable))),
    );
    config.providers.clear();
    config.providers.insert("default".into(), table.into_iter().collect());
    for profile in config.profiles.values_mut() {
        if profile.get("provider").and_then(|provider| provider.as_str()) == Some("HUMAN_RELAY") {
            continue;
        }
        profile.retain(|name, _| !OWN_CONNECTION.contains(&name));
        profile.insert("provider".into(), text("default"));
    }
}

fn url_of(addr: SocketAddr) -> String {
    // A scheduler that listens on all addresses is reachable on this machine.
    let host = match addr.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}", SocketAddr::new(host, addr.port()))
}

/// Loads the rules of a file. Without a file, returns the rules of the friendly mock.
///
/// # Errors
/// The file cannot be used.
pub(crate) fn load_rules(file: Option<&Path>) -> Result<Rules, Error> {
    let Some(path) = file else { return Ok(Rules::Friendly) };
    mock_llm::rules::load(path).map_err(|error| Error::Usage(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configured_profiles_use_the_given_address_too() {
        let own =
            json!({"provider": "OPENAI_CHAT", "model": "m", "api_key_env": "K", "baseUrl": "http://h/v1"});
        let relay = json!({"provider": "HUMAN_RELAY", "model": "person"});
        let config = serde_json::from_value(json!({"profiles": {"fast": own, "relay": relay}}));
        let mut config: Config = config.expect("settings");
        use_provider(&mut config, "http://mock/v1", None);
        let table = |id: &str| config.profiles[id].to_string();
        assert_eq!(table("fast"), "model = \"m\"\nprovider = \"default\"\n");
        assert!(table("relay").contains("HUMAN_RELAY"));
    }
}
