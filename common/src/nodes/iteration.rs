//! A body per item of a list: what Dify checks of its configuration when a file comes in.

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use crate::value::JsonMap;

const ERROR_MODES: [&str; 3] = ["terminated", "continue-on-error", "remove-abnormal-output"];
const LANES_DEFAULT: i64 = 10;

/// Reports what is wrong with `data` of an iteration.
pub(super) fn check(data: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(data, BUILD_FAILED);
    fields.text("start_node_id", problems);
    fields.selector("iterator_selector", problems);
    fields.selector("output_selector", problems);
    fields.boolean("is_parallel", false, problems);
    fields.integer("parallel_nums", LANES_DEFAULT, 1, problems);
    fields.boolean("flatten_output", true, problems);
    if data.contains_key("error_handle_mode") {
        fields.one_of("error_handle_mode", &ERROR_MODES, problems);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::tests::paths_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        let right =
            json!({"start_node_id": "s", "iterator_selector": ["a", "b"], "output_selector": ["c", "d"]});
        assert_eq!(paths_of(check, right.clone()), Vec::<String>::new());
        for (key, value) in [
            ("start_node_id", json!(5)),
            ("iterator_selector", json!("a.b")),
            ("output_selector", json!([1])),
            ("is_parallel", json!("perhaps")),
            ("parallel_nums", json!(0)),
            ("flatten_output", json!(null)),
            ("error_handle_mode", json!("ignore")),
        ] {
            let mut data = right.clone();
            data[key] = value;
            assert_eq!(paths_of(check, data), [key]);
        }
    }
}
