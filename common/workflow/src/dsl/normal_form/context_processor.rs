//! Rewrites alternative spellings of a `context-processor`: keys in camel case, and the form
//! `operationConfig` with operations in upper case. An invalid number keeps its key, so that the error names
//! the key in the file.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

const TYPES: [&str; 2] = ["context-processor", "CONTEXT_PROCESSOR"];

pub(super) fn rewrite(data: &mut JsonMap) {
    if !data.get("type").and_then(Json::as_str).is_some_and(|name| TYPES.contains(&name)) {
        return;
    }
    for key in ["operationConfig", "operation_config"] {
        if let Some(Json::Object(config)) = data.get(key)
            && let Some(rewritten) = of_config(config)
        {
            data.remove(key);
            data.extend(rewritten);
        }
    }
    of_options(data);
    if let Some(rewritten) = of_config(data).filter(|_| is_upper(data)) {
        data.retain(|key, _| !MOVED.contains(&key.as_str()));
        data.extend(rewritten);
    }
    rename(data, "conversationId", "conversation_id");
    rename(data, "visibleOnly", "visible_only");
    for name in ["truncate", "insert", "replace", "clear", "filter", "append", "rollback"] {
        if let Some(Json::Object(object)) = data.get_mut(name) {
            of_object(object);
        }
    }
}

/// Keys of the upper-case form that move into the operation's object.
const MOVED: [&str; 18] = [
    "operation",
    "strategy",
    "role",
    "position",
    "messages",
    "index",
    "message",
    "keepSystemMessage",
    "keep_system_message",
    "roles",
    "contentContains",
    "contentExcludes",
    "content_contains",
    "content_excludes",
    "targetBatch",
    "batchOperation",
    "boundaryIndex",
    "createNewBatch",
];

fn is_upper(data: &JsonMap) -> bool {
    let name = data.get("operation").and_then(Json::as_str).unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Returns the canonical keys of an upper-case configuration; `None` for an unknown operation.
fn of_config(config: &JsonMap) -> Option<JsonMap> {
    let given = config.get("operation").and_then(Json::as_str)?;
    let part = |keys: &[&str]| -> JsonMap {
        let found = keys.iter().filter_map(|key| Some(((*key).to_string(), config.get(*key)?.clone())));
        found.collect()
    };
    let (name, object) = match given {
        "APPEND" => ("append", part(&["messages"])),
        "INSERT" => ("insert", part(&["position", "messages"])),
        "REPLACE" => ("replace", part(&["index", "message"])),
        "CLEAR" => ("clear", part(&["keepSystemMessage", "keep_system_message"])),
        "FILTER" => (
            "filter",
            part(&["roles", "contentContains", "contentExcludes", "content_contains", "content_excludes"]),
        ),
        "TRUNCATE" => ("truncate", of_strategy(config)),
        "ROLLBACK" => ("rollback", target(config)),
        "BATCH_MANAGEMENT" => match config.get("batchOperation").and_then(Json::as_str)? {
            "ROLLBACK_TO_BATCH" => ("rollback", target(config)),
            "START_NEW_BATCH" => {
                let boundary = config.get("boundaryIndex").cloned();
                ("start_batch", boundary.map(|at| ("boundary".to_string(), at)).into_iter().collect())
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(JsonMap::from_iter([
        ("operation".to_string(), name.into()),
        (name.to_string(), Json::Object(object)),
    ]))
}

fn target(config: &JsonMap) -> JsonMap {
    let batch = config.get("targetBatch").or_else(|| config.get("target_batch")).cloned();
    batch.map(|batch| ("target_batch".to_string(), batch)).into_iter().collect()
}

/// `strategy: {type: KEEP_LAST, count: 2}`, and `role`.
fn of_strategy(config: &JsonMap) -> JsonMap {
    let mut object = JsonMap::new();
    if let Some(role) = config.get("role") {
        object.insert("role".into(), role.clone());
    }
    let Some(strategy) = config.get("strategy") else { return object };
    let of = |key: &str| strategy.get(key).cloned();
    let name = match of("type").as_ref().and_then(Json::as_str).unwrap_or_default() {
        "KEEP_FIRST" => "keep_first",
        "KEEP_LAST" => "keep_last",
        "REMOVE_FIRST" => "remove_first",
        "REMOVE_LAST" => "remove_last",
        "RANGE" => {
            let range = ["start", "end"].into_iter().filter_map(|key| Some((key.to_string(), of(key)?)));
            object.insert("range".into(), Json::Object(range.collect()));
            return object;
        }
        _ => return object,
    };
    if let Some(count) = of("count") {
        object.insert(name.into(), count);
    }
    object
}

/// `operationOptions: {visibleOnly, target}`.
fn of_options(data: &mut JsonMap) {
    for key in ["operationOptions", "operation_options"] {
        let Some(Json::Object(options)) = data.get(key).cloned() else { continue };
        data.remove(key);
        for (from, to) in
            [("visibleOnly", "visible_only"), ("visible_only", "visible_only"), ("target", "target")]
        {
            if let Some(value) = options.get(from) {
                data.entry(to).or_insert_with(|| value.clone());
            }
        }
    }
}

fn of_object(object: &mut JsonMap) {
    for (from, to) in [
        ("keepFirst", "keep_first"),
        ("keepLast", "keep_last"),
        ("removeFirst", "remove_first"),
        ("removeLast", "remove_last"),
    ] {
        if object.get(from).is_some_and(|value| value.is_u64() || value.is_null()) {
            rename(object, from, to);
        }
    }
    for (from, to) in [
        ("keepSystemMessage", "keep_system_message"),
        ("contentContains", "content_contains"),
        ("contentExcludes", "content_excludes"),
        ("targetBatch", "target_batch"),
    ] {
        rename(object, from, to);
    }
    let messages = object.get_mut("messages").and_then(Json::as_array_mut);
    messages.into_iter().flatten().filter_map(Json::as_object_mut).for_each(of_message);
    object.get_mut("message").and_then(Json::as_object_mut).into_iter().for_each(of_message);
}

fn of_message(message: &mut JsonMap) {
    rename(message, "toolCalls", "tool_calls");
    rename(message, "toolCallId", "tool_call_id");
}

fn rename(map: &mut JsonMap, from: &str, to: &str) {
    if !map.contains_key(to)
        && let Some(value) = map.remove(from)
    {
        map.insert(to.to_string(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn xc_09_each_spelling_becomes_the_one_form() {
        let of = |mut data: Json| {
            data["type"] = "context-processor".into();
            let Json::Object(mut data) = data else { unreachable!("it is one") };
            rewrite(&mut data);
            let once = data.clone();
            rewrite(&mut data);
            assert_eq!(data, once, "a form applied twice changes nothing more");
            data.remove("type");
            Json::Object(data)
        };
        let call = json!({"role": "assistant", "content": "", "toolCalls": [], "toolCallId": "c"});
        let written = json!({"role": "assistant", "content": "", "tool_calls": [], "tool_call_id": "c"});
        for (given, canonical) in [
            (
                json!({"operation": "truncate", "truncate": {"keepLast": 2, "removeFirst": 0}}),
                json!({"operation": "truncate", "truncate": {"keep_last": 2, "remove_first": 0}}),
            ),
            // An invalid value is reported under its original key.
            (
                json!({"operation": "truncate", "truncate": {"keepFirst": -1}}),
                json!({"operation": "truncate", "truncate": {"keepFirst": -1}}),
            ),
            (
                json!({"operationConfig": {"operation": "TRUNCATE", "strategy": {"type": "KEEP_LAST", "count": 2}, "role": "user", "createNewBatch": true}}),
                json!({"operation": "truncate", "truncate": {"keep_last": 2, "role": "user"}}),
            ),
            (
                json!({"operation": "TRUNCATE", "strategy": {"type": "RANGE", "start": 1, "end": 3}}),
                json!({"operation": "truncate", "truncate": {"range": {"start": 1, "end": 3}}}),
            ),
            (
                json!({"operationConfig": {"operation": "INSERT", "position": -1, "messages": [call]}, "operationOptions": {"visibleOnly": false, "target": "parent", "autoCreateBatch": true}}),
                json!({"operation": "insert", "insert": {"position": -1, "messages": [written]}, "visible_only": false, "target": "parent"}),
            ),
            (
                json!({"operationConfig": {"operation": "BATCH_MANAGEMENT", "batchOperation": "ROLLBACK_TO_BATCH", "targetBatch": 1}}),
                json!({"operation": "rollback", "rollback": {"target_batch": 1}}),
            ),
            (
                json!({"operationConfig": {"operation": "BATCH_MANAGEMENT", "batchOperation": "START_NEW_BATCH", "boundaryIndex": 3}}),
                json!({"operation": "start_batch", "start_batch": {"boundary": 3}}),
            ),
            (
                json!({"operationConfig": {"operation": "FILTER", "roles": ["user"], "contentContains": ["a"]}, "conversationId": "x"}),
                json!({"operation": "filter", "filter": {"roles": ["user"], "content_contains": ["a"]}, "conversation_id": "x"}),
            ),
            (
                json!({"operation": "CLEAR", "keepSystemMessage": false}),
                json!({"operation": "clear", "clear": {"keep_system_message": false}}),
            ),
            (
                json!({"operationConfig": {"operation": "REPLACE", "index": 0, "message": {"role": "user", "content": "x"}}}),
                json!({"operation": "replace", "replace": {"index": 0, "message": {"role": "user", "content": "x"}}}),
            ),
            (
                json!({"operationConfig": {"operation": "APPEND", "messages": []}}),
                json!({"operation": "append", "append": {"messages": []}}),
            ),
            // An unknown operation is left unchanged; the checks report it.
            (json!({"operation": "SHUFFLE"}), json!({"operation": "SHUFFLE"})),
        ] {
            assert_eq!(of(given), canonical);
        }
    }
}
