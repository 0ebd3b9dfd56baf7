//! An installation, as far as its settings or its API show it, and whether it has what a workflow requires. Pure.

use std::net::IpAddr;

use serde::Serialize;
use tidemill_common::config::Config;
use tidemill_common::http::guard::{Guard, class};
use tidemill_common::need::Need;
use tidemill_common::nodes::code::modules::holds;
use tidemill_common::requirements::Requirement;
use tidemill_common::wire::worker::AboutWorker;
use tidemill_worker::{meets, of_settings};

use super::providers::short;

/// The provider that a worker makes from `OPENAI_API_KEY` or `OPENAI_BASE_URL`. It takes the models of all providers that
/// no other one serves, but has perhaps none of them.
const DEFAULT_PROVIDER: &str = "default";
/// The provider whose models the default one has: the variables are those of its clients.
const OPENAI: &str = "openai";
/// The feature that a setting of the schedulers leaves out.
const MODERATION: &str = "sensitive_word_avoidance";

/// Whether an installation has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Has {
    Yes,
    No,
    /// The API does not show it.
    Unknown,
}

/// What an installation has. `None`: not known.
#[derive(Debug, Default)]
pub(crate) struct Installation {
    /// The records of its workers, or what its settings promise.
    pub(crate) workers: Vec<AboutWorker>,
    /// True when the settings name the provider `default`, which then has the models of all others.
    pub(crate) default_is_meant: bool,
    /// Ids and names of datasets.
    pub(crate) datasets: Vec<String>,
    /// True when `datasets` has all of them: also those of the settings.
    pub(crate) knows_all_datasets: bool,
    /// Ids of apps, and the names that only one app has.
    pub(crate) apps: Vec<String>,
    pub(crate) guard: Option<Guard>,
    pub(crate) code: Option<CodeSettings>,
    pub(crate) moderation_left_out: Option<bool>,
}

/// The settings of code nodes that matter here.
#[derive(Debug, Default)]
pub(crate) struct CodeSettings {
    /// True when a dify-sandbox runs the code: which modules it has is not known.
    pub(crate) is_service: bool,
    pub(crate) packages: Vec<String>,
    pub(crate) network: bool,
}

impl Installation {
    /// An installation with these settings.
    pub(crate) fn of_settings(config: &Config) -> Self {
        let datasets = &config.knowledge.datasets;
        let names = datasets.values().map(|dataset| dataset.name.clone()).filter(|name| !name.is_empty());
        Self {
            workers: vec![of_settings(config)],
            default_is_meant: config.providers.contains_key(DEFAULT_PROVIDER),
            datasets: datasets.keys().cloned().chain(names).collect(),
            knows_all_datasets: true,
            apps: Vec::new(),
            guard: Guard::new(config.http.guard, &config.http.allow).ok(),
            code: Some(code_settings(config)),
            moderation_left_out: Some(config.compat.moderation_left_out),
        }
    }

    /// Joins what an API shows with what settings show.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            workers: self.workers.into_iter().chain(other.workers).collect(),
            default_is_meant: self.default_is_meant || other.default_is_meant,
            datasets: self.datasets.into_iter().chain(other.datasets).collect(),
            knows_all_datasets: self.knows_all_datasets || other.knows_all_datasets,
            apps: self.apps.into_iter().chain(other.apps).collect(),
            guard: self.guard.or(other.guard),
            code: self.code.or(other.code),
            moderation_left_out: self.moderation_left_out.or(other.moderation_left_out),
        }
    }

    /// Decides whether the installation has what a workflow requires.
    pub(crate) fn has(&self, what: &Requirement) -> Has {
        match what {
            Requirement::Model { provider, model, .. } => self.has_model(provider, model),
            Requirement::Profile { id } => self.worker_meets(&Need::Profile { id: id.clone() }),
            Requirement::Tool { kind, provider, name, .. } => {
                if kind.name() == "workflow" {
                    return yes(self.apps.iter().any(|app| app == provider));
                }
                let (kind, provider, also) = (kind.name().into(), provider.clone(), name.clone());
                self.worker_meets(&Need::Tool { kind, provider, also })
            }
            Requirement::Dataset { id } if self.knows_dataset(id) => Has::Yes,
            Requirement::Dataset { .. } if self.knows_all_datasets => Has::No,
            Requirement::Module { package: None, .. } => self.code(|code| yes_or_unknown(code.is_service)),
            Requirement::Module { name, package: Some(_) } => self.code(|code| {
                if holds(&code.packages, name) { Has::Yes } else { yes_or_unknown(code.is_service) }
            }),
            Requirement::CodeNetwork { .. } => {
                self.code(|code| if code.network { Has::Yes } else { yes_or_unknown(code.is_service) })
            }
            Requirement::Host { host } => match &self.guard {
                Some(guard) => yes(lets(guard, host)),
                None => Has::Unknown,
            },
            Requirement::Feature { name: MODERATION } => self.moderation_left_out.map_or(Has::Unknown, yes),
            Requirement::Dataset { .. } | Requirement::Strategy { .. } => Has::Unknown,
            Requirement::Feature { .. }
            | Requirement::McpServer { .. }
            | Requirement::Secret { .. }
            | Requirement::Upload { .. }
            | Requirement::Trigger { .. } => Has::No,
        }
    }

    fn has_model(&self, provider: &str, model: &str) -> Has {
        let need = Need::Provider { provider: provider.into(), model: model.into() };
        let is_sure = self.default_is_meant || short(provider) == OPENAI;
        match self.worker_meets(&need) {
            Has::Yes
                if is_sure || self.workers.iter().any(|worker| meets(&without_default(worker), &need)) =>
            {
                Has::Yes
            }
            Has::Yes => Has::Unknown,
            other => other,
        }
    }

    fn knows_dataset(&self, id: &String) -> bool {
        self.datasets.contains(id) || self.workers.iter().any(|worker| worker.datasets.contains(id))
    }

    fn worker_meets(&self, need: &Need) -> Has {
        yes(self.workers.iter().any(|worker| meets(worker, need)))
    }

    fn code(&self, decide: impl Fn(&CodeSettings) -> Has) -> Has {
        self.code.as_ref().map_or(Has::Unknown, decide)
    }
}

/// The record without a provider that only the environment has made.
fn without_default(worker: &AboutWorker) -> AboutWorker {
    let mut worker = worker.clone();
    worker.providers.retain(|provider| provider.name != DEFAULT_PROVIDER || !provider.serves.is_empty());
    worker
}

fn code_settings(config: &Config) -> CodeSettings {
    CodeSettings {
        is_service: !config.code.endpoint.is_empty(),
        packages: config.code.python.packages.clone(),
        network: config.code.network,
    }
}

fn yes(is: bool) -> Has {
    if is { Has::Yes } else { Has::No }
}

/// The modules of a dify-sandbox are not known.
fn yes_or_unknown(is_service: bool) -> Has {
    if is_service { Has::Unknown } else { Has::No }
}

fn lets(guard: &Guard, host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => guard.check(host, address).is_ok(),
        // Names are checked when they are resolved; without an exception a private name will be refused.
        Err(_) => guard.lets_host(host) || guard.check(host, IpAddr::from([127, 0, 0, 1])).is_ok(),
    }
}

/// Endings of names that are not on the public internet.
const PRIVATE_ENDINGS: [&str; 7] = [".local", ".internal", ".lan", ".svc", ".localhost", ".home", ".corp"];

/// True for a host that the guard refuses without an exception, as far as its name shows it.
pub(crate) fn is_private(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => class(address).is_some(),
        Err(_) => !host.contains('.') || PRIVATE_ENDINGS.iter().any(|ending| host.ends_with(ending)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_private_by_address_or_name() {
        for host in ["10.0.0.1", "192.168.1.1", "::1", "localhost", "billing", "a.svc", "db.internal"] {
            assert!(is_private(host), "{host}");
        }
        for host in ["1.1.1.1", "api.example.com", "14.103.204.132"] {
            assert!(!is_private(host), "{host}");
        }
    }

    #[test]
    fn settings_and_requirements_are_compared() {
        let config: Config = serde_json::from_value(serde_json::json!({
            "providers": {"openai": {}}, "http": {"allow": ["billing", "10.0.0.0/8"]},
            "knowledge": {"datasets": {"d1": {"name": "Handbook"}}}, "compat": {"moderation_left_out": true},
        }))
        .expect("these are settings");
        let with = Installation::of_settings(&config);
        let without = Installation::of_settings(&Config::default());
        let api = Installation { workers: with.workers.clone(), ..Installation::default() };
        let dataset = |id: &str| Requirement::Dataset { id: id.into() };
        let host = |host: &str| Requirement::Host { host: host.into() };
        let moderation = Requirement::Feature { name: "sensitive_word_avoidance" };
        for (what, expected) in [
            (dataset("d1"), [Has::Yes, Has::No, Has::Unknown]),
            (dataset("d2"), [Has::No, Has::No, Has::Unknown]),
            (host("billing"), [Has::Yes, Has::No, Has::Unknown]),
            (host("10.1.1.1"), [Has::Yes, Has::No, Has::Unknown]),
            (host("192.168.1.1"), [Has::No, Has::No, Has::Unknown]),
            (moderation, [Has::Yes, Has::No, Has::Unknown]),
            (Requirement::Feature { name: "more_like_this" }, [Has::No, Has::No, Has::No]),
            (Requirement::Profile { id: "p".into() }, [Has::No, Has::No, Has::No]),
        ] {
            let found = [&with, &without, &api].map(|installation| installation.has(&what));
            assert_eq!(found, expected, "{what:?}");
        }
    }

    #[test]
    fn a_provider_that_the_environment_made_has_only_the_models_of_openai_for_certain() {
        let with = |providers: serde_json::Value| {
            let config = serde_json::from_value(serde_json::json!({"providers": providers}));
            Installation::of_settings(&config.expect("these are settings"))
        };
        let as_shown = |settings: Installation| Installation { default_is_meant: false, ..settings };
        let only_default = || with(serde_json::json!({"default": {}}));
        let serving = serde_json::json!({"default": {"serves": [{"provider": "acme/own/own"}]}});
        let both = serde_json::json!({"default": {}, "own": {}});
        for (installation, provider, expected) in [
            (as_shown(only_default()), "acme/own/own", Has::Unknown),
            (as_shown(only_default()), "langgenius/openai/openai", Has::Yes),
            (as_shown(with(serving)), "acme/own/own", Has::Yes),
            (as_shown(with(both)), "acme/own/own", Has::Yes),
            (only_default(), "acme/own/own", Has::Yes),
            (as_shown(only_default()).and(only_default()), "acme/own/own", Has::Yes),
            (with(serde_json::json!({})), "acme/own/own", Has::No),
        ] {
            assert_eq!(
                installation.has_model(provider, "m"),
                expected,
                "{provider}: {:?}",
                installation.workers
            );
        }
    }
}
