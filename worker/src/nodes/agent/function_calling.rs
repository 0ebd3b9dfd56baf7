//! The strategy `function_calling`: the model calls tools through its API and receives their results, until it calls
//! none or its rounds are used up.

use serde_json::json;
use tidemill_common::nodes::agent::parameters::AgentParameters;
use tidemill_common::nodes::agent::prompt;
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{MediaKind, Message};
use tidemill_common::value::JsonMap;

use super::rounds::Rounds;

/// Runs the rounds.
///
/// # Errors
/// An error of the model's API. A failing tool is not an error.
pub(super) async fn run(
    rounds: &mut Rounds<'_>,
    given: &AgentParameters,
    history: Vec<Message>,
) -> Result<(), String> {
    let mut messages = prompt::opening(&given.instruction, history, &given.query);
    let (last, sees) = (given.iterations_max, rounds.facts().takes(MediaKind::Image));
    for round in 1..=last {
        if round > 1 || !sees {
            prompt::without_files(&mut messages);
        }
        let log = rounds.line(&format!("round:{round}"), format!("ROUND {round}"), None);
        let reply = rounds.ask(round, messages.clone(), rounds.specs(), &mut str::to_owned, &log).await?;
        if reply.tool_calls.is_empty() {
            let data = json!({"output": {"llm_response": reply.text, "tool_responses": []}});
            rounds.emit(log.done(data, JsonMap::new()));
            return Ok(());
        }
        rounds.add_text("\n");
        messages.push(reply.message());
        let mut responses = Vec::with_capacity(reply.tool_calls.len());
        for call in &reply.tool_calls {
            // No round is left in which the model could use the result.
            let words = if round == last && last > 1 {
                rounds.too_late(round, call, &log)
            } else {
                rounds.call(round, call, &log).await
            };
            if last == 1 {
                rounds.add_text(&words);
            }
            responses.push(json!({
                "tool_call_id": call.id, "tool_call_name": call.name, "tool_call_input": call.arguments,
                "tool_response": words,
            }));
            messages.push(Message::tool_result(call.id.clone(), words));
        }
        messages.extend(rounds.instructions().into_iter().map(|text| Message::text(Role::User, text)));
        let data = json!({"output": {"llm_response": reply.text, "tool_responses": responses}});
        rounds.emit(log.done(data, JsonMap::new()));
    }
    Ok(())
}
