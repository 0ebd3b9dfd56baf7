//! The warnings that a run is submitted with: what the request gives and the workflow does not use, and what the workflow
//! asks for and the settings leave out.

use std::cell::LazyCell;
use std::collections::HashSet;

use tidemill_common::dsl::features::ServedFeatures;
use tidemill_common::dsl::{features, suggest};
use tidemill_common::graph::Node;
use tidemill_common::limits::WARNING_CHARS_MAX;
use tidemill_common::value::JsonMap;
use tidemill_common::warning::{self, FEATURE_NOT_SERVED, INPUT_NOT_DECLARED, MODERATION_LEFT_OUT, Warning};

use super::{Submission, SystemValues};

/// An input of this name may become the question (`sys.query`), with or without a field in the form.
const QUESTION: &str = "query";
/// Most fields of a form that an input is compared with, to find the one that was meant.
const FIELDS_COMPARED_MAX: usize = 200;
/// Longest name of a field, in bytes, that it is compared with.
const NAME_BYTES_COMPARED_MAX: usize = 256;

/// The warnings of a submission, at most `max`: the start fact carries them.
pub(super) fn of_submission(
    root: &Node,
    submission: &Submission,
    (features, served, leaves_moderation_out): (&JsonMap, ServedFeatures, bool),
    max: usize,
) -> Vec<Warning> {
    let mut found = Vec::new();
    for feature in features::not_served(features, served) {
        let warning = Warning::new(FEATURE_NOT_SERVED, feature.message());
        warning::add(&mut found, warning.about("feature", feature.name).hint(feature.hint()), max);
    }
    if leaves_moderation_out {
        let message = "moderation is enabled, but left out (compat.moderation_left_out): nothing checked what the user \
                       wrote and what models answered";
        warning::add(&mut found, Warning::new(MODERATION_LEFT_OUT, message), max);
    }
    // Without a form, and with a caller that is a host of its own, all inputs are taken.
    if matches!(submission.sys, SystemValues::Standard) && !root.kind.is_trigger() {
        let names: Vec<&str> = root.data.form_fields().iter().map(|field| &*field.variable).collect();
        let nearest = |name: &str| suggest::nearest(name, compared(&names)).map(str::to_owned);
        for warning in not_declared(&submission.inputs, &names, &nearest, max.saturating_sub(found.len())) {
            warning::add(&mut found, warning, max);
        }
    }
    found
}

/// The fields of a form that an input is compared with. Each comparison costs time in which the scheduler does nothing else,
/// and a form may have thousands of fields with long names.
fn compared<'a>(form: &'a [&str]) -> impl Iterator<Item = &'a str> {
    form.iter().copied().filter(|name| name.len() <= NAME_BYTES_COMPARED_MAX).take(FIELDS_COMPARED_MAX)
}

/// A warning for each input that the form does not have, at most `room`: the rest is not even looked at. Dify drops these
/// inputs, too. `nearest` finds the field that was meant.
fn not_declared<'a>(
    inputs: &'a JsonMap,
    form: &'a [&str],
    nearest: &'a dyn Fn(&str) -> Option<String>,
    room: usize,
) -> impl Iterator<Item = Warning> + 'a {
    let known: HashSet<&str> = form.iter().copied().chain([QUESTION]).collect();
    let fields = LazyCell::new(move || match form {
        [] => "the form has no fields".to_owned(),
        // A warning is cut later, but a long form should not be copied for each.
        fields => {
            let all: String = fields.join(", ").chars().take(WARNING_CHARS_MAX).collect();
            format!("its fields are {all}")
        }
    });
    inputs.keys().filter(move |name| !known.contains(name.as_str())).take(room).map(move |name| {
        let message = format!("the start form has no field {name:?}, so this input was not used");
        let hint = match nearest(name) {
            Some(nearest) => format!("did you mean {nearest:?}?"),
            None => String::clone(&fields),
        };
        Warning::new(INPUT_NOT_DECLARED, message).about("input", name.as_str()).hint(hint).shortened()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
            let nearest = |name: &str| suggest::nearest(name, compared(&form)).map(str::to_owned);
            let found: Vec<Warning> = not_declared(&inputs, &form, &nearest, 100).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (warning, (input, hint)) in found.iter().zip(expected) {
                assert_eq!((&*warning.code, warning.about[0].1.as_str()), (INPUT_NOT_DECLARED, input));
                assert!(warning.message.contains(input) && warning.hint.contains(hint), "{warning:?}");
            }
        }
    }

    #[test]
    fn only_as_many_inputs_are_compared_with_the_form_as_there_is_room_for_warnings() {
        let inputs: JsonMap = (0..2000).map(|n| (format!("input{n}"), json!(1))).collect();
        for room in [0, 1, 100] {
            let compared = Cell::new(0);
            let nearest = |_: &str| {
                compared.set(compared.get() + 1);
                None
            };
            let found = not_declared(&inputs, &["a"], &nearest, room).count();
            assert_eq!((found, compared.get()), (room, room));
        }
    }

    #[test]
    fn a_large_form_is_compared_only_in_part() {
        let (long, names): (String, Vec<String>) =
            ("x".repeat(NAME_BYTES_COMPARED_MAX + 1), (0..1000).map(|n| format!("field{n}")).collect());
        let form: Vec<&str> =
            std::iter::once(long.as_str()).chain(names.iter().map(String::as_str)).collect();
        let kept: Vec<&str> = compared(&form).collect();
        assert_eq!((kept.len(), kept[0]), (FIELDS_COMPARED_MAX, "field0"));
        let inputs = json!({"quite another": 1}).as_object().cloned().unwrap_or_default();
        let hint = not_declared(&inputs, &form, &|_| None, 1).next().map(|warning| warning.hint);
        assert!(hint.is_some_and(|hint| hint.chars().count() <= WARNING_CHARS_MAX + 1));
    }
}
