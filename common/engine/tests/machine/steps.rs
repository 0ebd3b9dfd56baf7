//! Journal entries of jobs, whose events are emitted and whose costs are charged once; and parked jobs.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::play::Play;
use tidemill_base::ids::Delivery;
use tidemill_base::value::{JsonMap, Segment, Stored};
use tidemill_engine::fact::Charge;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_engine::state::step_event::StepEvent;
use tidemill_wire::event::EventRecord;
use tidemill_wire::expand::envelope;
use tidemill_wire::fact::report::Report;
use tidemill_workflow::nodes::Usage;

const SECOND: Duration = Duration::from_secs(1);
const ONE: &str = "start s\nllm m\nend e m.text\ns > m > e";

fn usage(tokens: u64, price: &str) -> Usage {
    let record = json!({
        "prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens, "total_price": price, "currency": "EUR",
    });
    let Json::Object(record) = record else { unreachable!("it is one") };
    Usage::from_record(record)
}

fn step(play: &Play, key: &str, cost: Option<(u64, &str)>) -> Report {
    let model = || ("openai".to_string(), "gpt".to_string());
    let charge = cost.map(|(tokens, price)| Charge {
        key: key.into(),
        usage: usage(tokens, price),
        model: model(),
        run: None,
    });
    let log = JsonMap::from_iter([("label".to_string(), json!(key))]);
    Report::Step {
        started_at: play.now,
        events: vec![(StepEvent::AgentLog, log)],
        charge: charge.map(Box::new),
    }
}

fn parked(play: &Play, wait_ms: u64) -> Report {
    Report::Parked {
        started_at: play.now,
        at: play.now,
        wait_ms,
        reason: "the model rests".into(),
        is_childs: false,
        call: None,
        pause: None,
    }
}

fn done(play: &mut Play, delivery: u32, tokens: u64, price: &str) {
    let order = play.job_of("m");
    let outputs = vec![("text".to_string(), Stored::Inline(Segment::string("yes")))];
    let record = Record { outputs, usage: Some(Box::new(usage(tokens, price))), ..Record::default() };
    let report = play.ended(record, Vec::new());
    let fact = play.fact(&order, delivery, &report);
    play.finish("m", fact);
}

#[test]
fn a_journal_entry_is_emitted_and_charged_when_it_is_recorded_and_not_again_at_the_end() {
    let mut play = Play::of(ONE);
    play.restless = true;
    play.start().skim();
    let order = play.job_of("m");
    for (key, cost) in [("llm:1/1", (10, "0.5")), ("llm:2/1", (7, "0.25"))] {
        let fact = play.fact(&order, 1, &step(&play, key, Some(cost)));
        play.feed(vec![fact]);
    }
    play.tells(&["m starts", "m node_run_agent_log", "m node_run_agent_log"]);
    assert_eq!(play.run.tokens(), 17);
    let event = &play.records.last().unwrap().data;
    assert_eq!((&event["node_id"], &event["data"]["label"]), (&json!("m"), &json!("llm:2/1")));
    let execution = order.execution;
    let kept: Vec<&String> = play.kept.ledger.keys().collect();
    assert_eq!(kept, [&format!("{execution}/llm:1/1"), &format!("{execution}/llm:2/1")]);
    let entry: Json = serde_json::from_str(&play.kept.ledger[kept[0]]).unwrap();
    assert_eq!(
        (&entry["model"], &entry["total_tokens"], &entry["total_price"], &entry["node"]),
        (&json!("gpt"), &json!(10), &json!("0.5"), &json!("m"))
    );
    // The usage of the whole execution includes the charges.
    done(&mut play, 1, 20, "1.00");
    assert_eq!((play.run.status, play.run.tokens()), (RunStatus::Succeeded, 20));
    let price = play.node("m").cost.price.clone().unwrap();
    assert_eq!((price.amount.to_string().as_str(), &*price.currency), ("1.00", "EUR"));
}

#[test]
fn charges_of_a_failed_attempt_stay_and_are_not_charged_again() {
    let mut play = Play::of("start s\nllm m retry=1\nend e m.text\ns > m > e");
    play.start().skim();
    let fact = play.fact(&play.job_of("m"), 1, &step(&play, "llm:1/1", Some((10, "0.5"))));
    play.feed(vec![fact]).failed("m", "broken").after(SECOND).fire();
    assert_eq!(play.run.tokens(), 10);
    // The second attempt has found the first entry in the journal, so its usage includes it.
    done(&mut play, 1, 15, "0.75");
    assert_eq!(play.run.tokens(), 15);
}

#[test]
fn events_of_a_step_have_the_numbers_of_attempt_and_delivery() {
    let mut play = Play::of(ONE);
    play.restless = true;
    play.start().skim();
    let order = play.job_of("m");
    for delivery in [1, 2] {
        let data = JsonMap::from_iter([("text".to_string(), json!("x")), ("attempt".to_string(), json!(1))]);
        let events = vec![(StepEvent::TextAdd, data)];
        let report = Report::Step { started_at: play.now, events, charge: None };
        let fact = play.fact(&order, delivery, &report);
        play.feed(vec![fact]);
        let last = play.records.last().unwrap();
        let event = envelope(last, &play.run.id, &play.run.graph);
        assert_eq!((&event["type"], &event["data"]["text"]), (&json!("text_add"), &json!("x")), "{event:#}");
        assert_eq!((&event["data"]["attempt"], &event["data"]["delivery"]), (&json!(1), &json!(delivery)));
    }
}

#[test]
fn a_parked_job_has_no_holder_and_continues_as_the_same_attempt() {
    let mut play = Play::of(ONE);
    play.restless = true;
    play.start().skim();
    let first = play.job_of("m");
    let fact = play.fact(&first, 2, &parked(&play, 5_000));
    play.finish("m", fact).tells(&["m starts"]);
    assert_eq!(play.node("m").status, NodeStatus::Retrying);
    assert_eq!(play.node("m").parked.as_deref(), Some("the model rests"));
    assert!(play.waiting().is_empty());
    play.after(4 * SECOND).fire();
    assert!(play.waiting().is_empty(), "not before it is due");
    play.after(SECOND).fire().tells(&[]);
    let second = play.job_of("m");
    assert_eq!((second.execution, second.attempt), (first.execution, 1));
    assert!(second.delivered >= 2, "deliveries are counted on, so the newest is the highest");
    assert_eq!(play.node("m").parked, None);
    done(&mut play, 1, 3, "0.1");
    assert_eq!(
        (play.run.status, play.node("m").attempt, play.run.root_steps()),
        (RunStatus::Succeeded, 1, 3)
    );
    assert!(play.timers.is_empty(), "{:?}", play.timers);
}

#[test]
fn parking_a_job_many_times_does_not_use_up_its_deliveries() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let mut newest = 0;
    for _ in 0..5 {
        let order = play.job_of("m");
        let number = order.delivered + 1;
        assert!(number > newest, "a later holder has a higher number");
        assert_eq!(Delivery::counted_of(number), 1);
        newest = number;
        let fact = play.fact(&order, 1, &parked(&play, 1_000));
        play.finish("m", fact).after(SECOND).fire();
    }
    done(&mut play, 1, 3, "0.1");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn a_stop_ends_a_parked_job_and_clears_its_timer() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let fact = play.fact(&play.job_of("m"), 1, &parked(&play, 5_000));
    play.finish("m", fact).stop("enough");
    assert_eq!((play.run.status, play.node("m").status), (RunStatus::Stopped, NodeStatus::Stopped));
    assert!(play.timers.is_empty(), "{:?}", play.timers);
    assert_eq!(play.node("m").parked, None);
}

#[test]
fn a_journal_entry_of_an_ended_attempt_emits_nothing() {
    let mut play = Play::of("start s\nllm m retry=1\nend e m.text\ns > m > e");
    play.start().skim();
    let order = play.job_of("m");
    let late = play.fact(&order, 1, &step(&play, "llm:1/1", Some((10, "0.5"))));
    play.failed("m", "broken").skim();
    play.feed(vec![late.clone()]).tells(&[]);
    play.after(SECOND).fire().feed(vec![late]).tells(&[]);
}

#[test]
fn reasoning_is_sent_only_while_a_template_that_shows_the_node_is_reached() {
    let think = |play: &Play| {
        let data = JsonMap::from_iter([("chunk".to_string(), json!("hm"))]);
        Report::Step { started_at: play.now, events: vec![(StepEvent::ReasoningChunk, data)], charge: None }
    };
    for (workflow, is_sent) in [
        (ONE, true),
        ("start s\nllm m\nend e m.reasoning_content\ns > m > e", true),
        ("start s\nllm m\nend e m.usage\ns > m > e", false),
        ("start s\nllm m\nend e s.x\ns > m > e", false),
    ] {
        let mut play = Play::of(workflow);
        play.restless = true;
        play.start().skim();
        let order = play.job_of("m");
        let fact = play.fact(&order, 1, &think(&play));
        play.feed(vec![fact]);
        let last = play.records.last().unwrap();
        assert_eq!(last.kind == "node_run_reasoning_chunk", is_sent, "{workflow}");
    }
}

#[test]
fn reasoning_of_another_holder_is_withdrawn() {
    let think = |play: &Play| {
        let data = JsonMap::from_iter([("chunk".to_string(), json!("hm"))]);
        Report::Step { started_at: play.now, events: vec![(StepEvent::ReasoningChunk, data)], charge: None }
    };
    let sent = |play: &Play, from: usize| -> Vec<(String, Json)> {
        let kinds = ["node_run_reasoning_chunk", "node_run_stream_replaced"];
        let of_text = play.records[from..].iter().filter(|record| kinds.contains(&&*record.kind));
        let selector = |record: &EventRecord| record.data.get("selector").cloned().unwrap_or_default();
        of_text.map(|record| (record.kind.to_string(), selector(record))).collect()
    };
    let thought = || ("node_run_reasoning_chunk".to_string(), Json::Null);
    let withdrawn = || ("node_run_stream_replaced".to_string(), json!(["m", "reasoning_content"]));
    // The second workflow also shows the reasoning as an output, when the node has ended.
    for workflow in [ONE, "start s\nllm m\nend e m.reasoning_content m.text\ns > m > e"] {
        let mut play = Play::of(workflow);
        play.start().skim();
        let order = play.job_of("m");
        let tell = |play: &mut Play, delivery: u32| {
            let (from, fact) = (play.records.len(), play.fact(&order, delivery, &think(play)));
            play.feed(vec![fact]);
            sent(play, from)
        };
        assert_eq!(tell(&mut play, 1), [thought()]);
        assert_eq!(tell(&mut play, 1), [thought()]);
        assert_eq!(tell(&mut play, 2), [withdrawn(), thought()]);
        assert_eq!(tell(&mut play, 2), [thought()]);
        assert_eq!(tell(&mut play, 1), []);
        // The third delivery answers without reasoning.
        let from = play.records.len();
        let outputs = vec![("text".to_string(), Stored::Inline(Segment::string("yes")))];
        let text = vec!["m".to_string(), "text".to_string()];
        let report = play.ended(Record { outputs, ..Record::default() }, vec![(text, 3)]);
        let fact = play.fact(&order, 3, &report);
        play.finish("m", fact);
        assert_eq!(sent(&play, from), [withdrawn()], "{workflow}");
    }
}
