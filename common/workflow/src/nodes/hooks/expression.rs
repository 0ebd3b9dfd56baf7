//! Conditions and payloads of hooks: expressions of the template language that contain references to variables.

use serde_json::Value as Json;

use super::{FUEL, TEXT_BYTES_MAX, UNDEFINED};
use tidemill_base::value::jinja::{JinjaError, JinjaTemplate};
use tidemill_base::value::template::{Template, TemplatePiece, mention};
use tidemill_base::value::{JsonMap, Segment, Selector, Variables};

/// An expression that is true or false.
#[derive(Debug, Clone)]
pub(super) struct Condition(Filled);

/// A template whose references are replaced by names.
#[derive(Debug, Clone)]
struct Filled {
    template: JinjaTemplate,
    references: Vec<(String, Selector)>,
}

impl Condition {
    /// Parses for example `output.count > 3 && {{#start.name#}} == 'x'`. JavaScript's operators are translated to those
    /// of the template language.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        let source = source.trim();
        let inner = source.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        let whole = inner.filter(|inner| !inner.starts_with('#') && !inner.contains("}}"));
        let (named, references) = named(whole.unwrap_or(source), |name| name.to_string());
        let template = JinjaTemplate::new(&format!("{{% if ({}) %}}1{{% endif %}}", in_words(&named)));
        match template.syntax_error() {
            Some(error) => Err(error.to_string()),
            None => Ok(Self(Filled { template, references })),
        }
    }

    pub(super) fn holds(
        &self,
        variables: &dyn Variables,
        names: &[(String, Segment)],
    ) -> Result<bool, String> {
        self.0.render(variables, names).map(|text| text == "1")
    }

    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.0.mentions(into);
    }
}

impl Filled {
    fn render(&self, variables: &dyn Variables, names: &[(String, Segment)]) -> Result<String, String> {
        let mut inputs = names.to_vec();
        for (name, selector) in &self.references {
            let value = variables.found(selector).map_or_else(Segment::none, std::borrow::Cow::into_owned);
            inputs.push((name.clone(), value));
        }
        match self.template.render_within(&inputs, UNDEFINED, Some(FUEL), TEXT_BYTES_MAX) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(format!("a text has more than {TEXT_BYTES_MAX} bytes")),
            Err(JinjaError::Failed(error)) => Err(error),
            Err(JinjaError::OutOfFuel) => Err("the evaluation takes too long".into()),
        }
    }

    fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.references.iter().for_each(|(_, selector)| mention(selector, into));
    }
}

/// Replaces each reference by a name; returns the text and the references by name.
fn named(source: &str, shown: impl Fn(&str) -> String) -> (String, Vec<(String, Selector)>) {
    let (mut text, mut references) = (String::new(), Vec::new());
    for part in Template::parse(source).parts() {
        match part {
            TemplatePiece::Text(fixed) => text.push_str(fixed),
            TemplatePiece::PerhapsVariable(selector) => text.push_str(&selector.join(".")),
            TemplatePiece::Variable(selector) => {
                let name = format!("reference_{}", references.len());
                text.push_str(&shown(&name));
                references.push((name, selector.clone()));
            }
        }
    }
    (text, references)
}

/// Writes `&&`, `||` and `!` as words and `===` and `!==` as `==` and `!=`, except in quoted texts.
fn in_words(source: &str) -> String {
    let mut text = String::with_capacity(source.len() + 8);
    let mut quote = None;
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let replaced = match quote {
            Some(_) => None,
            None => {
                [("&&", " and "), ("||", " or "), ("!==", "!="), ("===", "=="), ("!=", "!="), ("!", " not ")]
                    .into_iter()
                    .find(|(from, _)| rest.starts_with(from))
            }
        };
        if let Some((from, to)) = replaced {
            text.push_str(to);
            rest = &rest[from.len()..];
            continue;
        }
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(_) | None => {}
        }
        text.push(c);
        rest = &rest[c.len_utf8()..];
    }
    text
}

/// A value whose texts are templates. A text that is exactly one reference gives the variable's value.
#[derive(Debug, Clone)]
pub(super) enum Payload {
    Reference(Selector),
    Text(Box<FilledText>),
    List(Vec<Payload>),
    Object(Vec<(String, Payload)>),
    Plain(Json),
}

#[derive(Debug, Clone)]
pub(super) struct FilledText(Filled);

impl Payload {
    pub(super) fn parse(value: &Json) -> Result<Self, String> {
        Ok(match value {
            Json::String(text) => Self::of_text(text)?,
            Json::Array(items) => Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?),
            Json::Object(map) => {
                let entry = |(key, value): (&String, &Json)| Ok((key.clone(), Self::parse(value)?));
                Self::Object(map.iter().map(entry).collect::<Result<_, String>>()?)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => Self::Plain(value.clone()),
        })
    }

    fn of_text(text: &str) -> Result<Self, String> {
        if !text.contains("{{") && !text.contains("{%") {
            return Ok(Self::Plain(text.into()));
        }
        if let [TemplatePiece::Variable(selector)] = Template::parse(text).parts() {
            return Ok(Self::Reference(selector.clone()));
        }
        let (named, references) = named(text, |name| format!("{{{{ {name} }}}}"));
        let template = JinjaTemplate::new(&named);
        match template.syntax_error() {
            Some(error) => Err(error.to_string()),
            None => Ok(Self::Text(Box::new(FilledText(Filled { template, references })))),
        }
    }

    pub(super) fn fill(
        &self,
        variables: &dyn Variables,
        names: &[(String, Segment)],
    ) -> Result<Json, String> {
        Ok(match self {
            Self::Reference(selector) => variables.found(selector).map_or(Json::Null, |found| shown(&found)),
            Self::Text(text) => Json::String(text.0.render(variables, names)?),
            Self::List(items) => {
                items.iter().map(|item| item.fill(variables, names)).collect::<Result<Vec<Json>, _>>()?.into()
            }
            Self::Object(entries) => {
                let entry = |(key, item): &(String, Self)| Ok((key.clone(), item.fill(variables, names)?));
                Json::Object(entries.iter().map(entry).collect::<Result<JsonMap, String>>()?)
            }
            Self::Plain(value) => value.clone(),
        })
    }

    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        match self {
            Self::Reference(selector) => mention(selector, into),
            Self::Text(text) => text.0.mentions(into),
            Self::List(items) => items.iter().for_each(|item| item.mentions(into)),
            Self::Object(entries) => entries.iter().for_each(|(_, item)| item.mentions(into)),
            Self::Plain(_) => {}
        }
    }
}

/// The value; a secret is masked.
fn shown(segment: &Segment) -> Json {
    match segment.ty {
        tidemill_base::value::SegmentType::Secret => Json::String(segment.log().into_owned()),
        _ => segment.value.clone(),
    }
}
