//! Streamed answers: their order, pieces as they come, answers in containers.

use serde_json::json;

use super::workflow::{Sketch, answer, assign, choose, code, each, first_of, llm, rounds, start};
use super::{Desk, pieces, streamed};

/// The text that a chat streams, and its pieces.
async fn told(desk: &Desk, sketch: &Sketch, query: &str) -> (String, Vec<String>) {
    let (_, app) = desk.publish(sketch).await;
    let body = json!({"query": query, "inputs": {}, "user": "field", "conversation_id": "", "response_mode": "streaming"});
    let events = streamed(&app, "/v1/chat-messages", body).await;
    let pieces: Vec<String> = pieces(&events).into_iter().map(str::to_owned).collect();
    (pieces.concat(), pieces)
}

async fn desk() -> Desk {
    Desk::open(json!([
        {"match": {"contains": "slow"}, "chunks": ["s1 ", "s2 ", "s3"], "chunk_delay_ms": 120, "delay_ms": 150},
        {"match": {"contains": "quick"}, "chunks": ["q1 ", "q2"]},
        {"match": {}, "echo": "last_user"},
    ]))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_stream_in_the_order_of_their_templates() {
    let desk = desk().await;
    // Two models at once in one answer, and a second answer that waits for the first.
    let both = Sketch::chat("start > think > both; start > reply > both; reply > after")
        .node("start", start(&[]))
        .node("think", llm("slow"))
        .node("reply", llm("quick"))
        .node("both", answer("A:{{#think.text#}}\n\nB:{{#reply.text#}}"))
        .node("after", answer("C"));
    // Three answers, each with its own model.
    let three = Sketch::chat("start > l1 > a1; start > l2 > a2; start > l3 > a3")
        .node("start", start(&[]))
        .node("l1", llm("quick"))
        .node("a1", answer("1:{{#l1.text#}};"))
        .node("l2", llm("slow"))
        .node("a2", answer("2:{{#l2.text#}};"))
        .node("l3", llm("quick"))
        .node("a3", answer("3:{{#l3.text#}};"));
    // An answer after two branches, of which one runs.
    let behind = Sketch::chat("start > is; is[a] > la > any; is[false] > lb > any; any > say")
        .node("start", start(&[]))
        .node("is", choose("a", &[("sys.query", "contains", "A", "string")]))
        .node("la", llm("slow"))
        .node("lb", llm("quick"))
        .node("any", first_of("string", &["la.text", "lb.text"]))
        .node("say", answer("{{#la.text#}}{{#lb.text#}}|{{#any.output#}}"));
    let ((one, one_pieces), (two, two_pieces), (left, left_pieces), (right, _)) = tokio::join!(
        told(&desk, &both, "x"),
        told(&desk, &three, "x"),
        told(&desk, &behind, "A"),
        told(&desk, &behind, "B"),
    );
    assert!(one.contains("A:s1 s2 s3\n\nB:q1 q2"), "{one}");
    assert!(one_pieces.iter().any(|piece| piece == "s1 "), "the first model streams: {one_pieces:?}");
    let mut answers: Vec<&str> = two.split_terminator(';').collect();
    answers.sort_unstable();
    assert_eq!(answers, ["1:q1 q2", "2:s1 s2 s3", "3:q1 q2"], "whole answers, one after another: {two}");
    assert!(two_pieces.len() > 3, "{two_pieces:?}");
    assert_eq!((left.as_str(), right.as_str()), ("s1 s2 s3|s1 s2 s3", "q1 q2|q1 q2"));
    assert_eq!(left_pieces.iter().filter(|piece| *piece == "s1 ").count(), 1, "it streams: {left_pieces:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_in_containers_are_sent_for_each_item_and_round() {
    let desk = desk().await;
    let looped = Sketch::chat("start > lp > last; lpstart > ask > say > count")
        .node("start", start(&[]))
        .node("lp", rounds(3, &[("n", "number", "1")], json!([])))
        .inside("lp", "ask", llm("round {{#lp.n#}}"))
        .inside("lp", "say", answer("[{{#ask.text#}}]"))
        .inside("lp", "count", assign(&[("lp.n", "+=", json!(1))]))
        .node("last", answer("last {{#lp.n#}}"));
    let source = "def main():\n    return {\"list\": [\"x\", \"y\", \"z\"]}\n";
    let items = Sketch::chat("start > made > all > last; allstart > ask > say")
        .node("start", start(&[]))
        .node("made", code(source, &[("list", "array[string]")], &[]))
        .node("all", each("made.list", "ask.text", "array[string]", 1))
        .inside("all", "ask", llm("item {{#all.item#}}"))
        .inside("all", "say", answer("({{#ask.text#}})"))
        .node("last", answer("last"));
    let ((rounds, _), (items, _)) = tokio::join!(told(&desk, &looped, "x"), told(&desk, &items, "x"));
    assert_eq!(rounds, "[round 1][round 2][round 3]last 4");
    assert_eq!(items, "(item x)(item y)(item z)last");
}
