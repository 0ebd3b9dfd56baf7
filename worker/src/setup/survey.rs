//! Finds out what this worker can do, at the start and again now and then, because the catalog in Redis changes.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::config::Config;
use tidemill_common::dsl::Salt;
use tidemill_common::need::Need;
use tidemill_common::nodes::code::CodeLanguage;
use tidemill_common::wire::worker::{AboutWorker, CallAbility, Missing};
use uuid::Uuid;

use crate::jobs::shared::Core;
use crate::outside::calls::NOT_HOSTED;
use crate::setup::fixed;

/// The time between two surveys.
const EVERY: Duration = Duration::from_secs(10);

/// Surveys until the worker ends.
pub(crate) async fn keep(core: Arc<Core>, config: Arc<Config>) {
    // What others may count on changes when a plugin becomes ready.
    let mut plugins = core.outside.plugins.changes();
    loop {
        let _ = tokio::time::timeout(EVERY, plugins.changed()).await;
        // Not at the start, which must not wait for servers of Calls.
        core.outside.calls.check().await;
        survey(&core, &config).await;
    }
}

/// Surveys once. What cannot be found out now is left out until the next survey.
pub(crate) async fn survey(core: &Core, config: &Config) {
    let about = fixed(&core.setup, config);
    let models = core.outside.providers.abilities().await;
    let variables = core.outside.calls.variables().await;
    let calls = core.outside.calls.checked();
    let (mut code, mut missing) = (Vec::new(), models.missing);
    for language in CodeLanguage::ALL {
        match core.code.seems_able(language) {
            Ok(()) => code.push(language.name().to_owned()),
            Err(reason) => {
                missing.push(lacking(Need::Code { language: language.name().into() }, reason));
            }
        }
    }
    let refusal = core.documents.refusal();
    let documents = refusal.is_none();
    missing.extend(refusal.map(|reason| lacking(Need::Documents, reason)));
    let (set, unset): (Vec<_>, Vec<_>) = variables.into_iter().partition(|(_, is_set)| *is_set);
    let unset = unset.into_iter().map(|(name, _)| {
        lacking(Need::Variable { name }, "the catalog names it, and it is not set here".into())
    });
    missing.extend(unset);
    let refused = |call: &CallAbility| {
        let reason = call.reason.clone().filter(|reason| reason != NOT_HOSTED)?;
        Some(lacking(Need::Call { id: call.id.clone() }, reason))
    };
    missing.extend(calls.iter().filter_map(refused));
    core.setup.set(AboutWorker {
        providers: models.providers,
        profiles: models.profiles,
        default_profile: models.default_profile,
        tools: core.outside.tools.sources(),
        plugins: core.outside.plugins.abilities(),
        calls,
        variables: set.into_iter().map(|(name, _)| name).collect(),
        code,
        documents,
        key: fingerprint(core).await,
        hosted: core.hosts.ability(),
        queues: core.settings.queues.iter().map(|queue| queue.to_string()).collect(),
        missing,
        ..about
    });
}

pub(crate) fn lacking(need: Need, reason: String) -> Missing {
    Missing { need, reason, asked_at: None }
}

/// Returns the fingerprint of the secret key; `None` without a key, or while the store gives no salt.
async fn fingerprint(core: &Core) -> Option<String> {
    let key = core.setup.key.clone().filter(|_| core.setup.shows_key)?;
    if let known @ Some(_) = core.setup.fingerprint() {
        return known;
    }
    let fresh = Salt::of(Uuid::new_v4().into_bytes()).text();
    let salt = core.jobs.fleet().fingerprint_salt(&fresh).await;
    let salt =
        salt.inspect_err(|error| tracing::debug!(%error, "the salt of fingerprints is not known")).ok()?;
    let salt = Salt::read(&salt)?;
    // It takes some 20 ms of a processor.
    tokio::task::spawn_blocking(move || key.fingerprint(salt)).await.ok()?
}
