//! Invokes tools: their parameters ([`cast`]), the session, and their messages ([`message`]); and asks about them ([`questions`]).

pub mod cast;
pub mod message;
mod questions;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

use crate::install::Installed;
use crate::package::{Kind, Parameter, Tool, ToolProvider};
use crate::process::pool::{Invocation, Origin, Plugins};
use crate::process::{Answers, Offered, ProcessError, Session};
use cast::ParameterError;
use message::{Message, MessageError, Messages};

/// Shortest credential that is masked in texts: a shorter one would mask parts of ordinary words.
const SECRET_CHARS_MIN: usize = 4;

/// The reason why an invocation failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The plugin refuses the credentials.
    #[error("the plugin does not accept the credentials: {0}")]
    Credentials(String),
}

impl ToolError {
    /// A message cannot be used, for this reason.
    pub fn unusable(reason: String) -> Self {
        Self::Message(MessageError::new(reason))
    }
}

/// An invocation of a tool.
pub struct Call<'a> {
    pub plugins: &'a Plugins,
    pub installed: &'a Arc<Installed>,
    pub provider: &'a ToolProvider,
    pub credentials: JsonMap,
    /// The person for whom it is invoked.
    pub user: String,
    /// The app.
    pub owner: String,
    pub answers: Arc<dyn Answers>,
    pub offered: Offered,
    pub origin: Origin,
}

/// The messages of an invocation, as they come. Dropping it cancels the invocation.
pub struct Results {
    session: Session,
    messages: Messages,
}

impl Results {
    /// Of a session whose blobs are bounded.
    pub(crate) fn new(session: Session, plugins: &Plugins) -> Self {
        Self { session, messages: Messages::new(plugins.limits().blob_bytes_max) }
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// [`ToolError`]. The invocation has ended then.
    pub async fn next(&mut self) -> Result<Option<Message>, ToolError> {
        while let Some(part) = self.session.next().await? {
            if let Some(message) = self.messages.read(part)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

impl Call<'_> {
    /// Begins the invocation of a tool.
    ///
    /// # Errors
    /// [`ToolError`].
    pub async fn invoke(&self, tool: &Tool, given: JsonMap) -> Result<Results, ToolError> {
        let parameters = cast::parameters(tool, given)?;
        let request = json!({
            "type": "tool", "action": "invoke_tool", "user_id": self.user,
            "provider": self.provider.name, "tool": tool.name,
            "credentials": self.credentials, "credential_type": "api-key",
            "tool_parameters": parameters,
        });
        let session = self.open(request).await?;
        Ok(Results::new(session, self.plugins))
    }

    /// Lets the plugin check the credentials.
    ///
    /// # Errors
    /// [`ToolError`]: it does not accept them, or it cannot be asked.
    pub async fn validate_credentials(&self) -> Result<(), ToolError> {
        let request = json!({
            "type": "tool", "action": "validate_tool_credentials", "user_id": self.user,
            "provider": self.provider.name, "credentials": self.credentials,
        });
        self.check(request).await
    }

    /// Lets the plugin check the credentials of a provider of datasources.
    ///
    /// # Errors
    /// As [`Call::validate_credentials`].
    pub async fn validate_datasource_credentials(&self) -> Result<(), ToolError> {
        let request = json!({
            "type": "datasource", "action": "validate_datasource_credentials", "user_id": self.user,
            "provider": self.provider.name, "credentials": self.credentials,
        });
        self.check(request).await
    }

    async fn check(&self, request: Json) -> Result<(), ToolError> {
        let mut session = self.open(request).await?;
        loop {
            match session.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(ProcessError::Failed { kind, message, .. }) => {
                    return Err(ToolError::Credentials(format!("{kind}: {message}")));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Begins a session with this request.
    pub(crate) async fn open(&self, request: Json) -> Result<Session, ProcessError> {
        let invocation = Invocation {
            request,
            owner: self.owner.clone(),
            secrets: secrets(&self.credentials, &self.provider.credentials),
            answers: self.answers.clone(),
            offered: self.offered.clone(),
            origin: self.origin.clone(),
        };
        self.plugins.open(self.installed, invocation).await
    }
}

/// Texts that no log line and no error may contain. A text that the form itself has, and a number, is a secret only in a field
/// for secrets: words such as `chat` are everywhere.
pub(crate) fn secrets<'p>(
    credentials: &JsonMap,
    form: impl IntoIterator<Item = &'p Parameter> + Clone,
) -> Vec<String> {
    let is_open = |name: &str, text: &str| {
        let mut fields = form.clone().into_iter().filter(|field| field.name == name).peekable();
        let of_form = |field: &Parameter| {
            let is_default = field.default.as_ref().and_then(Json::as_str) == Some(text);
            is_default || field.options.iter().any(|option| option == text) || text.parse::<f64>().is_ok()
        };
        fields.peek().is_some() && fields.all(|field| field.kind != Kind::Secret && of_form(field))
    };
    let texts = credentials.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    let long = texts.filter(|(_, text)| is_secret(text));
    long.filter(|(name, text)| !is_open(name, text)).map(|(_, text)| text.to_owned()).collect()
}

/// Whether a text is long enough to be masked.
pub(crate) fn is_secret(text: &str) -> bool {
    text.chars().nth(SECRET_CHARS_MIN - 1).is_some()
}

/// Credentials with the defaults of the fields that are not given.
#[must_use]
pub fn with_defaults(fields: &[Parameter], mut given: JsonMap) -> JsonMap {
    for field in fields {
        if let Some(default) = &field.default {
            given.entry(field.name.clone()).or_insert_with(|| default.clone());
        }
    }
    given
}

/// The fields that need a value and have none.
pub fn missing<'p>(fields: &'p [Parameter], given: &JsonMap) -> Vec<&'p Parameter> {
    let is_missing =
        |field: &&Parameter| field.required && field.default.is_none() && !given.contains_key(&field.name);
    fields.iter().filter(is_missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Form;

    #[test]
    fn only_what_the_form_has_itself_and_numbers_are_not_masked() {
        let field = |name: &str, kind, default: Option<&str>, options: &[&str]| Parameter {
            name: name.into(),
            label: String::new(),
            kind,
            form: Form::Form,
            required: true,
            default: default.map(Json::from),
            min: None,
            max: None,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            multiple: false,
            help: String::new(),
            show_on: Vec::new(),
        };
        let form = [
            field("mode", Kind::Select, None, &["chat", "completion"]),
            field("size", Kind::Text, Some("4096"), &[]),
            field("host", Kind::Text, Some("usual"), &[]),
            field("key", Kind::Secret, Some("none"), &["none"]),
        ];
        let masked = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(name, text)| ((*name).to_owned(), Json::from(*text)));
            secrets(&given.collect(), &form)
        };
        assert!(masked(&[("mode", "chat"), ("size", "8192"), ("host", "usual")]).is_empty());
        assert_eq!(masked(&[("key", "none")]), ["none"]);
        assert_eq!(masked(&[("key", "123456")]), ["123456"]);
        assert_eq!(masked(&[("host", "user:password")]), ["user:password"]);
        assert_eq!(masked(&[("unknown", "1234")]), ["1234"], "a field that the form does not have");
        assert!(masked(&[("key", "abc")]).is_empty(), "too short");
    }
}
