//! From JSON to a provider or a profile; whatever does not fit is named, with what was probably meant.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{ProfileConfig, ProviderConfig};
use crate::dsl::suggest::nearest;
use crate::value::JsonMap;

/// A provider.
///
/// # Errors
/// What does not fit.
pub fn provider_of(object: JsonMap) -> Result<ProviderConfig, String> {
    read(object)
}

/// A profile. Its fields may also be written with underscores.
///
/// # Errors
/// What does not fit.
pub fn profile_of(object: JsonMap) -> Result<ProfileConfig, String> {
    read(camel_case(object))
}

/// The table of a file: TOML, or JSON or YAML. A file may be the table itself, or hold it as the settings do, under
/// `section` and the id.
///
/// # Errors
/// What is wrong with the file.
pub fn table_in(text: &str, is_toml: bool, section: &str, id: &str) -> Result<JsonMap, String> {
    let whole: Json = if is_toml {
        toml::from_str(text).map_err(|error| error.to_string())?
    } else {
        crate::dsl::read_plain(text.as_bytes()).map_err(|problem| problem.to_string())?
    };
    let Json::Object(mut whole) = whole else { return Err("it is no table".into()) };
    let Some(Json::Object(mut tables)) = whole.remove(section) else { return Ok(whole) };
    match tables.remove(id) {
        Some(Json::Object(table)) => Ok(table),
        _ => Err(format!("it has no table [{section}.{id}]")),
    }
}

/// The fields of a profile under the names that they are kept by.
pub(super) fn camel_case(object: JsonMap) -> JsonMap {
    let name = |name: String| {
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |mut name, word| {
            let mut letters = word.chars();
            name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
            name.push_str(letters.as_str());
            name
        })
    };
    object.into_iter().map(|(key, value)| (name(key), value)).collect()
}

/// What an object says.
///
/// # Errors
/// What does not fit, with what was probably meant.
pub(crate) fn read<T: DeserializeOwned>(object: JsonMap) -> Result<T, String> {
    serde_json::from_value(Json::Object(object)).map_err(|error| meant(&error.to_string()))
}

/// Adds the nearest of the words that would fit to a message that lists them.
fn meant(message: &str) -> String {
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let mut words = message.split('`').skip(1).step_by(2);
    let nearest = words.next().filter(|_| is_unknown).and_then(|unknown| nearest(unknown, words));
    match nearest {
        Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}
