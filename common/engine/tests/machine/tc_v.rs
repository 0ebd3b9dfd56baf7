//! TC-V: variables.

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Lookup, SegmentType, Stored, Variables};

/// The values in the job of a node.
fn carried(play: &Play, place: &str) -> Vec<(String, Json)> {
    let inputs = play.sent[&play.job_of(place).entry].inputs.iter();
    inputs.map(|(node, name, value)| (format!("{node}.{name}"), play.opened(value).value)).collect()
}

#[test]
fn tc_v_001_outputs_of_a_node_reach_later_nodes() {
    let mut play = Play::sheet(
        "a job\nt text template: '{{ x }}!', variables: [{variable: x, value_selector: [a, output]}]\n\
         b text template: '{{ y }}', variables: [{variable: y, value_selector: [t, output]}], tidemill: {runs_on: worker}\n\
         e end outputs: [{variable: r, value_selector: [b, output]}, {variable: a, value_selector: [a, output]}]\n\
         s > a > t > b > e",
        json!({}),
    );
    play.start().done("a", "one");
    assert_eq!(carried(&play, "b"), [("t.output".to_string(), json!("one!"))]);
    play.reload().works("b");
    assert_eq!(play.last(), "succeeded [r=\"one!\" a=\"one\"]");
}

#[test]
fn tc_v_002_every_node_can_read_system_variables() {
    let text = sheet(
        "e end outputs: [{variable: q, value_selector: [sys, query]}, {variable: n, value_selector: [sys, dialogue_count]}, \
         {variable: f, value_selector: [sys, files]}, {variable: u, value_selector: [sys, user_id]}]\ns > e",
    );
    let mut play = Play::headed(&text, json!({}), |head| {
        let values = [("query", json!("why?")), ("dialogue_count", json!(2)), ("files", json!([]))];
        let stored = |value: Json| Stored::Inline(tidemill_base::value::Segment::infer(value));
        head.sys.extend(values.map(|(name, value)| (name.to_string(), stored(value))));
    });
    play.start();
    assert_eq!(play.last(), "succeeded [q=\"why?\" n=2 f=[] u=\"u\"]");
}

#[test]
fn tc_v_003_branches_do_not_see_each_others_variables_and_a_skipped_one_has_none() {
    let mut play = Play::given(
        "yes",
        "start s\nif g s.x\njob a\njob b\njob c\nend e a.output b.output c.output\n\
         s > g\ns > c > e\ng:true > a > e\ng:false > b > e",
    );
    play.start();
    assert!(
        carried(&play, "a").is_empty() && carried(&play, "c").is_empty(),
        "a job carries what its node names"
    );
    play.done("c", "C").done("a", "A");
    assert_eq!(play.last(), "succeeded [a.output=\"A\" b.output=null c.output=\"C\"]");
    let root = FramePath::root();
    let of = |node: &str| play.run.frames.get(&root).unwrap().variables.get(node).map_or(0, Vec::len);
    assert_eq!([of("a"), of("b"), of("c")], [1, 0, 1]);
}

#[test]
fn tc_v_004_values_keep_their_types_everywhere() {
    for (value, ty) in [
        (json!("text"), SegmentType::String),
        (json!(7), SegmentType::Integer),
        (json!(2.5), SegmentType::Float),
        (json!(1.0), SegmentType::Float),
        (json!(true), SegmentType::Boolean),
        (json!({"a": {"b": [1, null]}}), SegmentType::Object),
        (json!(["a", "b"]), SegmentType::ArrayString),
        (json!([1, 2.5]), SegmentType::ArrayNumber),
        (json!([{"a": 1}]), SegmentType::ArrayObject),
        (json!([true]), SegmentType::ArrayBoolean),
        (json!([1, "two"]), SegmentType::ArrayAny),
        (json!([]), SegmentType::ArrayAny),
        (json!(null), SegmentType::None),
    ] {
        let mut play = Play::sheet(
            "a job\nv variable-aggregator output_type: any, variables: [[a, output]]\n\
             e end outputs: [{variable: in, value_selector: [s, v]}, {variable: out, value_selector: [v, output]}]\n\
             s > a > v > e",
            json!({"v": value}),
        );
        play.start().brings("a", &[("output", value.clone())]);
        assert_eq!(play.last(), format!("succeeded [in={value} out={value}]"));
        play.reload();
        for (node, name) in [("s", "v"), ("a", "output"), ("v", "output"), ("e", "in"), ("e", "out")] {
            let root = FramePath::root();
            let stored = play.run.pool(&root).stored(node, name).map(|stored| stored.ty());
            assert_eq!(stored, Some(ty), "{node}.{name} of {value}");
        }
    }
}

#[test]
fn tc_v_005_selectors_reach_into_objects_and_missing_values_are_missing() {
    let file =
        json!({"dify_model_identity": "__dify__file__", "filename": "a.pdf", "size": 3, "type": "document"});
    let mut play = Play::sheet(
        "a job\nz answer answer: '<{{#a.o.k.n#}}|{{#a.missing#}}|{{#nobody.x#}}>'\ns > a > z",
        json!({}),
    );
    play.start().brings("a", &[("o", json!({"k": {"n": 5, "z": null}, "l": [1]})), ("f", file)]);
    let root = FramePath::root();
    let get = |selector: &[&str]| {
        let selector: Vec<String> = selector.iter().map(ToString::to_string).collect();
        match play.run.pool(&root).get(&selector) {
            Lookup::Found(segment) => Some(segment.value.clone()),
            Lookup::Missing => None,
            Lookup::Blob(_) => panic!("no value here is a blob"),
        }
    };
    for (selector, expected) in [
        (["a", "o", "k", "n"].as_slice(), Some(json!(5))),
        (&["a", "o", "k", "z"], Some(json!(null))),
        (&["a", "o", "l"], Some(json!([1]))),
        (&["a", "o", "l", "0"], None),
        (&["a", "o", "k", "n", "deeper"], None),
        (&["a", "o", "gone"], None),
        (&["a", "gone"], None),
        (&["nobody", "x"], None),
        (&["a"], None),
    ] {
        assert_eq!(get(selector), expected, "{selector:?}");
    }
    assert_eq!(play.last(), "succeeded [answer=\"<5|a.missing|nobody.x>\"]");
}
