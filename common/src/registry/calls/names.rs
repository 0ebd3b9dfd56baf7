//! Names of Calls: the ids of built-in Calls, and texts in two languages.

use serde::Deserialize;

use tidemill_base::language::Language;

/// The ids of built-in Calls. No other Call may use them, in any case.
pub const BUILT_IN: [&str; 8] = ["Empty", "Summary", "Facts", "Slot", "LLM", "API", "SQL", "Choice"];

/// The built-in Call with an id, ignoring case.
pub fn built_in(id: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|call| call.eq_ignore_ascii_case(id))
}

/// Name and description, for display.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Info {
    pub name: String,
    pub description: String,
}

/// A name: one for all languages, or one per language.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Named {
    /// The same in all languages.
    One(String),
    /// One per language.
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
