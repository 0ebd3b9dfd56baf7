//! Warnings of a run: as the API and events show them, as the state keeps them, and as the fact of a node's end brings
//! them.

use serde_json::{Value as Json, json};

use tidemill_base::ids::NodeId;
use tidemill_base::value::JsonMap;
use tidemill_base::warning::Warning;
use tidemill_engine::state::warnings::{self, Noted, Warnings};
use tidemill_workflow::graph::Graph;

/// The list in the state. An older version kept two lists instead ([`DEAD_ENDS`] and [`DROPPED`]).
const WARNINGS: &str = "warnings";
/// Pairs of node and handle.
const DEAD_ENDS: &str = "dead_ends";
/// Lists of node, variable and operation.
const DROPPED: &str = "dropped";

/// Returns the warnings for clients.
pub fn shown(warnings: &Warnings, graph: &Graph) -> Vec<Json> {
    warnings.iter().map(|noted| Json::Object(shown_one(noted, graph))).collect()
}

/// A warning for clients: `{code, message, hint, node_id, node_title}` and the things that it is about. `hint` is absent
/// when there is none, and the node when the warning is about the whole run.
pub fn shown_one(Noted { node, warning }: &Noted, graph: &Graph) -> JsonMap {
    let mut map = JsonMap::new();
    map.insert("code".into(), (*warning.code).into());
    let mut name = String::new();
    if let Some(id) = node {
        let title = graph.find(id.as_str()).map_or("", |ix| graph.node(ix).title.as_str());
        map.insert("node_id".into(), id.as_str().into());
        map.insert("node_title".into(), title.into());
        name = match title {
            "" => format!("node {id}: "),
            title if title == id.as_str() => format!("node {id}: "),
            title => format!("node {id} ({title}): "),
        };
    }
    for (about, value) in &warning.about {
        map.insert(about.clone().into_owned(), value.as_str().into());
    }
    map.insert("message".into(), format!("{name}{}", warning.message).into());
    if !warning.hint.is_empty() {
        map.insert("hint".into(), warning.hint.as_str().into());
    }
    map
}

/// The stored form of warnings without their nodes.
pub(crate) fn list_json(warnings: &[Warning]) -> Json {
    warnings.iter().map(|warning| Json::Object(one(warning))).collect()
}

/// Reads such a list. What cannot be read is left out: a warning must not stop a run.
pub(crate) fn read_list(value: &Json) -> Vec<Warning> {
    value.as_array().into_iter().flatten().filter_map(read_one).collect()
}

fn one(warning: &Warning) -> JsonMap {
    let Warning { code, about, message, hint } = warning;
    let mut map =
        JsonMap::from_iter([("code".to_owned(), json!(code)), ("message".to_owned(), json!(message))]);
    if !about.is_empty() {
        map.insert("about".into(), json!(about));
    }
    if !hint.is_empty() {
        map.insert("hint".into(), json!(hint));
    }
    map
}

fn read_one(value: &Json) -> Option<Warning> {
    let text = |key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
    let pair = |pair: &Json| {
        let part = |at: usize| Some(pair.get(at)?.as_str()?.to_owned());
        Some((part(0)?.into(), part(1)?))
    };
    let about = value.get("about").and_then(Json::as_array).into_iter().flatten().filter_map(pair).collect();
    let hint = text("hint").unwrap_or_default();
    Some(Warning { code: text("code")?.into(), about, message: text("message")?, hint })
}

/// Adds the warnings to a map of the state.
pub(crate) fn store(warnings: &Warnings, map: &mut JsonMap) {
    if warnings.is_empty() {
        return;
    }
    let stored = |Noted { node, warning }: &Noted| {
        let mut map = one(warning);
        if let Some(node) = node {
            map.insert("node".into(), node.as_str().into());
        }
        Json::Object(map)
    };
    map.insert(WARNINGS.into(), warnings.iter().map(stored).collect());
}

/// Reads the warnings from a map of the state. What cannot be read is left out: a warning must not end a run.
pub(crate) fn read(map: &JsonMap) -> Warnings {
    let items = |key: &str| map.get(key).and_then(Json::as_array).into_iter().flatten();
    let text = |item: &Json, at: usize| item.get(at).and_then(Json::as_str).map(str::to_owned);
    let of_node = |node: String, warning: Warning| Noted { node: Some(NodeId::from(node.as_str())), warning };
    let dead_ends = items(DEAD_ENDS)
        .filter_map(|item| Some(of_node(text(item, 0)?, warnings::dead_end(&text(item, 1)?))));
    let dropped = items(DROPPED).filter_map(|item| {
        Some(of_node(text(item, 0)?, warnings::dropped(&text(item, 1)?, &text(item, 2)?)))
    });
    let noted = items(WARNINGS).filter_map(|item| {
        let node = item.get("node").and_then(Json::as_str).map(NodeId::from);
        Some(Noted { node, warning: read_one(item)? })
    });
    Warnings::stored(dead_ends.chain(dropped).chain(noted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::warning;

    fn unknown() -> Warning {
        Warning::new(warning::DATASET_UNKNOWN, "no such dataset").about("dataset", "d \"1\"").hint("add it")
    }

    fn map(value: Json) -> JsonMap {
        let Json::Object(map) = value else { panic!("no map: {value}") };
        map
    }

    #[test]
    fn the_stored_form_is_read_back_and_no_warnings_take_no_bytes() {
        let noted = vec![
            Noted { node: Some("n".into()), warning: unknown() },
            Noted { node: None, warning: Warning::new(warning::INPUT_NOT_DECLARED, "not used") },
        ];
        let warnings = Warnings::stored(noted);
        let mut stored = JsonMap::new();
        store(&warnings, &mut stored);
        assert_eq!(read(&stored), warnings);
        let mut empty = JsonMap::new();
        store(&Warnings::default(), &mut empty);
        assert_eq!((empty.len(), read(&empty)), (0, Warnings::default()));
        assert_eq!(read_list(&list_json(&[unknown()])), [unknown()]);
    }

    #[test]
    fn the_two_lists_of_an_older_version_are_read() {
        let old = json!({"dead_ends": [["if", "false"], [1]], "dropped": [["it", "c", "append"], ["it"]]});
        let codes: Vec<(String, String)> = read(&map(old))
            .iter()
            .map(|noted| {
                (
                    noted.node.as_ref().map(ToString::to_string).unwrap_or_default(),
                    noted.warning.code.to_string(),
                )
            })
            .collect();
        let expected = [("if", "run.branch_without_edge"), ("it", "run.operation_dropped")];
        assert_eq!(codes, expected.map(|(node, code)| (node.to_owned(), code.to_owned())));
    }

    #[test]
    fn a_warning_that_cannot_be_read_is_left_out() {
        for wrong in [json!(1), json!({}), json!({"code": "x"}), json!({"message": "x"})] {
            assert_eq!(read(&map(json!({"warnings": [wrong]}))), Warnings::default(), "{wrong}");
        }
    }
}
