//! JSON pointers (`/body/city`): places in a value.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

/// Extends a pointer by one key.
pub fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Iterates over the steps of a pointer.
pub fn steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// Returns the name of a place for people: `body/city` for `/body/city`.
pub fn name(pointer: &str) -> String {
    pointer.strip_prefix('/').unwrap_or(pointer).to_owned()
}

/// True when a place is `outer` or inside it.
pub fn is_within(pointer: &str, outer: &str) -> bool {
    pointer.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Puts a value in its place and returns true on success. Values in the way are replaced by objects. In a
/// list only an existing item can be replaced, or one item appended.
pub fn put(root: &mut Json, pointer: &str, value: Json) -> bool {
    let mut at = root;
    for step in steps(pointer) {
        if let Json::Array(items) = at {
            let Ok(index) = step.parse::<usize>() else { return false };
            if index == items.len() {
                items.push(Json::Null);
            }
            let Some(item) = items.get_mut(index) else { return false };
            at = item;
            continue;
        }
        if !at.is_object() {
            *at = Json::Object(JsonMap::new());
        }
        let Json::Object(map) = at else { return false };
        at = map.entry(step).or_insert(Json::Null);
    }
    *at = value;
    true
}

/// Merges `from` into `into`: objects key by key at every depth, other values as a whole.
pub fn merge(into: &mut Json, from: Json) {
    match (into, from) {
        (Json::Object(into), Json::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(known) => merge(known, value),
                    None => {
                        into.insert(key, value);
                    }
                }
            }
        }
        (into, from) => *into = from,
    }
}
