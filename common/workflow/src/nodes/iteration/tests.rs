use serde_json::json;

use super::super::parse::tests::paths_of;
use super::*;
use crate::nodes::condition::tests::Pool;

fn config(more: Json) -> Json {
    let mut data =
        json!({"start_node_id": "s", "iterator_selector": ["start", "l"], "output_selector": ["c", "d"]});
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    data
}

fn iteration(more: Json) -> IterationData {
    let mut problems = Problems::new();
    let read = IterationData::parse(config(more).as_object().unwrap(), &mut problems);
    read.unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}

fn file(name: &str) -> Json {
    json!({"dify_model_identity": "__dify__file__", "filename": name})
}

#[test]
fn each_wrong_field_is_reported_at_its_path() {
    let check = |data: &JsonMap, problems: &mut Problems| {
        let read = IterationData::parse(data, problems);
        assert_eq!(read.is_none(), problems.has_errors());
    };
    assert_eq!(paths_of(check, config(json!({}))), Vec::<String>::new());
    for (key, value) in [
        ("start_node_id", json!(5)),
        ("start_node_id", json!("")),
        ("iterator_selector", json!("a.b")),
        ("output_selector", json!([1])),
        ("is_parallel", json!("perhaps")),
        ("parallel_nums", json!(0)),
        ("flatten_output", json!(null)),
        ("error_handle_mode", json!("ignore")),
    ] {
        let mut data = config(json!({}));
        data[key] = value;
        assert_eq!(paths_of(check, data), [key]);
    }
}

#[test]
fn the_window_is_wide_only_when_parallel() {
    for (more, window) in [
        (json!({}), 1),
        (json!({"parallel_nums": 4}), 1),
        (json!({"is_parallel": true}), 10),
        (json!({"is_parallel": "true", "parallel_nums": "3"}), 3),
    ] {
        assert_eq!(iteration(more).window, window);
    }
    let plain = iteration(json!({}));
    assert_eq!((plain.errors, plain.flatten), (ErrorMode::Terminated, true));
    let mut mentions = Vec::new();
    plain.mentions(&mut mentions);
    assert_eq!(mentions, [("start".to_owned(), "l".to_owned())]);
}

#[test]
fn lists_and_null_can_be_iterated_and_nothing_else() {
    let secret = Segment::new(SegmentType::Secret, "sk-1234567890".into());
    for (given, expected) in [
        (Some(Segment::infer(json!([1, "x"]))), Ok(Segment::infer(json!([1, "x"])))),
        (
            Some(Segment::new(SegmentType::ArrayString, json!([]))),
            Ok(Segment::new(SegmentType::ArrayString, json!([]))),
        ),
        (Some(Segment::none()), Ok(Segment::new(SegmentType::ArrayAny, json!([])))),
        (None, Err("iterator variable ['start', 'l'] not found")),
        (
            Some(Segment::string("abc")),
            Err(
                "invalid iterator value: value_type=<SegmentType.STRING: 'string'> value='abc', please provide a list.",
            ),
        ),
        (
            Some(secret),
            Err(
                "invalid iterator value: value_type=<SegmentType.SECRET: 'secret'> value='sk-123************90', please provide a list.",
            ),
        ),
    ] {
        let mut pool = Pool::new(json!({}));
        if let Some(segment) = given {
            pool = pool.with("start", "l", segment);
        }
        let result = iteration(json!({})).open(&pool);
        match expected {
            Ok(list) => {
                assert_eq!(result.outputs, [("items".to_owned(), list.clone())]);
                assert_eq!(result.inputs, [("iterator_selector".to_owned(), list)]);
                assert_eq!((result.failure, result.handle.as_str()), (None, "source"));
            }
            Err(message) => {
                assert_eq!(result.failure, Some(NodeFailure::escaped(message)));
                assert_eq!((result.inputs, result.outputs), (vec![], vec![]));
            }
        }
    }
}

#[test]
fn modes_and_flattening_shape_the_output() {
    let mode = |name: &str, flatten: bool| json!({"error_handle_mode": name, "flatten_output": flatten});
    let (stop, null, drop) = ("terminated", "continue-on-error", "remove-abnormal-output");
    // None: an item that failed.
    for (more, outcomes, output) in [
        (mode(stop, true), vec![Some(json!("a")), None, Some(json!("c"))], json!(["a", "c"])),
        (mode(null, true), vec![Some(json!("a")), None, Some(json!("c"))], json!(["a", null, "c"])),
        (mode(drop, true), vec![Some(json!("a")), None, Some(json!(null))], json!(["a", null])),
        (mode(null, true), vec![Some(json!([1])), None, Some(json!([[2], 3]))], json!([1, [2], 3])),
        (mode(null, false), vec![Some(json!([1])), None], json!([[1], null])),
        (mode(stop, true), vec![Some(json!([1])), Some(json!("x"))], json!([[1], "x"])),
        (mode(stop, true), vec![Some(json!([])), Some(json!([]))], json!([])),
        (mode(null, true), vec![None, None], json!([null, null])),
        (mode(drop, true), vec![None, None], json!([])),
        (mode(stop, true), vec![], json!([])),
    ] {
        let outcomes = outcomes
            .into_iter()
            .map(|value| value.map_or(Outcome::Failed, |value| Outcome::Done(Segment::infer(value))));
        assert_eq!(iteration(more.clone()).collect(outcomes.collect()), Segment::infer(output), "{more}");
    }
}

#[test]
fn files_stay_files_on_their_way_through_an_iteration() {
    let (one, two) = (file("a"), file("b"));
    let done = |ty, value| Outcome::Done(Segment::new(ty, value));
    let single = vec![done(SegmentType::File, one.clone()), done(SegmentType::File, two.clone())];
    let lists = vec![
        done(SegmentType::ArrayFile, json!([one])),
        Outcome::Done(Segment::none()),
        done(SegmentType::ArrayFile, json!([two])),
    ];
    let expected = Segment::new(SegmentType::ArrayFile, json!([one, two]));
    for outcomes in [single, lists] {
        let read: Option<Vec<_>> = outcomes.iter().map(|it| Outcome::of_entry(it.entry())).collect();
        assert_eq!(read.as_ref(), Some(&outcomes));
        assert_eq!(iteration(json!({})).collect(outcomes), expected);
    }
    let mixed = vec![done(SegmentType::File, one.clone()), Outcome::Done(Segment::none())];
    assert_eq!(iteration(json!({})).collect(mixed).ty, SegmentType::ArrayAny);
    for (list, ty) in [
        (SegmentType::ArrayFile, SegmentType::File),
        (SegmentType::ArrayAny, SegmentType::File),
        (SegmentType::ArrayObject, SegmentType::Object),
    ] {
        assert_eq!(item(list, one.clone()).ty, ty);
    }
}

#[test]
fn pages_are_read_until_one_is_missing() {
    let pool = Pool::new(json!({"it": {
        "#0": [{"v": "a"}, {"failed": true}],
        "#1": [{"v": {"failed": true}}],
        "#3": [{"v": "never read"}],
    }}));
    let data = iteration(json!({"error_handle_mode": "continue-on-error"}));
    let result = data.collect_pages("it", &pool);
    let output = Segment::infer(json!(["a", null, {"failed": true}]));
    assert_eq!(result.outputs, [("output".to_owned(), output)]);
    for damaged in [json!("text"), json!([5]), json!([{}])] {
        let pool = Pool::new(json!({"it": {"#0": damaged}}));
        let failure = data.collect_pages("it", &pool).failure.expect("a failure");
        assert_eq!(failure.error_type, "EngineError");
    }
}

#[test]
fn a_secret_is_masked_before_it_is_stored() {
    let secret = Segment::new(SegmentType::Secret, "sk-1234567890".into());
    assert_eq!(Outcome::Done(secret).entry(), json!({"v": "sk-123************90"}));
}
