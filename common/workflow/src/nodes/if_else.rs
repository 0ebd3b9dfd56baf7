//! The `if-else` node: the first case whose conditions hold gives the handle.
//!
//! Three forms are read: `cases`; the flat list of old exports, which is one case with the id `true`; and groups in
//! that flat list, whose `id` is the handle.

use serde_json::Value as Json;

use super::NodeResult;
use super::condition::parse::each;
use super::condition::{ConditionGroup, INVALID_NODE_DATA, Logical};
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Variables};

/// The handle when no case holds.
pub const ELSE_HANDLE: &str = "false";

/// Configuration of `if-else`.
#[derive(Debug, Clone)]
pub struct IfElseData {
    /// The cases in the order of evaluation. The flat form is one case.
    pub cases: Vec<Case>,
}

/// A handle and its conditions.
#[derive(Debug, Clone)]
pub struct Case {
    pub id: String,
    pub group: ConditionGroup,
    /// The case in Dify's record: `default` for the flat form, else the whole case.
    declared: Json,
}

impl IfElseData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let grouped =
            |item: &Json| item.get("conditions").is_some() && item.get("variable_selector").is_none();
        let cases = match (data.get("cases"), data.get("conditions")) {
            (None | Some(Json::Null), Some(Json::Array(items))) if items.iter().any(grouped) => problems
                .within("conditions", |problems| {
                    each(data.get("conditions"), problems, |item, problems| Case::parse("id", item, problems))
                })?,
            (None | Some(Json::Null), conditions) => vec![Case::flat(data, conditions, problems)?],
            (cases, _) => problems.within("cases", |problems| {
                each(cases, problems, |item, problems| Case::parse("case_id", item, problems))
            })?,
        };
        Some(Self { cases })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for case in &self.cases {
            case.group.mentions(into);
        }
    }

    /// Runs the node.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let mut completed = Vec::new();
        let mut records = Vec::new();
        for case in &self.cases {
            let outcome = match case.group.evaluate(variables) {
                Ok(outcome) => outcome,
                Err(message) => return failed(message, completed),
            };
            records = outcome.records;
            completed.push(Json::Object(JsonMap::from_iter([
                ("group".into(), case.declared.clone()),
                ("results".into(), outcome.results.into()),
                ("final_result".into(), outcome.result.into()),
            ])));
            if outcome.result {
                return left_by(Some(&case.id), records, completed);
            }
        }
        left_by(None, records, completed)
    }
}

impl Case {
    fn parse(id_key: &str, data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let id = data.get(id_key).and_then(Json::as_str).map(str::to_owned);
        if id.is_none() {
            let message = format!("{id_key} is missing or not a text");
            problems.error_with_hint(INVALID_NODE_DATA, message, "it names the handle of the case; quote it");
        }
        let logical = Logical::parse(data.get("logical_operator"), problems);
        // An invalid logical operator still lets us report problems of the conditions.
        let group = problems.within("conditions", |problems| {
            ConditionGroup::parse(logical.unwrap_or_default(), data.get("conditions"), problems)
        });
        let (id, logical, group) = (id?, logical?, group?);
        let declared = Json::Object(JsonMap::from_iter([
            ("case_id".into(), id.as_str().into()),
            ("logical_operator".into(), logical.name().into()),
            ("conditions".into(), group.declared().into()),
        ]));
        Some(Self { id, group, declared })
    }

    fn flat(data: &JsonMap, conditions: Option<&Json>, problems: &mut Problems) -> Option<Self> {
        let logical = match data.get("logical_operator") {
            None | Some(Json::Null) => Some(Logical::And),
            given @ Some(_) => Logical::parse(given, problems),
        };
        let none = Json::Array(Vec::new());
        let conditions = conditions.filter(|given| !given.is_null()).unwrap_or(&none);
        let group = problems.within("conditions", |problems| {
            ConditionGroup::parse(logical.unwrap_or_default(), Some(conditions), problems)
        });
        logical?;
        Some(Self { id: "true".into(), group: group?, declared: "default".into() })
    }
}

fn left_by(case: Option<&str>, records: Vec<Json>, completed: Vec<Json>) -> NodeResult {
    let handle = case.unwrap_or(ELSE_HANDLE);
    NodeResult {
        inputs: conditions(records),
        process_data: condition_results(completed),
        outputs: vec![
            ("result".into(), Segment::new(SegmentType::Boolean, case.is_some().into())),
            ("selected_case_id".into(), Segment::string(handle)),
        ],
        handle: handle.into(),
        ..NodeResult::default()
    }
}

/// Dify's failure of this node has no class, and no record of the failed case.
fn failed(message: String, completed: Vec<Json>) -> NodeResult {
    NodeResult {
        inputs: conditions(Vec::new()),
        process_data: condition_results(completed),
        ..NodeResult::failed(NodeFailure::new("", message))
    }
}

fn conditions(records: Vec<Json>) -> Vec<(String, Segment)> {
    vec![("conditions".into(), Segment::infer(Json::Array(records)))]
}

fn condition_results(completed: Vec<Json>) -> JsonMap {
    JsonMap::from_iter([("condition_results".into(), Json::Array(completed))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::condition::tests::Pool;
    use serde_json::json;

    fn parse(data: &Json) -> Result<IfElseData, Vec<crate::dsl::Diagnostic>> {
        let mut problems = Problems::new();
        let data = data.as_object().expect("an object");
        let parsed = problems.within("data", |problems| IfElseData::parse(data, problems));
        assert_eq!(parsed.is_none(), problems.has_errors());
        parsed.ok_or_else(|| problems.into_vec())
    }

    fn run(data: Json, pool: &Pool) -> NodeResult {
        parse(&data).expect("usable data").evaluate(pool)
    }

    fn condition(name: &str, operator: &str, value: &str) -> Json {
        json!({"id": "c", "varType": "string", "variable_selector": ["start", name],
               "comparison_operator": operator, "value": value})
    }

    fn case(id: &str, logical: &str, conditions: Vec<Json>) -> Json {
        json!({"case_id": id, "id": id, "logical_operator": logical, "conditions": conditions})
    }

    fn record(actual: &str, operator: &str, expected: &str) -> Json {
        json!({"actual_value": actual, "expected_value": expected, "comparison_operator": operator})
    }

    /// The result and the handle.
    fn chosen(result: &NodeResult) -> (bool, String) {
        let value = |name: &str| result.outputs.iter().find(|(n, _)| n == name).map(|(_, s)| s.value.clone());
        assert_eq!(value("selected_case_id"), Some(json!(result.handle)));
        (value("result") == Some(json!(true)), result.handle.clone())
    }

    #[test]
    fn the_first_case_that_holds_names_the_handle() {
        let pool = Pool::new(json!({"start": {"a": "yes"}}));
        let ghost =
            json!({"variable_selector": ["ghost", "output"], "comparison_operator": "is", "value": "x"});
        for (cases, expected) in [
            (vec![case("true", "and", vec![condition("a", "is", "no"), ghost.clone()])], (false, "false")),
            (vec![case("true", "or", vec![condition("a", "is", "yes"), ghost.clone()])], (true, "true")),
            (
                vec![
                    case("first", "and", vec![condition("a", "is", "yes")]),
                    case("second", "and", vec![ghost.clone()]),
                ],
                (true, "first"),
            ),
            (
                vec![
                    case("first", "and", vec![condition("a", "is", "no")]),
                    case("second", "or", vec![condition("a", "start with", "y")]),
                ],
                (true, "second"),
            ),
            (vec![case("empty_and", "and", vec![])], (true, "empty_and")),
            (vec![case("empty_or", "or", vec![])], (false, "false")),
            (vec![], (false, "false")),
        ] {
            let result = run(json!({"cases": cases}), &pool);
            assert_eq!(result.failure, None);
            assert_eq!(chosen(&result), (expected.0, expected.1.to_owned()), "{cases:?}");
        }
    }

    #[test]
    fn records_show_the_last_case_and_results_every_one() {
        let pool = Pool::new(json!({"start": {"a": "yes"}}));
        let cases = json!([
            case("first", "and", vec![condition("a", "is", "no")]),
            case("second", "and", vec![condition("a", "is", "yes"), condition("a", "not_contains", "x")]),
            case("third", "and", vec![condition("gone", "is", "yes")]),
        ]);
        let result = run(json!({"cases": cases}), &pool);
        let records = json!([record("yes", "is", "yes"), record("yes", "not contains", "x")]);
        assert_eq!(result.inputs, [("conditions".to_owned(), Segment::infer(records))]);
        let declared = |name: &str, operator: &str, value: &str| {
            json!({"variable_selector": ["start", name], "comparison_operator": operator, "value": value,
                   "sub_variable_condition": null})
        };
        assert_eq!(
            Json::Object(result.process_data),
            json!({"condition_results": [
                {"group": {"case_id": "first", "logical_operator": "and",
                           "conditions": [declared("a", "is", "no")]},
                 "results": [false], "final_result": false},
                {"group": {"case_id": "second", "logical_operator": "and",
                           "conditions": [declared("a", "is", "yes"), declared("a", "not contains", "x")]},
                 "results": [true, true], "final_result": true},
            ]})
        );
    }

    #[test]
    fn the_flat_form_is_one_case_called_true() {
        let pool = Pool::new(json!({"start": {"a": "n", "b": "my-y"}}));
        let conditions = json!([condition("a", "is", "x"), condition("b", "contains", "y")]);
        for (data, expected) in [
            (json!({"logical_operator": "or", "conditions": conditions}), (true, "true")),
            (json!({"logical_operator": "and", "conditions": conditions}), (false, "false")),
            (json!({"logical_operator": null, "conditions": conditions}), (false, "false")),
            (json!({"conditions": conditions, "cases": null}), (false, "false")),
            (json!({"conditions": null}), (true, "true")),
            (json!({}), (true, "true")),
            (json!({"conditions": [], "cases": []}), (false, "false")),
        ] {
            let result = run(data.clone(), &pool);
            assert_eq!(chosen(&result), (expected.0, expected.1.to_owned()), "{data}");
        }
        let missed = run(json!({"conditions": [condition("a", "is", "x")]}), &pool);
        assert_eq!(
            Json::Object(missed.process_data),
            json!({"condition_results": [{"group": "default", "results": [false], "final_result": false}]})
        );
        assert_eq!(missed.inputs[0].1.value, json!([record("n", "is", "x")]));
    }

    #[test]
    fn groups_in_the_place_of_the_flat_list_are_cases() {
        let pool = Pool::new(json!({"start": {"a": "n"}}));
        let data = json!({"conditions": [
            {"id": "is_x", "logical_operator": "and", "conditions": [condition("a", "is", "x")]},
            {"id": "is_n", "logical_operator": "and", "conditions": [condition("a", "is", "n")]},
        ]});
        assert_eq!(chosen(&run(data, &pool)), (true, "is_n".into()));
    }

    #[test]
    fn a_failure_has_no_class_and_no_record_of_its_case() {
        let pool = Pool::new(json!({"start": {"a": "yes"}}));
        let cases = json!([
            case("first", "and", vec![condition("a", "is", "no")]),
            case("second", "and", vec![condition("a", "is", "yes"), condition("absent", "empty", "")]),
        ]);
        let result = run(json!({"cases": cases}), &pool);
        let message = "Variable ['start', 'absent'] not found";
        assert_eq!(result.failure, Some(NodeFailure::new("", message)));
        assert_eq!(result.inputs, [("conditions".to_owned(), Segment::infer(json!([])))]);
        assert_eq!(result.process_data["condition_results"].as_array().map(Vec::len), Some(1));
        assert_eq!(result.outputs, []);
    }

    #[test]
    fn every_problem_has_its_place() {
        let data = json!({"cases": [
            case("true", "and", vec![condition("a", "is", "x"), condition("a", "resembles", "x")]),
            {"case_id": 1, "logical_operator": "xor", "conditions": [{"comparison_operator": ">="}]},
        ]});
        let found: Vec<_> = parse(&data)
            .expect_err("problems")
            .into_iter()
            .map(|problem| (problem.code, problem.path, problem.message, problem.hint.is_some()))
            .collect();
        let expected = [
            ("data.cases[0].conditions[1]", "comparison_operator \"resembles\" is not an operator", true),
            ("data.cases[1]", "case_id is missing or not a text", true),
            ("data.cases[1]", "logical_operator must be \"and\" or \"or\"", false),
            ("data.cases[1].conditions[0]", "variable_selector must be a list of texts", false),
            ("data.cases[1].conditions[0]", "comparison_operator \">=\" is not an operator", true),
        ];
        let expected =
            expected.map(|(path, text, hint)| (INVALID_NODE_DATA, path.to_owned(), text.to_owned(), hint));
        assert_eq!(found, expected);
    }

    #[test]
    fn mentions_are_selectors_and_references() {
        let data =
            json!({"cases": [case("true", "and", vec![condition("a", "is", "{{#start.b#}} {{#n.c.d#}}")])]});
        let mut mentions = Vec::new();
        parse(&data).expect("usable data").mentions(&mut mentions);
        let names: Vec<String> = mentions.iter().map(|(node, name)| format!("{node}.{name}")).collect();
        assert_eq!(names, ["start.a", "start.b", "n.c"]);
    }
}
