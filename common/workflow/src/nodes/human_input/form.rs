//! The form: text with values filled in, fields, buttons, and timeout. Configurations that Dify refuses when it builds
//! a graph are refused here, with Dify's message and the path.

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use super::field::FormField;
use super::masked::Masked;
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use crate::nodes::NodeResult;
use crate::nodes::{PauseKind, PauseRequest};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::Template;
use tidemill_base::value::{JsonMap, Variables};

const ACTION_ID_CHARS_MAX: usize = 20;
const ACTION_TITLE_CHARS_MAX: usize = 100;
const BUTTON_STYLES: [&str; 4] = ["primary", "default", "accent", "ghost"];
const TIMEOUT_HOURS_DEFAULT: i64 = 36;
const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
/// A century. Longer waits are cut to it, so that the expiry time fits all clocks.
const TIMEOUT_S_MAX: u64 = 100 * 366 * DAY_S;

/// Configuration of the form version.
#[derive(Debug, Clone)]
pub struct FormData {
    content: Template,
    fields: Vec<FormField>,
    actions: Vec<Json>,
    timeout_s: u64,
}

impl FormData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let before = problems.error_count();
        let given = Fields::new(data, BUILD_FAILED);
        let content = given.given("form_content").and_then(|_| given.text("form_content", problems));
        let mut names = HashSet::new();
        let fields = each(&given, "inputs", problems, |item, problems| input(item, &mut names, problems));
        let mut ids = HashSet::new();
        let actions =
            each(&given, "user_actions", problems, |item, problems| action(item, &mut ids, problems));
        let timeout_s = timeout_s(&given, problems);
        deliveries(&given, problems);
        if problems.error_count() > before {
            return None;
        }
        if actions.is_empty() {
            problems.within("user_actions", warn_of_no_actions);
        }
        Some(Self {
            content: Template::parse(content.unwrap_or_default()),
            fields,
            actions,
            timeout_s: timeout_s.unwrap_or(TIMEOUT_S_MAX),
        })
    }

    /// The ids of the buttons, which are the handles.
    pub fn action_ids(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter_map(|action| action.get("id").and_then(Json::as_str))
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.content.mentions(into);
        for field in &self.fields {
            field.mentions(into);
        }
    }

    /// Runs the node: it always waits. Secrets among the values are masked; Dify would show them.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let shown = Masked(variables);
        let resolved: Result<Vec<FormField>, String> =
            self.fields.iter().map(|field| field.resolved(&shown)).collect();
        let fields = match resolved {
            Ok(fields) => fields,
            Err(message) => return NodeResult::failed(NodeFailure::escaped(message)),
        };
        let defaults =
            fields.iter().filter_map(|field| Some((field.name.clone(), field.default_of(&shown)?)));
        let pause = PauseRequest {
            kind: PauseKind::Form,
            content: self.content.render_markdown(&shown),
            inputs: fields.iter().map(FormField::to_json).collect(),
            actions: Json::Array(self.actions.clone()),
            defaults: Json::Object(defaults.collect()),
            timeout_s: Some(self.timeout_s),
            ..PauseRequest::default()
        };
        NodeResult::waiting(pause)
    }
}

/// Reads the items of an optional list; invalid ones are reported and left out.
fn each<'a, T>(
    fields: &Fields<'a>,
    key: &str,
    problems: &mut Problems,
    mut read: impl FnMut(&'a JsonMap, &mut Problems) -> Option<T>,
) -> Vec<T> {
    if fields.given(key).is_none() {
        return Vec::new();
    }
    let items = fields.list(key, problems).into_iter().flatten().enumerate();
    let read_one = |(at, item): (usize, &'a Json)| {
        problems.within(format!("{key}[{at}]"), |problems| match item.as_object() {
            Some(item) => read(item, problems),
            None => {
                let message = format!("an entry must be a mapping, not {}", kind_of(item));
                problems.error(BUILD_FAILED, message);
                None
            }
        })
    };
    items.filter_map(read_one).collect()
}

fn input<'a>(item: &'a JsonMap, seen: &mut HashSet<&'a str>, problems: &mut Problems) -> Option<FormField> {
    let field = FormField::parse(item, problems);
    if let Some(name) = item.get("output_variable_name").and_then(Json::as_str)
        && !seen.insert(name)
    {
        problems.error(BUILD_FAILED, format!("duplicated output_variable_name '{name}' in inputs"));
    }
    field
}

fn action<'a>(item: &'a JsonMap, seen: &mut HashSet<&'a str>, problems: &mut Problems) -> Option<Json> {
    let fields = Fields::new(item, BUILD_FAILED);
    let (id, title) = (fields.text("id", problems), fields.text("title", problems));
    let style = match fields.given("button_style") {
        Some(_) => fields.one_of("button_style", &BUTTON_STYLES, problems),
        None => Some("default"),
    };
    if let Some(count) =
        title.map(|title| title.chars().count()).filter(|&count| count > ACTION_TITLE_CHARS_MAX)
    {
        let message =
            format!("the title has {count} characters, at most {ACTION_TITLE_CHARS_MAX} are allowed");
        problems.error(BUILD_FAILED, message);
    }
    let id = id?;
    if !is_identifier(id) {
        let message = format!(
            "'{id}' is not a valid identifier. It must start with a letter or underscore, and contain only letters, numbers, or underscores."
        );
        problems.error(BUILD_FAILED, message);
    } else if id.len() > ACTION_ID_CHARS_MAX {
        let message = format!("the action id {id:?} is longer than {ACTION_ID_CHARS_MAX} characters");
        problems.error(BUILD_FAILED, message);
    }
    if !seen.insert(id) {
        problems.error(BUILD_FAILED, format!("duplicated user action id '{id}'"));
    }
    Some(json!({"id": id, "title": title?, "button_style": style?}))
}

fn is_identifier(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn timeout_s(fields: &Fields<'_>, problems: &mut Problems) -> Option<u64> {
    let count = fields.integer("timeout", TIMEOUT_HOURS_DEFAULT, 1, problems);
    let unit = match fields.given("timeout_unit") {
        Some(_) => fields.one_of("timeout_unit", &["hour", "day"], problems)?,
        None => "hour",
    };
    let unit_s = if unit == "day" { DAY_S } else { HOUR_S };
    Some(count?.unsigned_abs().saturating_mul(unit_s).min(TIMEOUT_S_MAX))
}

/// Forms are answered through the API. Warns authors who expect an e-mail that none is sent.
fn deliveries(fields: &Fields<'_>, problems: &mut Problems) {
    let is_email = |item: &JsonMap| {
        item.get("type").and_then(Json::as_str) == Some("email")
            && item.get("enabled").and_then(Json::as_bool) != Some(false)
    };
    let warn = |item: &JsonMap, problems: &mut Problems| {
        is_email(item).then(|| {
            problems.warning_with_hint(
                "human_input.no_email",
                "the form is not sent by e-mail",
                "the application that starts the run shows the form to people and answers it through the API",
            );
        })
    };
    each(fields, "delivery_methods", problems, warn);
}

fn warn_of_no_actions(problems: &mut Problems) {
    problems.warning_with_hint(
        "human_input.no_actions",
        "the form has no actions; an answer leaves by the handle `source`, and on Dify it can only time out",
        "add at least one action to `user_actions`",
    );
}
