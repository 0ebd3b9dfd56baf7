//! `tidemill show`: shows a run and the state of each of its nodes.

use clap::Args;
use serde_json::Value as Json;

use super::common::SchedulerArgs;
use super::show_records;
use super::show_waits::{self, path_of};
use crate::client::view::{CallView, NodeView, PauseView, RunView, SpentView};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::form;
use crate::output::{json, plain, table, text};
use crate::question;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Id of the run
    run: String,
    /// Show it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    records: show_records::RecordArgs,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.scheduler.client()?;
    if let Some(part) = arguments.records.wanted() {
        return show_records::perform(&client, &arguments.run, part, arguments.json, console).await;
    }
    let run = client.run(&arguments.run).await?;
    if arguments.json {
        json::whole(&run, console)?
    } else {
        console.text(render(&run))?
    }
    Ok(Exit::Succeeded)
}

/// Formats a price; empty when no price is known or nothing was paid.
fn cost(price: &Option<String>, currency: &Option<String>) -> String {
    let price = price.as_deref().filter(|price| price.bytes().any(|b| (b'1'..=b'9').contains(&b)));
    price.map(|price| format!("{price} {}", currency.as_deref().unwrap_or_default())).unwrap_or_default()
}

/// Formats the cost of replies that could not be used. It is not part of the totals.
fn wasted(run: &RunView) -> String {
    let Some(tokens) = run.wasted_tokens.filter(|tokens| *tokens > 0) else { return String::new() };
    match cost(&run.wasted_price, &run.wasted_currency) {
        none if none.is_empty() => format!("{tokens} tokens"),
        cost => format!("{tokens} tokens, {cost}"),
    }
}

fn render(run: &Json) -> String {
    let run = RunView::read(run);
    let parts = [
        nodes(&run),
        show_waits::waits(&run),
        show_waits::failed_at(&run),
        models(&run),
        show_records::table(&run),
        calls(&run),
        pauses(&run),
        outputs(&run),
    ];
    let mut shown = head(&run);
    for warning in &run.warnings {
        shown.push_str(&plain::warning_line(warning));
    }
    for part in parts.into_iter().flatten() {
        shown.push('\n');
        shown.push_str(&part);
    }
    shown
}

/// Formats what is known about the run as a whole.
fn head(run: &RunView) -> String {
    let named = |value: &Option<String>| value.clone().unwrap_or_default();
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let caller = run.caller.as_ref().map(|by| format!("{} of run {}", by.location(), by.run));
    let inputs = run.inputs.as_ref().filter(|inputs| inputs.as_object().is_some_and(|map| !map.is_empty()));
    let labels = run.labels.iter().map(|(name, value)| format!("{name}={value}"));
    table::pairs(&[
        ("run", run.id.clone()),
        ("status", run.status.clone()),
        ("error", named(&run.error)),
        ("workflow", run.workflow_name()),
        ("mode", named(&run.mode)),
        ("app", named(&run.app)),
        ("version", named(&run.version)),
        ("user", named(&run.user)),
        ("called by", caller.unwrap_or_default()),
        ("created", run.created_at.map(text::moment).unwrap_or_default()),
        ("time", run.elapsed_time.map(text::duration).unwrap_or_default()),
        ("worked", run.working_time.map(text::duration).unwrap_or_default()),
        ("steps", number(run.total_steps)),
        ("tokens", number(run.total_tokens)),
        ("cost", cost(&run.total_price, &run.currency)),
        ("wasted", wasted(run)),
        ("key", named(&run.key)),
        ("labels", labels.collect::<Vec<_>>().join(", ")),
        ("exceptions", number(run.exceptions_count.filter(|count| *count > 0))),
        ("inputs", inputs.map(Json::to_string).unwrap_or_default()),
    ])
}

/// Formats the nodes; with tokens and costs if any node has used tokens.
fn nodes(run: &RunView) -> Option<String> {
    let pays = run.nodes.iter().any(|node| node.tokens.is_some_and(|tokens| tokens > 0));
    let mut heads = vec!["NODE", "TYPE", "TITLE", "STATUS", "TRY", "TIME", "JOB", "ERROR"];
    if pays {
        heads.splice(6..6, ["TOKENS", "COST"]);
    }
    table_of(&heads, run.nodes.iter().map(|node| row(node, pays)))
}

/// Formats the costs by model, tool and sub-workflow.
fn models(run: &RunView) -> Option<String> {
    table_of(&["SPENT BY", "CALLS", "IN", "OUT", "TOKENS", "COST"], run.models.iter().map(spent_row))
}

/// Formats the sub-workflow runs.
fn calls(run: &RunView) -> Option<String> {
    let named = |value: &Option<String>| value.clone().unwrap_or_default();
    let row = |call: &CallView| vec![call.location(), named(&call.app), call.run.clone(), named(&call.error)];
    let mut shown = table_of(&["CALLS", "APP", "RUN", "ERROR"], run.calls.iter().map(row))?;
    let more = run.calls_count.saturating_sub(run.calls.len() as u64);
    if more > 0 {
        shown.push_str(&format!("and {more} more\n"));
    }
    Some(shown)
}

/// Formats the pauses, the questions that are open, and how to answer them.
fn pauses(run: &RunView) -> Option<String> {
    let heads = ["PAUSE", "KIND", "WAITS AT", "STATUS", "SINCE", "UNTIL", "ANSWER"];
    let mut shown = table_of(&heads, run.pauses.iter().map(pause_row))?;
    for pause in run.pauses.iter().filter(|pause| pause.is_pending()) {
        if let Some(asked) = pause.question() {
            shown.push('\n');
            shown.push_str(&question::shown(&pause.name(), &asked));
        }
        shown.push_str(&format!("{}\n", form::how_to_answer(&run.id, pause)));
    }
    Some(shown)
}

fn outputs(run: &RunView) -> Option<String> {
    Some(plain::outputs(run.outputs.as_ref())).filter(|outputs| !outputs.is_empty())
}

/// Formats a table; `None` if it has no rows.
fn table_of(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Option<String> {
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| table::render(heads, &rows))
}

fn pause_row(pause: &PauseView) -> Vec<String> {
    let moment = |at: Option<f64>| at.map(text::moment).unwrap_or_default();
    let answered = |answer: &Json| match (answer["action"].as_str(), answer.get("input")) {
        (Some(action), _) => action.to_string(),
        (None, Some(input)) => input.to_string(),
        (None, None) => String::new(),
    };
    vec![
        pause.pause_id.clone(),
        pause.kind.clone(),
        pause.name(),
        pause.status.clone(),
        moment(pause.opened_at),
        moment(pause.expires_at),
        pause.answer.as_ref().map(answered).unwrap_or_default(),
    ]
}

fn spent_row(spent: &SpentView) -> Vec<String> {
    let who = match spent.kind.as_str() {
        "run" => "sub-workflow runs".to_owned(),
        "tool" => "tools".to_owned(),
        _ => [&spent.provider, &spent.model].map(|part| part.as_deref().unwrap_or_default()).join(" "),
    };
    vec![
        who,
        match spent.wasted_calls {
            0 => spent.calls.to_string(),
            wasted => format!("{} ({wasted} wasted)", spent.calls),
        },
        spent.prompt_tokens.to_string(),
        spent.completion_tokens.to_string(),
        spent.total_tokens.to_string(),
        cost(&spent.total_price, &spent.currency),
    ]
}

/// Formats a node; with `pays`, also its tokens and cost.
fn row(node: &NodeView, pays: bool) -> Vec<String> {
    let id = path_of(node);
    let time = match (node.started_at, node.finished_at) {
        (Some(from), Some(to)) => text::duration(to - from),
        (Some(_), None) | (None, _) => String::new(),
    };
    let attempt = node.attempt.filter(|attempt| *attempt > 0).map(|attempt| attempt.to_string());
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    // A node that was never reached has no status worth showing.
    let status = if node.status == "unknown" { String::new() } else { node.status.clone() };
    let mut row = vec![
        id,
        text(&node.kind),
        text(&node.title),
        status,
        attempt.unwrap_or_default(),
        time,
        text(&node.job),
        text(&node.error.clone().or_else(|| node.parked.as_ref().map(|why| format!("waits: {why}")))),
    ];
    if pays {
        let tokens = node.tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens.to_string());
        row.splice(6..6, [tokens.unwrap_or_default(), cost(&node.price, &node.currency)]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_is_a_head_a_table_and_its_outputs() {
        let run = json!({
            "id": "r1", "workflow": "Triage", "mode": "workflow", "app": null, "version": "abc",
            "status": "partial-succeeded", "user": "ada", "inputs": {"message": "help"},
            "outputs": {"reply": "Hello\nAda"}, "error": null, "created_at": 1_754_339_718.6,
            "started_at": 1.0, "finished_at": 2.0, "elapsed_time": 1.5, "working_time": 1.252,
            "total_steps": 3, "total_tokens": 12, "total_price": "0.0012", "currency": "EUR",
            "exceptions_count": 1, "shard": 0, "conversation": {},
            "nodes": [
                {"id": "1", "frame": "", "title": "Start", "type": "start", "status": "succeeded", "attempt": 1,
                 "started_at": 10.0, "finished_at": 10.002, "job": null, "error": null},
                {"id": "2", "frame": "", "title": "Ask", "type": "llm", "status": "exception", "attempt": 3,
                 "started_at": 10.0, "finished_at": 11.25, "job": "17-0", "error": "too many\nrequests"},
                {"id": "3", "frame": "it#1", "title": "End", "type": "end", "status": "unknown"},
            ],
        });
        let expected = "\
run         r1
status      partial-succeeded
workflow    Triage
mode        workflow
version     abc
user        ada
created     2025-08-04 20:35:18 UTC
time        1.5s
worked      1.3s
steps       3
tokens      12
cost        0.0012 EUR
exceptions  1
inputs      {\"message\":\"help\"}

NODE    TYPE   TITLE  STATUS     TRY  TIME  JOB   ERROR
1       start  Start  succeeded  1    2ms   -     -
2       llm    Ask    exception  3    1.2s  17-0  too many requests
it#1/3  end    End    -          -    -     -     -

reply:
  Hello
  Ada
";
        assert_eq!(render(&run), expected);
    }

    #[test]
    fn warnings_follow_the_head() {
        let run =
            json!({"id": "r1", "status": "succeeded", "warnings": [{"code": "x", "message": "one\nline"}]});
        assert_eq!(render(&run), "run     r1\nstatus  succeeded\nwarning: one line\n");
    }

    #[test]
    fn costs_are_shown_per_node_and_per_model() {
        let run = json!({
            "id": "r1", "status": "succeeded", "key": "k1", "total_tokens": 12,
            "wasted_tokens": 4, "wasted_price": "0.1", "wasted_currency": "EUR",
            "nodes": [
                {"id": "1", "type": "start", "status": "succeeded", "tokens": 0, "price": null},
                {"id": "2", "type": "llm", "status": "succeeded", "tokens": 12, "price": "0.5", "currency": "EUR"},
            ],
            "models": [
                {"kind": "model", "provider": "openai", "model": "m", "calls": 3, "prompt_tokens": 10,
                 "completion_tokens": 6, "total_tokens": 16, "total_price": "0.6", "currency": "EUR", "wasted_calls": 1},
                {"kind": "run", "calls": 1, "total_tokens": 3, "total_price": null},
            ],
        });
        let expected = "\
run     r1
status  succeeded
tokens  12
wasted  4 tokens, 0.1 EUR
key     k1

NODE  TYPE   TITLE  STATUS     TRY  TIME  TOKENS  COST     JOB  ERROR
1     start  -      succeeded  -    -     -       -        -    -
2     llm    -      succeeded  -    -     12      0.5 EUR  -    -

SPENT BY           CALLS         IN  OUT  TOKENS  COST
openai m           3 (1 wasted)  10  6    16      0.6 EUR
sub-workflow runs  1             0   0    3       -
";
        assert_eq!(render(&run), expected);
    }

    #[test]
    fn a_waiting_run_shows_its_question_and_how_to_answer() {
        let run = json!({"id": "r1", "status": "paused", "pauses": [
            {"pause_id": "p", "kind": "human_input", "node_id": "2", "node_title": "Review", "frame": "it#1", "status": "pending",
             "opened_at": 1_754_339_718.6, "expires_at": null,
             "inputs": [{"type": "paragraph", "output_variable_name": "note"}],
             "actions": [{"id": "yes", "title": "Yes"}], "answer": null},
            {"pause_id": "q", "kind": "confirm", "node_id": "3", "status": "answered",
             "answer": {"input": {"approved": true}}},
            {"pause_id": "w", "kind": "params", "node_id": "4", "node_title": "Find", "status": "pending",
             "prompt": "Where?", "schema": {"properties": {"city": {"type": "string"}}}, "answer": null},
        ]});
        let expected = "\
run     r1
status  paused

PAUSE  KIND         WAITS AT        STATUS    SINCE                    UNTIL  ANSWER
p      human_input  Review in it#1  pending   2025-08-04 20:35:18 UTC  -      -
q      confirm      3               answered  -                        -      {\"approved\":true}
w      params       Find            pending   -                        -      -
tidemill answer r1 p --action yes --input note=…

Find asks:
  Where?
  - city: text
tidemill answer r1 w --input city=…
";
        assert_eq!(render(&run), expected);
    }

    #[test]
    fn a_sub_workflow_run_is_shown_in_its_parent_and_in_itself() {
        let caller = json!({"id": "r1", "status": "running", "calls_count": 3, "calls": [
            {"run": "r2", "app": "greeter", "node": "t", "frame": "", "error": null},
            {"run": "r3", "app": "x", "node": "t", "frame": "it#1", "error": "app not found"},
        ]});
        let expected = "\
run     r1
status  running

CALLS   APP      RUN  ERROR
t       greeter  r2   -
it#1/t  x        r3   app not found
and 1 more
";
        assert_eq!(render(&caller), expected);
        let called =
            json!({"id": "r2", "status": "failed", "caller": {"run": "r1", "node": "t", "frame": "it#1"}});
        assert_eq!(render(&called), "run        r2\nstatus     failed\ncalled by  it#1/t of run r1\n");
    }

    #[test]
    fn a_run_in_an_unexpected_form_is_still_shown() {
        let run = json!({"id": "r1", "status": "failed", "error": "no", "nodes": "later"});
        assert_eq!(render(&run), "run     r1\nstatus  failed\nerror   no\n");
    }
}
