//! Well-known models: what they can do, where the settings do not say it. A workflow names only a provider and a model,
//! and most installations declare no features; without this table pictures, tools and schemas would be guessed for all.
//!
//! A name is read without its letter case, without what is before its last slash (`deepseek-ai/DeepSeek-V3`), and
//! without leading words of letters that end with a point (`us.anthropic.claude-3-haiku`). Blanks and colons separate
//! words like hyphens.

use std::sync::LazyLock;

use super::message::MediaKind;

const TABLE: &str = include_str!("models.txt");
/// The mark of a line about a word anywhere in a name.
const WORD: char = '~';

/// The known facts about a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// Its features, with Dify's names.
    pub features: Vec<String>,
    /// Tokens of prompt and reply together; `None`: not known.
    pub context_size: Option<u64>,
}

/// A line of the table.
struct Row {
    /// The beginning of a name, or a word of it.
    pattern: &'static str,
    is_word: bool,
    features: Vec<&'static str>,
    context_size: Option<u64>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| TABLE.lines().filter_map(row).collect());

/// Finds a model by its name in a workflow or in an API. `None`: nothing is known about it.
pub fn find(name: &str) -> Option<KnownModel> {
    let name = plain(name);
    let begins = ROWS.iter().filter(|row| !row.is_word && is_beginning(row.pattern, &name));
    let best = begins.max_by_key(|row| row.pattern.len())?;
    let words = ROWS.iter().filter(|row| row.is_word && name.split('-').any(|word| word == row.pattern));
    let mut features: Vec<&str> = best.features.clone();
    for feature in words.flat_map(|row| &row.features) {
        if !features.contains(feature) {
            features.push(feature);
        }
    }
    let features = features.into_iter().map(str::to_owned).collect();
    Some(KnownModel { features, context_size: best.context_size })
}

/// True for a model that is known not to read pictures.
pub fn is_blind(name: &str) -> bool {
    find(name).is_some_and(|model| !model.features.iter().any(|known| known == MediaKind::Image.feature()))
}

/// The name in the form of the table.
fn plain(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let mut rest = last;
    while let Some((vendor, model)) = rest.split_once('.')
        && !vendor.is_empty()
        && vendor.chars().all(|c| c.is_ascii_alphabetic())
    {
        rest = model;
    }
    rest.trim().to_lowercase().replace([' ', ':'], "-")
}

/// True when the name begins with the pattern, and a word ends there. A point continues a version.
fn is_beginning(pattern: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(pattern) else { return false };
    rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '.')
}

fn row(line: &'static str) -> Option<Row> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let mut columns: Vec<&str> = line.split_whitespace().collect();
    let size = columns.pop()?;
    let (pattern, abilities) = columns.split_first()?;
    Some(Row {
        pattern: pattern.trim_start_matches(WORD),
        is_word: pattern.starts_with(WORD),
        features: abilities.iter().flat_map(|ability| features(ability)).copied().collect(),
        context_size: size.parse().ok(),
    })
}

/// Dify's names for an ability of the table.
fn features(ability: &str) -> &'static [&'static str] {
    match ability {
        "vision" => &["vision"],
        "document" => &["document"],
        "audio" => &["audio"],
        "video" => &["video"],
        "structured" => &["structured-output"],
        "tools" => &["tool-call"],
        "tools+stream" => &["tool-call", "multi-tool-call", "stream-tool-call"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_line_of_the_table_can_be_read_and_is_there_once() {
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut seen = HashSet::new();
        for line in lines {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [pattern, abilities @ .., size] = columns.as_slice() else { panic!("{line}") };
            assert!(*size == "?" || size.parse::<u64>().is_ok(), "{line}");
            assert!(!abilities.is_empty(), "{line}");
            for ability in abilities {
                assert!(*ability == "-" && abilities.len() == 1 || !features(ability).is_empty(), "{line}");
            }
            assert!(pattern.starts_with(WORD) || plain(pattern) == *pattern, "{line}");
            assert!(seen.insert(*pattern), "twice: {line}");
        }
        assert!(seen.len() > 150, "{}", seen.len());
    }

    #[test]
    fn names_of_real_workflows_are_found_as_providers_and_servers_spell_them() {
        let (sees, blind) = (Some(true), Some(false));
        for (name, pictures, tokens) in [
            ("gpt-4o", sees, Some(128_000)),
            ("gpt-4o-2024-08-06", sees, Some(128_000)),
            ("openai/gpt-4o-mini", sees, Some(128_000)),
            ("gpt-4", blind, Some(8192)),
            ("gpt-4.1-mini", sees, Some(1_047_576)),
            ("gpt-3.5-turbo-16k", blind, Some(16_385)),
            ("o1-mini-2024-09-12", blind, Some(128_000)),
            ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", sees, Some(200_000)),
            ("anthropic claude", sees, Some(200_000)),
            ("models/gemini-2.0-flash-exp", sees, Some(1_048_576)),
            ("Qwen/Qwen2.5-72B-Instruct", blind, Some(131_072)),
            ("Qwen/Qwen2.5-VL-72B-Instruct", sees, Some(131_072)),
            ("qwen2.5:latest", blind, Some(131_072)),
            ("qwen3:30b-a3b", blind, Some(131_072)),
            ("Pro/deepseek-ai/DeepSeek-V3", blind, Some(131_072)),
            ("deepseek/deepseek-chat-v3-0324:free", blind, Some(131_072)),
            ("Doubao-Seed-1.6", sees, Some(262_144)),
            ("moonshot-v1-8k-vision-preview", sees, Some(8192)),
            ("llama-3.2-90b-vision-preview", sees, Some(131_072)),
            ("llama-3.2-90b-text-preview", blind, Some(131_072)),
            ("meta.llama3-1-8b-instruct-v1:0", blind, Some(131_072)),
            ("llava", sees, Some(4096)),
            // A later version may be able to do more.
            ("qwen3.5-32b", None, None),
            ("gpt-6", None, None),
            ("gpt4o", None, None),
            ("my-model", None, None),
            ("", None, None),
        ] {
            let found = find(name);
            let size = found.as_ref().and_then(|model| model.context_size);
            assert_eq!((found.is_some().then(|| !is_blind(name)), size), (pictures, tokens), "{name}");
        }
    }

    #[test]
    fn features_have_the_names_that_settings_use() {
        let of = |name: &str| find(name).expect("it is known").features;
        let tools = ["tool-call", "multi-tool-call", "stream-tool-call"];
        assert_eq!(of("gpt-4o"), [&["vision"][..], &tools, &["structured-output"]].concat());
        assert_eq!(of("deepseek-r1"), Vec::<String>::new());
        assert_eq!(of("gemini-2.5-pro")[..4], ["vision", "document", "audio", "video"]);
    }
}
