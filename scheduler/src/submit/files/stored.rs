//! Finds the stored files that values of a client refer to. A file object is only an object with a mark, so a client can
//! write one with the reference of a file of another app. Each reference is therefore traced to the run that owns the file.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use tidemill_common::files::run_of;
use tidemill_common::ids::RunId;

/// The keys under which nodes look for the reference of a file's bytes.
const REFERENCES: [&str; 2] = ["reference", "related_id"];

/// The runs whose files these values refer to, at any depth. Objects count without the mark, too: a node may add it.
pub(crate) fn runs_of<'a>(values: impl IntoIterator<Item = &'a Json>) -> BTreeSet<RunId> {
    let mut found = BTreeSet::new();
    values.into_iter().for_each(|value| search(value, &mut found));
    found
}

fn search(value: &Json, found: &mut BTreeSet<RunId>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| search(item, found)),
        Json::Object(map) => {
            let references = REFERENCES.iter().filter_map(|key| map.get(*key)?.as_str());
            found.extend(references.filter_map(run_of));
            map.values().for_each(|value| search(value, found));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_common::ids::ShardId;

    use super::*;

    #[test]
    fn every_reference_of_a_stored_file_is_found() {
        let runs = [RunId::new(1, 2, ShardId(3)), RunId::new(2, 2, ShardId(3)), RunId::new(3, 2, ShardId(3))];
        let of = |at: usize| format!("runs/{}/{}", runs[at], "0".repeat(32));
        let values = [
            json!({"reference": of(0)}),
            json!({"deep": [[{"x": {"related_id": of(1), "reference": null}}]]}),
            json!([of(2), {"note": of(2)}, {"reference": "runs/../x"}, {"reference": 1}, null]),
        ];
        assert_eq!(runs_of(&values), BTreeSet::from([runs[0], runs[1]]));
    }
}
