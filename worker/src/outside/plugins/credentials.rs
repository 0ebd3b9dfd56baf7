//! The credentials of a provider, from the catalog and from the environment of this worker.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tidemill_common::config::variable;
use tidemill_common::need::Need;
use tidemill_common::registry::plugins::{
    ModelOf, credentials_id, credentials_of, find_credentials, find_of_model,
};
use tidemill_common::store::CatalogEntry;
use tidemill_common::value::JsonMap;
use tidemill_plugins::install::Installed;
use tidemill_plugins::model::Named;
use tidemill_plugins::model::credentials::fitted;
use tidemill_plugins::package::{Kind, ModelProvider, ToolProvider};
use tidemill_plugins::tool::{missing, with_defaults};

use super::host::PluginHost;
use crate::outside::tools::ToolError;

impl PluginHost {
    /// The credentials for a provider: those of the app, else those for all. With `newest` also those that were stored just now.
    pub(super) async fn credentials(
        &self,
        installed: &Installed,
        provider: &ToolProvider,
        app: Option<&str>,
        newest: bool,
    ) -> Result<Chosen, ToolError> {
        let manifest = &installed.package.manifest;
        let (author, plugin, name) =
            (manifest.author.as_str(), manifest.name.as_str(), provider.name.as_str());
        let listed = self.listed(newest).await.unwrap_or_default();
        let entry = find_credentials(&listed.credentials, (author, plugin, name), app);
        let mut credentials = self.opened(entry)?;
        typed(provider, &mut credentials);
        let absent: Vec<&str> =
            missing(&provider.credentials, &credentials).iter().map(|field| field.name.as_str()).collect();
        if !absent.is_empty() {
            let id = credentials_id(author, plugin, name, None);
            return Err(ToolError::unavailable(format!(
                "the provider {id} needs credentials ({}): `tidemill plugins config {id}`",
                absent.join(", ")
            )));
        }
        Ok(Chosen { credentials: with_defaults(&provider.credentials, credentials), mark: mark(entry) })
    }

    /// The credentials for a model of a provider, or without one those of the provider itself.
    pub(super) async fn credentials_of_model(
        &self,
        installed: &Installed,
        provider: &ModelProvider,
        (named, app): (Option<Named<'_>>, Option<&str>),
        newest: bool,
    ) -> Result<Chosen, ToolError> {
        let manifest = &installed.package.manifest;
        let of = (manifest.author.as_str(), manifest.name.as_str(), provider.name.as_str());
        let listed = self.listed(newest).await.unwrap_or_default();
        let entry = match named {
            Some(named) => find_of_model(&listed.credentials, of, model_of(named), app),
            None => find_credentials(&listed.credentials, of, app),
        };
        let is_described = named.is_some_and(|named| {
            let mut all = provider.models.iter();
            all.any(|model| model.kind == named.kind && model.name == named.model)
        });
        // Those of one model have another form. Without any, the form is that of what can be stored.
        let is_of_one = match entry {
            Some(entry) => entry.id.contains(':'),
            None => !provider.is_predefined || (provider.is_customizable && !is_described),
        };
        let is_of_one = is_of_one && named.is_some();
        let form = if is_of_one { &provider.model_credentials } else { &provider.credentials };
        let credentials = fitted(form, &self.opened(entry)?, named).map_err(|unfit| {
            let id = credentials_id(of.0, of.1, of.2, None);
            let (what, more) = match named.filter(|_| is_of_one) {
                Some(Named { kind, model }) => (
                    format!("the model {model} of the provider {id}"),
                    format!(" --model {model} --model-type {}", kind.word()),
                ),
                None => (format!("the provider {id}"), String::new()),
            };
            ToolError::unavailable(format!(
                "{what} needs credentials ({unfit}): `tidemill plugins config {id}{more}`"
            ))
        })?;
        Ok(Chosen { credentials, mark: mark(entry) })
    }

    /// Opens stored credentials, with the values of variables.
    fn opened(&self, entry: Option<&CatalogEntry>) -> Result<JsonMap, ToolError> {
        let (values, variables) = match entry {
            Some(entry) => credentials_of(entry, self.key.as_ref()).map_err(|error| {
                let need = Need::SecretKey { of: format!("the plugin credentials {}", entry.id) };
                ToolError::unavailable(error.to_string()).lacking(need)
            })?,
            None => (BTreeMap::new(), BTreeMap::new()),
        };
        let mut credentials: JsonMap = values.into_iter().map(|(name, text)| (name, text.into())).collect();
        for (field, name) in variables {
            let Some(value) = variable(&name) else {
                let message = format!("the variable {name} for the field {field} is not set on this worker");
                return Err(ToolError::unavailable(message).lacking(Need::Variable { name }));
            };
            credentials.insert(field, value.into());
        }
        Ok(credentials)
    }
}

/// A process never has the credentials of two entries, nor of two versions of one.
fn mark(entry: Option<&CatalogEntry>) -> String {
    entry.map(|entry| format!("{}#{}", entry.id, entry.version)).unwrap_or_default()
}

/// The model as ids of credentials have it.
pub(super) fn model_of(named: Named<'_>) -> ModelOf<'_> {
    ModelOf { kind: named.kind.word(), name: named.model }
}

/// The credentials of an invocation.
pub(super) struct Chosen {
    pub(super) credentials: JsonMap,
    /// Differs between different credentials.
    pub(super) mark: String,
}

/// Stored credentials are texts; numbers and switches are made of them as a form would send them.
fn typed(provider: &ToolProvider, credentials: &mut JsonMap) {
    for field in &provider.credentials {
        let Some(Json::String(text)) = credentials.get(&field.name) else { continue };
        let value = if field.kind == Kind::Boolean {
            Some(Json::Bool(["true", "1", "yes", "on"].contains(&text.to_lowercase().as_str())))
        } else if field.kind == Kind::Number {
            serde_json::from_str(text).ok().filter(Json::is_number)
        } else {
            None
        };
        if let Some(value) = value {
            credentials.insert(field.name.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_plugins::package::{Form, Parameter};

    use super::*;

    #[test]
    fn stored_texts_become_what_the_form_of_the_provider_sends() {
        let field = |name: &str, kind| Parameter {
            name: name.into(),
            label: String::new(),
            kind,
            form: Form::Form,
            required: true,
            default: None,
            min: None,
            max: None,
            options: Vec::new(),
            multiple: false,
            help: String::new(),
            show_on: Vec::new(),
        };
        let provider = ToolProvider {
            file: String::new(),
            name: String::new(),
            label: String::new(),
            credentials: vec![
                field("on", Kind::Boolean),
                field("port", Kind::Number),
                field("key", Kind::Secret),
            ],
            has_oauth: false,
            tools: Vec::new(),
        };
        let mut credentials = JsonMap::new();
        for (name, text) in [("on", "True"), ("port", "8080"), ("key", "123")] {
            credentials.insert(name.into(), text.into());
        }
        typed(&provider, &mut credentials);
        assert_eq!(Json::Object(credentials), json!({"on": true, "port": 8080, "key": "123"}));
    }
}
