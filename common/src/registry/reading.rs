//! Reads providers and profiles from JSON. Errors name the invalid part and the most similar valid name.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::mistakes;
use tidemill_base::value::JsonMap;
use tidemill_workflow::dsl::suggest::nearest;

/// Reads a table from a file in TOML, JSON or YAML. The file is the table itself, or holds it under `section`
/// and the id, as the settings do.
///
/// # Errors
/// The problem with the file.
pub fn table_in(text: &str, is_toml: bool, section: &str, id: &str) -> Result<JsonMap, String> {
    let whole: Json = if is_toml {
        toml::from_str(text).map_err(|error| mistakes::syntax(text, &error))?
    } else {
        tidemill_workflow::dsl::read_plain(text.as_bytes()).map_err(|problem| problem.to_string())?
    };
    let Json::Object(mut whole) = whole else { return Err("it is not a table".into()) };
    let Some(Json::Object(mut tables)) = whole.remove(section) else { return Ok(whole) };
    match tables.remove(id) {
        Some(Json::Object(table)) => Ok(table),
        _ => Err(format!("it has no table [{section}.{id}]")),
    }
}

/// Renames the fields of a profile to the stored names.
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

/// Reads an object.
///
/// # Errors
/// The invalid part, with the most similar valid name.
pub(crate) fn read<T: DeserializeOwned>(object: JsonMap) -> Result<T, String> {
    serde_json::from_value(Json::Object(object))
        .map_err(|error| meant(&mistakes::without_value(&error.to_string())))
}

/// Adds the most similar valid word to a message that lists the valid words.
fn meant(message: &str) -> String {
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let mut words = message.split('`').skip(1).step_by(2);
    let nearest = words.next().filter(|_| is_unknown).and_then(|unknown| nearest(unknown, words));
    match nearest {
        Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}
