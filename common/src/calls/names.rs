//! What Calls are called: the table of those that are built in, and texts in two languages.

use serde::Deserialize;

/// The languages that texts exist in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Chinese.
    #[default]
    Zh,
    /// English.
    En,
}

impl Language {
    /// The language of a tag such as `en` or `zh-CN`; Chinese for all that is not English.
    pub fn of(tag: &str) -> Self {
        let first = tag.split(['-', '_']).next().unwrap_or_default();
        if first.eq_ignore_ascii_case("en") { Self::En } else { Self::Zh }
    }
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

/// A Call that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its id.
    pub id: &'static str,
    /// It is found before any Call that is registered, in any spelling of its id.
    pub special: bool,
    /// Name and description in Chinese.
    zh: (&'static str, &'static str),
    /// Name and description in English.
    en: (&'static str, &'static str),
}

/// All of them.
pub const BUILT_IN: [BuiltIn; 8] = [
    BuiltIn {
        id: "Empty",
        special: true,
        zh: ("空白", "什么也不做，用于占位或跳过"),
        en: ("Empty", "Does nothing: a placeholder, or a step to skip"),
    },
    BuiltIn {
        id: "Summary",
        special: true,
        zh: ("上下文总结", "用几句话总结对话与已知事实"),
        en: ("Summary", "Sums up the conversation and the known facts in a few sentences"),
    },
    BuiltIn {
        id: "Facts",
        special: true,
        zh: ("提取事实", "从对话中提取事实与领域关键词"),
        en: ("Facts", "Takes facts and keywords out of the conversation"),
    },
    BuiltIn {
        id: "Slot",
        special: true,
        zh: ("参数填充", "根据上下文填写一个模式中缺少的参数"),
        en: ("Slot filling", "Fills the missing parameters of a schema from the context"),
    },
    BuiltIn {
        id: "LLM",
        special: false,
        zh: ("大模型", "向大语言模型提问"),
        en: ("Language model", "Asks a large language model"),
    },
    BuiltIn {
        id: "API",
        special: false,
        zh: ("API 调用", "调用一个 HTTP 接口，返回其 JSON"),
        en: ("API call", "Calls an HTTP interface and gives its JSON"),
    },
    BuiltIn {
        id: "SQL",
        special: false,
        zh: ("SQL 查询", "查询数据库，返回各行"),
        en: ("SQL query", "Asks a database and gives its rows"),
    },
    BuiltIn {
        id: "Choice",
        special: false,
        zh: ("条件分支", "按条件选择一个分支"),
        en: ("Choice", "Chooses a branch by conditions"),
    },
];

impl BuiltIn {
    /// The one of an id, in any spelling.
    pub fn named(id: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|call| call.id.eq_ignore_ascii_case(id))
    }
    /// Its texts.
    pub fn info(&self, language: Language) -> Info {
        let (name, description) = match language {
            Language::Zh => self.zh,
            Language::En => self.en,
        };
        Info { name: name.into(), description: description.into() }
    }
}
