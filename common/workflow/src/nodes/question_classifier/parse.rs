//! Parses `data` of a `question-classifier` node, or reports all its problems.

use serde_json::Value as Json;

use super::{Class, QuestionClassifierData};
use crate::dsl::Problems;
use crate::nodes::llm::blocks::{INVALID, memory, model, optional_text, present, selector, vision};
use tidemill_base::value::JsonMap;

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<QuestionClassifierData> {
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let query = selector(data.get("query_variable_selector"));
    if query.is_none() {
        problems.within("query_variable_selector", |p| {
            p.error(INVALID, "query_variable_selector must be a list of texts");
        });
    }
    let model = problems.within("model", |p| model(present(data, "model"), p));
    // Old files call them topics.
    let key = if data.contains_key("classes") { "classes" } else { "topics" };
    let classes = problems.within("classes", |p| classes(data.get(key), p));
    let instruction = optional_text(data, "instruction", problems);
    let memory = problems.within("memory", |p| memory(present(data, "memory"), p));
    let vision = problems.within("vision", |p| vision(present(data, "vision"), p));
    let (vision, detail) = vision?;
    Some(QuestionClassifierData {
        query: query?,
        model: model?,
        classes: classes?,
        instruction: instruction?,
        memory: memory?,
        vision,
        detail,
    })
}

fn classes(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<Class>> {
    let Some(items) = value.and_then(Json::as_array) else {
        problems.error(INVALID, "classes must be a list");
        return None;
    };
    let read = |(at, item): (usize, &Json)| {
        problems.within(format!("[{at}]"), |p| {
            let class = item.as_object().and_then(|map| {
                let text = |key: &str| map.get(key).and_then(Json::as_str).map(str::to_owned);
                Some(Class { id: text("id")?, name: text("name")?, label: text("label").unwrap_or_default() })
            });
            if class.is_none() {
                p.error(INVALID, "a class needs an id and a name");
            }
            class
        })
    };
    // Collected first, so that all classes are checked.
    items.iter().enumerate().map(read).collect::<Vec<_>>().into_iter().collect()
}
