//! The providers of models of a package, and the models that they describe in files. A provider may also serve models by
//! their name (customizable models); the plugin describes those when it is asked.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::package::parameter::{self, Parameter};
use crate::package::spot::{Reader, Spot};

/// The end of the name of a file that orders the models and describes none.
const POSITION: &str = "_position.yaml";

/// A kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelKind {
    Llm,
    TextEmbedding,
    Rerank,
    Moderation,
    Speech2Text,
    Tts,
}

impl ModelKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Llm, Self::TextEmbedding, Self::Rerank, Self::Moderation, Self::Speech2Text, Self::Tts];

    /// The kind of a word of the SDK.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The word of the SDK.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::TextEmbedding => "text-embedding",
            Self::Rerank => "rerank",
            Self::Moderation => "moderation",
            Self::Speech2Text => "speech2text",
            Self::Tts => "tts",
        }
    }
}

/// A provider of models.
#[derive(Debug, Clone)]
pub struct ModelProvider {
    pub file: String,
    pub name: String,
    pub label: String,
    pub kinds: Vec<ModelKind>,
    /// It serves the models of its files with the credentials of the provider.
    pub is_predefined: bool,
    /// It serves models by their name, each with credentials for it.
    pub is_customizable: bool,
    /// The form of the credentials for all its models.
    pub credentials: Vec<Parameter>,
    /// The form of the credentials for one model.
    pub model_credentials: Vec<Parameter>,
    pub models: Vec<PackagedModel>,
}

/// A model that a file describes.
#[derive(Debug, Clone)]
pub struct PackagedModel {
    pub file: String,
    pub name: String,
    pub label: String,
    pub kind: ModelKind,
    pub facts: Facts,
    /// Its parameters. The SDK checks those of a call.
    pub rules: Vec<Rule>,
    pub is_deprecated: bool,
}

/// A parameter of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    /// As written; empty if a template says it.
    pub kind: String,
    pub is_required: bool,
}

/// What is known about a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Such as `tool-call` or `vision`.
    pub features: Vec<String>,
    /// `chat` or `completion`.
    pub mode: Option<String>,
    /// Tokens of prompt and reply together.
    pub context_size: Option<u64>,
    /// Most texts in one request for vectors.
    pub max_chunks: Option<usize>,
    pub default_voice: Option<String>,
    /// Most characters of a text that is spoken at once.
    pub word_limit: Option<usize>,
    pub price: Option<Price>,
}

/// A price, as decimal numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    pub input: String,
    pub output: Option<String>,
    /// The share of one token in the amount that prices are for.
    pub unit: String,
    pub currency: String,
}

impl Facts {
    /// Reads the description of a model, of a file or of the plugin's answer. What is missing or has another form is left
    /// out.
    pub fn of(model: &Json) -> Self {
        let properties = &model["model_properties"];
        let features = model["features"].as_array().into_iter().flatten();
        let text = |value: &Json| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            features: features.filter_map(|feature| feature.as_str().map(str::to_owned)).collect(),
            mode: text(&properties["mode"]),
            context_size: whole(&properties["context_size"]),
            max_chunks: whole(&properties["max_chunks"]).and_then(|count| usize::try_from(count).ok()),
            default_voice: text(&properties["default_voice"]),
            word_limit: whole(&properties["word_limit"]).and_then(|count| usize::try_from(count).ok()),
            price: price(&model["pricing"]),
        }
    }
}

/// A whole number, also as a text.
fn whole(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn price(pricing: &Json) -> Option<Price> {
    Some(Price {
        input: decimal(&pricing["input"])?,
        output: decimal(&pricing["output"]),
        unit: decimal(&pricing["unit"])?,
        currency: pricing["currency"].as_str().unwrap_or("USD").to_owned(),
    })
}

fn decimal(value: &Json) -> Option<String> {
    let text = match value {
        Json::String(text) => text.trim().to_owned(),
        Json::Number(number) => number.to_string(),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => return None,
    };
    text.parse::<f64>().is_ok_and(f64::is_finite).then_some(text)
}

/// Reads a provider with its models.
pub(super) fn provider(reader: &Reader<'_>, file: &str) -> Option<ModelProvider> {
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    let (is_predefined, is_customizable) = methods(&root);
    if root.need("extra").and_then(|extra| extra.need("python")).is_some_and(|python| !has_sources(&python)) {
        root.error("extra.python.provider_source is missing: the Python file of the provider".into());
    }
    let provider = ModelProvider {
        file: file.to_owned(),
        name: root.need_text("provider"),
        label: root.label("label"),
        kinds: kinds(&root),
        is_predefined,
        is_customizable,
        credentials: parameter::model_form(&root, "provider_credential_schema"),
        model_credentials: parameter::model_form(&root, "model_credential_schema"),
        models: models(reader, &root),
    };
    if is_customizable && root.get("model_credential_schema").is_none() {
        root.warn("model_credential_schema is missing: customizable models have no credentials".into());
    }
    Some(provider)
}

fn kinds(root: &Spot<'_>) -> Vec<ModelKind> {
    let Some(listed) = root.need("supported_model_types") else { return Vec::new() };
    let mut kinds = Vec::new();
    for spot in listed.items() {
        let Some(word) = spot.text() else { continue };
        match ModelKind::from_word(&word) {
            Some(kind) if !kinds.contains(&kind) => kinds.push(kind),
            Some(_) => {}
            None if word == "text2img" => {
                spot.warn("models of the type \"text2img\" do not run".into());
            }
            None => spot.error(format!("the type of models {word:?} is not known")),
        }
    }
    kinds
}

/// Whether it has predefined and customizable models.
fn methods(root: &Spot<'_>) -> (bool, bool) {
    let (mut is_predefined, mut is_customizable) = (false, false);
    if let Some(listed) = root.need("configurate_methods") {
        for spot in listed.items() {
            match spot.text().as_deref() {
                Some("predefined-model") => is_predefined = true,
                Some("customizable-model") => is_customizable = true,
                Some(other) => spot.error(format!(
                    "the method {other:?} is not known: predefined-model or customizable-model"
                )),
                None => {}
            }
        }
    }
    (is_predefined, is_customizable)
}

/// Checks the Python files; false without one of the provider.
fn has_sources(python: &Spot<'_>) -> bool {
    for source in python.list("model_sources") {
        source.package_file();
    }
    python.get("provider_source").inspect(Spot::package_file).is_some()
}

fn models(reader: &Reader<'_>, root: &Spot<'_>) -> Vec<PackagedModel> {
    let Some(models) = root.get("models") else { return Vec::new() };
    let mut seen = HashSet::new();
    let listed = models.entries().into_iter().flat_map(|(_, kind)| reader.named(&kind.list("predefined")));
    let files: Vec<String> = listed.filter(|file| !file.ends_with(POSITION)).collect();
    let mut read: Vec<PackagedModel> = Vec::new();
    let mut names = HashSet::new();
    for file in files.iter().filter(|file| seen.insert((*file).clone())) {
        let Some(yaml) = reader.read(file) else { continue };
        let spot = reader.root(&yaml);
        let Some(model) = model(&spot, file) else { continue };
        if names.insert((model.kind, model.name.clone())) {
            read.push(model);
        } else {
            spot.warn(format!("the model {:?} occurs twice; the first is used", model.name));
        }
    }
    read
}

/// Reads a model. `None` for one of a kind that is not known.
fn model(root: &Spot<'_>, file: &str) -> Option<PackagedModel> {
    let name = root.need_text("model");
    let kind = root.need("model_type")?;
    let word = kind.text()?;
    let Some(model_kind) = ModelKind::from_word(&word) else {
        kind.error(format!("the type of models {word:?} is not known"));
        return None;
    };
    if let Some(properties) = root.need("model_properties") {
        for key in ["context_size", "max_chunks"] {
            if let Some(number) = properties.get(key).filter(|spot| whole(spot.value).is_none()) {
                number.error("this must be a whole number".into());
            }
        }
    }
    root.texts("features");
    if let Some(pricing) = root.get("pricing") {
        for key in ["input", "output", "unit"] {
            let given = if key == "output" { pricing.get(key) } else { pricing.need(key) };
            if let Some(number) = given.filter(|spot| decimal(spot.value).is_none()) {
                number.error("this must be a decimal number".into());
            }
        }
    }
    Some(PackagedModel {
        file: file.to_owned(),
        name,
        label: root.label("label"),
        kind: model_kind,
        facts: Facts::of(root.value),
        rules: root.list("parameter_rules").iter().map(rule).collect(),
        is_deprecated: root.flag("deprecated"),
    })
}

fn rule(spot: &Spot<'_>) -> Rule {
    let kind = spot.maybe_text("type").unwrap_or_default();
    if !["", "float", "int", "string", "boolean", "text"].contains(&kind.as_str()) {
        spot.error(format!("the type {kind:?} is not known: float, int, string, boolean or text"));
    } else if kind.is_empty() && spot.get("use_template").is_none() {
        spot.error("type is missing, and there is no use_template".into());
    }
    Rule { name: spot.need_text("name"), kind, is_required: spot.flag("required") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn facts_are_read_from_files_and_from_answers() {
        let model = json!({
            "features": ["vision", "tool-call"], "model_properties": {"mode": "chat", "context_size": "8192", "max_chunks": 16},
            "pricing": {"input": 0.5, "output": "1.50", "unit": "0.000001", "currency": "CNY"},
        });
        let facts = Facts::of(&model);
        assert_eq!(facts.features, ["vision", "tool-call"]);
        assert_eq!((facts.context_size, facts.max_chunks), (Some(8192), Some(16)));
        let price = facts.price.unwrap();
        assert_eq!((price.input.as_str(), price.output.as_deref()), ("0.5", Some("1.50")));
        assert_eq!((price.unit.as_str(), price.currency.as_str()), ("0.000001", "CNY"));
        assert_eq!(Facts::of(&json!({"features": null, "pricing": {"input": "free"}})), Facts::default());
        assert_eq!(Facts::of(&Json::Null), Facts::default());
    }

    #[test]
    fn each_kind_has_a_word_of_the_sdk() {
        for kind in ModelKind::ALL {
            assert_eq!(ModelKind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(ModelKind::from_word("text2img"), None);
    }
}
