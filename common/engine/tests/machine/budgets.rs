//! Budgets: the call that exceeds the budget is counted, and the run fails before another begins.

use std::time::Duration;

use serde_json::json;

use super::draw::draw;
use super::play::Play;
use tidemill_engine::fact::Charge;
use tidemill_engine::state::options::budget::{Budget, SetBy, price};
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_wire::fact::report::Report;
use tidemill_wire::fact::{parse, stop_body};
use tidemill_workflow::nodes::{Usage, Wasted};

const TWO: &str = "start s\nllm m\nllm n\nend e m.text\ns > m > e\ns > n > e";

fn usage(tokens: u64, price: &str) -> Usage {
    let record =
        json!({"prompt_tokens": tokens, "total_tokens": tokens, "total_price": price, "currency": "EUR"});
    Usage::from_record(record.as_object().cloned().unwrap())
}

fn play(budget: Budget) -> Play {
    Play::submitted(draw(TWO), Vec::new(), |head| head.options.budget = Some(Box::new(budget)))
}

fn tokens(max: u64) -> Budget {
    Budget { tokens: Some((max, SetBy::Request)), price: None }
}

fn charge(play: &mut Play, node: &str, tokens: u64, price: &str) {
    let model = ("p".to_string(), "m".to_string());
    let charge = Some(Charge { key: "llm:1/1".into(), usage: usage(tokens, price), model, run: None });
    let step = Report::Step { started_at: play.now, events: vec![], charge: charge.map(Box::new) };
    let fact = play.fact(&play.job_of(node), 1, &step);
    play.feed(vec![fact]);
}

fn ends(play: &mut Play, node: &str, tokens: u64) {
    let record = Record { usage: Some(Box::new(usage(tokens, "0.1"))), ..Record::default() };
    let report = play.ended(record, Vec::new());
    let fact = play.fact(&play.job_of(node), 1, &report);
    play.finish(node, fact);
}

#[test]
fn the_journal_entry_that_exceeds_the_budget_is_counted_and_ends_the_run() {
    let mut play = play(tokens(10));
    play.restless = true;
    play.start();
    charge(&mut play, "m", 10, "0.5");
    assert_eq!(play.run.status, RunStatus::Running, "the whole budget may be spent");
    charge(&mut play, "n", 1, "0.5");
    assert_eq!((play.run.status, play.run.tokens(), play.waiting().len()), (RunStatus::Failed, 11, 0));
    let error = "BudgetExceededError: 11 tokens are spent, and the run may spend 10 (budget_tokens, set by the request)";
    assert_eq!(play.run.error.as_deref(), Some(error));
    assert_eq!((play.kept.ledger.len(), play.node("m").status), (2, NodeStatus::Stopped));
}

#[test]
fn an_attempt_without_journal_entries_counts_against_the_budget_at_its_end() {
    let mut play = play(tokens(5));
    play.start();
    ends(&mut play, "m", 6);
    assert_eq!((play.run.status, play.node("m").status), (RunStatus::Failed, NodeStatus::Succeeded));
    assert_eq!(play.kept.ledger.len(), 1);
}

#[test]
fn a_failed_attempt_is_charged_to_the_model_that_the_node_names() {
    let mut play = play(tokens(100));
    play.start();
    let record = Record { usage: Some(Box::new(usage(6, "0.1"))), error: "no".into(), ..Record::default() };
    let finished_at = play.now;
    let report = Report::Ended {
        started_at: finished_at,
        finished_at,
        failed: true,
        record: Box::new(record),
        streamed: Vec::new(),
    };
    let fact = play.fact(&play.job_of("m"), 1, &report);
    play.finish("m", fact);
    let (_, entry) = play.kept.ledger.first_key_value().unwrap();
    let entry: serde_json::Value = serde_json::from_str(entry).unwrap();
    assert_eq!((&entry["provider"], &entry["model"]), (&json!("p"), &json!("m")), "{entry}");
    assert_eq!(play.run.tokens(), 6);
}

/// Fails an attempt whose paid reply was wasted.
fn fails_with_waste(play: &mut Play, node: &str, tokens: u64) {
    let wasted = Wasted { provider: "p".into(), model: "m".into(), usage: usage(tokens, "0.2") };
    let finished_at = play.now;
    let report = Report::Ended {
        started_at: finished_at,
        finished_at,
        failed: true,
        record: Box::new(Record {
            error: "no".into(),
            error_type: "LLMNodeError".into(),
            wasted: Some(Box::new(wasted)),
            ..Record::default()
        }),
        streamed: Vec::new(),
    };
    let fact = play.fact(&play.job_of(node), 1, &report);
    play.finish(node, fact);
}

const TRIES: &str = "start s\nllm m retry=5\nend e m.text\ns > m > e";

#[test]
fn wasted_replies_are_in_the_ledger_and_in_no_total() {
    let mut play = Play::of(TRIES);
    play.start();
    fails_with_waste(&mut play, "m", 6);
    play.after(Duration::from_secs(60)).fire();
    fails_with_waste(&mut play, "m", 7);
    play.after(Duration::from_secs(60)).fire();
    ends(&mut play, "m", 4);
    assert_eq!((play.run.status, play.run.tokens()), (RunStatus::PartialSucceeded, 4));
    assert_eq!(play.run.cost().price, price("0.1 EUR").map(Box::new));
    assert_eq!((play.run.wasted().tokens, play.run.wasted().price), (13, price("0.4 EUR").map(Box::new)));
    play.reload();
    assert_eq!((play.run.wasted().tokens, play.run.wasted().price), (13, price("0.4 EUR").map(Box::new)));
    assert_eq!(play.run.paid().price, price("0.5 EUR").map(Box::new));
    let entries =
        play.kept.ledger.values().map(|entry| serde_json::from_str::<serde_json::Value>(entry).unwrap());
    let mut found: Vec<_> = entries
        .map(|entry| {
            (entry["total_tokens"].as_u64().unwrap(), entry["wasted"] == true, entry["model"].clone())
        })
        .collect();
    found.sort_by_key(|(tokens, ..)| *tokens);
    let entry = |tokens, is_wasted| (tokens, is_wasted, json!("m"));
    assert_eq!(found, [entry(4, false), entry(6, true), entry(7, true)]);
}

#[test]
fn wasted_replies_count_against_the_budget() {
    let tries = |budget: Budget| {
        let mut play =
            Play::submitted(draw(TRIES), Vec::new(), |head| head.options.budget = Some(Box::new(budget)));
        play.start();
        fails_with_waste(&mut play, "m", 6);
        assert_eq!(play.run.status, RunStatus::Running, "the budget is not exceeded");
        play.after(Duration::from_secs(60)).fire();
        fails_with_waste(&mut play, "m", 6);
        (play.run.status, play.run.error.clone().unwrap_or_default().to_string(), play.waiting().len())
    };
    let error = "BudgetExceededError: 12 tokens are spent, and the run may spend 10 (budget_tokens, set by the request)";
    assert_eq!(tries(tokens(10)), (RunStatus::Failed, error.into(), 0));
    let of_money = Budget { tokens: None, price: price("0.3 EUR").map(|price| (price, SetBy::Settings)) };
    let error = "BudgetExceededError: 0.4 EUR are spent, and the run may spend 0.3 EUR (budget_price, set by the settings)";
    assert_eq!(tries(of_money), (RunStatus::Failed, error.into(), 0));
}

#[test]
fn a_call_that_cost_nothing_still_has_a_ledger_entry() {
    let mut play = play(tokens(10));
    play.start();
    charge(&mut play, "m", 0, "0.0");
    assert_eq!((play.kept.ledger.len(), play.run.tokens(), play.run.status), (1, 0, RunStatus::Running));
    play.reload();
    assert!(play.run.control.wasted.is_some(), "it marks that there is a ledger");
    assert_eq!(play.run.wasted().tokens, 0);
}

#[test]
fn the_waste_of_a_sub_workflow_run_counts_against_its_caller() {
    let mut play = play(tokens(10));
    play.restless = true;
    play.start();
    let mut cost = usage(4, "0.1");
    cost.record.insert("wasted".into(), json!({"total_tokens": 7, "total_price": "0.2", "currency": "EUR"}));
    let run = Some(play.run.id);
    let charge = Charge { key: "call/1".into(), usage: cost, model: Default::default(), run };
    let step = Report::Step { started_at: play.now, events: vec![], charge: Some(Box::new(charge)) };
    let fact = play.fact(&play.job_of("m"), 1, &step);
    play.feed(vec![fact]);
    assert_eq!((play.run.status, play.run.tokens(), play.run.wasted().tokens), (RunStatus::Failed, 4, 7));
    let entry: serde_json::Value = serde_json::from_str(play.kept.ledger.values().next().unwrap()).unwrap();
    assert_eq!((&entry["total_tokens"], &entry["wasted_tokens"]), (&json!(4), &json!(7)), "{entry}");
}

#[test]
fn money_counts_only_against_a_budget_of_the_same_currency() {
    let bound =
        |text: &str| Budget { tokens: None, price: price(text).map(|price| (price, SetBy::Workflow)) };
    let mut other = play(bound("0.1 USD"));
    other.start();
    charge(&mut other, "m", 1, "5");
    assert_eq!(other.run.status, RunStatus::Running);
    let mut own = play(bound("0.1 EUR"));
    own.start();
    charge(&mut own, "m", 1, "0.2");
    let error = own.run.error.clone().unwrap();
    assert!(
        error
            .contains("0.2 EUR are spent, and the run may spend 0.1 EUR (budget_price, set by the workflow)"),
        "{error}"
    );
}

#[test]
pub(super) fn a_run_whose_key_has_spent_its_budget_ends_in_any_state() {
    let over =
        |play: &Play| parse("over_budget", &stop_body("key k has spent all"), &play.run.graph).unwrap();
    let mut scheduled = Play::of(TWO);
    let fact = over(&scheduled);
    scheduled.feed(vec![fact]);
    let mut paused = Play::of(TWO);
    paused.start().pause("lunch").fire();
    let (pause, fact) = (paused.run.status, over(&paused));
    paused.feed(vec![fact]);
    assert_eq!(pause, RunStatus::Paused);
    for play in [&scheduled, &paused] {
        assert_eq!(play.run.status, RunStatus::Failed);
        assert_eq!(play.run.error.as_deref(), Some("BudgetExceededError: key k has spent all"));
    }
}
