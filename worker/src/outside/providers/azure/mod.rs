//! The differences of OpenAI's API on Azure: models are deployments with their own addresses.
//!
//! [`crate::outside::providers::openai`] handles the rest: a first object without choices, objects with only content filter results, and
//! prompts refused by the filter (400).

use std::collections::BTreeMap;

/// First API version that accepts `stream_options`.
const STREAM_USAGE_SINCE: &str = "2024-09-01";

/// The addresses of models.
#[derive(Debug, Clone, Default)]
pub struct Deployments {
    /// The version sent with every request, such as `2024-10-21`; `None` for the `v1` API, which needs none.
    pub api_version: Option<String>,
    /// The deployment of a model; other models are deployed under their own names.
    pub names: BTreeMap<String, String>,
}

impl Deployments {
    /// The address of a model's operation, and the name of its deployment.
    pub fn address<'a>(&'a self, base_url: &str, operation: &str, model: &'a str) -> (String, &'a str) {
        let deployment = self.names.get(model).map_or(model, String::as_str);
        let url = match &self.api_version {
            Some(version) => {
                let name = escaped(deployment);
                format!("{base_url}/openai/deployments/{name}/{operation}?api-version={}", escaped(version))
            }
            None => format!("{base_url}/openai/v1/{operation}"),
        };
        (url, deployment)
    }

    /// Returns true if the API accepts `stream_options`.
    pub fn stream_usage(&self) -> bool {
        self.api_version.as_deref().is_none_or(|version| version >= STREAM_USAGE_SINCE)
    }
}

/// The endpoint, in any form that Azure's pages show.
pub fn endpoint(base_url: &str) -> &str {
    let base = base_url.trim_end_matches('/');
    let base = base.strip_suffix("/openai/v1").unwrap_or(base);
    base.strip_suffix("/openai").unwrap_or(base)
}

fn escaped(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_addresses_are_spoken() {
        let names = BTreeMap::from([("gpt-4o".to_owned(), "our deployment".to_owned())]);
        let dated = Deployments { api_version: Some("2024-10-21".into()), names: names.clone() };
        let v1 = Deployments { api_version: None, names };
        for (deployments, model, url, name) in [
            (
                &dated,
                "gpt-4o",
                "http://h/openai/deployments/our%20deployment/embeddings?api-version=2024-10-21",
                "our deployment",
            ),
            (&dated, "a/b", "http://h/openai/deployments/a%2Fb/embeddings?api-version=2024-10-21", "a/b"),
            (&v1, "gpt-4o", "http://h/openai/v1/embeddings", "our deployment"),
        ] {
            assert_eq!(deployments.address("http://h", "embeddings", model), (url.to_owned(), name));
        }
        assert!(dated.stream_usage() && v1.stream_usage());
        let old = Deployments { api_version: Some("2024-08-01-preview".into()), ..Deployments::default() };
        assert!(!old.stream_usage());
    }

    #[test]
    fn an_endpoint_is_taken_in_any_of_its_forms() {
        for text in
            ["https://x.test", "https://x.test/", "https://x.test/openai", "https://x.test/openai/v1/"]
        {
            assert_eq!(endpoint(text), "https://x.test", "{text}");
        }
    }
}
