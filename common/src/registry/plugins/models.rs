//! Providers of models of installed plugins: which plugin serves a model, and which stored credentials are for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidemill_storage::store::CatalogEntry;

use super::{CredentialField, InstalledPlugin, PluginName, compare, credentials_id, find_credentials};

/// The name by which conditions of a form know the kind of the model.
const MODEL_TYPE: &str = "__model_type";
/// The name by which they know the model.
const MODEL_NAME: &str = "__model_name";

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginModels {
    pub name: String,
    /// As the SDK writes them, such as `llm` or `text-embedding`.
    pub kinds: Vec<String>,
    /// The models that the plugin describes, by kind.
    pub described: BTreeMap<String, Vec<String>>,
    /// It also serves models by their name, with credentials for each.
    #[serde(rename = "customizable")]
    pub is_customizable: bool,
    /// The form of the credentials for all its models.
    pub credentials: Vec<CredentialField>,
    /// The form of the credentials for one model.
    pub model_credentials: Vec<CredentialField>,
}

/// A condition of a field: another one has this value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShowOn {
    pub variable: String,
    pub value: String,
}

/// A model to which credentials belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOf<'a> {
    /// As the SDK writes it.
    pub kind: &'a str,
    pub name: &'a str,
}

impl<'a> PluginName<'a> {
    /// Reads the name of a provider of models, as [`Self::of`]. By its single word, `google` is a provider of the plugin
    /// `gemini`.
    pub fn of_models(provider: &'a str) -> Option<Self> {
        Self::of(None, if provider == "google" { "langgenius/gemini/google" } else { provider })
    }
}

/// The installed plugins that have a provider of models: all versions with it, the newest first.
pub fn with_models<'p>(
    installed: &'p [InstalledPlugin],
    named: &PluginName<'_>,
) -> Vec<(&'p InstalledPlugin, &'p PluginModels)> {
    let fits = |provider: &&PluginModels| named.provider.is_none_or(|name| name == provider.name);
    let versions = installed.iter().filter(|plugin| named.is(&plugin.author, &plugin.name));
    let able = versions.filter_map(|plugin| Some((plugin, plugin.models.iter().find(fits)?)));
    let mut able: Vec<_> = able.collect();
    able.sort_by(|(one, _), (other, _)| compare(&other.version, &one.version));
    able
}

/// The id of the credentials of one model: `AUTHOR/PLUGIN/PROVIDER:KIND:MODEL`, for one app with `@APP`. Characters of the
/// model that an id cannot have are written as `=` and two hexadecimal digits.
pub fn model_credentials_id(of: (&str, &str, &str), model: ModelOf<'_>, app: Option<&str>) -> String {
    let (author, plugin, provider) = of;
    credentials_id(author, plugin, &format!("{provider}:{}:{}", model.kind, escaped(model.name)), app)
}

/// The parts of an id of credentials: the provider, and the model if they are for one.
pub(super) fn parts(id: &str) -> Option<(&str, Option<(&str, String)>)> {
    let mut parts = id.splitn(3, ':');
    let provider = parts.next()?;
    match (parts.next(), parts.next()) {
        (None, None) => Some((provider, None)),
        (Some(kind), Some(model)) if !kind.is_empty() && !model.is_empty() => {
            Some((provider, Some((kind, unescaped(model)?))))
        }
        _ => None,
    }
}

/// The lengths of the parts of an id of credentials, for an error.
pub(in crate::registry) fn lengths(id: &str) -> String {
    let (rest, app) = id.split_once('@').map_or((id, ""), |(rest, app)| (rest, app));
    let (provider, model) = rest.split_once(':').map_or((rest, ""), |(provider, model)| (provider, model));
    let (provider, model, app) = (provider.len(), model.len(), app.len());
    format!(" (provider {provider}, model with its type {model}, app {app})")
}

fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("={byte:02x}"));
        }
    }
    text
}

fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut left) = (Vec::new(), text.as_bytes());
    while let Some((first, rest)) = left.split_first() {
        left = rest;
        if *first == b'=' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            left = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The entry with the credentials of a model for an app. Those of the app come before those for all, and in each those of
/// the model before those of its provider.
pub fn find_of_model<'c>(
    entries: &'c [CatalogEntry],
    of: (&str, &str, &str),
    model: ModelOf<'_>,
    app: Option<&str>,
) -> Option<&'c CatalogEntry> {
    let (author, plugin, provider) = of;
    let find = |app: Option<&str>| {
        let ids = [model_credentials_id(of, model, app), credentials_id(author, plugin, provider, app)];
        ids.iter().find_map(|id| entries.iter().find(|entry| entry.id == *id))
    };
    app.and_then(|app| find(Some(app))).or_else(|| find(None))
}

/// Tests whether there are credentials for exactly this model, for the app or for all.
pub fn has_of_model(
    entries: &[CatalogEntry],
    (author, plugin, provider): (&str, &str, &str),
    model: ModelOf<'_>,
    app: Option<&str>,
) -> bool {
    let provider = format!("{provider}:{}:{}", model.kind, escaped(model.name));
    find_credentials(entries, (author, plugin, &provider), app).is_some()
}

/// The names of the fields that need a value and have none. `given` is `None` for a value that is not known here: it may be
/// any.
pub(super) fn missing(
    form: &[CredentialField],
    given: &BTreeMap<&str, Option<&str>>,
    model: Option<ModelOf<'_>>,
) -> Vec<String> {
    let value = |name: &str| match name {
        MODEL_TYPE => model.map(|model| Some(model.kind)),
        MODEL_NAME => model.map(|model| Some(model.name)),
        name => given.get(name).copied().or_else(|| {
            let field = form.iter().find(|field| field.name == name)?;
            Some(field.default.as_ref().and_then(|default| default.as_str()))
        }),
    };
    let is_shown = |field: &&CredentialField| {
        field.show_on.iter().all(|on| value(&on.variable).flatten().is_some_and(|text| text == on.value))
    };
    let needed = form.iter().filter(|field| field.required && field.default.is_none()).filter(is_shown);
    needed.filter(|field| !given.contains_key(field.name.as_str())).map(|field| field.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::clock::Timestamp;

    fn entry(id: &str) -> CatalogEntry {
        let at = Timestamp::from_millis(0);
        CatalogEntry { id: id.into(), version: 1, created_at: at, updated_at: at, fields: BTreeMap::new() }
    }

    const MODEL: ModelOf<'_> = ModelOf { kind: "llm", name: "qwen/qwen3:8b" };
    const OF: (&str, &str, &str) = ("acme", "own", "own");

    #[test]
    fn an_id_of_a_model_keeps_its_name() {
        let id = model_credentials_id(OF, MODEL, None);
        assert_eq!(id, "acme/own/own:llm:qwen=2fqwen3=3a8b");
        assert_eq!(parts(&id), Some(("acme/own/own", Some(("llm", "qwen/qwen3:8b".into())))));
        assert_eq!(model_credentials_id(OF, MODEL, Some("app")), format!("{id}@app"));
        assert_eq!(parts("acme/own/own"), Some(("acme/own/own", None)));
        for broken in ["a/b/c:llm", "a/b/c:llm:", "a/b/c::m", "a/b/c:llm:=2", "a/b/c:llm:=zz"] {
            assert_eq!(parts(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_parts_of_an_id_that_is_too_long_are_named() {
        assert_eq!(lengths("a/b/c:llm:model@app"), " (provider 5, model with its type 9, app 3)");
        assert_eq!(lengths("a/b/c"), " (provider 5, model with its type 0, app 0)");
    }

    #[test]
    fn credentials_of_an_app_come_first_and_those_of_the_model_before_those_of_the_provider() {
        let ids = [
            "acme/own/own:llm:qwen=2fqwen3=3a8b@one",
            "acme/own/own@one",
            "acme/own/own:llm:qwen=2fqwen3=3a8b",
            "acme/own/own",
        ];
        let all: Vec<CatalogEntry> = ids.map(entry).into();
        let found = |entries: &[CatalogEntry], app| {
            find_of_model(entries, OF, MODEL, app).map(|entry| entry.id.clone())
        };
        for from in 0..ids.len() {
            assert_eq!(found(&all[from..], Some("one")).as_deref(), Some(ids[from]));
        }
        assert_eq!(found(&all, Some("two")).as_deref(), Some(ids[2]));
        assert_eq!(found(&all[..2], Some("two")), None, "those of one app serve no other");
        assert!(has_of_model(&all, OF, MODEL, Some("two")));
        assert!(!has_of_model(&all[3..], OF, MODEL, None));
    }

    #[test]
    fn a_field_is_needed_only_where_its_conditions_hold() {
        let on = |variable: &str, value: &str| ShowOn { variable: variable.into(), value: value.into() };
        let field = |name: &str, show_on| CredentialField {
            name: name.into(),
            required: true,
            show_on,
            ..CredentialField::default()
        };
        let form = [
            field("key", Vec::new()),
            field("voice", vec![on(MODEL_TYPE, "tts")]),
            field("region", vec![on("cloud", "yes")]),
        ];
        let missing = |given: &[(&'static str, Option<&'static str>)], kind| {
            missing(&form, &given.iter().copied().collect(), Some(ModelOf { kind, name: "m" }))
        };
        assert_eq!(missing(&[], "llm"), ["key"]);
        assert_eq!(missing(&[("key", None)], "tts"), ["voice"]);
        assert_eq!(missing(&[("key", None), ("cloud", Some("yes"))], "llm"), ["region"]);
        assert!(missing(&[("key", None), ("cloud", None)], "llm").is_empty(), "its value is not known");
    }

    #[test]
    fn the_newest_version_with_the_provider_comes_first() {
        let plugin = |version: &str, provider: &str| InstalledPlugin {
            author: "langgenius".into(),
            name: "openai".into(),
            version: version.into(),
            models: vec![PluginModels { name: provider.into(), ..PluginModels::default() }],
            ..InstalledPlugin::default()
        };
        let all = [plugin("0.0.9", "openai"), plugin("0.0.10", "openai"), plugin("0.1.0", "other")];
        let version = |provider: &str| {
            let named = PluginName::of_models(provider).unwrap();
            let able = with_models(&all, &named);
            able.iter().map(|(plugin, _)| plugin.version.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(version("langgenius/openai/openai"), "0.0.10 0.0.9");
        assert_eq!(version("openai"), "0.0.10 0.0.9");
        assert_eq!(version("langgenius/openai"), "0.1.0 0.0.10 0.0.9");
        assert_eq!(version("langgenius/openai/none"), "");
        assert_eq!(version("acme/openai/openai"), "");
        assert_eq!(PluginName::of_models("google"), PluginName::of_models("langgenius/gemini/google"));
    }
}
