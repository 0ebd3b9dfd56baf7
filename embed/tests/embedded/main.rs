//! Embedded engines, as a host program uses them: no Redis, no port.

mod chats;
mod engine;
mod executors;
mod files;
mod lacks;
mod many;

use tidemill_embed::{Engine, EngineConfig, Run};

/// A workflow that greets by a template.
const GREET: &str = "
app: {mode: workflow, name: Greet}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: [{variable: name, label: Name, type: text-input, required: true}]}}
    - id: greet
      data: {type: template-transform, title: Greet, template: 'Good morning, {{ name }}', variables: [{variable: name, value_selector: [start, name]}]}
    - {id: end, data: {type: end, title: End, outputs: [{variable: text, value_selector: [greet, output]}]}}
    edges: [{source: start, target: greet}, {source: greet, target: end}]
";

/// A workflow that asks for a number.
const ASK: &str = "
app: {mode: workflow, name: Ask}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: ask
      data: {type: user-interaction, title: Ask, interaction_type: ask_for_input, show_message: How many?, input_schema: {type: integer}}
    - {id: end, data: {type: end, title: End, outputs: [{variable: given, value_selector: [ask, content]}]}}
    edges: [{source: start, target: ask}, {source: ask, target: end}]
";

async fn engine() -> Engine {
    Engine::create(EngineConfig::default()).await.expect("an engine starts")
}

/// Follows a run to an event of this type, and returns the types so far.
async fn until(run: &Run, kind: &str) -> Vec<String> {
    let mut events = run.events().await.expect("the run has events");
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await.expect("events can be read") {
        kinds.push(event.kind);
        if kinds.last().is_some_and(|last| last == kind) {
            return kinds;
        }
    }
    panic!("the stream ended before {kind}: {kinds:?}")
}
