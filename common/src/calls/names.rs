//! What Calls are called: the ids of those that are built in, and texts in two languages.

use serde::Deserialize;

use crate::language::Language;

/// Ids of the Calls of this program. No other Call is called so, in any spelling.
pub const BUILT_IN: [&str; 8] = ["Empty", "Summary", "Facts", "Slot", "LLM", "API", "SQL", "Choice"];

/// The built-in Call of an id, in any spelling.
pub fn built_in(id: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|call| call.eq_ignore_ascii_case(id))
}

/// A name and what is behind it, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Info {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// A name as it is written: one, or one a language.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Named {
    /// The same in all languages.
    One(String),
    /// One for each.
    Each {
        /// Chinese.
        zh: String,
        /// English.
        en: String,
    },
}

impl Default for Named {
    fn default() -> Self {
        Self::One(String::new())
    }
}

impl Named {
    /// The name in a language.
    pub fn text(&self, language: Language) -> &str {
        match (self, language) {
            (Self::One(text), _) => text,
            (Self::Each { zh, .. }, Language::Zh) => zh,
            (Self::Each { en, .. }, Language::En) => en,
        }
    }
}
