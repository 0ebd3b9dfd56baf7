//! The warnings that a run is submitted with: what the request gives and the workflow does not use, and what the workflow
//! asks for and the settings leave out.

use tidemill_common::dsl::suggest;
use tidemill_common::graph::Node;
use tidemill_common::value::JsonMap;
use tidemill_common::warning::{self, INPUT_NOT_DECLARED, MODERATION_LEFT_OUT, Warning};

use super::{Submission, SystemValues};

/// An input of this name may become the question (`sys.query`), with or without a field in the form.
const QUESTION: &str = "query";

/// The warnings of a submission, at most `max`: the start fact carries them.
pub(super) fn of_submission(
    root: &Node,
    submission: &Submission,
    leaves_moderation_out: bool,
    max: usize,
) -> Vec<Warning> {
    let mut found = Vec::new();
    if leaves_moderation_out {
        let message = "moderation is enabled, but left out (compat.moderation_left_out): nothing checked what the user \
                       wrote and what models answered";
        warning::add(&mut found, Warning::new(MODERATION_LEFT_OUT, message), max);
    }
    // Without a form, and with a caller that is a host of its own, all inputs are taken.
    if matches!(submission.sys, SystemValues::Standard) && !root.kind.is_trigger() {
        let names: Vec<&str> = root.data.form_fields().iter().map(|field| &*field.variable).collect();
        for warning in not_declared(&submission.inputs, &names) {
            warning::add(&mut found, warning, max);
        }
    }
    found
}

/// A warning for each input that the form does not have. Dify drops these inputs, too.
fn not_declared<'a>(inputs: &'a JsonMap, form: &'a [&str]) -> impl Iterator<Item = Warning> + 'a {
    let is_used = move |name: &str| name == QUESTION || form.contains(&name);
    inputs.keys().filter(move |name| !is_used(name.as_str())).map(move |name| {
        let message = format!("the start form has no field {name:?}, so this input was not used");
        let nearest = suggest::nearest(name, form.iter().copied());
        let hint =
            nearest.map(|nearest| format!("did you mean {nearest:?}?")).unwrap_or_else(|| match form {
                [] => "the form has no fields".to_owned(),
                fields => format!("its fields are {}", fields.join(", ")),
            });
        Warning::new(INPUT_NOT_DECLARED, message).about("input", name.as_str()).hint(hint).shortened()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_input_that_the_form_does_not_have_is_a_warning() {
        for (inputs, form, expected) in [
            (json!({}), vec![], vec![]),
            (json!({"a": 1}), vec!["a", "b"], vec![]),
            (json!({"a": 1, "topik": 2}), vec!["a", "topic"], vec![("topik", "topic")]),
            (json!({"x": 1}), vec![], vec![("x", "no fields")]),
            (json!({"query": "why?"}), vec!["a"], vec![]),
            (json!({"zzz": 1, "yyy": 2}), vec!["a", "b"], vec![("zzz", "a, b"), ("yyy", "a, b")]),
        ] {
            let inputs = inputs.as_object().cloned().unwrap_or_default();
            let found: Vec<Warning> = not_declared(&inputs, &form).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (warning, (input, hint)) in found.iter().zip(expected) {
                assert_eq!((&*warning.code, warning.about[0].1.as_str()), (INPUT_NOT_DECLARED, input));
                assert!(warning.message.contains(input) && warning.hint.contains(hint), "{warning:?}");
            }
        }
    }
}
