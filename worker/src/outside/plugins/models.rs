//! Models of installed plugins: finds the plugin that serves a model, waits until it is ready, and calls the model with the
//! credentials for the app of the run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::registry::plugins::{
    InstalledPlugin, PluginName, find_of_model, has_of_model, with_models,
};
use tidemill_common::store::RunOwner;
use tidemill_plugins::install::Installed;
use tidemill_plugins::model::{ModelCall, ModelError, Named, Parts};
use tidemill_plugins::package::{Facts, ModelKind, ModelProvider, PackagedModel};
use tidemill_plugins::process::{NoAnswers, Origin, ProcessError};
use tidemill_plugins::tool;
use tokio::time::Instant;

use super::WantedModel;
use super::credentials::{Chosen, model_of};
use super::host::{Listed, PluginHost};
use super::run::failure;
use crate::outside::tools::{Stage, ToolError};

/// The time after which a plugin that does not describe a model is asked again.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

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

/// What a plugin has said about a model that no file describes, or the passing failure of the last question.
pub(super) struct Description {
    facts: Result<Option<Facts>, ProcessError>,
    /// The end of its use, or the time of the failure. `None`: it does not change.
    until: Option<Instant>,
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

impl PluginHost {
    /// The installed plugin with the provider of this model, ready on this worker: the newest version that is. While none is,
    /// waits as for tools. `None` if none is installed, or if this plugin cannot serve the model and ours does, or a look at the
    /// newest list may help.
    ///
    /// # Errors
    /// It is not ready here, or the app of the run cannot be looked up.
    pub(crate) async fn served(
        self: &Arc<Self>,
        wanted: WantedModel<'_>,
    ) -> Result<Option<ServedModels>, ToolError> {
        let WantedModel { provider, model, kind, run, newest, has_own } = wanted;
        let Some(named) = PluginName::of_models(provider) else { return Ok(None) };
        let Some(listed) = self.listed(newest).await else { return Ok(None) };
        let able = with_models(&listed.plugins, &named);
        let Some((first, models)) = able.first() else { return Ok(None) };
        let (name, owner) = (models.name.clone(), self.owner_of_some(run).await?);
        let versions: Vec<InstalledPlugin> = able.iter().map(|(plugin, _)| (*plugin).clone()).collect();
        // The operator means the plugin for the model only when it has credentials or needs none. The second is known when
        // it is ready.
        let of = (first.author.as_str(), first.name.as_str(), name.as_str());
        let wanted_model = Named { kind, model };
        let is_meant = || is_configured(&listed, of, wanted_model, owner.app.as_deref());
        if has_own && !versions.iter().any(|plugin| self.is_ready(plugin)) && !is_meant() {
            return Ok(None);
        }
        let Some(installed) = self.one_prepared(&versions, has_own).await? else { return Ok(None) };
        let providers = &installed.package.providers.models;
        let is_it = |known: &ModelProvider| named.provider.is_none_or(|wanted| wanted == known.name);
        let Some(at) = providers.iter().position(is_it) else { return Ok(None) };
        let run = run.map(|run| run.to_string()).unwrap_or_default();
        let RunOwner { app, user, .. } = owner;
        let served = ServedModels { host: self.clone(), installed, at, app, user, run };
        // Credentials may have been stored a moment ago.
        if (has_own || !newest) && !served.fits(wanted_model).await {
            return Ok(None);
        }
        Ok(Some(served))
    }

    async fn owner_of_some(&self, run: Option<RunId>) -> Result<RunOwner, ToolError> {
        match run {
            Some(run) => self.owner_of(run).await,
            None => Ok(RunOwner::default()),
        }
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

/// Tests whether credentials for a model are stored, whatever their values.
fn is_configured(listed: &Listed, of: (&str, &str, &str), named: Named<'_>, app: Option<&str>) -> bool {
    find_of_model(&listed.credentials, of, model_of(named), app).is_some()
}

impl ServedModels {
    /// Tests whether the plugin can serve a model: it has such models, and the credentials fit its form. Credentials that only
    /// this worker cannot open fit.
    async fn fits(&self, named: Named<'_>) -> bool {
        let has_kind = self.provider().kinds.contains(&named.kind);
        let lacks = |error: &ToolError| error.lacks.is_none() && !error.retryable;
        has_kind && !self.credentials(named).await.is_err_and(|error| lacks(&error))
    }

    fn provider(&self) -> &ModelProvider {
        &self.installed.package.providers.models[self.at]
    }

    /// `AUTHOR/PLUGIN/PROVIDER`.
    fn id(&self) -> String {
        let (author, plugin, provider) = self.names();
        format!("{author}/{plugin}/{provider}")
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
    pub(crate) async fn account(&self, named: Named<'_>) -> String {
        let listed = self.host.listed(false).await.unwrap_or_default();
        let entry = find_of_model(&listed.credentials, self.names(), model_of(named), self.app.as_deref());
        let account = entry.map_or_else(|| self.id(), |entry| format!("{}#{}", entry.id, entry.version));
        format!("plugin:{account}")
    }

    /// Author, plugin and provider.
    fn names(&self) -> (&str, &str, &str) {
        let manifest = &self.installed.package.manifest;
        (&manifest.author, &manifest.name, &self.provider().name)
    }

    /// The description of a model in a file.
    fn described(&self, named: Named<'_>) -> Option<&PackagedModel> {
        let mut all = self.provider().models.iter();
        all.find(|known| known.name == named.model && known.kind == named.kind)
    }

    /// What is known about a model: from the file that describes it, else from the plugin, which is asked once for each
    /// version of the credentials. A plugin whose code fails at that is asked again after [`ASKED_AGAIN`].
    ///
    /// `None` if nothing is known.
    ///
    /// # Errors
    /// There are no credentials, or the process of the plugin does not answer.
    pub(crate) async fn facts(&self, named: Named<'_>) -> Result<Option<Facts>, CallFailure> {
        if let Some(found) = self.described(named) {
            return Ok(Some(found.facts.clone()));
        }
        let listed = self.host.listed(false).await.unwrap_or_default();
        let has = has_of_model(&listed.credentials, self.names(), model_of(named), self.app.as_deref());
        if !has || !self.provider().kinds.contains(&named.kind) {
            return Ok(None);
        }
        let (chosen, owner) = self.credentials(named).await?;
        let key =
            format!("{} {} {} {}", self.installed.package.hash, chosen.mark, named.kind.word(), named.model);
        let place = self.host.description(&key);
        let began = Instant::now();
        // The others that need the same description wait for it.
        let mut known = place.lock().await;
        match &*known {
            Some(Description { facts: Ok(facts), until }) if until.is_none_or(|until| began < until) => {
                return Ok(facts.clone());
            }
            // It failed while this call waited.
            Some(Description { facts: Err(error), until: Some(at) }) if began < *at => {
                return Err(CallFailure::Call(error.clone().into()));
            }
            Some(_) | None => {}
        }
        let asked = self.call(&chosen, &owner)?.ask(named, "get_ai_model_schemas", json!({})).await;
        let (facts, until) = match asked {
            Ok(asked) => {
                let schema = &asked["model_schema"];
                (Ok(schema.is_object().then(|| Facts::of(schema))), None)
            }
            Err(ModelError::Process(error)) if is_passing(&error) => (Err(error), Some(Instant::now())),
            // What is not known does not keep the model from being called.
            Err(error) => {
                let (id, model, error) = (self.id(), named.model, what(&error));
                tracing::warn!(provider = id, model, error, "a plugin does not describe its model");
                (Ok(None), Some(Instant::now() + ASKED_AGAIN))
            }
        };
        *known = Some(Description { facts: facts.clone(), until });
        facts.map_err(|error| CallFailure::Call(error.into()))
    }
}

/// Tests whether a failure is one of the process, which another try may not meet.
fn is_passing(error: &ProcessError) -> bool {
    match error {
        ProcessError::Start { .. }
        | ProcessError::BackingOff { .. }
        | ProcessError::Busy { .. }
        | ProcessError::Ended { .. }
        | ProcessError::TimedOut { .. }
        | ProcessError::NotTaken { .. } => true,
        ProcessError::TooMuch { .. }
        | ProcessError::TooManyQuestions { .. }
        | ProcessError::TooManyQuestionsInAll { .. }
        | ProcessError::Failed { .. } => false,
    }
}

/// What failed, for logs: without the plugin's words, which may have what it was sent.
fn what(error: &ModelError) -> String {
    match error {
        ModelError::Process(ProcessError::Failed { kind, .. }) => kind.clone(),
        ModelError::Process(error) => error.to_string(),
        ModelError::Answer(_) => "an unreadable answer".into(),
        ModelError::Credentials(_) => "refused credentials".into(),
    }
}
