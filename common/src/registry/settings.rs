//! Profiles in the settings, as tables `[profiles.ID]`: the same fields and checks as in Redis.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::draft::{DraftError, check_id, checked};
use super::providers::ProfileConfig;
use tidemill_base::value::JsonMap;
use tidemill_storage::store::CatalogKind;

/// An invalid table `[profiles.ID]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[profiles.{id}] {reason}")]
pub struct ProfileTableError {
    pub id: String,
    /// The problem, and what to do.
    pub reason: DraftError,
}

/// The profiles of a worker's settings.
#[derive(Debug, Clone, Default)]
pub struct ProfilesConfig {
    /// Profiles by id.
    pub profiles: BTreeMap<String, Arc<ProfileConfig>>,
    /// The profile used where none is named; `None`: the default profile in Redis.
    pub default: Option<String>,
}

impl ProfilesConfig {
    /// Reads tables. `providers` are the names of the providers in the same settings; others may be in Redis.
    ///
    /// # Errors
    /// The first invalid table.
    pub fn read<'a>(
        tables: impl IntoIterator<Item = (&'a String, Json)>,
        default: &str,
        providers: &[&str],
    ) -> Result<Self, ProfileTableError> {
        let profile = |(id, table): (&'a String, Json)| {
            let read = one(id, table, providers);
            let read = read.map_err(|reason| ProfileTableError { id: id.clone(), reason })?;
            Ok((id.clone(), Arc::new(read)))
        };
        let profiles = tables.into_iter().map(profile).collect::<Result<_, ProfileTableError>>()?;
        Ok(Self { profiles, default: Some(default.to_owned()).filter(|id| !id.is_empty()) })
    }
}

/// Reads a profile; without a name it uses its id.
fn one(id: &str, table: Json, providers: &[&str]) -> Result<ProfileConfig, DraftError> {
    check_id(CatalogKind::Profile, id)?;
    let Json::Object(table) = table else { return Err(DraftError::Wrong("is not a table".into())) };
    let mut object = super::reading::camel_case(table);
    object.entry("name").or_insert_with(|| id.into());
    let object: JsonMap = object.into_iter().filter(|(_, value)| !value.is_null()).collect();
    Ok(checked(object, &|provider| providers.contains(&provider))?.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(table: Json) -> Result<ProfilesConfig, String> {
        let id = "fast".to_owned();
        ProfilesConfig::read([(&id, table)], "", &["acme"]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_has_the_fields_of_a_profile_in_either_spelling() {
        let table = json!({"provider": "OPENAI_CHAT", "model": "m", "api_key_env": "K", "maxRetries": 0, "tool_mode": "xml"});
        let read = read(table).unwrap();
        let profile = &read.profiles["fast"];
        assert_eq!((profile.name.as_str(), profile.max_retries), ("fast", Some(0)));
        assert_eq!(profile.api_key_env.as_deref(), Some("K"));
        assert_eq!(read.default, None);
    }

    #[test]
    fn an_invalid_table_is_reported_as_at_registration() {
        for (table, part) in [
            (json!({"provider": "acme"}), "[profiles.fast] Profile model is required"),
            (json!({"model": "m"}), "Profile provider is required"),
            (json!({"provider": "OPENAI_CHAT", "model": "m"}), "Profile apiKey is required"),
            (json!({"provider": "OPENAI_RESPONSE", "model": "m"}), "is not supported"),
            (json!({"provider": "acme", "model": "m", "tool_mod": "xml"}), "did you mean `toolMode`?"),
            (json!({"provider": "acme", "model": "m", "timeout": 0}), "Profile timeout"),
        ] {
            let error = read(table.clone()).unwrap_err();
            assert!(error.contains(part), "{table}: {error}");
        }
        assert!(read(json!({"provider": "elsewhere", "model": "m"})).is_ok(), "it may be in Redis");
    }
}
