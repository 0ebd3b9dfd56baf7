//! The background of a step: the question, the run's summary and facts so far, the last steps and the messages. The job
//! carries all of it under names that workflows cannot write.

use serde_json::{Value as Json, json};

use super::params::{Secrets, render_text};
use super::{HISTORY_NODE, MAIN_MESSAGES, MESSAGES_NODE, RUNTIME, RUNTIME_NODE};
use tidemill_base::value::{JsonMap, Variables};

/// Most characters of a step's input or output in a prompt.
const SHOWN_CHARS_MAX: usize = 2000;

/// The background of a step, see the module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Background {
    /// The user's request.
    pub question: String,
    /// A summary of the conversation in a few sentences; empty without one.
    pub summary: String,
    /// Known facts about the user.
    pub facts: Vec<String>,
    /// Records of the last steps, oldest first.
    pub history: Vec<JsonMap>,
    /// The messages as (role, text).
    pub messages: Vec<(String, String)>,
    /// The text that the run's steps have sent to the user so far.
    pub answer: String,
}

/// Reads the background. `question` is a text with references, if the node has one.
pub fn read(
    variables: &dyn Variables,
    question: Option<&str>,
    history: u64,
    secrets: &mut Secrets,
) -> Background {
    let get = |node: &str, name: &str| {
        variables.found(&[node.to_owned(), name.to_owned()]).map(|segment| segment.value.clone())
    };
    let runtime = get(RUNTIME_NODE, RUNTIME).unwrap_or(Json::Null);
    let text = |key: &str| runtime.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let question = match question {
        Some(template) => render_text(template, variables, secrets),
        None => match get("sys", "query") {
            Some(Json::String(query)) if !query.is_empty() => query,
            Some(_) | None => text("question"),
        },
    };
    let facts = runtime.get("facts").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let records = get(HISTORY_NODE, &history.to_string());
    let records = records.as_ref().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let messages = get(MESSAGES_NODE, MAIN_MESSAGES);
    let messages = messages.as_ref().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Background {
        question,
        summary: text("summary"),
        facts: facts.iter().filter_map(|fact| fact.as_str().map(str::to_owned)).collect(),
        history: records.iter().filter_map(|record| record.as_object().cloned()).collect(),
        messages: messages.iter().filter_map(said).collect(),
        answer: text("answer"),
    }
}

fn said(message: &Json) -> Option<(String, String)> {
    let role = message.get("role")?.as_str()?;
    let words = match message.get("content")? {
        Json::String(text) => text.clone(),
        Json::Null => return None,
        other => other.get("text").and_then(Json::as_str).map_or_else(|| other.to_string(), str::to_owned),
    };
    (!words.is_empty()).then(|| (role.to_owned(), words))
}

impl Background {
    /// A text for prompts: the summary, the facts, and the last steps with inputs and outputs.
    pub fn context(&self) -> String {
        let mut parts = Vec::new();
        if !self.summary.is_empty() {
            parts.push(format!("<summary>\n{}\n</summary>", self.summary));
        }
        if !self.facts.is_empty() {
            let facts: Vec<String> = self.facts.iter().map(|fact| format!("- {fact}")).collect();
            parts.push(format!("<facts>\n{}\n</facts>", facts.join("\n")));
        }
        parts.extend(Some(self.steps()).filter(|steps| !steps.is_empty()));
        parts.join("\n")
    }

    /// The last steps with inputs and outputs; empty when there are none.
    pub fn steps(&self) -> String {
        let steps: Vec<String> = self.history.iter().map(shown).collect();
        if steps.is_empty() { String::new() } else { format!("<steps>\n{}\n</steps>", steps.join("\n")) }
    }

    /// The conversation as a text; without messages the question and the answer so far.
    pub fn conversation(&self) -> String {
        let lines: Vec<String> = match self.messages.as_slice() {
            [] => [("user", &self.question), ("assistant", &self.answer)]
                .into_iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(role, text)| format!("{role}: {text}"))
                .collect(),
            messages => messages.iter().map(|(role, text)| format!("{role}: {text}")).collect(),
        };
        lines.join("\n")
    }
}

fn shown(record: &JsonMap) -> String {
    let get = |key: &str| record.get(key).cloned().unwrap_or(Json::Null);
    let cut = |value: Json| value.to_string().chars().take(SHOWN_CHARS_MAX).collect::<String>();
    let name = get("step_name");
    let name = name.as_str().unwrap_or_default();
    json!({"step": name, "status": get("step_status"), "input": cut(get("input_data")), "output": cut(get("output_data"))})
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    #[test]
    fn se_a20_the_context_holds_the_last_steps_that_came_with_the_job() {
        let record =
            |name: &str| json!({"step_name": name, "step_status": "success", "output_data": {"text": name}});
        let pool = Pool::new(json!({
            "#history": {"2": [record("third"), record("fourth")]},
            "#rt": {"rt": {"summary": "They met.", "facts": ["likes tea"], "question": "old"}},
            "sys": {"query": "What now?"},
            "#messages": {"main": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": {"text": "ho", "files": []}}]},
        }));
        let background = read(&pool, None, 2, &mut Secrets::default());
        assert_eq!(background.question, "What now?");
        let context = background.context();
        for part in ["They met.", "- likes tea", "third", "fourth"] {
            assert!(context.contains(part), "{context}");
        }
        assert_eq!(background.conversation(), "user: hi\nassistant: ho");
        let background = read(&pool, Some("about {{#sys.query#}}"), 2, &mut Secrets::default());
        assert_eq!(background.question, "about What now?");
    }

    #[test]
    fn a_run_that_keeps_nothing_has_a_question_at_most() {
        let pool = Pool::new(json!({"#rt": {"rt": {"question": "why?", "answer": "so"}}}));
        let background = read(&pool, None, 3, &mut Secrets::default());
        assert_eq!((background.question.as_str(), background.context().as_str()), ("why?", ""));
        assert_eq!(background.conversation(), "user: why?\nassistant: so");
        assert_eq!(read(&Pool::new(json!({})), None, 3, &mut Secrets::default()), Background::default());
    }
}
