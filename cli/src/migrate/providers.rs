//! The kinds and addresses of well-known providers of models, for the settings that the report proposes. As documented by
//! the providers in November 2025; all serve an API like OpenAI's unless a kind is named.

use super::remedy::word;

/// A provider by the last part of its name on Dify.
struct Known {
    name: &'static str,
    kind: &'static str,
    /// Empty where the kind has a default, or every customer has another address.
    base_url: &'static str,
}

const KNOWN: &[Known] = &[
    Known { name: "anthropic", kind: "anthropic", base_url: "" },
    Known { name: "azure_openai", kind: "azure_openai", base_url: "https://NAME.openai.azure.com" },
    Known { name: "deepseek", kind: "", base_url: "https://api.deepseek.com/v1" },
    Known { name: "google", kind: "", base_url: "https://generativelanguage.googleapis.com/v1beta/openai" },
    Known { name: "groq", kind: "", base_url: "https://api.groq.com/openai/v1" },
    Known { name: "mistralai", kind: "", base_url: "https://api.mistral.ai/v1" },
    Known { name: "moonshot", kind: "", base_url: "https://api.moonshot.cn/v1" },
    Known { name: "nvidia", kind: "", base_url: "https://integrate.api.nvidia.com/v1" },
    Known { name: "ollama", kind: "ollama", base_url: "http://localhost:11434" },
    Known { name: "openai", kind: "", base_url: "" },
    Known { name: "openrouter", kind: "", base_url: "https://openrouter.ai/api/v1" },
    Known { name: "siliconflow", kind: "", base_url: "https://api.siliconflow.cn/v1" },
    Known { name: "tongyi", kind: "", base_url: "https://dashscope.aliyuncs.com/compatible-mode/v1" },
    Known { name: "volcengine_maas", kind: "", base_url: "https://ark.cn-beijing.volces.com/api/v3" },
    Known { name: "x", kind: "", base_url: "https://api.x.ai/v1" },
    Known { name: "zhipuai", kind: "", base_url: "https://open.bigmodel.cn/api/paas/v4" },
];

/// The kind and the address of a provider, by its short name. An unknown one has an API like OpenAI's, at an address
/// that the operator knows.
pub(super) fn kind_and_address(name: &str) -> (&'static str, &'static str) {
    let kind = |kind: &'static str| if kind.is_empty() { "openai_compatible" } else { kind };
    match KNOWN.iter().find(|known| known.name == name) {
        Some(known) => (kind(known.kind), known.base_url),
        None => ("openai_compatible", "https://ADDRESS/v1"),
    }
}

/// What an operator has to know about a provider for which the report knows no address. Empty for the others.
pub(super) fn advice(provider: &str) -> String {
    match short(provider) {
        // Every model of this provider of Dify's has a server of its own.
        "openai_api_compatible" => {
            "several servers: one provider each, with `serves` (docs/providers.md)".into()
        }
        name if KNOWN.iter().any(|known| known.name == name) => String::new(),
        _ => {
            let id = canonical(provider);
            let package = id.rsplit_once('/').map_or(id.as_str(), |(plugin, _)| plugin).replace('/', "-");
            format!(
                "no kind of its own here: install its plugin (`{}`, then `{}`), or write the address of a gateway with an API \
                 like OpenAI's (docs/providers.md)",
                format_args!("tidemill plugins add {}", word(&format!("{package}_VERSION.difypkg"))),
                format_args!("tidemill plugins config {}", word(&id)),
            )
        }
    }
}

/// The name of a provider in the settings: the last part of its name in workflows.
pub(super) fn short(provider: &str) -> &str {
    provider.rsplit('/').next().unwrap_or(provider)
}

/// One spelling for the names that workflows of different ages have for one provider.
pub(super) fn canonical(provider: &str) -> String {
    match provider {
        "google" => "langgenius/gemini/google".into(),
        name if name.contains('/') => name.into(),
        name => format!("langgenius/{name}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_known_by_the_last_part_of_its_name() {
        assert_eq!(short("langgenius/gemini/google"), "google");
        assert_eq!(kind_and_address("anthropic"), ("anthropic", ""));
        assert_eq!(kind_and_address("deepseek"), ("openai_compatible", "https://api.deepseek.com/v1"));
        assert_eq!(kind_and_address("own").0, "openai_compatible");
        assert_eq!(advice("langgenius/openai/openai"), "");
        let own = advice("acme/own/models");
        assert!(own.contains("`tidemill plugins add acme-own_VERSION.difypkg`"), "{own}");
        assert!(own.contains("`tidemill plugins config acme/own/models`"), "{own}");
        assert_eq!(canonical("openai"), canonical("langgenius/openai/openai"));
        assert!(KNOWN.is_sorted_by(|one, other| one.name < other.name));
    }
}
