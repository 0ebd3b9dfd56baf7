//! Parameters of a step: constants, texts with references at any depth, or whole variables.
//!
//! `{type: constant | mixed | variable, value}` gives the type; anything else is a constant whose texts are templates.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::nodes::fields::{INVALID_NODE_DATA, selector};
use tidemill_base::value::template::{Template, TemplatePiece, mention};
use tidemill_base::value::{JsonMap, Lookup, Segment, SegmentType, Selector, Variables};

/// Replaces a secret in texts that people see.
pub const MASK: &str = "******";

/// The source of a parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// A fixed value.
    Constant(Json),
    /// A value with references in its texts.
    Mixed(Json),
    /// A variable of any type. When it is missing the parameter counts as not given.
    Variable(Selector),
}

impl Param {
    /// Reads a parameter and reports problems.
    pub fn parse(value: &Json, problems: &mut Problems) -> Option<Self> {
        let slot = value.as_object().and_then(|map| Some((map.get("type")?.as_str()?, map.get("value")?)));
        match slot {
            Some(("constant", value)) => Some(Self::Constant(value.clone())),
            Some(("mixed", value)) => Some(Self::Mixed(value.clone())),
            Some(("variable", value)) => {
                let selector = problems.within("value", |problems| selector(value, problems))?;
                if selector.len() < 2 {
                    problems.error(INVALID_NODE_DATA, "a variable is named by a node's id and a name");
                    return None;
                }
                Some(Self::Variable(selector))
            }
            Some(("extraction", Json::Object(_))) => {
                problems.error(
                    INVALID_NODE_DATA,
                    "an extraction needs source_node_id, source_variable and extraction_prompt, and is the whole value of a \
                     parameter",
                );
                None
            }
            Some(_) | None => Some(Self::Mixed(value.clone())),
        }
    }

    /// Adds the variables that it mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        match self {
            Self::Constant(_) => {}
            Self::Mixed(value) => each_reference(value, &mut |selector| mention(selector, into)),
            Self::Variable(selector) => mention(selector, into),
        }
    }

    /// The value; notes the secrets in it. `None` for a missing variable.
    fn resolve(&self, variables: &dyn Variables, secrets: &mut Secrets, is_template: bool) -> Option<Json> {
        match self {
            Self::Constant(value) => Some(value.clone()),
            Self::Mixed(Json::String(text)) if is_template => {
                Some(Json::String(render_with(text, variables, secrets, &quoted)))
            }
            Self::Mixed(value) => Some(render(value, variables, secrets)),
            Self::Variable(selector) => {
                let found = variables.found(selector)?;
                secrets.note(&found);
                Some(found.value.clone())
            }
        }
    }
}

/// The values of parameters by name, without those that are not given. `templates` names the Jinja parameters: values
/// are inserted into them as quoted texts, so that their content is not evaluated.
pub fn resolve(
    params: &[(String, Param)],
    variables: &dyn Variables,
    secrets: &mut Secrets,
    templates: &[&str],
) -> JsonMap {
    let values = params.iter().filter_map(|(name, param)| {
        let value = param.resolve(variables, secrets, templates.contains(&name.as_str()))?;
        Some((name.clone(), value))
    });
    values.collect()
}

/// A text as a Jinja expression.
fn quoted(text: &str) -> String {
    format!("{{{{ {} }}}}", Json::String(text.to_owned()))
}

/// The input of a step: the library node's parameters, overridden key by key by the step's. Values are not merged any
/// deeper.
#[must_use]
pub fn merged(known: &JsonMap, params: JsonMap) -> JsonMap {
    let mut merged = known.clone();
    merged.extend(params);
    merged
}

/// Renders a text with references.
pub fn render_text(text: &str, variables: &dyn Variables, secrets: &mut Secrets) -> String {
    render_with(text, variables, secrets, &|value| value.to_owned())
}

fn render_with(
    text: &str,
    variables: &dyn Variables,
    secrets: &mut Secrets,
    show: &dyn Fn(&str) -> String,
) -> String {
    let template = Template::parse(text);
    let mut out = String::new();
    for part in template.parts() {
        match part {
            TemplatePiece::Text(text) => out.push_str(text),
            // Only explicit references count here: an address is full of dots.
            TemplatePiece::PerhapsVariable(path) => out.push_str(&path.join(".")),
            TemplatePiece::Variable(selector) => match variables.get(selector) {
                Lookup::Found(segment) => {
                    secrets.note(&segment);
                    out.push_str(&show(&segment.text()));
                }
                Lookup::Missing | Lookup::Blob(_) => out.push_str(&selector.join(".")),
            },
        }
    }
    out
}

/// Adds the variables that a text mentions.
pub fn text_mentions(text: &str, into: &mut Vec<(String, String)>) {
    each_reference(&Json::String(text.into()), &mut |selector| mention(selector, into));
}

fn render(value: &Json, variables: &dyn Variables, secrets: &mut Secrets) -> Json {
    match value {
        Json::String(text) => Json::String(render_text(text, variables, secrets)),
        Json::Array(items) => items.iter().map(|item| render(item, variables, secrets)).collect(),
        Json::Object(map) => {
            map.iter().map(|(key, item)| (key.clone(), render(item, variables, secrets))).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
    }
}

fn each_reference(value: &Json, out: &mut dyn FnMut(&Selector)) {
    match value {
        Json::String(text) => {
            for part in Template::parse(text).parts() {
                if let TemplatePiece::Variable(selector) = part {
                    out(selector);
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| each_reference(item, out)),
        Json::Object(map) => map.values().for_each(|item| each_reference(item, out)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Secrets in the input of a step; masked in everything that people see.
#[derive(Debug, Clone, Default)]
pub struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Remembers the value if it is a secret.
    pub fn note(&mut self, segment: &Segment) {
        if segment.ty == SegmentType::Secret
            && let Some(text) = segment.value.as_str().filter(|text| !text.is_empty())
        {
            self.0.insert(text.to_owned());
        }
    }
    /// Remembers a secret text.
    pub fn add(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.0.insert(secret.to_owned());
        }
    }
    /// Masks all secrets in a text.
    pub fn masked(&self, text: &str) -> String {
        // Longer ones first: one secret can contain another.
        let mut secrets: Vec<&String> = self.0.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
    }
    /// Masks all secrets in a value.
    pub fn masked_value(&self, value: &Json) -> Json {
        if self.0.is_empty() {
            return value.clone();
        }
        match value {
            Json::String(text) => Json::String(self.masked(text)),
            Json::Array(items) => items.iter().map(|item| self.masked_value(item)).collect(),
            Json::Object(map) => {
                map.iter().map(|(key, item)| (key.clone(), self.masked_value(item))).collect()
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }
    /// Masks all secrets in an object.
    pub fn masked_map(&self, map: &JsonMap) -> JsonMap {
        map.iter().map(|(key, item)| (key.clone(), self.masked_value(item))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tidemill_base::value::pool::Pool;

    fn map(value: Json) -> JsonMap {
        value.as_object().unwrap().clone()
    }
    fn resolved(params: Json, pool: &Pool) -> (JsonMap, Secrets) {
        let mut problems = Problems::new();
        let params: Vec<_> = map(params)
            .iter()
            .map(|(name, value)| (name.clone(), Param::parse(value, &mut problems).unwrap()))
            .collect();
        assert!(!problems.has_errors());
        let mut secrets = Secrets::default();
        (resolve(&params, pool, &mut secrets, &["prompt"]), secrets)
    }

    #[test]
    fn a_parameter_is_a_constant_a_text_or_a_variable() {
        let pool = Pool::new(json!({"start": {"city": "Rome", "n": 3, "o": {"k": [1]}}}));
        let (values, _) = resolved(
            json!({
                "plain": "{{#start.city#}}!", "deep": {"a": ["{{#start.n#}}", 1]}, "url": "http://a.b/c",
                "constant": {"type": "constant", "value": "{{#start.city#}}"},
                "mixed": {"type": "mixed", "value": "in {{#start.city#}}"},
                "variable": {"type": "variable", "value": ["start", "o", "k"]},
                "absent": {"type": "variable", "value": ["start", "gone"]},
                "schema": {"type": "object", "value": 1},
            }),
            &pool,
        );
        let expected = json!({
            "plain": "Rome!", "deep": {"a": ["3", 1]}, "url": "http://a.b/c", "constant": "{{#start.city#}}",
            "mixed": "in Rome", "variable": [1], "schema": {"type": "object", "value": 1},
        });
        assert_eq!(Json::Object(values), expected);
    }

    #[test]
    fn a_value_in_a_template_is_not_evaluated() {
        use tidemill_base::value::jinja::JinjaTemplate;
        let words = "{{ 1 + 1 }} \"quoted\" \\ {% raw %}\nnext";
        let pool = Pool::new(json!({"start": {"words": words}}));
        let (values, _) =
            resolved(json!({"prompt": "{{ 1 + 1 }} {{#start.words#}}", "text": "{{#start.words#}}"}), &pool);
        assert_eq!(values["text"], words);
        let rendered =
            JinjaTemplate::new(values["prompt"].as_str().unwrap()).render(&[], Default::default(), None);
        assert_eq!(rendered, Ok(format!("2 {words}")));
    }

    #[test]
    fn secrets_are_masked_wherever_they_went() {
        let pool = Pool::new(json!({}))
            .with("env", "key", Segment::new(SegmentType::Secret, json!("k-1")))
            .with("env", "longer", Segment::new(SegmentType::Secret, json!("k-1-2")));
        let params =
            json!({"a": "Bearer {{#env.key#}}", "b": {"type": "variable", "value": ["env", "longer"]}});
        let (values, secrets) = resolved(params, &pool);
        assert_eq!(Json::Object(values.clone()), json!({"a": "Bearer k-1", "b": "k-1-2"}));
        assert_eq!(Json::Object(secrets.masked_map(&values)), json!({"a": "Bearer ******", "b": "******"}));
    }

    #[test]
    fn se_a01_parameters_override_the_library_nodes_key_by_key() {
        let known = map(json!({"url": "u", "query": {"unit": "C"}}));
        let before = known.clone();
        let merged = merged(&known, map(json!({"query": {"city": "Rome"}})));
        assert_eq!(Json::Object(merged), json!({"url": "u", "query": {"city": "Rome"}}));
        assert_eq!(known, before);
    }

    proptest! {
        #[test]
        fn every_parameter_wins_and_all_else_stays(
            known in prop::collection::btree_map("[a-d]", 0..9, 0..4), params in prop::collection::btree_map("[a-d]", 0..9, 0..4),
        ) {
            let object = |values: &std::collections::BTreeMap<String, i32>| -> JsonMap {
                values.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
            };
            let merged = merged(&object(&known), object(&params));
            for key in known.keys().chain(params.keys()) {
                let expected = params.get(key).or_else(|| known.get(key));
                prop_assert_eq!(merged.get(key).cloned(), expected.map(|value| json!(value)));
            }
        }
    }
}
