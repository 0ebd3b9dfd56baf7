use super::*;
use crate::dsl::Problems;
use serde_json::json;
use tidemill_base::value::Lookup;

/// Variables from an object of objects: node, then name.
pub(in crate::nodes) struct Pool(Vec<(String, String, Segment)>);

impl Pool {
    pub(in crate::nodes) fn new(nodes: Json) -> Self {
        let mut pool = Self(Vec::new());
        for (node, names) in nodes.as_object().expect("an object of nodes") {
            for (name, value) in names.as_object().expect("an object of names") {
                pool = pool.with(node, name, Segment::restore_files(value.clone()));
            }
        }
        pool
    }

    pub(in crate::nodes) fn with(mut self, node: &str, name: &str, segment: Segment) -> Self {
        self.0.push((node.into(), name.into(), segment));
        self
    }
}

impl Variables for Pool {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        let found = self.0.iter().find(|(n, v, _)| n == node && v == name);
        found.map_or(Lookup::Missing, |(_, _, segment)| Lookup::Found(Cow::Borrowed(segment)))
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(node, name, _)| (node.clone(), name.clone())).collect()
    }
}

fn parse(conditions: &Json) -> Result<ConditionGroup, Vec<crate::dsl::Diagnostic>> {
    let mut problems = Problems::new();
    let group = ConditionGroup::parse(Logical::And, Some(conditions), &mut problems);
    assert_eq!(group.is_none(), problems.has_errors());
    group.ok_or_else(|| problems.into_vec())
}

fn condition(selector: &str, operator: &str, value: &Json) -> Json {
    let selector: Vec<&str> = selector.split('.').collect();
    json!({"variable_selector": selector, "comparison_operator": operator, "value": value})
}

fn evaluate(pool: &Pool, condition: Json) -> Result<GroupOutcome, String> {
    parse(&json!([condition])).expect("a usable condition").evaluate(pool)
}

/// Rows of (selector, operator, value, outcome).
type Row<'a> = (&'a str, &'a str, Json, Result<bool, &'a str>);

fn check(pool: &Pool, rows: &[Row]) {
    for (selector, operator, value, expected) in rows {
        let outcome = evaluate(pool, condition(selector, operator, value)).map(|outcome| outcome.result);
        assert_eq!(outcome, expected.map_err(str::to_owned), "{selector} {operator} {value}");
    }
}

const NOT_TEXT_OR_LIST: &str = "Invalid actual value type: string or array";
const NOT_TEXT: &str = "Invalid actual value type: string";
const NOT_TEXT_OR_TRUTH: &str = "Invalid actual value type: string or boolean";
const NOT_NUMBER_OR_TRUTH: &str = "Invalid actual value type: number or boolean";
const NOT_NUMBER: &str = "Invalid actual value type: number";
const NO_LIST_EXPECTED: &str = "Invalid expected value type: array";
const NO_JSON: &str = "Expecting value: line 1 column 1 (char 0)";

fn pool() -> Pool {
    Pool::new(json!({"s": {
        "text": "Hello wörld", "empty": "", "other": "wörld", "unset": null,
        "i": 7, "f": 2.5, "neg": -3, "zero": 0, "zerof": 0.0, "big": 9_007_199_254_740_993_i64, "limit": 10,
        "yes": true, "no": false,
        "obj": {"user": {"name": "Ann", "age": 41}, "nothing": null}, "eobj": {},
        "tags": ["red", "green"], "nums": [1, 2, 3], "flags": [false, false], "none": [], "mixed": [1, "two", null],
        "file": {"dify_model_identity": "__dify__file__", "type": "document", "extension": ".pdf", "size": 10},
    }}))
}

#[test]
fn text_operators_compare_exactly() {
    check(
        &pool(),
        &[
            ("s.text", "contains", json!("ell"), Ok(true)),
            ("s.text", "contains", json!("ELL"), Ok(false)),
            ("s.text", "contains", json!(""), Ok(true)),
            ("s.text", "contains", json!(true), Ok(false)),
            ("s.text", "contains", json!(null), Ok(false)),
            ("s.text", "not contains", json!("xyz"), Ok(true)),
            ("s.text", "not contains", json!("Hello"), Ok(false)),
            ("s.text", "start with", json!("Hel"), Ok(true)),
            ("s.text", "start with", json!("hel"), Ok(false)),
            ("s.text", "end with", json!("wörld"), Ok(true)),
            ("s.text", "end with", json!("Hello"), Ok(false)),
            ("s.text", "start with", json!(null), Err("Expected value must be a string for startswith")),
            ("s.text", "end with", json!(["d"]), Err("Expected value must be a string for endswith")),
            ("s.text", "is", json!("Hello wörld"), Ok(true)),
            ("s.text", "is", json!("hello wörld"), Ok(false)),
            ("s.text", "is", json!(true), Ok(false)),
            ("s.text", "is not", json!("Hello"), Ok(true)),
            ("s.text", "is not", json!(null), Ok(true)),
            ("s.text", "in", json!(["Hello wörld", "b"]), Ok(true)),
            ("s.text", "in", json!(["b"]), Ok(false)),
            ("s.text", "in", json!("Hello wörld,b"), Err(NO_LIST_EXPECTED)),
            ("s.text", "not in", json!(["b"]), Ok(true)),
            ("s.text", "not in", json!("b"), Err(NO_LIST_EXPECTED)),
            ("s.text", "all of", json!(["Hel", "wör"]), Ok(true)),
            ("s.text", "all of", json!(["Hel", "zzz"]), Ok(false)),
            ("s.text", "all of", json!([]), Ok(true)),
            (
                "s.text",
                "all of",
                json!("Hel"),
                Err("all of operator expects homogeneous list of strings or booleans"),
            ),
            ("s.text", "=", json!("1"), Err(NOT_NUMBER_OR_TRUTH)),
            ("s.text", "≠", json!("1"), Err(NOT_NUMBER_OR_TRUTH)),
            ("s.text", ">", json!("1"), Err(NOT_NUMBER)),
            ("s.text", "empty", json!(""), Ok(false)),
            ("s.text", "not empty", json!(""), Ok(true)),
            ("s.text", "null", json!(""), Ok(false)),
            ("s.text", "not null", json!(""), Ok(true)),
            ("s.text", "exists", json!(""), Ok(true)),
            ("s.text", "not exists", json!(""), Ok(false)),
        ],
    );
}

#[test]
fn the_expected_text_is_a_template_and_list_items_are_not() {
    check(
        &pool(),
        &[
            ("s.text", "is", json!("Hello {{#s.other#}}"), Ok(true)),
            ("s.text", "is not", json!("{{#s.nothing#}}"), Ok(true)),
            ("s.other", "is", json!("s.other"), Ok(true)),
            ("s.other", "in", json!(["{{#s.other#}}"]), Ok(false)),
            ("s.i", "<", json!("{{#s.limit#}}"), Ok(true)),
            ("s.limit", "=", json!("{{#s.limit#}}"), Ok(true)),
        ],
    );
}

#[test]
fn an_empty_text_or_null_contains_nothing() {
    for selector in ["s.empty", "s.unset", "s.none"] {
        check(
            &pool(),
            &[
                (selector, "contains", json!(""), Ok(false)),
                (selector, "not contains", json!("a"), Ok(true)),
                (selector, "start with", json!(""), Ok(false)),
                (selector, "end with", json!(null), Ok(false)),
                (selector, "in", json!(["", "a"]), Ok(false)),
                (selector, "in", json!("no list"), Ok(false)),
                (selector, "not in", json!(["", "a"]), Ok(true)),
                (selector, "all of", json!(["a"]), Ok(false)),
                (selector, "empty", json!(""), Ok(true)),
                (selector, "not empty", json!(""), Ok(false)),
            ],
        );
    }
    check(
        &pool(),
        &[
            ("s.empty", "is", json!(""), Ok(true)),
            ("s.empty", "=", json!("0"), Err(NOT_NUMBER_OR_TRUTH)),
            ("s.empty", "<", json!("0"), Err(NOT_NUMBER)),
            ("s.empty", "exists", json!(""), Ok(true)),
        ],
    );
}

#[test]
fn null_is_neither_equal_nor_different() {
    for (operator, expected) in [
        ("is", false),
        ("is not", false),
        ("=", false),
        ("≠", false),
        (">", false),
        ("<", false),
        ("≥", false),
        ("≤", false),
        ("null", true),
        ("not null", false),
        ("exists", false),
        ("not exists", true),
        ("regex match", false),
    ] {
        check(&pool(), &[("s.unset", operator, json!("a"), Ok(expected))]);
    }
}

#[test]
fn numbers_follow_python() {
    check(
        &pool(),
        &[
            ("s.i", "=", json!("7"), Ok(true)),
            ("s.i", "=", json!("8"), Ok(false)),
            ("s.i", "=", json!(" 7 "), Ok(true)),
            ("s.i", "=", json!("0_7"), Ok(true)),
            ("s.i", "=", json!(true), Ok(false)),
            ("s.i", "≠", json!("8"), Ok(true)),
            ("s.i", "=", json!("7.0"), Err("invalid literal for int() with base 10: '7.0'")),
            ("s.i", "≠", json!(""), Err("invalid literal for int() with base 10: ''")),
            ("s.i", "=", json!(null), Err("Cannot convert <class 'NoneType'> to int")),
            ("s.f", "=", json!("2.5"), Ok(true)),
            ("s.f", "≠", json!("2.50"), Ok(false)),
            ("s.f", "=", json!("x"), Err("could not convert string to float: 'x'")),
            ("s.f", "=", json!(null), Err("Cannot convert <class 'NoneType'> to float")),
            ("s.f", "=", json!("nan"), Ok(false)),
            ("s.f", "≠", json!("nan"), Ok(true)),
            ("s.neg", "=", json!("-3"), Ok(true)),
            ("s.big", "=", json!("9007199254740993"), Ok(true)),
            ("s.zero", "=", json!("0"), Ok(true)),
            ("s.i", ">", json!("6"), Ok(true)),
            ("s.i", ">", json!("7"), Ok(false)),
            ("s.i", ">", json!("6.99"), Ok(true)),
            ("s.i", "<", json!("7.5"), Ok(true)),
            ("s.i", "<", json!("1e3"), Ok(true)),
            ("s.i", "<", json!("inf"), Ok(true)),
            ("s.i", "≥", json!("nan"), Ok(false)),
            ("s.i", "≥", json!("7"), Ok(true)),
            ("s.i", "≤", json!("6.5"), Ok(false)),
            ("s.i", "<", json!("1e300"), Ok(true)),
            ("s.big", ">", json!("9007199254740992"), Ok(true)),
            ("s.f", ">", json!("2"), Ok(true)),
            ("s.f", "<", json!("2.5"), Ok(false)),
            ("s.f", "≥", json!("2.5"), Ok(true)),
            ("s.f", "≤", json!("2.4999"), Ok(false)),
            ("s.f", ">", json!(true), Ok(true)),
            ("s.neg", "<", json!("-2"), Ok(true)),
            ("s.zero", "<", json!("1"), Ok(true)),
            ("s.i", ">", json!("abc"), Err("Cannot convert 'abc' to number")),
            ("s.i", ">", json!(null), Err("Cannot convert <class 'NoneType'> to number")),
            ("s.f", "≤", json!(["1"]), Err("Cannot convert <class 'list'> to number")),
            ("s.zero", "empty", json!(""), Ok(true)),
            ("s.zerof", "empty", json!(""), Ok(true)),
            ("s.zero", "not empty", json!(""), Ok(false)),
            ("s.zero", "null", json!(""), Ok(false)),
            ("s.zero", "is", json!("0"), Err(NOT_TEXT_OR_TRUTH)),
            ("s.zero", "contains", json!("0"), Ok(false)),
            ("s.i", "not empty", json!(""), Ok(true)),
            ("s.i", "contains", json!("7"), Err(NOT_TEXT_OR_LIST)),
            ("s.i", "not contains", json!("7"), Err(NOT_TEXT_OR_LIST)),
            ("s.i", "is", json!("7"), Err(NOT_TEXT_OR_TRUTH)),
            ("s.i", "start with", json!("7"), Err(NOT_TEXT)),
            ("s.i", "in", json!(["7"]), Ok(false)),
            ("s.i", "not in", json!(["7"]), Ok(true)),
            ("s.i", "all of", json!(["7"]), Ok(false)),
            ("s.i", "exists", json!(null), Ok(true)),
            ("s.i", "regex match", json!("7"), Err(NOT_TEXT)),
        ],
    );
}

#[test]
fn truth_values_read_the_expected_text_as_json() {
    check(
        &pool(),
        &[
            ("s.yes", "is", json!("true"), Ok(true)),
            ("s.yes", "is", json!(true), Ok(true)),
            ("s.no", "is", json!(false), Ok(true)),
            ("s.yes", "is not", json!("false"), Ok(true)),
            ("s.yes", "is", json!("1"), Ok(true)),
            ("s.yes", "is", json!(1), Ok(true)),
            ("s.no", "is", json!(0), Ok(true)),
            ("s.no", "=", json!("false"), Ok(true)),
            ("s.yes", "≠", json!("0"), Ok(true)),
            ("s.no", "=", json!(null), Err("Cannot convert <class 'NoneType'> to bool")),
            ("s.yes", ">", json!("0"), Ok(true)),
            ("s.no", "≥", json!("true"), Ok(false)),
            ("s.no", "empty", json!(""), Err(NO_JSON)),
            ("s.yes", "is", json!("maybe"), Err(NO_JSON)),
            ("s.yes", "is", json!("True"), Err(NO_JSON)),
            ("s.yes", "is", json!("1.5"), Err("unexpected value: type=<class 'str'>, value=1.5")),
            ("s.no", "empty", json!("false"), Ok(true)),
            ("s.yes", "not empty", json!("true"), Ok(true)),
            ("s.no", "null", json!(null), Ok(false)),
            ("s.no", "exists", json!("any"), Ok(true)),
            ("s.yes", "in", json!(["true", "0"]), Ok(true)),
            ("s.yes", "in", json!(["false"]), Ok(false)),
            ("s.yes", "contains", json!("true"), Err(NOT_TEXT_OR_LIST)),
            ("s.no", "contains", json!("true"), Ok(false)),
            ("s.yes", "start with", json!("true"), Err(NOT_TEXT)),
            ("s.yes", "all of", json!(["true"]), Ok(false)),
            ("s.yes", "regex match", json!("true"), Err(NOT_TEXT)),
        ],
    );
}

#[test]
fn lists_hold_items_of_the_same_type_only() {
    check(
        &pool(),
        &[
            ("s.tags", "contains", json!("red"), Ok(true)),
            ("s.tags", "contains", json!("re"), Ok(false)),
            ("s.tags", "not contains", json!("blue"), Ok(true)),
            ("s.tags", "empty", json!(""), Ok(false)),
            ("s.tags", "all of", json!(["red", "green"]), Ok(true)),
            ("s.tags", "all of", json!(["red", "pink"]), Ok(false)),
            ("s.nums", "contains", json!("2"), Ok(false)),
            ("s.nums", "contains", json!(true), Ok(true)),
            ("s.nums", "not contains", json!("2"), Ok(true)),
            ("s.flags", "contains", json!("false"), Ok(true)),
            ("s.flags", "contains", json!("true"), Ok(false)),
            ("s.flags", "all of", json!(["false", "0"]), Ok(true)),
            ("s.flags", "contains", json!("no"), Err(NO_JSON)),
            ("s.mixed", "contains", json!("two"), Ok(true)),
            ("s.mixed", "contains", json!(null), Ok(true)),
            ("s.tags", "in", json!(["red"]), Ok(false)),
            ("s.tags", "is", json!("red"), Err(NOT_TEXT_OR_TRUTH)),
            ("s.none", "is", json!(""), Err(NOT_TEXT_OR_TRUTH)),
            ("s.tags", "=", json!("1"), Err(NOT_NUMBER_OR_TRUTH)),
            ("s.tags", ">", json!("1"), Err(NOT_NUMBER)),
            ("s.tags", "start with", json!("red"), Err(NOT_TEXT)),
            ("s.tags", "regex match", json!("red"), Err(NOT_TEXT)),
        ],
    );
}

#[test]
fn objects_and_files_are_there_or_empty_and_nothing_else() {
    check(
        &pool(),
        &[
            ("s.obj", "empty", json!(""), Ok(false)),
            ("s.eobj", "empty", json!(""), Ok(true)),
            ("s.obj.user.name", "is", json!("Ann"), Ok(true)),
            ("s.obj.user.age", "≥", json!("41"), Ok(true)),
            ("s.obj.nothing", "null", json!(""), Ok(true)),
            ("s.obj", "exists", json!(""), Ok(true)),
            ("s.obj", "contains", json!("user"), Err(NOT_TEXT_OR_LIST)),
            ("s.obj", "is", json!("x"), Err(NOT_TEXT_OR_TRUTH)),
            ("s.eobj", "is", json!("x"), Err(NOT_TEXT_OR_TRUTH)),
            ("s.obj", "in", json!(["user"]), Ok(false)),
            ("s.obj", "all of", json!(["user"]), Ok(false)),
            ("s.obj", "=", json!("1"), Err(NOT_NUMBER_OR_TRUTH)),
            ("s.obj", "<", json!("1"), Err(NOT_NUMBER)),
            ("s.obj.user.name", "in", json!("Ann,Bob"), Err(NO_LIST_EXPECTED)),
            ("s.obj.user.email", "empty", json!(""), Err("Variable ['s', 'obj', 'user', 'email'] not found")),
            ("s.absent", "not exists", json!(""), Err("Variable ['s', 'absent'] not found")),
            ("s", "is", json!(""), Err("Variable ['s'] not found")),
            ("s.file", "exists", json!(""), Ok(true)),
            ("s.file", "not empty", json!(""), Ok(true)),
            ("s.file", "contains", json!("x"), Err(NOT_TEXT_OR_LIST)),
            ("s.file.extension", "is", json!(".pdf"), Ok(true)),
            ("s.file.size", "=", json!("10"), Ok(true)),
        ],
    );
}

#[test]
fn a_regular_expression_is_found_anywhere() {
    check(
        &pool(),
        &[
            ("s.text", "regex match", json!("l+o\\b"), Ok(true)),
            ("s.text", "regex_match", json!("^w"), Ok(false)),
            ("s.text", "regex match", json!("^H.*{{#s.other#}}$"), Ok(true)),
            ("s.empty", "regex match", json!("^$"), Ok(true)),
            ("s.text", "regex match", json!(["H"]), Err("Expected value must be a string for regex match")),
        ],
    );
    let broken = condition("s.text", "regex match", &json!("({{#s.other#}}"));
    let error = evaluate(&pool(), broken).expect_err("an open group");
    assert!(error.starts_with("Invalid regular expression: "), "{error}");
}

#[test]
fn alias_spellings_are_kept_as_the_real_operator() {
    let outcome = evaluate(&pool(), condition("s.text", "not_contains", &json!("x"))).expect("an answer");
    assert_eq!(outcome.records[0]["comparison_operator"], "not contains");
}

#[test]
fn records_hold_the_compared_values() {
    let group = parse(&json!([
        condition("s.text", "is", &json!("Hello {{#s.other#}}")),
        condition("s.text", "exists", &json!("")),
        condition("s.flags", "contains", &json!("0")),
        condition("s.text", "in", &json!(["b"])),
        condition("s.gone", "is", &json!("")),
    ]))
    .expect("usable conditions");
    let outcome = group.evaluate(&pool()).expect("an answer before the missing variable");
    assert_eq!(outcome.results, [true, true, true, false]);
    assert!(!outcome.result);
    let record = |actual: Json, expected: Json, operator: &str| json!({"actual_value": actual, "expected_value": expected, "comparison_operator": operator});
    assert_eq!(
        outcome.records,
        [
            record(json!("Hello wörld"), json!("Hello wörld"), "is"),
            record(json!([false, false]), json!(false), "contains"),
            record(json!("Hello wörld"), json!(["b"]), "in"),
        ]
    );
}

#[test]
fn secrets_are_compared_open_and_recorded_masked() {
    let secret = Segment::new(SegmentType::Secret, "sk-1234567890".into());
    let pool = Pool::new(json!({"s": {"key": "sk-1234567890", "n": 1}})).with("env", "KEY", secret);
    let masked = "sk-123************90";
    let outcome = evaluate(&pool, condition("env.KEY", "start with", &json!("sk-"))).expect("an answer");
    assert_eq!((outcome.result, &outcome.records[0]["actual_value"]), (true, &json!(masked)));
    let outcome = evaluate(&pool, condition("s.key", "is", &json!("{{#env.KEY#}}"))).expect("an answer");
    assert_eq!((outcome.result, &outcome.records[0]["expected_value"]), (true, &json!(masked)));
    let error = evaluate(&pool, condition("s.n", ">", &json!("{{#env.KEY#}}"))).expect_err("no number");
    assert_eq!(error, format!("Cannot convert '{masked}' to number"));
}

#[test]
fn only_texts_lists_of_texts_truth_values_and_null_can_be_expected() {
    for (value, usable) in [
        (json!("x"), true),
        (json!(null), true),
        (json!(true), true),
        (json!(1), true),
        (json!(0.0), true),
        (json!(["a", "b"]), true),
        (json!([]), true),
        (json!(5), false),
        (json!(2.5), false),
        (json!([1]), false),
        (json!([true]), false),
        (json!({}), false),
    ] {
        let found = parse(&json!([condition("s.text", "is", &value)]));
        assert_eq!(found.is_ok(), usable, "{value}");
    }
    assert!(parse(&json!([{"variable_selector": ["a", "b"], "comparison_operator": "empty"}])).is_ok());
}

#[test]
fn a_broken_regular_expression_is_a_problem_of_the_file() {
    let problems = parse(&json!([condition("s.text", "regex match", &json!("a.("))])).expect_err("a problem");
    assert_eq!((problems[0].code, problems[0].path.as_str()), (INVALID_NODE_DATA, "[0]"));
}

mod of_files {
    use super::*;

    fn file(name: &str, extension: &str, size: u32) -> Json {
        json!({"dify_model_identity": "__dify__file__", "type": "document", "transfer_method": "local_file",
               "filename": name, "extension": extension, "size": size})
    }

    fn docs() -> Pool {
        let empty = Segment::new(SegmentType::ArrayFile, json!([]));
        Pool::new(json!({"s": {"docs": [file("a.pdf", ".pdf", 10), file("b.txt", "txt", 20)], "plain": []}}))
            .with("s", "empty", empty)
    }

    fn over(name: &str, operator: &str, logical: &str, subs: &[(&str, &str, Json)]) -> Json {
        let subs: Vec<Json> = subs
            .iter()
            .map(
                |(key, operator, value)| json!({"key": key, "comparison_operator": operator, "value": value}),
            )
            .collect();
        json!({"variable_selector": ["s", name], "comparison_operator": operator, "value": "",
               "sub_variable_condition": {"logical_operator": logical, "conditions": subs}})
    }

    #[test]
    fn one_file_is_enough_unless_the_operator_says_not() {
        for (key, operator, value, expected) in [
            ("extension", "is", json!("pdf"), Ok(true)),
            ("extension", "is", json!(".txt"), Ok(true)),
            ("extension", "is not", json!("pdf"), Ok(false)),
            ("extension", "is not", json!("docx"), Ok(true)),
            (
                "extension",
                "in",
                json!(["pdf"]),
                Err("Expected value must be a string when key is FileAttribute.EXTENSION"),
            ),
            ("name", "contains", json!("b."), Ok(true)),
            ("name", "not contains", json!("b."), Ok(false)),
            ("name", "regex match", json!("^[ab]\\.pdf$"), Ok(true)),
            ("name", "is", json!("{{#s.x#}}"), Ok(false)),
            ("size", "=", json!("10"), Ok(true)),
            ("size", ">", json!("20"), Ok(false)),
            ("size", "≠", json!("10"), Ok(true)),
            ("size", "=", json!("1.5"), Err("invalid literal for int() with base 10: '1.5'")),
            ("type", "in", json!(["document", "image"]), Ok(true)),
            ("type", "not in", json!(["image"]), Ok(true)),
            ("transfer_method", "in", json!(["remote_url"]), Ok(false)),
            ("mime_type", "null", json!(null), Ok(true)),
            ("url", "exists", json!(null), Ok(false)),
            ("related_id", "not exists", json!(null), Ok(true)),
            ("color", "is", json!("red"), Err("'color' is not a valid FileAttribute")),
        ] {
            for outer in ["contains", "not contains", "all of"] {
                let found = evaluate(&docs(), over("docs", outer, "and", &[(key, operator, value.clone())]));
                let found = found.map(|outcome| (outcome.result, outcome.records));
                let expected = expected.map(|held| (held, Vec::new())).map_err(str::to_owned);
                assert_eq!(found, expected, "{outer}: {key} {operator} {value}");
            }
        }
    }

    #[test]
    fn sub_conditions_are_joined_and_an_empty_list_has_no_files() {
        let pdf = ("extension", "is", json!("pdf"));
        let doc = ("extension", "is", json!("doc"));
        let not_doc = ("extension", "is not", json!("doc"));
        for (name, logical, subs, expected) in [
            ("docs", "and", vec![pdf.clone(), doc.clone()], false),
            ("docs", "or", vec![pdf.clone(), doc.clone()], true),
            ("docs", "and", vec![], true),
            ("docs", "or", vec![], false),
            ("empty", "and", vec![pdf.clone()], false),
            ("empty", "and", vec![not_doc], true),
            // A plain empty list is not a list of files.
            ("plain", "and", vec![], false),
        ] {
            let found =
                evaluate(&docs(), over(name, "contains", logical, &subs)).map(|outcome| outcome.result);
            assert_eq!(found, Ok(expected), "{name} {logical} {subs:?}");
        }
    }

    #[test]
    fn lists_of_files_need_sub_conditions() {
        let found = evaluate(&docs(), condition("s.docs", "contains", &json!("x")));
        assert_eq!(found, Err("Sub variable is required".into()));
        let found =
            evaluate(&docs(), condition("s.docs", "not empty", &json!(""))).map(|outcome| outcome.result);
        assert_eq!(found, Ok(true));
    }
}
