use std::time::Instant;

use serde_json::{Value as Json, json};

use super::*;
use crate::check::{Event, Transcript};
use crate::outside::OutsideCall;
use crate::story::{Happened, TAG};

fn event(seq: u64, kind: &str, data: Json) -> Event {
    Event { id: Some(format!("{seq}-0")), kind: kind.into(), seq, data }
}

fn transcript() -> Transcript {
    let node = json!({"id": "x1", "node_id": "llm"});
    let chunk = json!({"selector": ["llm", "text"], "chunk": "hello r1"});
    let events = vec![
        event(1, "graph_run_started", json!({})),
        event(2, "node_run_started", node.clone()),
        event(3, "node_run_stream_chunk", chunk),
        event(4, "node_run_succeeded", node),
        event(5, "graph_run_succeeded", json!({})),
    ];
    Transcript { events }
}

fn evidence() -> Evidence {
    let now = Instant::now();
    let story = Story {
        workflow: 0,
        tag: "r1".into(),
        run: "a".into(),
        began: now,
        ended: now,
        transcript: transcript(),
        resets: 0,
        connections: 1,
        record: transcript(),
        shown: json!({"status": "succeeded", "outputs": {"answer": "hello r1"}}),
        trouble: None,
        is_gone: false,
    };
    let call = "ask r1".to_string();
    let reference = Reference {
        workflow: "w".into(),
        status: "succeeded".into(),
        outputs: Some(json!({"answer": format!("hello {TAG}")})),
        calls: [(format!("ask {TAG}"), 1)].into(),
    };
    let mut remains = Remains::default();
    remains.ended_runs.insert("a".into());
    Evidence {
        stories: vec![story],
        references: vec![reference],
        faults: Vec::new(),
        calls: vec![call],
        outside: vec![OutsideCall { target: "/".into(), body: "call of r1".into(), key: Some("e-1".into()) }],
        remains,
    }
}

fn fault(repeats: usize, loses: bool) -> Happened {
    let now = Instant::now();
    Happened { name: "x", what: String::new(), from: now, to: now, repeats, loses }
}

/// Changes the evidence and expects violations of exactly these checks.
fn breaks(names: &[&str], spoil: impl FnOnce(&mut Evidence)) {
    let mut evidence = evidence();
    spoil(&mut evidence);
    let found: Vec<&str> = violations(&evidence).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, names, "{:#?}", violations(&evidence));
}

#[test]
fn a_story_without_faults_violates_no_check() {
    breaks(&[], |_| {});
}

#[test]
fn each_check_finds_its_own_violation() {
    let again = |key: Option<&str>| OutsideCall {
        target: "/".into(),
        body: "call of r1".into(),
        key: key.map(str::to_owned),
    };
    breaks(&["attempts-keep-their-key"], |e| e.outside.push(again(Some("e-1"))));
    breaks(&["attempts-keep-their-key"], |e| e.outside[0] = again(None));
    // One violation for the new key, one for the additional call.
    breaks(&["attempts-keep-their-key"; 2], |e| e.outside.push(again(Some("e-2"))));
    breaks(&["every-run-ends"], |e| e.stories[0].trouble = Some("stuck".into()));
    breaks(&["no-run-is-lost"], |e| e.stories[0].is_gone = true);
    breaks(&["outputs-are-right"], |e| e.stories[0].shown["status"] = json!("failed"));
    breaks(&["outputs-are-right", "text-is-final"], |e| {
        e.stories[0].shown["outputs"]["answer"] = json!("hello")
    });
    breaks(&["one-end-per-execution", "followers-agree"], |e| {
        e.stories[0].record.events[2] = event(3, "node_run_succeeded", json!({"id": "x1"}));
    });
    breaks(&["calls-are-bounded"], |e| e.calls.push("ask r1".into()));
    breaks(&["calls-are-bounded"], |e| e.calls.push("something else r1".into()));
    breaks(&["events-are-whole", "followers-agree"], |e| {
        e.stories[0].transcript.events.remove(2);
    });
    breaks(&["events-are-whole"], |e| e.stories[0].resets = 1);
    breaks(&["nothing-is-pending"], |e| {
        e.remains.jobs.insert("j".into(), (1, 0));
    });
    breaks(&["inbox-is-applied"], |e| {
        e.remains.inboxes.insert("s".into(), ("10-0".into(), "9-1".into()));
    });
    breaks(&["timers-are-cleared"], |e| {
        e.remains.timers.insert("s".into(), vec!["t".into()]);
    });
    breaks(&["leases-are-the-owners"], |e| {
        e.remains.leases.insert("s".into(), ("a".into(), "a".into()));
    });
    breaks(&["indexes-are-right"], |e| e.remains.open_runs.push("a is running".into()));
    breaks(&["keys-are-documented"], |e| e.remains.without_ttl.push("tm:{0}:run:a:state".into()));
    breaks(&["nothing-is-dead"], |e| e.remains.dead.push("a fact".into()));
}

#[test]
fn faults_excuse_only_what_they_can_cause() {
    let twice = |e: &mut Evidence| e.calls.push("ask r1".into());
    breaks(&[], |e| {
        twice(e);
        e.faults.push(fault(1, false));
        e.stories[0].ended = Instant::now();
    });
    breaks(&["calls-are-bounded"], |e| {
        twice(e);
        e.faults.push(fault(0, false));
    });
    breaks(&[], |e| {
        twice(e);
        twice(e);
        // A job was handed back by two workers, one after the other.
        e.faults.push(fault(2, false));
        e.stories[0].ended = Instant::now();
    });
    breaks(&["calls-are-bounded"], |e| {
        twice(e);
        twice(e);
        e.faults.push(fault(1, false));
        e.stories[0].ended = Instant::now();
    });
    breaks(&[], |e| {
        e.faults.push(fault(1, true));
        e.stories[0].is_gone = true;
        e.remains.dead.push("a fact".into());
    });
    breaks(&["outputs-are-right"], |e| {
        e.faults.push(fault(1, true));
        e.stories[0].shown["status"] = json!("failed");
    });
    // The model refused the first calls of a run that Redis then lost in part; it does not refuse those of the repetition.
    let repeated = |loses: bool| {
        move |e: &mut Evidence| {
            e.faults.push(fault(1, loses));
            e.references[0].status = "partial-succeeded".into();
        }
    };
    breaks(&[], repeated(true));
    breaks(&["outputs-are-right"], repeated(false));
}
