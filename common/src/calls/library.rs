//! A node of the library: a Call, and the parameters of it that are known.

use serde::Deserialize;
use serde_json::Value as Json;

use super::Named;
use crate::value::JsonMap;

/// Parameters under these names are secrets to everybody who reads them, and known parameters are shown in events.
const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "secret", "apikey", "accesskey", "privatekey", "authorization", "token"];

/// A library node. It is a template: whoever uses it takes a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LibraryConfig {
    /// The Call: a built-in one, or one that is registered.
    #[serde(rename = "callId")]
    pub call_id: String,
    /// For people.
    pub name: Named,
    /// Parameters that each use has unless it says otherwise.
    #[serde(rename = "knownParams")]
    pub known_params: JsonMap,
    /// Properties that take the place of the Call's own in the schema of its input, by name.
    #[serde(rename = "overrideInput")]
    pub override_input: JsonMap,
    /// The same for its output.
    #[serde(rename = "overrideOutput")]
    pub override_output: JsonMap,
    /// The service whose credentials an `api` call carries.
    pub service_id: Option<String>,
}

impl LibraryConfig {
    /// What can be wrong with it by itself.
    ///
    /// # Errors
    /// What it is, and what to do.
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

/// The place of the first parameter that looks like a secret, at any depth.
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

/// Whether a name is one of a secret, or has one at its end: `X-Api-Key`, `client_secret`, `accessToken`.
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
