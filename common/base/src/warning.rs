//! Warnings of a run: things that its author may not have meant, although nothing failed. A node's executor, the
//! engine or the API makes one; the run keeps it, and every surface of ours shows it.

use std::borrow::Cow;

use crate::limits::WARNING_CHARS_MAX;

/// A table of codes, so that a test can compare all of them with the documentation.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*
        /// All codes that a run's warnings can have.
        pub const CODES: &[&str] = &[$($code,)*];
    };
}

codes! {
    /// A chosen branch has no edge.
    BRANCH_WITHOUT_EDGE = "run.branch_without_edge";
    /// An operation on a conversation variable was not applied.
    OPERATION_DROPPED = "run.operation_dropped";
    /// A node waits in a queue that no living worker serves.
    QUEUE_NOT_SERVED = "run.queue_not_served";
    /// The run keeps no further warnings.
    WARNINGS_LEFT_OUT = "run.warnings_left_out";
    /// An input was given that the start form does not have.
    INPUT_NOT_DECLARED = "input.not_declared";
    /// A dataset is in no settings and not in the store.
    DATASET_UNKNOWN = "dataset.unknown";
    /// A dataset could not be searched.
    DATASET_NOT_SEARCHED = "dataset.not_searched";
    /// Documents were not filtered by their metadata.
    DATASET_NOT_FILTERED = "dataset.not_filtered";
    /// A model could not choose the dataset.
    DATASET_NOT_CHOSEN = "dataset.not_chosen";
    /// Passages were not ranked by a model.
    PASSAGES_NOT_RANKED = "dataset.not_ranked";
    /// Files that belong to a question were not searched for.
    ATTACHMENTS_NOT_USED = "dataset.attachments_not_used";
    /// Files were not sent to a model.
    FILES_LEFT_OUT = "model.files_left_out";
    /// An agent's tool is a workflow that is not published.
    TOOL_APP_UNKNOWN = "tool.app_unknown";
    /// The plugin of an agent's tool did not say which parameters the tool has at run time.
    TOOL_PARAMETERS_UNKNOWN = "tool.parameters_unknown";
    /// A part of a tool's answer was left out.
    TOOL_CONTENT_LEFT_OUT = "tool.content_left_out";
    /// Moderation is switched on, and the settings allow to run without it.
    MODERATION_LEFT_OUT = "features.moderation";
    /// Another feature of the app is switched on that is not served.
    FEATURE_NOT_SERVED = "features.not_served";
}

/// A warning of a run. Two warnings of one node with the same code and the same `about` are the same warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The stable name of the cause, from [`CODES`].
    pub code: Cow<'static, str>,
    /// The things it is about, such as `("dataset", "<id>")`. Clients see them as fields of the warning.
    pub about: Vec<(Cow<'static, str>, String)>,
    /// What happened. It does not name the node: that is added where the warning is shown.
    pub message: String,
    /// What to do; empty when there is nothing to say.
    pub hint: String,
}

impl Warning {
    /// Makes a warning about nothing in particular and without a hint.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.into(), about: Vec::new(), message: message.into(), hint: String::new() }
    }

    /// Adds a thing that it is about.
    #[must_use]
    pub fn about(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.about.push((name.into(), value.into()));
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// True for two warnings of one cause. Messages do not count, because they may contain figures.
    pub fn is_same(&self, other: &Self) -> bool {
        self.code == other.code && self.about == other.about
    }

    /// Changes all its texts, to mask secrets.
    #[must_use]
    pub fn with_texts(mut self, mut change: impl FnMut(String) -> String) -> Self {
        for (_, value) in &mut self.about {
            *value = change(std::mem::take(value));
        }
        Self { message: change(self.message), hint: change(self.hint), ..self }
    }

    /// Shortens its texts to the limit, because the run's state keeps them.
    #[must_use]
    pub fn shortened(self) -> Self {
        self.with_texts(|mut text| {
            if let Some((end, _)) = text.char_indices().nth(WARNING_CHARS_MAX) {
                text.truncate(end);
                text.push('…');
            }
            text
        })
    }
}

/// Adds a warning to a list, unless the list has it or is full.
pub fn add(list: &mut Vec<Warning>, warning: Warning, max: usize) {
    if list.len() < max && !list.iter().any(|known| known.is_same(&warning)) {
        list.push(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(id: &str, message: &str) -> Warning {
        Warning::new(DATASET_UNKNOWN, message).about("dataset", id)
    }

    #[test]
    fn one_cause_is_one_warning_whatever_its_message_says() {
        for (other, is_same) in [
            (unknown("a", "other words"), true),
            (unknown("b", "one"), false),
            (Warning::new(DATASET_NOT_SEARCHED, "one").about("dataset", "a"), false),
            (Warning::new(DATASET_UNKNOWN, "one"), false),
        ] {
            assert_eq!(unknown("a", "one").is_same(&other), is_same, "{other:?}");
        }
        let mut list = Vec::new();
        for id in ["a", "b", "a", "c", "d"] {
            add(&mut list, unknown(id, id), 3);
        }
        let ids: Vec<&str> = list.iter().map(|one| one.about[0].1.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }

    #[test]
    fn long_texts_are_cut_and_short_ones_stay() {
        let long = "ä".repeat(WARNING_CHARS_MAX + 1);
        let cut = unknown(&long, &long).hint("short").shortened();
        let shown = format!("{}…", "ä".repeat(WARNING_CHARS_MAX));
        assert_eq!((&cut.message, &cut.about[0].1, cut.hint.as_str()), (&shown, &shown, "short"));
        let whole = "x".repeat(WARNING_CHARS_MAX);
        assert_eq!(unknown("a", &whole).shortened().message, whole);
    }
}
