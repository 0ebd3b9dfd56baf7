//! Streamed answers: the order of their text, and text that another holder withdraws.

use std::time::Duration;

use super::play::Play;
use tidemill_base::value::{BlobRef, SegmentType, Stored};

const CHAT: &str =
    "start s\nllm m\nllm n\nanswer z First {{#m.text#}} then {{#n.text#}}.\ns > m > z\ns > n > z";

#[test]
fn text_before_its_turn_is_held_and_sent_later() {
    let mut play = Play::of(CHAT);
    play.start().tells(&["begin", "z.answer + \"First \"", "s starts", "s ok"]);
    play.chunk("n", 1, 0, "one").tells(&["n starts"]);
    play.reload().chunk("n", 1, 3, " two").tells(&[]);
    play.chunk("m", 1, 0, "hello").tells(&["m starts", "m.text + \"hello\""]);
    let job = play.job_of("m");
    let done = play.done_fact(&job, 1, "hello", &[5]);
    play.reload().finish("m", done).tells(&[
        "m.text + \"\" last",
        "z.answer + \" then \"",
        "n.text + \"one\"",
        "n.text + \" two\"",
        "m ok",
    ]);
    play.chunk("n", 1, 7, "!").tells(&["n.text + \"!\""]);
    let job = play.job_of("n");
    let done = play.done_fact(&job, 1, "one two!", &[8]);
    play.finish("n", done).tells(&[
        "n.text + \"\" last",
        "z.answer + \".\" last",
        "n ok",
        "z starts",
        "z ok",
        "succeeded [answer=\"First hello then one two!.\"]",
    ]);
}

#[test]
fn repeated_overlapping_and_missing_chunks_still_send_each_byte_once() {
    let mut play = Play::of(CHAT);
    play.start().skim();
    play.chunk("m", 1, 0, "abc").tells(&["m starts", "m.text + \"abc\""]);
    play.chunk("m", 1, 0, "abc").tells(&[]);
    play.chunk("m", 1, 1, "bcde").tells(&["m.text + \"de\""]);
    play.chunk("m", 1, 9, "later").tells(&[]);
    // A chunk that begins inside a character cannot belong to this text.
    play.chunk("m", 1, 5, "é").tells(&["m.text + \"é\""]);
    play.chunk("m", 1, 4, "eé?").tells(&["m.text + \"?\""]);
    let job = play.job_of("m");
    let done = play.done_fact(&job, 1, "abcdeé? the rest", &[17]);
    play.finish("m", done).tells(&[
        "m.text + \" the rest\"",
        "m.text + \"\" last",
        "z.answer + \" then \"",
        "m ok",
    ]);
}

#[test]
fn a_new_holder_withdraws_the_text_that_was_sent() {
    let mut play = Play::of(CHAT);
    play.start().chunk("m", 1, 0, "once upon").skim();
    play.chunk("m", 2, 0, "there").tells(&["m.text = \"\"", "m.text + \"there\""]);
    play.chunk("m", 1, 9, " a time").tells(&[]);
    play.reload().chunk("m", 2, 5, " was").tells(&["m.text + \" was\""]);
    let job = play.job_of("m");
    let done = play.done_fact(&job, 2, "there was", &[9]);
    play.finish("m", done).tells(&["m.text + \"\" last", "z.answer + \" then \"", "m ok"]);
}

#[test]
fn a_new_holder_drops_held_text_without_an_event() {
    let mut play = Play::of(CHAT);
    play.start().chunk("n", 1, 0, "old").reload().skim();
    play.chunk("n", 2, 0, "new").tells(&[]);
    play.reload().done("m", "M").tells(&[
        "m starts",
        "m.text + \"M\"",
        "z.answer + \" then \"",
        "n.text + \"new\"",
        "m ok",
    ]);
}

#[test]
fn a_result_of_another_holder_replaces_all_text_that_was_sent() {
    let mut play = Play::of(CHAT);
    play.start().chunk("m", 1, 0, "wrong").skim();
    let job = play.job_of("m");
    let done = play.done_fact(&job, 2, "right", &[5]);
    play.finish("m", done).tells(&[
        "m.text = \"\"",
        "m.text + \"right\"",
        "m.text + \"\" last",
        "z.answer + \" then \"",
        "m ok",
    ]);
}

#[test]
fn of_two_holders_with_one_number_the_later_is_shown_until_one_of_them_ends() {
    let mut play = Play::of(CHAT);
    play.start().chunk("m", 1, 0, "once upon").skim();
    let job = play.job_of("m");
    let late = play.chunk_fact(&job, 1, 9, " a time");
    let done = play.done_fact(&job, 1, "once upon a time", &[16]);
    // A fail-over has lost the first delivery. The next one has its number, and the first holder does not know of it yet.
    play.now = play.now.plus(Duration::from_secs(9));
    play.reload().chunk("m", 1, 0, "there").tells(&["m.text = \"\"", "m.text + \"there\""]);
    play.reload().feed(vec![late]).tells(&[]);
    play.chunk("m", 1, 5, " was").tells(&["m.text + \" was\""]);
    play.reload().finish("m", done).tells(&[
        "m.text = \"\"",
        "m.text + \"once upon a time\"",
        "m.text + \"\" last",
        "z.answer + \" then \"",
        "m ok",
    ]);
}

#[test]
fn held_text_of_another_holder_with_the_same_number_is_dropped() {
    let mut play = Play::of(CHAT);
    play.start().chunk("n", 1, 0, "old").reload().skim();
    play.now = play.now.plus(Duration::from_secs(9));
    play.chunk("n", 1, 0, "new").tells(&[]);
    play.reload().done("m", "M").tells(&[
        "m starts",
        "m.text + \"M\"",
        "z.answer + \" then \"",
        "n.text + \"new\"",
        "m ok",
    ]);
}

#[test]
fn the_missing_end_of_a_large_text_is_sent_from_its_blob() {
    let mut play = Play::of(CHAT);
    play.start().chunk("m", 1, 0, "begin").skim();
    let job = play.job_of("m");
    let mut done = play.done_fact(&job, 1, "", &[70_000]);
    if let tidemill_engine::Fact::JobSucceeded(done) = &mut done {
        let blob = BlobRef { id: "b1".into(), ty: SegmentType::String, size: 70_002, len: None };
        done.record.outputs[0].1 = Stored::Blob(blob);
    }
    play.finish("m", done).tells(&["m.text + b1@5", "m.text + \"\" last", "z.answer + \" then \"", "m ok"]);
}

#[test]
fn texts_that_no_answer_shows_are_not_stored() {
    let mut play = Play::of("start s\nllm m\nend e\ns > m > e");
    play.start().skim().chunk("m", 1, 0, "quiet").tells(&["m starts"]);
    assert!(play.run.response.streams.is_empty());
    assert!(!format!("{:?}", play.kept).contains("quiet"));
}

#[test]
fn the_second_answer_waits_for_the_first() {
    let mut play =
        Play::of("start s\nllm m\nllm n\nanswer y {{#m.text#}}\nanswer z {{#n.text#}}\ns > m > y\ns > n > z");
    play.start().skim();
    play.done("n", "N").tells(&["n starts", "n ok", "z starts", "z ok"]);
    play.reload().done("m", "M").tells(&[
        "m starts",
        "m.text + \"M\" last",
        "n.text + \"N\" last",
        "m ok",
        "y starts",
        "y ok",
        "succeeded [answer=\"N\"+\"M\"]",
    ]);
}

#[test]
fn text_after_a_branch_waits_until_the_branch_is_taken() {
    let graph =
        "start s\njob k\nif g k.output\nanswer y yes\nanswer z no\ns > k > g\ng:true > y\ng:false > z";
    let mut play = Play::of(graph);
    play.start().tells(&["begin", "s starts", "s ok"]);
    play.done("k", "yes").tells(&[
        "k starts",
        "k ok",
        "g starts",
        "skip g>z",
        "y.answer + \"yes\" last",
        "g ok",
        "y starts",
        "y ok",
        "succeeded [answer=\"yes\"]",
    ]);
}

#[test]
fn a_variable_of_a_skipped_node_is_left_out() {
    let graph = "start s\nif g s.x\nllm m\njob k\nanswer z <{{#m.text#}}>{{#k.output#}}\n\
                 s > g\ng:true > m > z\ng:false > k > z";
    let mut play = Play::given("no", graph);
    play.start().tells(&[
        "begin",
        "s starts",
        "s ok",
        "g starts",
        "skip g>m",
        "skip m>z",
        "z.answer + \"<\"",
        "z.answer + \">\"",
        "g ok",
    ]);
    play.done("k", "K").tells(&[
        "k starts",
        "k.output + \"K\" last",
        "k ok",
        "z starts",
        "z ok",
        "succeeded [answer=\"<m.text>K\"]",
    ]);
}

#[test]
fn a_node_does_not_stream_for_a_node_whose_id_continues_after_a_dot() {
    let mut play = Play::of("start s\nllm m\nllm m.x\nend e m.text m.x.text\ns > m > e\ns > m.x > e");
    play.start().chunk("m.x", 1, 0, "one").done("m", "M").skim();
    assert!(play.job_of("m.x").streams, "an answer shows its text");
    play.chunk("m.x", 1, 3, " two").tells(&["m.x.text + \" two\""]);
}
