//! Providers of datasources: websites that are crawled, documents that are online, and drives.

use std::collections::HashSet;

use super::{self as providers, Provider};
use crate::package::spot::{Reader, Spot};

/// What providers of datasources read.
const KINDS: [&str; 3] = ["website_crawl", "online_document", "online_drive"];

/// Reads a provider.
pub(super) fn provider(reader: &Reader<'_>, file: &str) -> Option<Provider> {
    let found = providers::provider(reader, file, |reader, root| {
        if root.python_source().is_none() {
            root.error("extra.python.source is missing: the Python file of the provider".into());
        }
        check_kind(root);
        providers::in_files(reader, root, "datasources")
    })?;
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    if found.name.is_empty() {
        root.error("identity.name is missing".into());
    }
    let mut seen = HashSet::new();
    for item in &found.items {
        if !seen.insert(item.name.as_str()) {
            root.error(format!("the datasource {:?} occurs twice", item.name));
        }
    }
    Some(found)
}

fn check_kind(root: &Spot<'_>) {
    let Some(kind) = root.need("provider_type") else { return };
    let text = kind.text().unwrap_or_default();
    if !KINDS.contains(&text.as_str()) {
        kind.error(format!("the provider_type {text:?} is not known: {}", KINDS.join(", ")));
    }
}
