//! Models of installed plugins: finds the plugin that serves a model, waits until it is ready, and calls the model with the
//! credentials for the app of the run.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::registry::plugins::{PluginName, find_of_model, has_of_model, with_models};
use tidemill_common::store::RunOwner;
use tidemill_plugins::install::Installed;
use tidemill_plugins::model::{ModelCall, ModelError, Named, Parts};
use tidemill_plugins::package::{Facts, ModelKind, ModelProvider, PackagedModel};
use tidemill_plugins::process::{NoAnswers, Origin};
use tidemill_plugins::tool;

use super::credentials::{Chosen, model_of};
use super::host::PluginHost;
use super::run::failure;
use crate::outside::tools::{Stage, ToolError};

/// Most descriptions of models that are remembered.
const DESCRIBED_MAX: usize = 500;

/// The provider of a plugin that is ready on this worker, for one run.
#[derive(Clone)]
pub(crate) struct ServedModels {
    host: Arc<PluginHost>,
    installed: Arc<Installed>,
    /// Its place in the package.
    at: usize,
    app: Option<String>,
    user: String,
    run: String,
}

/// The reason why a call failed.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// There are no credentials, or this worker cannot run the plugin.
    Unready(ToolError),
    /// The plugin failed, or its process.
    Call(ModelError),
}

impl From<ToolError> for CallFailure {
    fn from(error: ToolError) -> Self {
        Self::Unready(error)
    }
}

impl From<ModelError> for CallFailure {
    fn from(error: ModelError) -> Self {
        Self::Call(error)
    }
}

/// The name of a provider as plugins have it: `google` is a provider of the plugin `gemini`.
fn full(provider: &str) -> &str {
    if provider == "google" { "langgenius/gemini/google" } else { provider }
}

impl PluginHost {
    /// The installed plugin with this provider of models, ready on this worker. Waits as for tools. `None` if none is
    /// installed; `newest` looks for one that was installed just now.
    ///
    /// # Errors
    /// It is not ready here, or the app of the run cannot be looked up.
    pub(crate) async fn served(
        self: &Arc<Self>,
        provider: &str,
        run: Option<RunId>,
        newest: bool,
    ) -> Result<Option<ServedModels>, ToolError> {
        let Some(named) = PluginName::of(None, full(provider)) else { return Ok(None) };
        let Some(listed) = self.listed(newest).await else { return Ok(None) };
        let found =
            with_models(&listed.plugins, &named).map(|(plugin, models)| (plugin.clone(), &models.name));
        let Some((plugin, name)) = found else { return Ok(None) };
        let Some(installed) = self.prepared(&plugin, false).await? else { return Ok(None) };
        let providers = &installed.package.providers.models;
        let Some(at) = providers.iter().position(|provider| provider.name == *name) else { return Ok(None) };
        let owner = match run {
            Some(run) => self.owner_of(run).await?,
            None => RunOwner::default(),
        };
        let run = run.map(|run| run.to_string()).unwrap_or_default();
        let (app, user) = (owner.app, owner.user);
        Ok(Some(ServedModels { host: self.clone(), installed, at, app, user, run }))
    }

    /// Lets the plugin check the credentials of a provider of models, or of one model: its name and its kind. False if the
    /// package has no such provider, or one of tools and no model is named.
    pub(super) async fn validate_models(
        &self,
        installed: &Arc<Installed>,
        provider: &str,
        (app, user): (Option<&str>, &str),
        model: Option<(&str, &str)>,
    ) -> Result<bool, ToolError> {
        let providers = &installed.package.providers;
        let is_of_tools = providers.tools.iter().any(|known| known.name == provider);
        let Some(served) = providers.models.iter().find(|known| known.name == provider) else {
            return Ok(false);
        };
        if is_of_tools && model.is_none() {
            return Ok(false);
        }
        let named = match model {
            Some((model, word)) => {
                let kind = ModelKind::from_word(word).ok_or_else(|| {
                    let words = ModelKind::ALL.map(ModelKind::word).join(", ");
                    ToolError::unavailable(format!("{word} is not a type of models: {words}"))
                })?;
                Some(Named { kind, model })
            }
            None => None,
        };
        let Chosen { credentials, mark } =
            self.credentials_of_model(installed, served, (named, app), true).await?;
        let processes = self.processes.as_ref().map_err(|reason| ToolError::unavailable(*reason))?;
        let call = ModelCall {
            plugins: processes,
            installed,
            provider: &served.name,
            credentials: &credentials,
            user,
            owner: &owner_text(app, &mark),
            answers: Arc::new(NoAnswers),
            origin: Origin::default(),
        };
        call.validate(named).await.map_err(|error| match error {
            ModelError::Process(error) => failure(processes, tool::ToolError::Process(error)),
            other @ (ModelError::Answer(_) | ModelError::Credentials(_)) => {
                ToolError::new(Stage::Invoke, other.to_string())
            }
        })?;
        Ok(true)
    }
}

/// What separates the processes of apps and of credentials.
fn owner_text(app: Option<&str>, mark: &str) -> String {
    format!("{} {mark}", app.unwrap_or_default())
}

impl ServedModels {
    fn provider(&self) -> &ModelProvider {
        &self.installed.package.providers.models[self.at]
    }

    /// `AUTHOR/PLUGIN/PROVIDER`.
    fn id(&self) -> String {
        let (author, plugin, provider) = self.names();
        format!("{author}/{plugin}/{provider}")
    }

    /// The pause before a process that ended is started again, in milliseconds.
    pub(crate) fn backoff_ms(&self) -> u64 {
        u64::try_from(self.host.settings.process.backoff.as_millis()).unwrap_or(u64::MAX)
    }

    /// Begins a call whose answer comes in parts.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub(crate) async fn begin(
        &self,
        named: Named<'_>,
        action: &str,
        more: Json,
    ) -> Result<Parts, CallFailure> {
        let (chosen, owner) = self.credentials(named).await?;
        Ok(self.call(&chosen, &owner)?.begin(named, action, more).await?)
    }

    /// Makes a call whose answer is one part.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub(crate) async fn ask(&self, named: Named<'_>, action: &str, more: Json) -> Result<Json, CallFailure> {
        let (chosen, owner) = self.credentials(named).await?;
        Ok(self.call(&chosen, &owner)?.ask(named, action, more).await?)
    }

    /// The credentials for a model, and what separates its processes from others.
    async fn credentials(&self, named: Named<'_>) -> Result<(Chosen, String), ToolError> {
        let app = self.app.as_deref();
        let (installed, provider) = (&self.installed, self.provider());
        let chosen = self.host.credentials_of_model(installed, provider, (Some(named), app), false).await?;
        let owner = owner_text(app, &chosen.mark);
        Ok((chosen, owner))
    }

    fn call<'a>(&'a self, chosen: &'a Chosen, owner: &'a str) -> Result<ModelCall<'a>, ToolError> {
        let processes = self.host.processes.as_ref().map_err(|reason| ToolError::unavailable(*reason))?;
        Ok(ModelCall {
            plugins: processes,
            installed: &self.installed,
            provider: &self.provider().name,
            credentials: &chosen.credentials,
            user: &self.user,
            owner,
            answers: Arc::new(NoAnswers),
            origin: Origin { run: self.run.clone(), node: String::new() },
        })
    }

    /// What limits and pauses of a model are counted for: its credentials, or without any its provider.
    pub(crate) async fn account(&self, model: &str) -> String {
        let kind = match self.described(model) {
            Some(known) => Some(known.kind),
            None => self.kind_by_credentials(model).await,
        };
        let named = model_of(Named { kind: kind.unwrap_or(ModelKind::Llm), model });
        let listed = self.host.listed(false).await.unwrap_or_default();
        let entry = find_of_model(&listed.credentials, self.names(), named, self.app.as_deref());
        let account = entry.map_or_else(|| self.id(), |entry| format!("{}#{}", entry.id, entry.version));
        format!("plugin:{account}")
    }

    /// Author, plugin and provider.
    fn names(&self) -> (&str, &str, &str) {
        let manifest = &self.installed.package.manifest;
        (&manifest.author, &manifest.name, &self.provider().name)
    }

    /// The description of a model in a file. An LLM comes before others of the same name.
    fn described(&self, model: &str) -> Option<&PackagedModel> {
        let all = self.provider().models.iter();
        all.filter(|known| known.name == model).min_by_key(|known| known.kind)
    }

    /// What is known about a model: from the file that describes it, else from the plugin, which is asked once for each
    /// version of the credentials.
    ///
    /// `None` if nothing is known.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub(crate) async fn facts(&self, model: &str) -> Result<Option<Facts>, CallFailure> {
        if let Some(found) = self.described(model) {
            return Ok(Some(found.facts.clone()));
        }
        let Some(kind) = self.kind_by_credentials(model).await else { return Ok(None) };
        let named = Named { kind, model };
        let (chosen, owner) = self.credentials(named).await?;
        let key = format!("{} {} {} {model}", self.installed.package.hash, chosen.mark, kind.word());
        if let Some(known) = self.host.described().get(&key).cloned() {
            return Ok(known);
        }
        let asked = self.call(&chosen, &owner)?.ask(named, "get_ai_model_schemas", json!({})).await?;
        let schema = &asked["model_schema"];
        let facts = schema.is_object().then(|| Facts::of(schema));
        let mut known = self.host.described();
        if known.len() >= DESCRIBED_MAX {
            known.clear();
        }
        known.insert(key, facts.clone());
        Ok(facts)
    }

    /// The kind of a model that no file describes, by the credentials that are stored for it. An LLM comes first.
    async fn kind_by_credentials(&self, model: &str) -> Option<ModelKind> {
        let listed = self.host.listed(false).await?;
        let has = |kind: &ModelKind| {
            let named = model_of(Named { kind: *kind, model });
            has_of_model(&listed.credentials, self.names(), named, self.app.as_deref())
        };
        let kinds = &self.provider().kinds;
        ModelKind::ALL.into_iter().filter(|kind| kinds.contains(kind)).find(has)
    }
}
