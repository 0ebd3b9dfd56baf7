//! Chats of several turns in one engine.

use tidemill_embed::{Inputs, Outcome};

use crate::engine;

/// A chatflow that counts its turns in a conversation variable, and answers with the question and the count.
const COUNT: &str = "
app: {mode: advanced-chat, name: Count}
kind: app
version: 0.6.0
workflow:
  conversation_variables:
  - {id: c1, name: turns, value_type: number, value: 0, selector: [conversation, turns]}
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: count
      data:
        type: assigner
        version: '2'
        title: Count
        items: [{variable_selector: [conversation, turns], operation: +=, input_type: constant, value: 1, write_mode: over-write}]
    - {id: answer, data: {type: answer, title: Answer, answer: '{{#sys.query#}} {{#conversation.turns#}}', variables: []}}
    edges: [{source: start, target: count}, {source: count, target: answer}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_keeps_its_variables_from_turn_to_turn() {
    let engine = engine().await;
    let mut conversation = String::new();
    for (turn, query) in ["one", "two", "three"].into_iter().enumerate() {
        let inputs = Inputs::new().query(query).user("ann").conversation(&conversation);
        let run = engine.run(COUNT, inputs).await.expect("the run starts");
        let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else {
            panic!("it fails")
        };
        assert_eq!(outputs["answer"], format!("{query} {}", turn + 1));
        conversation = run.conversation().expect("a chat has a conversation").to_owned();
    }
    let run = engine.run(COUNT, Inputs::new().query("new").conversation("")).await.expect("the run starts");
    assert_ne!(run.conversation(), Some(conversation.as_str()));
    let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else { panic!("it fails") };
    assert_eq!(outputs["answer"], "new 1");
    engine.stop().await;
}
