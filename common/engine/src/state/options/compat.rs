//! Options of one run where versions of Dify differ, where Dify and graphon differ, or where Tidemill departs from Dify.
//! The settings of the same names are in `config`.

/// The effect of conversation variables that an iteration writes (`iteration_conversation_writes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConversationWrites {
    /// Nodes after the iteration see them.
    #[default]
    Parent,
    /// They are lost when their item ends.
    Local,
}

impl ConversationWrites {
    /// The name of the choice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Local => "local",
        }
    }
    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Parent, Self::Local].into_iter().find(|c| c.name() == name)
    }
}

/// The way in which answers inside containers are streamed (`nested_answer_stream`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NestedAnswers {
    /// In one piece, when the answer has ended.
    #[default]
    Whole,
    /// In one piece for each part of the template, when the answer has ended.
    Segments,
    /// Not at all.
    None,
}

impl NestedAnswers {
    /// The name of the choice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Segments => "segments",
            Self::None => "none",
        }
    }
    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Whole, Self::Segments, Self::None].into_iter().find(|c| c.name() == name)
    }
}

/// Places where Dify's way is a defect, or disputed. `true` is always Dify's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifyWays {
    /// A text in a code node's result that looks like `1e+3` becomes a number, whatever its declared type.
    pub code_texts_become_numbers: bool,
    /// An absent optional parameter makes a parameter extractor unsuccessful.
    pub extractor_requires_all: bool,
    /// The value of a missing file parameter of a webhook is the mapping of all files.
    pub webhook_missing_file_is_all: bool,
    /// A failed attempt counts among the run's exceptions, also when another attempt follows.
    pub retries_count_as_exceptions: bool,
    /// The conditions of a loop say when it ends. If not, they say when it continues.
    pub loop_conditions_break: bool,
    /// A run over its limit of steps or time is stopped. If not, it fails.
    pub limits_stop_runs: bool,
}

impl Default for DifyWays {
    fn default() -> Self {
        Self {
            code_texts_become_numbers: false,
            extractor_requires_all: false,
            webhook_missing_file_is_all: false,
            retries_count_as_exceptions: true,
            loop_conditions_break: true,
            limits_stop_runs: true,
        }
    }
}

impl DifyWays {
    /// The names of the options.
    pub const KEYS: [&str; 6] = [
        "code_texts_become_numbers",
        "extractor_requires_all",
        "webhook_missing_file_is_all",
        "retries_count_as_exceptions",
        "loop_conditions_break",
        "limits_stop_runs",
    ];

    /// Returns the option with this name.
    pub fn of(&mut self, key: &str) -> Option<&mut bool> {
        Some(match key {
            "code_texts_become_numbers" => &mut self.code_texts_become_numbers,
            "extractor_requires_all" => &mut self.extractor_requires_all,
            "webhook_missing_file_is_all" => &mut self.webhook_missing_file_is_all,
            "retries_count_as_exceptions" => &mut self.retries_count_as_exceptions,
            "loop_conditions_break" => &mut self.loop_conditions_break,
            "limits_stop_runs" => &mut self.limits_stop_runs,
            _ => return None,
        })
    }
}
