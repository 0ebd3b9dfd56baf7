//! Compares any value with any text by every operator. First byte: the operator; first line: the value as JSON; the
//! rest: the text to compare with.
#![no_main]

mod pool;

use libfuzzer_sys::fuzz_target;
use pool::Pool;
use serde_json::json;
use tidemill_common::dsl::Problems;
use tidemill_common::nodes::condition::Operator;
use tidemill_common::nodes::if_else::IfElseData;

fuzz_target!(|bytes: &[u8]| {
    let [operator, rest @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (value, expected) = text.split_once('\n').unwrap_or((text, ""));
    let pool = Pool::of(serde_json::from_str(value).unwrap_or_else(|_| value.into()));
    let operator = Operator::ALL[usize::from(*operator) % Operator::ALL.len()].name();
    // Once as text, and once as the JSON value that the text contains: a list or a boolean.
    for expected in [Some(json!(expected)), serde_json::from_str(expected).ok()].into_iter().flatten() {
        let condition =
            json!({"variable_selector": ["n", "v"], "comparison_operator": operator, "value": expected});
        let data = json!({"cases": [{"case_id": "c", "logical_operator": "and", "conditions": [condition]}]});
        let Some(map) = data.as_object() else { return };
        if let Some(data) = IfElseData::parse(map, &mut Problems::new()) {
            data.evaluate(&pool);
        }
    }
});
