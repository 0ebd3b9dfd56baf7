//! The languages of texts that Tidemill shows to the users of a workflow.

/// The language of a text for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    #[default]
    Zh,
    En,
}

impl Language {
    /// Returns the language code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zh => "zh",
            Self::En => "en",
        }
    }
    /// Returns the language with this code.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Zh, Self::En].into_iter().find(|known| known.name() == name)
    }
}
