//! The comparison operators: their names in a file, accepted other spellings, and hints for unknown names.

use std::fmt;

/// A comparison operator. All except [`Operator::RegexMatch`] are Dify's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// text or list contains the expected value
    Contains,
    /// text or list does not contain it
    NotContains,
    /// text begins with it
    StartWith,
    /// text ends with it
    EndWith,
    /// same text or boolean
    Is,
    /// different text or boolean
    IsNot,
    /// false in Python's sense: null, false, 0, `""`, `[]`, `{}`
    Empty,
    /// true in Python's sense
    NotEmpty,
    /// an item of the expected list
    In,
    /// not an item of the expected list
    NotIn,
    /// contains each item of the expected list
    AllOf,
    /// same number or boolean
    Equal,
    /// different number or boolean
    NotEqual,
    /// larger number
    Greater,
    /// smaller number
    Less,
    /// larger or equal number
    GreaterOrEqual,
    /// smaller or equal number
    LessOrEqual,
    Null,
    NotNull,
    /// not null; meant for files, leaves no record
    Exists,
    /// null; meant for files, leaves no record
    NotExists,
    /// a regular expression matches anywhere in the text (not on Dify)
    RegexMatch,
}

impl Operator {
    /// All operators.
    pub const ALL: [Self; 22] = [
        Self::Contains,
        Self::NotContains,
        Self::StartWith,
        Self::EndWith,
        Self::Is,
        Self::IsNot,
        Self::Empty,
        Self::NotEmpty,
        Self::In,
        Self::NotIn,
        Self::AllOf,
        Self::Equal,
        Self::NotEqual,
        Self::Greater,
        Self::Less,
        Self::GreaterOrEqual,
        Self::LessOrEqual,
        Self::Null,
        Self::NotNull,
        Self::Exists,
        Self::NotExists,
        Self::RegexMatch,
    ];

    /// The operator's name in a file and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contains => "contains",
            Self::NotContains => "not contains",
            Self::StartWith => "start with",
            Self::EndWith => "end with",
            Self::Is => "is",
            Self::IsNot => "is not",
            Self::Empty => "empty",
            Self::NotEmpty => "not empty",
            Self::In => "in",
            Self::NotIn => "not in",
            Self::AllOf => "all of",
            Self::Equal => "=",
            Self::NotEqual => "≠",
            Self::Greater => ">",
            Self::Less => "<",
            Self::GreaterOrEqual => "≥",
            Self::LessOrEqual => "≤",
            Self::Null => "null",
            Self::NotNull => "not null",
            Self::Exists => "exists",
            Self::NotExists => "not exists",
            Self::RegexMatch => "regex match",
        }
    }

    /// Finds an operator by its name; `_` may replace a space, as in `not_contains`.
    pub fn read(text: &str) -> Option<Self> {
        let same = |name: &str| name.len() == text.len() && name.split(' ').eq(text.split([' ', '_']));
        Self::ALL.into_iter().find(|operator| same(operator.name()))
    }

    /// True when a list of files passes only if all its files do: the operators with `not` in their name.
    pub const fn asks_all_files(self) -> bool {
        match self {
            Self::NotContains
            | Self::IsNot
            | Self::NotEmpty
            | Self::NotIn
            | Self::NotNull
            | Self::NotExists => true,
            Self::Contains
            | Self::StartWith
            | Self::EndWith
            | Self::Is
            | Self::Empty
            | Self::In
            | Self::AllOf
            | Self::Equal
            | Self::NotEqual
            | Self::Greater
            | Self::Less
            | Self::GreaterOrEqual
            | Self::LessOrEqual
            | Self::Null
            | Self::Exists
            | Self::RegexMatch => false,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The hint for an unknown operator name.
pub(super) fn advice(text: &str) -> String {
    let instead = match text {
        ">=" => "\"≥\"",
        "<=" => "\"≤\"",
        "!=" | "<>" => "\"≠\" for numbers, \"is not\" for texts",
        "==" | "equals" | "eq" => "\"=\" for numbers, \"is\" for texts",
        "is null" | "is_null" => "\"null\"",
        "is not null" | "is_not_null" => "\"not null\"",
        "starts with" | "starts_with" | "startswith" => "\"start with\"",
        "ends with" | "ends_with" | "endswith" => "\"end with\"",
        "matches" | "regex" => "\"regex match\"",
        _ => return format!("the operators are: {}", Operator::ALL.map(Operator::name).join(", ")),
    };
    format!("write {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_also_with_underscores() {
        for operator in Operator::ALL {
            assert_eq!(Operator::read(operator.name()), Some(operator));
            assert_eq!(Operator::read(&operator.name().replace(' ', "_")), Some(operator));
        }
    }

    #[test]
    fn other_spellings_are_refused_with_advice() {
        for (text, word) in [
            (">=", "≥"),
            ("<=", "≤"),
            ("!=", "≠"),
            ("==", "\"=\""),
            ("is null", "\"null\""),
            ("Contains", "not contains"),
            ("resembles", "start with"),
            ("", "contains"),
        ] {
            assert_eq!(Operator::read(text), None, "{text}");
            assert!(advice(text).contains(word), "{text}: {}", advice(text));
        }
    }

    #[test]
    fn the_operators_with_not_ask_all_files() {
        for operator in Operator::ALL {
            assert_eq!(operator.asks_all_files(), operator.name().contains("not"), "{operator}");
        }
    }
}
