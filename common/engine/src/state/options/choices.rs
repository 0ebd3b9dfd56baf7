//! Choices that few runs make: whether a person answers questions, what is done before and after workflow steps, and so
//! on. A run that makes none of them stores none.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use tidemill_base::language::Language;
use tidemill_base::value::JsonMap;

/// The choices of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choices {
    /// Whether a person can answer questions. If not, nodes that would ask fail.
    pub interactive: bool,
    /// Whether a model explains the failure of a workflow step before the run ends (`on_error.use_llm`).
    pub explains_errors: bool,
    /// Whether the conversation is summarised before the run's first node (`step_executor.summary_before`).
    pub summary_before: bool,
    /// Whether facts are extracted from the conversation after the run's last node (`step_executor.facts_after`).
    pub facts_after: bool,
    /// Tools that may be called without approval; with `None`, no tool needs approval
    /// (`tool_approval.auto_approved_tools`).
    pub auto_approved_tools: Option<Vec<Arc<str>>>,
    /// The language of texts for people.
    pub language: Language,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            interactive: true,
            explains_errors: false,
            summary_before: false,
            facts_after: false,
            auto_approved_tools: None,
            language: Language::default(),
        }
    }
}

/// The error for an invalid choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongChoice {
    pub key: &'static str,
    /// A description of the values that are allowed.
    pub expected: &'static str,
}

impl Choices {
    /// The keys of the choices in a request.
    pub const KEYS: [&str; 5] = ["interactive", "on_error", "step_executor", "tool_approval", "language"];

    /// Overwrites the choices with those in `given`. Absent and null keys change nothing.
    ///
    /// # Errors
    /// A key has an invalid value.
    pub fn take(&mut self, given: &JsonMap) -> Result<(), WrongChoice> {
        let present = |key: &str| given.get(key).filter(|value| !value.is_null());
        if let Some(value) = present("interactive") {
            let wrong = WrongChoice { key: "interactive", expected: "true or false" };
            self.interactive = value.as_bool().ok_or(wrong)?;
        }
        if let Some(value) = present("on_error") {
            let wrong = WrongChoice { key: "on_error", expected: "an object with use_llm, true or false" };
            let [use_llm] = booleans(value, ["use_llm"]).ok_or(wrong)?;
            self.explains_errors = use_llm.unwrap_or(self.explains_errors);
        }
        if let Some(value) = present("step_executor") {
            let expected = "an object with summary_before and facts_after, true or false";
            let wrong = WrongChoice { key: "step_executor", expected };
            let [before, after] = booleans(value, ["summary_before", "facts_after"]).ok_or(wrong)?;
            self.summary_before = before.unwrap_or(self.summary_before);
            self.facts_after = after.unwrap_or(self.facts_after);
        }
        if let Some(value) = present("tool_approval") {
            let expected = "an object with auto_approved_tools, a list of names";
            let wrong = WrongChoice { key: "tool_approval", expected };
            self.auto_approved_tools = Some(approved(value).ok_or(wrong)?);
        }
        if let Some(value) = present("language") {
            let wrong = WrongChoice { key: "language", expected: "zh or en" };
            self.language = value.as_str().and_then(Language::from_name).ok_or(wrong)?;
        }
        Ok(())
    }

    /// Writes the choices that differ from the defaults, in the form that [`Choices::take`] reads.
    pub fn write(&self, into: &mut JsonMap) {
        if !self.interactive {
            into.insert("interactive".into(), false.into());
        }
        if self.explains_errors {
            into.insert("on_error".into(), json!({"use_llm": true}));
        }
        if self.summary_before || self.facts_after {
            let steps = json!({"summary_before": self.summary_before, "facts_after": self.facts_after});
            into.insert("step_executor".into(), steps);
        }
        if let Some(tools) = &self.auto_approved_tools {
            let tools: Vec<&str> = tools.iter().map(|tool| &**tool).collect();
            into.insert("tool_approval".into(), json!({"auto_approved_tools": tools}));
        }
        if self.language != Language::default() {
            into.insert("language".into(), self.language.name().into());
        }
    }
}

/// Reads booleans by key. `None` when a value is not a boolean or there is another key.
fn booleans<const N: usize>(value: &Json, keys: [&str; N]) -> Option<[Option<bool>; N]> {
    let map = value.as_object()?;
    if map.keys().any(|key| !keys.contains(&key.as_str())) {
        return None;
    }
    let mut found = [None; N];
    for (place, key) in found.iter_mut().zip(keys) {
        *place = match map.get(key) {
            None | Some(Json::Null) => None,
            Some(value) => Some(value.as_bool()?),
        };
    }
    Some(found)
}

/// Reads the names of tools. `autoApprovedTools` is accepted as another spelling of the key.
fn approved(value: &Json) -> Option<Vec<Arc<str>>> {
    let map = value.as_object()?;
    let (key, list) = map.iter().next()?;
    if map.len() > 1 || !["auto_approved_tools", "autoApprovedTools"].contains(&key.as_str()) {
        return None;
    }
    list.as_array()?.iter().map(|name| name.as_str().map(Arc::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Json) -> JsonMap {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn choices_read_back_and_defaults_are_not_written() {
        for given in [
            json!({}),
            json!({"interactive": false}),
            json!({"on_error": {"use_llm": true}, "language": "en"}),
            json!({"step_executor": {"summary_before": true, "facts_after": false}}),
            json!({"tool_approval": {"auto_approved_tools": ["search"]}}),
            json!({"tool_approval": {"auto_approved_tools": []}}),
        ] {
            let mut choices = Choices::default();
            choices.take(&map(given.clone())).unwrap();
            let mut written = JsonMap::new();
            choices.write(&mut written);
            assert_eq!(Json::Object(written), given);
        }
    }

    #[test]
    fn a_wrong_choice_is_named() {
        for (given, key) in [
            (json!({"interactive": "no"}), "interactive"),
            (json!({"on_error": true}), "on_error"),
            (json!({"on_error": {"use_lm": true}}), "on_error"),
            (json!({"step_executor": {"facts_after": 1}}), "step_executor"),
            (json!({"tool_approval": {"auto_approved_tools": "x"}}), "tool_approval"),
            (json!({"language": "fr"}), "language"),
        ] {
            assert_eq!(Choices::default().take(&map(given)).unwrap_err().key, key);
        }
    }
}
