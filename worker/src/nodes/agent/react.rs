//! The strategy `ReAct`: the model names an action as text, the worker runs it and sends back the result.

use serde_json::json;
use tidemill_common::nodes::agent::parameters::AgentParameters;
use tidemill_common::nodes::agent::prompt;
use tidemill_common::nodes::agent::react::{self, STOP};
use tidemill_common::nodes::agent::thinking::Thinking;
use tidemill_common::nodes::llm::message::{MediaKind, Message, ToolCall};
use tidemill_common::value::JsonMap;

use super::rounds::Rounds;

/// The one provider that does not accept this stop sequence (Dify).
const WITHOUT_STOP: &str = "wenxin";

/// Runs the rounds. The model's reasoning is streamed; its answer is sent once, at the end.
///
/// # Errors
/// An error of the model's API. A failing tool is not an error.
pub(super) async fn run(
    rounds: &mut Rounds<'_>,
    given: &AgentParameters,
    history: Vec<Message>,
) -> Result<(), String> {
    let specs = rounds.specs();
    let provider = given.model.provider.rsplit('/').next().unwrap_or_default();
    if provider != WITHOUT_STOP && !rounds.stop().iter().any(|stop| stop == STOP) {
        rounds.stop().push(STOP.into());
    }
    let (mut history, sees) = (history, rounds.facts().takes(MediaKind::Image));
    let mut scratchpad = String::new();
    for round in 1..=given.iterations_max {
        if round > 1 || !sees {
            prompt::without_files(&mut history);
        }
        let messages =
            react::messages(&given.instruction, &specs, history.clone(), &given.query, &scratchpad);
        let log = rounds.line(&format!("round:{round}"), format!("ROUND {round}"), None);
        let mut thinking = Thinking::default();
        let round_reply =
            rounds.ask(round, messages, Vec::new(), &mut |piece| thinking.push(piece), &log).await?;
        let reply = react::read(&round_reply.text);
        rounds.add_text(thinking.rest(&reply.thought));
        if !reply.bare && !reply.thought.is_empty() {
            rounds.add_text("\n");
        }
        let Some(action) = &reply.action else {
            let answer = reply.answer.unwrap_or_default();
            if !reply.bare {
                rounds.add_text(&answer);
            }
            rounds.emit(
                log.done(json!({"output": {"thought": reply.thought, "answer": answer}}), JsonMap::new()),
            );
            return Ok(());
        };
        let parameters = rounds.parameters_of(&action.name);
        let arguments = react::arguments(&action.input, &parameters);
        let call = ToolCall {
            id: format!("round-{round}"),
            name: action.name.clone(),
            arguments: serde_json::Value::Object(arguments).to_string(),
        };
        let words = if round == given.iterations_max && round > 1 {
            let limit = prompt::limit_reached(given.iterations_max, &action.name);
            rounds.add_text(&limit);
            limit
        } else {
            let words = rounds.call(round, &call, &log).await;
            [words].into_iter().chain(rounds.instructions()).collect::<Vec<_>>().join("\n")
        };
        if given.iterations_max == 1 {
            rounds.add_text(&words);
        }
        let data = json!({"output": {
            "thought": reply.thought, "action": action.name, "action_input": action.input, "observation": words,
        }});
        rounds.emit(log.done(data, JsonMap::new()));
        scratchpad.push_str(&react::remembered(&reply, &words));
    }
    Ok(())
}
