//! Answers inside containers: which of them are outputs of the run, and how they are streamed.

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use tidemill_engine::state::options::compat::NestedAnswers;

const LOOP: &str = "lp loop loop_count: 2, logical_operator: and, break_conditions: []\n\
    lp/m llm\nlp/z answer answer: 'A {{#m.text#}}.'\ny answer answer: end\ns > lp > y\nlps > m > z";
const ITERATION: &str = "it iteration iterator_selector: [s, l], output_selector: [m, text], is_parallel: true\n\
    it/m llm\nit/z answer answer: 'A {{#m.text#}}.'\ny answer answer: end\ns > it > y\nits > m > z";

#[test]
fn answers_of_all_rounds_are_joined() {
    let mut play = Play::sheet(LOOP, json!({}));
    play.restless = true;
    play.start().done("lp#0/m", "one").done("lp#1/m", "two");
    assert_eq!(play.last(), r#"succeeded [answer="A one."+"A two."+"end"]"#);
    assert!(play.run.nested.len() == 2);
}

#[test]
fn the_answer_of_a_failed_round_counts_for_nothing() {
    let text = LOOP
        .replace("break_conditions: []\n", "break_conditions: [], error_strategy: fail-branch\nlp/k job\n")
        .replace("s > lp > y", "s > lp\nlp:fail-branch > y")
        .replace("m > z", "m > z > k");
    let mut play = Play::sheet(&text, json!({}));
    play.restless = true;
    play.start().done("lp#0/m", "one").done("lp#0/k", "").done("lp#1/m", "two").failed("lp#1/k", "broken");
    assert_eq!(play.last(), r#"partial 2 [answer="A one."+"end"]"#);
}

#[test]
fn only_the_answer_of_the_last_item_counts() {
    let mut play = Play::sheet(ITERATION, json!({"l": [1, 2]}));
    play.restless = true;
    play.start().done("it#1/m", "two").done("it#0/m", "one");
    assert_eq!(play.last(), r#"succeeded [answer="A two."+"end"]"#);
    let text = ITERATION.replace("is_parallel: true", "error_handle_mode: continue-on-error");
    let mut play = Play::sheet(&text, json!({"l": [1, 2]}));
    play.start().done("it#0/m", "one").failed("it#1/m", "broken");
    assert_eq!(play.last(), r#"partial 1 [answer="end"]"#, "a failed item has no answer");
}

#[test]
fn answers_within_containers_are_sent_whole_in_parts_or_not_at_all() {
    for (text, frame) in [(sheet(LOOP), "lp"), (sheet(ITERATION), "it")] {
        for (way, expected) in [
            (NestedAnswers::Whole, [r#"z.answer + "A one." last"#, r#"z.answer + "A two." last"#].as_slice()),
            (
                NestedAnswers::Segments,
                &[
                    r#"z.answer + "A ""#,
                    r#"m.text + "one""#,
                    r#"z.answer + "." last"#,
                    r#"z.answer + "A ""#,
                    r#"m.text + "two""#,
                    r#"z.answer + "." last"#,
                ],
            ),
            (NestedAnswers::None, &[]),
        ] {
            let mut play =
                Play::headed(&text, json!({"l": [1, 2]}), |head| head.options.nested_answer_stream = way);
            play.restless = true;
            // No answer shows what a model in a container streams.
            play.start();
            assert!(!play.job_of(&format!("{frame}#0/m")).streams);
            play.chunk(&format!("{frame}#0/m"), 1, 0, "on")
                .done(&format!("{frame}#0/m"), "one")
                .done(&format!("{frame}#1/m"), "two");
            let mut all = expected.to_vec();
            all.push(r#"y.answer + "end" last"#);
            play.tells_of(&[" + "], &all);
        }
    }
}
