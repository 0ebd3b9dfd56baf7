//! Calls models of a plugin: the session ([`ModelCall`]), the parts of a model's reply ([`chunk`]), the other answers
//! ([`answer`]), and the credentials as the plugin's form wants them ([`credentials`]).

pub mod answer;
pub mod chunk;
pub mod credentials;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;
use tokio::time::Instant;

use crate::install::Installed;
use crate::package::{ModelKind, Parameter};
use crate::process::pool::{Invocation, Origin, Plugins};
use crate::process::{Answers, Offered, ProcessError, Session};
use crate::tool::secrets;

/// The reason why a call of a model failed.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The answer has another form than the SDK gives it.
    #[error("the plugin's answer cannot be read: {0}")]
    Answer(String),
    /// The plugin refuses the credentials.
    #[error("the plugin does not accept the credentials: {0}")]
    Credentials(String),
}

/// Calls of models of one provider.
pub struct ModelCall<'a> {
    pub plugins: &'a Plugins,
    pub installed: &'a Arc<Installed>,
    pub provider: &'a str,
    pub credentials: &'a JsonMap,
    /// The person for whom they are made.
    pub user: &'a str,
    /// The app.
    pub owner: &'a str,
    pub answers: Arc<dyn Answers>,
    pub origin: Origin,
}

/// A model of the provider.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    pub kind: ModelKind,
    pub model: &'a str,
}

impl ModelCall<'_> {
    /// Begins a call whose answer comes in parts. `more` has the fields of its action.
    ///
    /// # Errors
    /// [`ModelError`].
    pub async fn begin(&self, named: Named<'_>, action: &str, more: Json) -> Result<Parts, ModelError> {
        let mut request = json!({
            "type": "model", "action": action, "user_id": self.user, "provider": self.provider,
            "model_type": named.kind.word(), "model": named.model, "credentials": self.credentials,
        });
        if let (Some(request), Json::Object(more)) = (request.as_object_mut(), more) {
            request.extend(more);
        }
        Ok(Parts(self.open(request).await?))
    }

    /// Makes a call whose answer is one part.
    ///
    /// # Errors
    /// [`ModelError`].
    pub async fn ask(&self, named: Named<'_>, action: &str, more: Json) -> Result<Json, ModelError> {
        let mut parts = self.begin(named, action, more).await?;
        let mut answer = None;
        while let Some(part) = parts.next().await? {
            answer.get_or_insert(part);
        }
        answer.ok_or_else(|| ModelError::Answer("it is empty".into()))
    }

    /// Lets the plugin check the credentials: those of one model, or those of the provider.
    ///
    /// # Errors
    /// [`ModelError`]: it does not accept them, or it cannot be asked.
    pub async fn validate(&self, named: Option<Named<'_>>) -> Result<(), ModelError> {
        let asked = match named {
            Some(named) => self.ask(named, "validate_model_credentials", json!({})).await,
            None => {
                let request = json!({
                    "type": "model", "action": "validate_provider_credentials", "user_id": self.user,
                    "provider": self.provider, "credentials": self.credentials,
                });
                let mut parts = Parts(self.open(request).await?);
                loop {
                    match parts.next().await {
                        Ok(Some(_)) => {}
                        Ok(None) => break Ok(Json::Null),
                        Err(error) => break Err(error),
                    }
                }
            }
        };
        match asked {
            Ok(_) => Ok(()),
            Err(ModelError::Process(ProcessError::Failed { kind, message, .. })) => {
                Err(ModelError::Credentials(format!("{kind}: {message}")))
            }
            Err(error) => Err(error),
        }
    }

    /// The fields of its forms.
    fn form(&self) -> impl Iterator<Item = &Parameter> + Clone {
        let all = self.installed.package.providers.models.iter();
        let own = all.filter(|known| known.name == self.provider);
        own.flat_map(|provider| provider.credentials.iter().chain(&provider.model_credentials))
    }

    /// Begins a session. While the process is not started again after an end, it waits.
    async fn open(&self, request: Json) -> Result<Session, ProcessError> {
        let until = Instant::now() + self.plugins.limits().session_timeout;
        loop {
            let invocation = Invocation {
                request: request.clone(),
                owner: self.owner.to_owned(),
                secrets: secrets(self.credentials, self.form()),
                answers: self.answers.clone(),
                offered: Offered::default(),
                origin: self.origin.clone(),
            };
            match self.plugins.open(self.installed, invocation).await {
                Err(ProcessError::BackingOff { wait, .. }) if Instant::now() + wait < until => {
                    tokio::time::sleep(wait).await;
                }
                opened => return opened,
            }
        }
    }
}

/// The parts of an answer, as they come. Dropping it cancels the call.
pub struct Parts(Session);

impl Parts {
    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// The call failed. It has ended then.
    pub async fn next(&mut self) -> Result<Option<Json>, ModelError> {
        Ok(self.0.next().await?)
    }
}
