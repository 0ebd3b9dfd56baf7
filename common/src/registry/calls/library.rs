//! Library nodes: a Call with preset parameters.

use serde::Deserialize;
use serde_json::Value as Json;

use super::Named;
use tidemill_base::value::JsonMap;

/// Names of parameters that must not be preset: they are secrets, and known parameters are shown in events.
const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "secret", "apikey", "accesskey", "privatekey", "authorization", "token"];

/// A library node. It is a template: a workflow that uses it has a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LibraryConfig {
    /// The id of a built-in or registered Call.
    #[serde(rename = "callId")]
    pub call_id: String,
    /// For display.
    pub name: Named,
    /// Preset parameters, unless a use sets them.
    #[serde(rename = "knownParams")]
    pub known_params: JsonMap,
    /// Properties that replace the Call's own in its input schema, by name.
    #[serde(rename = "overrideInput")]
    pub override_input: JsonMap,
    /// The same for the output schema.
    #[serde(rename = "overrideOutput")]
    pub override_output: JsonMap,
    /// The service whose credentials an `api` call sends.
    pub service_id: Option<String>,
}

impl LibraryConfig {
    /// Checks the library node alone.
    ///
    /// # Errors
    /// The problem, and what to do.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.call_id.trim().is_empty() {
            return Err("callId is required: the Call that it stands for".into());
        }
        if self.call_id.eq_ignore_ascii_case("choice") {
            return Err(
                "Choice has branches, which are a workflow's own: write a node of type choice there".into()
            );
        }
        for (name, what) in
            [("overrideInput", &self.override_input), ("overrideOutput", &self.override_output)]
        {
            super::schema(name, &wrapped(what))?;
            if let Some((property, _)) = what.iter().find(|(_, schema)| !schema.is_object()) {
                return Err(format!("{name}.{property} must be a schema, an object"));
            }
        }
        match secret_in("knownParams", &self.known_params) {
            None => Ok(()),
            Some(name) => Err(format!(
                "{name} looks like a secret, and known parameters are shown in events: credentials belong \
                 to a service (`tidemill services add`, service_id) or a datasource (`tidemill datasources add`)"
            )),
        }
    }
}

/// The path of the first parameter with a secret's name, at any depth.
fn secret_in(at: &str, map: &JsonMap) -> Option<String> {
    fn within(at: &str, value: &Json) -> Option<String> {
        match value {
            Json::Object(map) => secret_in(at, map),
            Json::Array(items) => items.iter().find_map(|item| within(at, item)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
        }
    }
    map.iter().find_map(|(name, value)| {
        let at = format!("{at}.{name}");
        if is_secret(name) { Some(at) } else { within(&at, value) }
    })
}

/// Whether a name is a secret's or ends in one: `X-Api-Key`, `client_secret`, `accessToken`.
fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).collect::<String>().to_lowercase();
    SECRET_NAMES.iter().any(|secret| name.ends_with(secret))
}

fn wrapped(properties: &JsonMap) -> JsonMap {
    let mut schema = JsonMap::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.clone().into());
    schema
}
