//! Tests of pauses inside a job (parked once, answer readable any number of times) and of calls that may have been made
//! twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{Delivery, EntryId, FramePath, ShardId};
use tidemill_common::machine::state::pause::id_in_job;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::pause::input::approval_schema;
use tidemill_common::nodes::{OnTimeout, PauseKind, PauseRequest};
use tidemill_common::store::Paused;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::fact::report::JobName;

use crate::attempt::journal::{EntryReport, EntryStart, Journal, PauseEnd};
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::JobPlace;
use crate::tests::fake::{FakeJobs, core, execution, run_id};

fn request() -> PauseRequest {
    PauseRequest::asking(PauseKind::ToolApproval, "Call it?", approval_schema())
}

fn handle(jobs: &Arc<FakeJobs>) -> JobHandle {
    let entry = EntryId::new(5, 0);
    let name = JobName {
        lost_at: None,
        frame: FramePath::root(),
        node: "t".into(),
        attempt: 1,
        entry,
        holder: Delivery { consumer: "w".into(), number: 1 },
    };
    let place = JobPlace { shard: ShardId(0), queue: "default".into(), entry };
    let started_at = Timestamp::from_micros(5);
    JobHandle { core: core(jobs, 1), place, number: 1, run: run_id(), app: None, name, started_at }
}

#[tokio::test]
async fn a_question_puts_the_job_down_and_its_end_is_what_it_returns() {
    let jobs = FakeJobs::new();
    let journal = Journal::new(&handle(&jobs), execution(5));
    let asking = tokio::time::timeout(Duration::from_millis(200), journal.pause("tool:1", request())).await;
    assert!(asking.is_err(), "no worker holds the job then");
    let pause = id_in_job(&execution(5), "tool:1").to_string();
    let (kind, parked) =
        jobs.state().batches.iter().flatten().map(|done| (done.kind, done.body.clone())).next().unwrap();
    let parked: Json = serde_json::from_str(&parked).unwrap();
    assert_eq!((kind, &parked["pause"]["id"]), ("parked", &json!(pause)));
    let asked = &parked["pause"]["request"];
    assert_eq!((&asked["kind"], &asked["prompt"]), (&json!("tool_approval"), &json!("Call it?")));
    for (known, proposed, expected) in [
        (Paused::Answered(json!({"approved": true})), None, PauseEnd::Answered(json!({"approved": true}))),
        (Paused::Cancelled, None, PauseEnd::Cancelled),
        (Paused::Expired, None, PauseEnd::Expired),
        (Paused::Expired, Some(json!(7)), PauseEnd::Answered(json!(7))),
    ] {
        jobs.state().paused.insert(pause.clone(), known);
        let on_timeout = if proposed.is_some() { OnTimeout::Default } else { OnTimeout::Fail };
        let request = PauseRequest { on_timeout, defaults: proposed.unwrap_or_default(), ..request() };
        assert_eq!(journal.pause("tool:1", request).await, expected);
    }
    let other = tokio::time::timeout(Duration::from_millis(200), journal.pause("tool:2", request())).await;
    assert!(other.is_err(), "another step is another question");
}

#[tokio::test]
async fn a_call_that_may_have_been_made_twice_says_so_to_whoever_reads_of_it() {
    let jobs = FakeJobs::new();
    jobs.state().begun.extend(["tool:a".to_owned(), "ready".to_owned()]);
    let shown = |journal: &Journal| {
        let mut process_data = JsonMap::new();
        journal.list_possible_duplicates(&mut process_data);
        process_data.remove("possible_duplicates")
    };
    let journal = Journal::new(&handle(&jobs), execution(5));
    for step in ["tool:a", "tool:b", "ready"] {
        let EntryStart::Try(new_try) = journal.begin(step).await else { panic!("{step} is not known") };
        let events = vec![(StepEvent::ToolCallCompleted, JsonMap::new())];
        let entry_report = EntryReport { events, charge: None };
        journal.record(step, new_try.number, &json!({"words": step}), entry_report).await;
    }
    // A step without an outside call may be started again any number of times.
    assert_eq!(shown(&journal), Some(json!(["tool:a"])));
    let entry_report: Vec<Json> =
        jobs.state().facts.iter().map(|(_, fact)| fact["events"][0][1].clone()).collect();
    assert_eq!(entry_report, [json!({"possible_duplicate": true}), json!({}), json!({})]);
    // A later worker reads the note in the journal.
    let later = Journal::new(&handle(&jobs), execution(5));
    for (step, known) in [
        ("tool:a", json!({"words": "tool:a"})),
        ("tool:b", json!({"words": "tool:b"})),
        ("tool:a", json!({"words": "tool:a"})),
    ] {
        assert_eq!(later.begin(step).await, EntryStart::Known(known));
    }
    assert!(later.is_possible_duplicate("tool:a") && !later.is_possible_duplicate("tool:b"));
    assert_eq!(shown(&later), Some(json!(["tool:a"])));
}
