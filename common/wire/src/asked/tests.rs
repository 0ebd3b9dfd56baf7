use serde_json::{Value as Json, json};

use super::*;
use crate::entry::EventEntry;
use tidemill_base::ids::{EntryId, ShardId};
use tidemill_workflow::graph::GraphHash;

fn run() -> RunId {
    RunId::new(1_754_339_718_571, 0, ShardId(3))
}

/// A form as `pause_json` writes it.
fn pause(id: &str, frame: Option<&str>) -> String {
    let execution = ExecutionId::derive(&run(), &FramePath::from(frame.unwrap_or("")), &NodeId::from("ask"));
    let mut pause = json!({"pause_id": id, "kind": "human_input", "status": "pending", "node_id": "ask",
        "node_title": "Ask \"it\"", "node_execution_id": execution.to_string()});
    if let Some(frame) = frame {
        pause["frame"] = frame.into();
    }
    for (name, value) in [("opened_at", json!("17")), ("content", json!("Which? é")), ("inputs", json!([]))]
    {
        pause[name] = value;
    }
    pause["actions"] = json!([{"id": "ok"}]);
    pause["defaults"] = json!({});
    pause.to_string()
}

fn requested(pause: &str) -> String {
    let Json::Object(map) = serde_json::from_str::<Json>(pause).unwrap() else { panic!("an object") };
    let reason = json!({"TYPE": "hitl_required", "session_id": map["pause_id"], "node_id": "ask",
        "node_title": map["node_title"]});
    let frame = map.get("frame").map(|frame| format!("\"frame\":{frame},")).unwrap_or_default();
    let id = &map["node_execution_id"];
    format!(
        "{{\"seq\":5,\"ts\":17,\"id\":{id},\"node_id\":\"ask\",{frame}\"reason\":{reason},\"pause\":{pause}}}"
    )
}

fn paused(others: &[Json], pauses: &[&str]) -> String {
    let reason = |pause: &&str| {
        let pause: Json = serde_json::from_str(pause).unwrap();
        json!({"TYPE": "hitl_required", "session_id": pause["pause_id"], "node_id": "ask", "node_title": pause["node_title"]})
    };
    let reasons: Vec<Json> = others.iter().cloned().chain(pauses.iter().map(reason)).collect();
    let reasons = Json::Array(reasons);
    format!(
        "{{\"seq\":6,\"ts\":17,\"reasons\":{reasons},\"pauses\":[{}],\"outputs\":{{\"x\":1.10}}}}",
        pauses.join(",")
    )
}

fn ended(outputs: &str, finished_at: &str) -> String {
    format!(
        "{{\"seq\":3,\"ts\":17,\"id\":\"e\",\"node_id\":\"s\",\"start_at\":17.5,\"finished_at\":{finished_at},\
         \"inputs\":{{\"q\":\"why\",\"n\":0.10}},\"outputs\":{{{outputs}}},\"steps\":1}}"
    )
}

fn write(events: &[(&'static str, String)], pauses: &[(&str, &str)]) -> RunWrite {
    RunWrite {
        entries: [events.to_vec()].into_iter().collect(),
        pauses: pauses.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect(),
        ..RunWrite::nothing(run(), GraphHash("g".into()))
    }
}

/// The texts of the events, stored short and read again with these questions.
fn read_back(short: &RunWrite, questions: &Questions) -> Vec<String> {
    let mut texts = Vec::new();
    for fields in short.entries.iter() {
        let fields = fields.map(|(kind, text)| (kind.to_owned(), text.to_owned()));
        let mut entry = EventEntry::read(EntryId::new(7, 0), fields).unwrap();
        assert!(
            entry.asked().iter().all(|id| questions.is_empty() || questions.iter().any(|(q, _)| q == id))
        );
        entry.complete(run(), questions);
        texts.extend(entry.events().map(|(event, _)| event.text().to_owned()));
    }
    texts
}

fn bytes(write: &RunWrite) -> usize {
    write.entries.bytes() + write.pauses.iter().map(|(_, text)| text.len()).sum::<usize>()
}

#[test]
fn what_is_stored_short_is_read_to_the_last_byte() {
    let run_id = run().to_string();
    let sys = format!("\"sys.workflow_id\":\"w\",\"sys.workflow_run_id\":\"{run_id}\",\"sys.files\":[],");
    let inputs = "\"q\":\"why\",\"n\":0.10";
    let scheduled = json!({"TYPE": "scheduled_pause", "message": "a person asked"});
    let (one, two) = (pause("p1", None), pause("p2", Some("it#3/lp#0")));
    for events in [
        vec![(NODE_RUN_PAUSE_REQUESTED, requested(&one)), (NODE_RUN_PAUSE_REQUESTED, requested(&two))],
        vec![(GRAPH_RUN_PAUSED, paused(&[], &[&one]))],
        vec![(GRAPH_RUN_PAUSED, paused(&[scheduled.clone(), scheduled], &[&two, &one]))],
        vec![(NODE_RUN_SUCCEEDED, ended(&format!("{sys}{inputs}"), "17.5"))],
        vec![(NODE_RUN_SUCCEEDED, ended(inputs, "17.25"))],
    ] {
        let long = write(&events, &[("p1", &one), ("p2", &two)]);
        let mut short = long.clone();
        shorten(&mut short);
        let is_each_shorter = |((_, long), text): (&(&str, String), &str)| text.len() < long.len();
        let texts = short.entries.iter().flatten().map(|(_, text)| text);
        assert!(events.iter().zip(texts).all(is_each_shorter), "{short:?}");
        assert!(bytes(&short) < bytes(&long));
        let told: Vec<String> = events.iter().map(|(_, text)| text.clone()).collect();
        assert_eq!(read_back(&short, &short.pauses), told);
        for ((id, whole), (_, stored)) in long.pauses.iter().zip(&short.pauses) {
            assert_eq!(&whole_pause(run(), id, stored), whole);
        }
    }
}

#[test]
fn an_event_tells_of_a_question_as_it_was_asked_also_after_the_answer() {
    let asked = pause("p1", None);
    let mut short = write(&[(NODE_RUN_PAUSE_REQUESTED, requested(&asked))], &[("p1", &asked)]);
    shorten(&mut short);
    let answered = short.pauses[0].1.replace("\"pending\"", "\"answered\"");
    assert_ne!(answered, short.pauses[0].1);
    assert_eq!(read_back(&short, &[("p1".into(), answered)]), [requested(&asked)]);
}

#[test]
fn what_could_not_be_completed_to_the_same_stays_long() {
    let one = pause("p1", None);
    let stranger = requested(&one).replace("hitl_required", "other");
    for (kind, event) in [
        (NODE_RUN_PAUSE_REQUESTED, stranger),
        // A pause of an earlier commit: this one cannot compare it.
        (GRAPH_RUN_PAUSED, paused(&[], &[&pause("p2", None)])),
        (NODE_RUN_SUCCEEDED, ended("\"n\":0.10,\"q\":\"why\"", "17.5")),
        (NODE_RUN_SUCCEEDED, ended("", "17.5")),
        ("node_run_started", "{\"seq\":1,\"ts\":17}".to_owned()),
    ] {
        let mut short = write(&[(kind, event.clone())], &[("p1", &one)]);
        shorten(&mut short);
        assert_eq!(short.entries, write(&[(kind, event)], &[]).entries);
    }
    let events = [(NODE_RUN_SUCCEEDED, ended("\"q\":\"why\",\"n\":0.10", "17.5"))];
    let mut without = write(&events, &[]);
    shorten(&mut without);
    assert_eq!(without, write(&events, &[]), "nothing is asked");
}

#[test]
fn a_question_that_redis_has_lost_leaves_an_event_with_its_id() {
    let one = pause("p1", None);
    let mut short = write(&[(NODE_RUN_PAUSE_REQUESTED, requested(&one))], &[("p1", &one)]);
    shorten(&mut short);
    let text = read_back(&short, &[]).remove(0);
    let event: Json = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&event["seq"], &event["pause"]["pause_id"]), (&json!(5), &json!("p1")));
}

#[test]
fn answers_and_pauses_of_older_versions_stay_as_they_are() {
    for text in [
        pause("p1", None),
        r#"{"action":"ok","inputs":{},"answered_at":"17"}"#.to_owned(),
        r#"{"status":"pending"}"#.to_owned(),
        "no JSON".to_owned(),
    ] {
        assert_eq!(whole_pause(run(), "p1", &text), text);
    }
}
