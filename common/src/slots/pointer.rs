//! JSON pointers (`/body/city`): where something is in a value.

use serde_json::Value as Json;

use crate::value::JsonMap;

/// A pointer one step longer.
pub fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The steps of a pointer.
pub fn steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The name of a place for people: `/body/city` is `body/city`.
pub fn name(pointer: &str) -> String {
    pointer.strip_prefix('/').unwrap_or(pointer).to_owned()
}

/// Whether a place is another one or lies in it.
pub fn is_within(pointer: &str, outer: &str) -> bool {
    pointer.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Puts a value in its place; what stands in the way gives way to an object. In a list only what is there can be replaced,
/// or one item put behind it. Says whether it could.
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

/// Puts `from` over `into`: objects key by key at every depth, everything else whole.
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
