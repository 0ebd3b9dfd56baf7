//! TC-SER: stored runs can be read, and a run that was loaded continues as if it had stayed in memory.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{SegmentType, Stored};
use tidemill_engine::state::run::{RunHead, RunStatus};
use tidemill_wire::expand::envelope;

/// A workflow, its inputs, and the attempts that fail.
pub(super) struct Case {
    pub(super) name: &'static str,
    text: &'static str,
    inputs: fn() -> Json,
    fails: fn(&str, u32) -> bool,
}

const FORM: &str = "{{form}}";

/// Workflows that together emit every kind of event.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "branches, retries, default values",
        text: "m llm retry_config: {max_retries: 2, retry_interval: 10, retry_enabled: true}\n\
               d job error_strategy: default-value, default_value: [{key: output, type: string, value: instead}]\n\
               g if-else cases: [{case_id: 'true', logical_operator: and, conditions: [{variable_selector: [d, output], comparison_operator: is, value: instead}]}]\n\
               a job\nb job\n\
               z answer answer: '{{#m.text#}} and {{#d.output#}}'\n\
               s > m > z\ns > d > g\ng:true > a > z\ng:false > b > z",
        inputs: || json!({}),
        fails: |place, attempt| place == "d" || place == "m" && attempt < 3,
    },
    Case {
        name: "an iteration with failures in parallel, and writes to the conversation",
        text: "conversation l, value_type: 'array[number]', value: []\n\
               it iteration iterator_selector: [s, l], output_selector: [a, text], is_parallel: true, parallel_nums: 2, error_handle_mode: continue-on-error\n\
               it/w assigner version: '2', items: [{variable_selector: [conversation, l], input_type: variable, operation: append, value: [it, item]}]\n\
               it/a llm retry_config: {max_retries: 1, retry_interval: 10, retry_enabled: true}\nit/b job\nit/z answer answer: '{{#it.item#}};'\n\
               e end outputs: [{variable: r, value_selector: [it, output]}, {variable: l, value_selector: [conversation, l]}]\n\
               s > it > e\nits > w > a > z\nits > b",
        inputs: || json!({"l": [1, 2, 3, 4]}),
        fails: |place, attempt| place == "it#1/b" || place == "it#2/a" && attempt == 1,
    },
    Case {
        name: "a loop around an iteration around a loop, that fails into a branch",
        text: "lp loop loop_count: 3, logical_operator: and, break_conditions: [], error_strategy: fail-branch, loop_variables: [{label: n, var_type: number, value_type: constant, value: 0}]\n\
               lp/it iteration iterator_selector: [s, l], output_selector: [in, k], is_parallel: true\n\
               it/in loop loop_count: 2, logical_operator: and, break_conditions: [], loop_variables: [{label: k, var_type: number, value_type: variable, value: [it, item]}]\n\
               in/a job\nin/inc assigner version: '2', items: [{variable_selector: [in, k], input_type: constant, operation: '*=', value: 2}]\n\
               lp/c job\nk job\ne end outputs: [{variable: r, value_selector: [it, output]}, {variable: m, value_selector: [lp, error_message]}]\n\
               s > lp\nlp:fail-branch > k > e\nlps > it > c\nits > in\nins > a > inc",
        inputs: || json!({"l": [1, 2]}),
        fails: |place, _| place == "lp#1/c",
    },
    Case {
        name: "an iteration that terminates the run",
        text: "it iteration iterator_selector: [s, l], output_selector: [a, output], is_parallel: true\nit/a job\n\
               z answer answer: 'fixed {{#it.output#}}'\ns > it > z\nits > a",
        inputs: || json!({"l": [1, 2, 3]}),
        fails: |place, _| place == "it#1/a",
    },
    Case {
        name: "forms in parallel branches and in items, and a wait",
        text: "f {{form}}\ng {{form}}\nit iteration iterator_selector: [s, l], output_selector: [h, name], is_parallel: true\nit/h {{form}}\n\
               p human-input required_variables: [k.v], pause_reason: needs v\nk job\n\
               e end outputs: [{variable: r, value_selector: [it, output]}, {variable: f, value_selector: [f, name]}]\n\
               s > f:ok > g:ok > e\ns > it > e\ns > p > k > e\nits > h",
        inputs: || json!({"l": [1, 2]}),
        fails: |_, _| false,
    },
    Case {
        name: "large values",
        text: "a text template: '{{ x * 60 }}', variables: [{variable: x, value_selector: [s, x]}], tidemill: {runs_on: worker}\n\
               lp loop loop_count: 2, logical_operator: and, break_conditions: [{variable_selector: [lp, t], comparison_operator: is, value: no}], \
               loop_variables: [{label: t, var_type: string, value_type: variable, value: [a, output]}]\n\
               lp/it iteration iterator_selector: [s, l], output_selector: [t, output]\n\
               it/t text template: '{{ y }}{{ i }}', variables: [{variable: y, value_selector: [lp, t]}, {variable: i, value_selector: [it, item]}]\n\
               e end outputs: [{variable: r, value_selector: [it, output]}, {variable: t, value_selector: [lp, t]}]\n\
               s > a > lp > e\nlps > it\nits > t",
        inputs: || json!({"l": ["p", "q"], "x": "ab"}),
        fails: |_, _| false,
    },
    Case {
        name: "limits on waiting and running, and containers that workers open, check and collect",
        text: "m llm retry_config: {max_retries: 1, retry_interval: 10, retry_enabled: true}, error_strategy: fail-branch, tidemill: {queue_timeout_ms: 1500, execution_timeout_ms: 1500}\n\
               lp loop loop_count: 3, logical_operator: and, break_conditions: [{variable_selector: [t2, output], comparison_operator: end with, value: end}], \
               error_strategy: fail-branch, tidemill: {runs_on: worker, queue_timeout_ms: 2500, execution_timeout_ms: 1500}\n\
               lp/it iteration iterator_selector: [s, l], output_selector: [t, output], is_parallel: true, tidemill: {runs_on: worker, queue_timeout_ms: 1500}\n\
               it/t text template: '{{ y * 70 }}', variables: [{variable: y, value_selector: [it, item]}], tidemill: {runs_on: worker, execution_timeout_ms: 1500}\n\
               lp/t2 text template: '{{ y }}', variables: [{variable: y, value_selector: [it, output]}]\n\
               k job\ne end outputs: [{variable: r, value_selector: [it, output]}, {variable: m, value_selector: [m, text]}]\n\
               s > m > e\nm:fail-branch > k\ns > lp > e\nlp:fail-branch > k > e\nlps > it > t2\nits > t",
        inputs: || json!({"l": ["p", "q", "r"]}),
        fails: |_, _| false,
    },
];

pub(super) fn play(case: &Case, change: impl FnOnce(&mut RunHead)) -> Play {
    let form = "human-input form_content: 'Hi {{#$output.name#}}', timeout: 1, timeout_unit: hour, \
                inputs: [{type: paragraph, output_variable_name: name, default: {type: constant, value: ''}}], \
                user_actions: [{id: ok, title: Fine}, {id: 'no', title: Never}]";
    Play::headed(&sheet(&case.text.replace(FORM, form)), (case.inputs)(), |head| {
        head.options.inline_bytes_max = 100;
        head.conversation_id = Some("c".into());
        change(head);
    })
}

/// Plays a run to its end: does its jobs, answers its forms, sets missing variables, and resumes it.
fn finish(play: &mut Play, case: &Case) {
    for _ in 0..50 {
        play.goes_on(case.fails);
        if play.run.status.is_over() {
            return;
        }
        let waits: Vec<String> = play
            .run
            .pauses
            .values()
            .map(|p| super::describe::place(&play.run.graph, &p.frame, p.node))
            .collect();
        if !play.run.control.pausing.is_empty() {
            play.resume();
        } else if let Some(form) = waits.iter().filter(|place| *place != "p").min() {
            play.answer(form, "ok", json!({"name": format!("of {form}")}));
        } else {
            play.update("k.v", json!(1)).resume();
        }
    }
    panic!("{} does not end: {:?}", case.name, play.words());
}

/// The types of all events. Some workflow here must emit each of them.
const KINDS: [&str; 28] = [
    "graph_edge_skipped",
    "graph_run_aborted",
    "graph_run_failed",
    "graph_run_partial_succeeded",
    "graph_run_paused",
    "graph_run_started",
    "graph_run_succeeded",
    "graph_run_variables_updated",
    "node_run_exception",
    "node_run_failed",
    "node_run_human_input_form_filled",
    "node_run_human_input_form_timeout",
    "node_run_iteration_failed",
    "node_run_iteration_next",
    "node_run_iteration_started",
    "node_run_iteration_succeeded",
    "node_run_loop_failed",
    "node_run_loop_next",
    "node_run_loop_started",
    "node_run_loop_succeeded",
    "node_run_pause_requested",
    "node_run_retry",
    "node_run_started",
    "node_run_stream_chunk",
    "node_run_stream_replaced",
    "node_run_succeeded",
    "node_run_variable_updated",
    "run_warning",
];

/// The keys that the data of an event must have besides those of all events of nodes.
fn keys_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "graph_edge_skipped" => &["edge_id", "source_node_id", "target_node_id", "source_handle"],
        "graph_run_started" => &["reason"],
        "graph_run_succeeded" => &["outputs"],
        "graph_run_partial_succeeded" => &["outputs", "exceptions_count"],
        "graph_run_failed" => &["error", "exceptions_count"],
        "graph_run_aborted" => &["reason", "outputs"],
        "graph_run_paused" => &["reasons", "pauses", "outputs"],
        "graph_run_variables_updated" => &["selectors"],
        "node_run_started" => &["start_at", "predecessor_node_id", "extras"],
        "node_run_succeeded" => &["start_at", "finished_at", "node_run_result"],
        "node_run_failed" | "node_run_exception" => &["start_at", "finished_at", "node_run_result", "error"],
        "node_run_retry" => &["start_at", "finished_at", "node_run_result", "error", "retry_index"],
        "node_run_stream_chunk" => &["selector", "chunk", "is_final"],
        "node_run_stream_replaced" => &["selector", "text"],
        "node_run_pause_requested" => &["reason", "pause"],
        "node_run_human_input_form_filled" => {
            &["rendered_content", "action_id", "action_text", "submitted_data"]
        }
        "node_run_human_input_form_timeout" => &["expiration_time"],
        "node_run_variable_updated" => &["variable"],
        "run_warning" => &["code", "message"],
        "node_run_iteration_started" | "node_run_loop_started" => &["start_at", "inputs", "metadata"],
        "node_run_iteration_next" => &["index", "pre_iteration_output"],
        "node_run_loop_next" => &["index", "pre_loop_output"],
        "node_run_iteration_succeeded" | "node_run_loop_succeeded" => {
            &["start_at", "finished_at", "inputs", "outputs", "metadata", "steps"]
        }
        "node_run_iteration_failed" | "node_run_loop_failed" => {
            &["start_at", "finished_at", "inputs", "outputs", "metadata", "steps", "error"]
        }
        other => panic!("no keys are listed for {other}"),
    }
}

/// An event is `{type, data, id, run_id, seq, ts}` (0.18 leaves the form open). Every test of the engine writes, reads
/// and expands all its events; this test checks the content of each kind.
#[test]
fn tc_ser_001_every_kind_of_event_is_written_and_read_in_full() {
    let mut plays: Vec<Play> = Vec::new();
    for case in CASES {
        let mut play = play(case, |_| {});
        play.start();
        finish(&mut play, case);
        plays.push(play);
    }
    let mut stopped = Play::of("start s\nllm m\nanswer z {{#m.text#}}\ns > m > z");
    stopped.start().chunk("m", 1, 0, "a").chunk("m", 2, 0, "b").stop("enough");
    let mut late = play(&CASES[4], |_| {});
    late.start().goes_on(|_, _| false).after(std::time::Duration::from_secs(3600)).fire();
    let mut plain = Play::of("start s");
    plain.start();
    let mut warned = Play::of("start s\njob a fail-branch\ns > a");
    warned.start().failed("a", "broken");
    plays.extend([stopped, late, plain, warned]);
    let mut seen = BTreeSet::new();
    for play in &plays {
        for (at, record) in play.records.iter().enumerate() {
            assert_eq!(record.seq, at as u64 + 1);
            let sent = envelope(record, &play.run.id, &play.run.graph);
            let data = &sent["data"];
            let of_node: &[&str] = if record.kind.starts_with("node_") {
                &["id", "node_id", "node_type", "node_title", "node_version", "in_iteration_id", "in_loop_id"]
            } else {
                &[]
            };
            for key in keys_of(&record.kind).iter().chain(of_node) {
                assert!(data.get(*key).is_some(), "{} has no {key}: {data}", record.kind);
            }
            seen.insert(record.kind.clone());
        }
    }
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), KINDS);
}

#[test]
fn tc_ser_001_events_within_containers_name_their_frame() {
    let mut play = play(&CASES[2], |_| {});
    play.start().done("lp#0/it#1/in#0/a", "");
    let record =
        play.records.iter().rfind(|r| r.kind == "node_run_succeeded" && r.data["node_id"] == "a").unwrap();
    let sent = envelope(record, &play.run.id, &play.run.graph);
    let data = &sent["data"];
    assert_eq!((&data["in_iteration_id"], &data["in_loop_id"]), (&json!("it"), &json!("in")));
    assert_eq!(
        data["node_run_result"]["metadata"],
        json!({"iteration_id": "it", "iteration_index": 1, "loop_id": "in", "loop_index": 0})
    );
}

#[test]
fn tc_ser_002_the_pool_is_the_same_after_it_was_written_and_read() {
    let values = json!({
        "text": "tëxt \u{0} \"quoted\"", "blank": "", "int": 9_007_199_254_740_993_i64, "negative": -1, "float": 1.0,
        "tiny": 1e-300, "yes": true, "no": false, "null": null, "object": {"z": 1, "a": [{"k": null}], "": {}},
        "texts": ["a", ""], "numbers": [1, 2.5], "objects": [{}], "flags": [true], "mixed": [1, "a", null], "empty": [],
        "$tm": {"$tm": "value"}, "a.b/c#d": 1, "large": "x".repeat(200), "list": ["y".repeat(200), "z"],
        "file": {"dify_model_identity": "__dify__file__", "filename": "f.pdf", "type": "document"},
    });
    let text = "environment k, value_type: secret, value: hunter2\nconversation c, value_type: object, value: {a: 1}\n\
                a job\nt variable-aggregator output_type: secret, variables: [[env, k]]\n\
                it iteration iterator_selector: [a, list], output_selector: [b, output]\nit/b job\ns > a > t > it\nits > b";
    let mut play = Play::headed(&sheet(text), values.clone(), |head| head.options.inline_bytes_max = 100);
    play.start();
    let outputs: Vec<(&str, Json)> =
        values.as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    play.brings("a", &outputs);
    assert_eq!(play.waiting(), ["it#0/b"]);
    let frames: Vec<FramePath> = play.run.frames.keys().cloned().collect();
    let seen = |play: &Play| -> Vec<(String, String, Stored)> {
        let of = |frame: &FramePath| {
            let pool = play.run.pool(frame);
            let mut names = tidemill_base::value::Variables::names(&pool);
            names.sort();
            let value = |(node, name): (String, String)| {
                let stored = pool.stored(&node, &name).expect("a name that is listed is there").into_owned();
                (node, name, stored)
            };
            names.into_iter().map(value).collect::<Vec<_>>()
        };
        frames.iter().flat_map(of).collect()
    };
    let before = seen(&play);
    play.reload();
    assert_eq!(seen(&play), before);
    for (name, value) in values.as_object().unwrap() {
        for node in ["s", "a"] {
            assert_eq!(&play.value(&format!("{node}.{name}")), value, "{node}.{name}");
        }
    }
    let secret = before.iter().find(|(node, name, _)| node == "t" && name == "output").unwrap();
    assert_eq!((&secret.2, secret.2.ty()), (&Stored::Secret("k".into()), SegmentType::Secret));
    assert!(!play.kept_text().contains("hunter2"));
}

/// All events without their times.
fn without_times(play: &Play) -> Vec<(String, Json)> {
    let without_times = |data: &Json| {
        let mut data = data.clone();
        for key in ["start_at", "finished_at"] {
            data.as_object_mut().unwrap().shift_remove(key);
        }
        data
    };
    play.records.iter().map(|r| (r.kind.clone(), without_times(&Json::Object(r.data.clone())))).collect()
}

#[test]
fn tc_ser_003_a_run_that_is_loaded_after_every_commit_equals_one_that_never_was() {
    for case in CASES {
        let mut still = play(case, |_| {});
        still.start();
        finish(&mut still, case);
        let mut restless = play(case, |_| {});
        restless.restless = true;
        restless.start();
        finish(&mut restless, case);
        assert_eq!(without_times(&restless), without_times(&still), "{}", case.name);
        assert_eq!(
            (restless.run.status, restless.run.seq),
            (still.run.status, still.run.seq),
            "{}",
            case.name
        );
        assert!(restless.timers.is_empty() && restless.jobs.is_empty(), "{}", case.name);
    }
}

/// The end of a run: its status, and its outputs or its error.
fn outcome(play: &Play) -> (RunStatus, Json) {
    let data = &play.records.last().unwrap().data;
    (play.run.status, without_places(play, data.get("outputs").or(data.get("error")).unwrap()))
}

#[test]
fn tc_ser_003_a_run_that_was_paused_anywhere_ends_like_one_that_never_was() {
    for case in CASES {
        let mut still = play(case, |_| {});
        still.start();
        finish(&mut still, case);
        for at in 0..40 {
            let mut paused = play(case, |_| {});
            paused.restless = true;
            paused.start();
            let paused_in_time = paused.pauses_after(at, case.fails);
            finish(&mut paused, case);
            assert_eq!(outcome(&paused), outcome(&still), "{} paused after {at} jobs", case.name);
            if !paused_in_time {
                break;
            }
        }
    }
}

/// A run that begins with a snapshot, taken after any job, ends like the run that was never exported.
#[test]
fn tc_ser_003_a_run_exported_anywhere_ends_like_the_original() {
    for case in CASES {
        let mut still = play(case, |_| {});
        still.start();
        finish(&mut still, case);
        for at in 0..40 {
            let mut exported = play(case, |_| {});
            exported.start();
            exported.does(at, case.fails);
            if exported.run.status.is_over() {
                break;
            }
            let mut other = exported.elsewhere();
            other.restless = true;
            finish(&mut other, case);
            assert_eq!(outcome(&other), outcome(&still), "{} exported after {at} jobs", case.name);
            assert!(
                other.timers.is_empty() && other.jobs.is_empty(),
                "{} after {at}: {:?}",
                case.name,
                other.timers
            );
        }
    }
}

/// Replaces blobs in a value by their contents, because the ids of blobs differ between commits.
fn without_places(play: &Play, value: &Json) -> Json {
    match value {
        Json::Object(map) if map.get("$tm") == Some(&json!("blob")) => {
            let id = tidemill_base::ids::BlobId::from(map["id"].as_str().unwrap());
            serde_json::from_str(&play.blobs[&id]).unwrap()
        }
        Json::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), without_places(play, value))).collect()
        }
        Json::Array(items) => items.iter().map(|item| without_places(play, item)).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
    }
}
