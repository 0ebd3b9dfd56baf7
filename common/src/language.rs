//! The languages in which Tidemill speaks to the users of a workflow.

/// The language of texts that are made for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Chinese.
    #[default]
    Zh,
    /// English.
    En,
}

impl Language {
    /// Its short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zh => "zh",
            Self::En => "en",
        }
    }
    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Zh, Self::En].into_iter().find(|known| known.name() == name)
    }
}
