//! Parses the configuration. All problems are reported with their path, and with the name and message that the design
//! of this node gives them. Other spellings were rewritten before ([`crate::dsl::normal_form`]); a key whose value does
//! not fit keeps its own spelling here.

use serde_json::Value as Json;

use super::{Content, ContextProcessorData, MessageTemplate, Operation};
use crate::dsl::Problems;
use crate::dsl::fields::shown;
use crate::messages::{Filter, MAIN, Target, Truncate, is_list_name};
use crate::nodes::llm::Role;
use tidemill_base::value::JsonMap;
use tidemill_base::value::names::Names;

/// The design's name for these problems.
const INVALID: &str = "ConfigurationValidationError";
const OPERATIONS: [&str; 8] =
    ["truncate", "insert", "replace", "clear", "filter", "append", "rollback", "start_batch"];

impl ContextProcessorData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let before = problems.error_count();
        let list = list_name(data, problems);
        let target = target(data, problems);
        let visible_only = flag(data, ["visible_only", "visibleOnly"], true, problems);
        let operation = operation(data, visible_only, problems);
        if problems.error_count() > before {
            return None;
        }
        let (name, operation) = operation?;
        let mut shown = JsonMap::from_iter([("operation".to_string(), name.into())]);
        shown.extend(data.get(name).map(|object| (name.to_string(), object.clone())));
        Some(Self { list, target, names: Names::default(), operation, shown })
    }
}

fn report(problems: &mut Problems, path: &str, message: impl std::fmt::Display) {
    let place = path.replace(".[", "[");
    let message = match problems.node() {
        Some(id) => format!("node.{id}.config.{place}: {message}"),
        None => format!("config.{place}: {message}"),
    };
    let mut parts: Vec<&str> = path.split('.').collect();
    in_parts(problems, &mut parts, message);
}

fn in_parts(problems: &mut Problems, parts: &mut Vec<&str>, message: String) {
    if parts.is_empty() {
        return problems.error(INVALID, message);
    }
    let first = parts.remove(0);
    problems.within(first, |problems| in_parts(problems, parts, message));
}

fn list_name(data: &JsonMap, problems: &mut Problems) -> String {
    match data.get("conversation_id") {
        None | Some(Json::Null) => MAIN.to_string(),
        Some(Json::String(name)) if is_list_name(name) => name.clone(),
        Some(other) => {
            let wanted = "must be a name of letters, digits, - and _, at most 64 of them";
            report(problems, "conversation_id", format!("{wanted}, not {}", shown(other)));
            MAIN.to_string()
        }
    }
}

fn target(data: &JsonMap, problems: &mut Problems) -> Target {
    match data.get("target").map(|value| value.as_str()) {
        None | Some(Some("self")) => Target::Own,
        Some(Some("parent")) => Target::Parent,
        Some(_) => {
            report(problems, "target", "must be self or parent");
            Target::Own
        }
    }
}

fn flag<const N: usize>(map: &JsonMap, keys: [&str; N], default: bool, problems: &mut Problems) -> bool {
    for key in keys {
        match map.get(key) {
            None | Some(Json::Null) => {}
            Some(Json::Bool(value)) => return *value,
            Some(other) => report(problems, key, format!("must be true or false, not {}", shown(other))),
        }
    }
    default
}

fn operation(
    data: &JsonMap,
    visible_only: bool,
    problems: &mut Problems,
) -> Option<(&'static str, Operation)> {
    let given = data.get("operation").and_then(Json::as_str);
    let Some(name) = OPERATIONS.into_iter().find(|name| given == Some(name)) else {
        let found = data.get("operation").map_or_else(|| "nothing".to_string(), shown);
        report(problems, "operation", format!("must be one of {}, not {found}", OPERATIONS.join(", ")));
        return None;
    };
    let empty = JsonMap::new();
    let object = match data.get(name) {
        Some(Json::Object(object)) => object,
        // All its fields have defaults.
        None | Some(Json::Null) if name == "clear" => &empty,
        _ => {
            report(problems, "operation", "Required configuration field for the operation is missing");
            return None;
        }
    };
    let operation = match name {
        "truncate" => Operation::Truncate { by: truncate(object, problems), visible_only },
        "insert" => Operation::Insert {
            position: position(object, problems),
            messages: messages(object, "insert", problems),
            visible_only,
        },
        "replace" => Operation::Replace {
            index: count(object, "replace", ["index"], problems).unwrap_or_else(|| {
                if !object.contains_key("index") {
                    report(problems, "replace.index", "is missing; it must be a whole number of at least 0");
                }
                0
            }),
            message: match object.get("message") {
                Some(value) => message(value, "replace.message", problems)?,
                None => {
                    report(problems, "replace.message", "is missing");
                    return None;
                }
            },
            visible_only,
        },
        "clear" => {
            let keys = ["keep_system_message", "keepSystemMessage"];
            Operation::Clear { keep_system_message: flag(object, keys, true, problems), visible_only }
        }
        "filter" => Operation::Filter { by: filter(object, problems), visible_only },
        "append" => Operation::Append(messages(object, "append", problems)),
        "rollback" => {
            Operation::Rollback { target_batch: required(object, "rollback", "target_batch", problems) }
        }
        _ => Operation::StartBatch {
            boundary: required(object, "start_batch", "boundary", problems),
            visible_only,
        },
    };
    Some((name, operation))
}

fn required(object: &JsonMap, of: &str, key: &str, problems: &mut Problems) -> u64 {
    if !object.contains_key(key) {
        report(problems, &format!("{of}.{key}"), "is missing; it must be a whole number of at least 0");
    }
    count(object, of, [key], problems).unwrap_or(0)
}

/// A non-negative whole number under one of these names.
fn count<const N: usize>(
    object: &JsonMap,
    of: &str,
    keys: [&str; N],
    problems: &mut Problems,
) -> Option<u64> {
    let mut found = None;
    for key in keys {
        match object.get(key) {
            None | Some(Json::Null) => {}
            Some(value) => match value.as_u64() {
                Some(number) => found = found.or(Some(number)),
                None => {
                    let message = format!("must be a whole number of at least 0, not {}", shown(value));
                    report(problems, &format!("{of}.{key}"), message);
                }
            },
        }
    }
    found
}

fn truncate(object: &JsonMap, problems: &mut Problems) -> Truncate {
    const OPTIONS: [[&str; 2]; 5] = [
        ["keep_first", "keepFirst"],
        ["keep_last", "keepLast"],
        ["remove_first", "removeFirst"],
        ["remove_last", "removeLast"],
        ["range", "range"],
    ];
    let is_given = |key: &&str| object.get(*key).is_some_and(|value| !value.is_null());
    let of_role = object.get("role").filter(|value| !value.is_null());
    if !OPTIONS.iter().flatten().any(is_given) && of_role.is_none() {
        report(problems, "truncate", "At least one truncate option must be specified");
    }
    let [first, last, without_first, without_last, _] =
        OPTIONS.map(|keys| if keys[0] == "range" { None } else { count(object, "truncate", keys, problems) });
    Truncate {
        role: of_role.and_then(|value| role(value, "truncate.role", problems)),
        keep_first: first,
        keep_last: last,
        remove_first: without_first,
        remove_last: without_last,
        range: range(object, problems),
    }
}

fn range(object: &JsonMap, problems: &mut Problems) -> Option<(u64, u64)> {
    let range = object.get("range").filter(|value| !value.is_null())?;
    let Some(map) = range.as_object() else {
        report(problems, "truncate.range", "must be a mapping with start and end");
        return None;
    };
    for key in ["start", "end"].into_iter().filter(|key| !map.contains_key(*key)) {
        report(
            problems,
            &format!("truncate.range.{key}"),
            "is missing; it must be a whole number of at least 0",
        );
    }
    let (start, end) =
        (count(map, "truncate.range", ["start"], problems), count(map, "truncate.range", ["end"], problems));
    let (start, end) = start.zip(end)?;
    if start >= end {
        report(problems, "truncate.range", "Range start must be less than end");
    }
    Some((start, end))
}

fn position(object: &JsonMap, problems: &mut Problems) -> i64 {
    match object.get("position").map(Json::as_i64) {
        None => {
            report(problems, "insert.position", "is missing; it must be a whole number of at least -1");
            -1
        }
        Some(Some(position)) if position >= -1 => position,
        Some(_) => {
            let found = object.get("position").map(shown).unwrap_or_default();
            report(
                problems,
                "insert.position",
                format!("must be a whole number of at least -1, not {found}"),
            );
            -1
        }
    }
}

fn messages(object: &JsonMap, of: &str, problems: &mut Problems) -> Vec<MessageTemplate> {
    let path = format!("{of}.messages");
    match object.get("messages") {
        Some(Json::Array(items)) if !items.is_empty() => {
            let read = |(at, item): (usize, &Json)| message(item, &format!("{path}.[{at}]"), problems);
            items.iter().enumerate().filter_map(read).collect()
        }
        Some(Json::Array(_)) | None | Some(Json::Null) => {
            report(problems, &path, "Messages array cannot be empty");
            Vec::new()
        }
        Some(other) => {
            report(problems, &path, format!("must be a list of messages, not {}", shown(other)));
            Vec::new()
        }
    }
}

fn message(value: &Json, path: &str, problems: &mut Problems) -> Option<MessageTemplate> {
    let Some(map) = value.as_object() else {
        report(problems, path, format!("must be a message, not {}", shown(value)));
        return None;
    };
    let of = |key: &str| format!("{path}.{key}");
    let role = match map.get("role") {
        Some(value) => role(value, &of("role"), problems),
        None => {
            report(problems, &of("role"), "is missing; it must be one of system, user, assistant, tool");
            None
        }
    };
    let content = map.get("content").filter(|content| !content.is_null());
    if content.is_none() {
        report(problems, &of("content"), "is missing");
    }
    let calls = map.get("tool_calls").filter(|calls| !calls.is_null());
    if calls.is_some_and(|calls| !calls.is_array()) {
        report(problems, &of("tool_calls"), "must be a list");
    }
    let content = match Content::of(content?) {
        Ok(content) => Some(content),
        Err(error) => {
            report(problems, &of("content"), error);
            None
        }
    };
    Some(MessageTemplate {
        role: role?,
        content: content?,
        tool_calls: calls.cloned(),
        tool_call_id: map.get("tool_call_id").and_then(Json::as_str).map(str::to_owned),
    })
}

fn role(value: &Json, path: &str, problems: &mut Problems) -> Option<Role> {
    let role = value.as_str().and_then(Role::from_name);
    if role.is_none() {
        report(problems, path, format!("must be one of system, user, assistant, tool, not {}", shown(value)));
    }
    role
}

fn filter(object: &JsonMap, problems: &mut Problems) -> Filter {
    let roles = match object.get("roles") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) => {
            let read = |(at, item): (usize, &Json)| role(item, &format!("filter.roles.[{at}]"), problems);
            items.iter().enumerate().filter_map(read).collect()
        }
        Some(other) => {
            report(problems, "filter.roles", format!("must be a list of roles, not {}", shown(other)));
            Vec::new()
        }
    };
    let is_given = |key: &&str| object.get(*key).is_some_and(|value| !value.is_null());
    let has_roles = object.get("roles").and_then(Json::as_array).is_some_and(|roles| !roles.is_empty());
    let keywords = ["content_contains", "content_excludes"];
    if !has_roles && !keywords.iter().any(is_given) {
        report(problems, "filter", "At least one filter condition must be specified");
    }
    let [content_contains, content_excludes] = keywords.map(|key| words(object, key, problems));
    Filter { roles, content_contains, content_excludes }
}

fn words(object: &JsonMap, key: &str, problems: &mut Problems) -> Vec<String> {
    let path = format!("filter.{key}");
    match object.get(key) {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) if items.is_empty() => {
            report(problems, &path, "Keywords array cannot be empty");
            Vec::new()
        }
        Some(Json::Array(items)) if items.iter().all(Json::is_string) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        Some(other) => {
            report(problems, &path, format!("must be a list of texts, not {}", shown(other)));
            Vec::new()
        }
    }
}
