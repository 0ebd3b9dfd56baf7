//! TC-S: streams.

use super::play::Play;

/// The text of all chunks, joined as a client does.
fn shown(play: &Play) -> String {
    let mut text = String::new();
    for record in &play.records {
        match record.kind.as_str() {
            "node_run_stream_chunk" => text.push_str(record.data["chunk"].as_str().unwrap()),
            "node_run_stream_replaced" => panic!("nothing is withdrawn here"),
            _ => {}
        }
    }
    text
}

#[test]
fn tc_s_001_the_chunks_joined_are_the_text() {
    let mut play = Play::of("start s\nllm m\nanswer z <{{#m.text#}}>\ns > m > z");
    play.start();
    let text = "héllo wörld";
    let mut at = 0;
    for piece in ["hé", "llo ", "", "wör"] {
        play.chunk("m", 1, at, piece).reload();
        at += piece.len() as u64;
    }
    // Some chunks may not arrive. The result has the rest of the text.
    let done = play.done_fact(&play.job_of("m"), 1, text, &[text.len() as u64]);
    play.finish("m", done);
    assert_eq!(shown(&play), format!("<{text}>"));
    assert_eq!(play.last(), format!("succeeded [answer=\"<{text}>\"]"));
}

/// An answer waits until the answer before it has ended (0.22).
#[test]
fn tc_s_002_two_answers_in_a_row_stream_in_order() {
    let mut play = Play::of(
        "start s\nllm m\nllm n\nanswer y A {{#m.text#}}.\nanswer z B {{#n.text#}}.\ns > m > y > n > z",
    );
    play.start().chunk("m", 1, 0, "one").done("m", "one").chunk("n", 1, 0, "two").done("n", "two");
    assert_eq!(shown(&play), "A one.B two.");
    // The first answer is sent first, also when the second model ends earlier.
    let mut play = Play::of(
        "start s\nllm m\nllm n\nanswer y A {{#m.text#}}.\nanswer z B {{#n.text#}}.\ns > m > y > z\ns > n > z",
    );
    play.start().chunk("n", 1, 0, "two").done("n", "two").reload();
    assert_eq!(shown(&play), "A ");
    play.chunk("m", 1, 0, "one").done("m", "one");
    assert_eq!(shown(&play), "A one.B two.");
    assert_eq!(play.last(), "succeeded [answer=\"A one.\"+\"B two.\"]");
}

#[test]
fn tc_s_003_only_the_branch_that_is_taken_streams() {
    let drawing = "start s\nif g s.x\nllm m\nllm n\nanswer y M {{#m.text#}}\nanswer z N {{#n.text#}}\n\
                   s > g\ng:true > m > y\ng:false > n > z";
    for (x, node, expected) in [("yes", "m", "M text"), ("no", "n", "N text")] {
        let mut play = Play::given(x, drawing);
        play.start();
        assert_eq!(play.waiting(), [node]);
        play.chunk(node, 1, 0, "te").reload().chunk(node, 1, 2, "xt").done(node, "text");
        assert_eq!(shown(&play), expected);
    }
}
