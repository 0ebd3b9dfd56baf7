//! Labels of runs: names with short texts that clients give at submission, to find the runs again. A run has them in a field
//! of its hash; an index has the runs of each label. The index names a label by a digest, because it may contain any character.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The field of a run with its labels: JSON, an object of texts. Runs without labels have none.
pub const LABELS_FIELD: &str = "labels";

/// The labels of a run, by their names.
pub type Labels = BTreeMap<String, String>;

/// The labels in a field of a run.
pub fn labels_in(field: Option<&str>) -> Labels {
    field.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The id of a label in the index.
pub fn label_id(name: &str, value: &str) -> String {
    let digest = Sha256::digest(format!("{} {name}{value}", name.len()));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The ids of the labels in a field of a run.
pub(super) fn label_ids(field: Option<&str>) -> Vec<String> {
    labels_in(field).iter().map(|(name, value)| label_id(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_differ_by_name_and_value() {
        let all = [("a", "bc"), ("ab", "c"), ("a", "b"), ("", "abc")];
        let ids: std::collections::BTreeSet<String> = all.iter().map(|(n, v)| label_id(n, v)).collect();
        assert_eq!(ids.len(), all.len());
        assert_eq!(label_ids(Some(r#"{"a":"bc"}"#)), [label_id("a", "bc")]);
        assert!(label_ids(None).is_empty() && label_ids(Some("x")).is_empty());
    }
}
