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

/// A text in both languages.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    pub zh: &'static str,
    pub en: &'static str,
}

impl Text {
    /// The text in a language given by name; in Chinese for an unknown name.
    pub fn named(self, language: Option<&str>) -> &'static str {
        self.of(language.and_then(Language::from_name).unwrap_or_default())
    }
    /// The text in a language.
    pub const fn of(self, language: Language) -> &'static str {
        match language {
            Language::Zh => self.zh,
            Language::En => self.en,
        }
    }
}
