//! Finds the object in a text: the first balanced run of brackets that is one. As on Dify nothing is repaired, and the
//! model's thoughts are searched too.

use serde_json::Value as Json;

use tidemill_base::value::{JsonMap, pyjson};

/// The end of a run. Positions are indexes of brackets.
#[derive(Debug, Clone, Copy)]
enum End {
    /// A closing bracket without an opening one in between.
    Closer(usize),
    /// A closing bracket that does not match the open one.
    Cut(usize),
    /// The text ends first.
    None,
}

/// The first object in a text. Lists are skipped, but objects within them are found.
pub fn object(text: &str) -> Option<JsonMap> {
    let openers = runs(text);
    openers.into_iter().find_map(|(start, end)| match pyjson::loads(&text[start..end]) {
        Ok(Json::Object(object)) => Some(object),
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | Err(_) => None,
    })
}

/// The runs from each opening bracket that has an end, in order. As on Dify brackets inside texts count too, and a run
/// ends before a closing bracket that does not match.
///
/// One pass from the end: a run's end depends only on the text after it. So a text of only brackets takes no longer
/// than another.
fn runs(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let brackets: Vec<usize> =
        (0..bytes.len()).filter(|at| matches!(bytes[*at], b'{' | b'[' | b'}' | b']')).collect();
    let mut runs = Vec::new();
    // For each bracket, and for the text's end: the first closing bracket from there that closes an earlier one.
    let mut closers = vec![End::None; brackets.len() + 1];
    for nth in (0..brackets.len()).rev() {
        let at = brackets[nth];
        let wanted = match bytes[at] {
            b'{' => b'}',
            b'[' => b']',
            _ => {
                closers[nth] = End::Closer(nth);
                continue;
            }
        };
        closers[nth] = match closers[nth + 1] {
            End::Closer(closer) if bytes[brackets[closer]] == wanted => {
                runs.push((at, brackets[closer] + 1));
                closers[closer + 1]
            }
            End::Closer(closer) | End::Cut(closer) => {
                runs.push((at, brackets[closer]));
                End::Cut(closer)
            }
            End::None => End::None,
        };
    }
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_first_object_wins_and_lists_are_looked_into() {
        for (text, expected) in [
            ("Here: {\"a\": 1} bye", Some(json!({"a": 1}))),
            ("{broken} {\"a\": 1}", Some(json!({"a": 1}))),
            ("[{\"a\": 1}]", Some(json!({"a": 1}))),
            ("{\"a\": {\"b\": 1}}", Some(json!({"a": {"b": 1}}))),
            ("<think>{\"a\": 1}</think>{\"a\": 2}", Some(json!({"a": 1}))),
            ("{\"a\": 1] {\"b\": 2}", Some(json!({"b": 2}))),
            ("{\"a\": \"}\"}", None),
            ("{\"a\": \"{}\"}", Some(json!({"a": "{}"}))),
            ("{\"a\": 1", None),
            ("{'a': 1}", None),
            ("[1, 2]", None),
            ("no idea", None),
            ("{}", Some(json!({}))),
            ("", None),
        ] {
            assert_eq!(object(text).map(Json::Object), expected, "{text}");
        }
    }

    /// The run from each opening bracket, found by scanning forward.
    fn by_walking(text: &str) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        for (start, _) in text.match_indices(['{', '[']) {
            let mut open = Vec::new();
            for (at, c) in text.char_indices().skip_while(|(at, _)| *at < start) {
                match (c, open.last()) {
                    ('{' | '[', _) => open.push(c),
                    ('}', Some('{')) | (']', Some('[')) => {
                        open.pop();
                        if open.is_empty() {
                            runs.push((start, at + 1));
                            break;
                        }
                    }
                    ('}' | ']', _) => {
                        runs.push((start, at));
                        break;
                    }
                    _ => {}
                }
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn one_pass_finds_the_same_runs_as_scanning_from_each_bracket(text in r"[{}\[\]aö]{0,24}") {
            prop_assert_eq!(runs(&text), by_walking(&text));
        }
    }
}
