use proptest::prelude::*;

use super::*;

/// The pieces emitted for this stream: answer and marked thoughts, including the end.
fn emitted(deltas: &[&str]) -> Vec<String> {
    let mut filter = Filter::default();
    let mut emitted = Vec::new();
    let mut out = |piece: Piece<'_>| {
        emitted.push(match piece {
            Piece::Said(text) => format!("s:{text}"),
            Piece::Thought { text, last } => format!("{}:{text}", if last { "T" } else { "t" }),
        });
    };
    deltas.iter().for_each(|delta| filter.push(delta, &mut out));
    filter.finish(&mut out);
    emitted
}

/// The same, joined: answer, thoughts, number of end marks.
fn joined(deltas: &[&str]) -> (String, String, usize) {
    let (mut said, mut thought, mut ends) = (String::new(), String::new(), 0);
    for piece in emitted(deltas) {
        let (kind, text) = piece.split_once(':').unwrap();
        if kind == "s" {
            said.push_str(text)
        } else {
            thought.push_str(text)
        }
        ends += usize::from(kind == "T");
    }
    (said, thought, ends)
}

#[test]
fn a_whole_reply_is_split_and_tidied() {
    for (reply, text, thoughts) in [
        ("plain", "plain", ""),
        ("<think>why</think>because", "because", "why"),
        ("a<THINK>x</Think>b", "ab", "x"),
        ("<think class=\"x\">a</think>\n\nAnswer\n \n\n\nend ", "Answer\n\nend", "a"),
        ("<think> a </think><think></think>x<think>b", "x", "a\nb"),
        ("<thinking>no</thinking>", "<thinking>no</thinking>", ""),
        ("<think <y>z", "<think <y>z", ""),
        ("x</think>y", "x</think>y", ""),
    ] {
        assert_eq!(split(reply), Split { text: text.into(), thoughts: thoughts.into() }, "{reply}");
    }
}

#[test]
fn pieces_keep_their_order_and_the_end_of_thought_is_emitted_once() {
    for (deltas, expected) in [
        (&["<think>a</think>b"][..], &["t:a", "s:b", "T:"][..]),
        (&["<think>a</think>b<think>c</think>d"], &["t:a", "s:b", "t:c", "s:d", "T:"]),
        (&["x<thi"], &["s:x", "s:<thi"]),
        (&["<think>a</thi"], &["t:a", "T:</thi"]),
        (&["<think>a</thi", "s"], &["t:a", "t:</this", "T:"]),
        (&["<think></think>b"], &["s:b"]),
        (&["\n ", " a", "\n\n\n b"], &["s:a", "s:\n\n\n b"]),
        (&["<thinking>x"], &["s:<thinking>x"]),
        (&["<think <y>"], &["s:<think <y>"]),
        (&["<think", " a='b'", ">c", "</THINK>d"], &["t:c", "s:d", "T:"]),
        (&["<", "b>"], &["s:<b>"]),
    ] {
        assert_eq!(emitted(deltas), expected, "{deltas:?}");
    }
}

#[test]
fn an_attribute_that_is_too_long_is_text_and_is_not_held_back() {
    let fits = format!("<think {}", "x".repeat(ATTRIBUTE_CHARS_MAX));
    assert_eq!(joined(&[&fits, ">a"]), (String::new(), "a".into(), 1));
    let mut filter = Filter::default();
    let mut said = String::new();
    let long = format!("{fits}x");
    filter.push(&long, &mut |piece| match piece {
        Piece::Said(text) => said.push_str(text),
        Piece::Thought { .. } => panic!("nothing is thought"),
    });
    assert_eq!(said, long);
}

/// Texts with many tags, complete and broken.
fn reply() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("<think>"),
        Just("</think>"),
        Just("<think a>"),
        Just("<thi"),
        Just("nk>"),
        Just("</th"),
        Just("ink>"),
        Just("<"),
        Just(">"),
        Just(" "),
        Just("\n"),
        Just("ö"),
        Just("word"),
        Just("<THINK\u{a0}x"),
    ];
    prop::collection::vec(word, 0..14).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn the_emitted_text_is_the_same_for_all_cuts_of_a_reply(reply in reply(), cuts in prop::collection::vec(0usize..100, 0..8)) {
        let mut at: Vec<usize> = cuts.into_iter().filter(|cut| reply.is_char_boundary(*cut) && *cut < reply.len()).collect();
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in at {
            pieces.push(&reply[from..cut]);
            from = cut;
        }
        pieces.push(&reply[from..]);
        let whole = joined(&[reply.as_str()]);
        prop_assert_eq!(&joined(&pieces), &whole);
        prop_assert_eq!(whole.2, usize::from(!whole.1.is_empty()));
    }

    #[test]
    fn streamed_and_split_say_the_same_but_for_white_space(reply in reply()) {
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        let (said, thought, _) = joined(&[reply.as_str()]);
        let split = split(&reply);
        prop_assert_eq!(bare(&said), bare(&split.text));
        prop_assert_eq!(bare(&thought), bare(&split.thoughts));
    }
}
