//! Asks an installation for what it has: its workers' records, its datasets and its apps.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use tidemill_common::wire::worker::AboutWorker;

use super::installation::Installation;
use crate::client::Client;
use crate::error::Error;

/// The parts of a worker's record that say what it can do.
const ABILITIES: [&str; 11] = [
    "queues",
    "providers",
    "profiles",
    "default_profile",
    "tools",
    "plugins",
    "variables",
    "code",
    "datasets",
    "documents",
    "version",
];

/// Asks the scheduler.
///
/// # Errors
/// It does not answer, or refuses the key.
pub(crate) async fn look(client: &Client) -> Result<Installation, Error> {
    let (workers, datasets, apps) =
        (client.workers().await?, client.knowledge().await?, client.apps().await?);
    Ok(Installation {
        workers: rows(&workers).map(about).collect(),
        datasets: rows(&datasets).flat_map(|dataset| texts(dataset, ["id", "name"])).collect(),
        // A worker of an older version does not list the datasets of its settings.
        knows_all_datasets: rows(&workers).all(|worker| worker.get("datasets").is_some()),
        apps: callable(&apps),
        ..Installation::default()
    })
}

fn rows(answer: &Json) -> impl Iterator<Item = &Json> {
    answer["data"].as_array().into_iter().flatten()
}

fn texts(row: &Json, keys: [&str; 2]) -> Vec<String> {
    keys.iter()
        .filter_map(|key| row[*key].as_str())
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A record as the API shows it: some of its fields have other forms than in Redis.
fn about(worker: &Json) -> AboutWorker {
    let parts = ABILITIES.iter().filter_map(|key| Some(((*key).to_owned(), worker.get(*key)?.clone())));
    serde_json::from_value(Json::Object(parts.collect::<Map<_, _>>())).unwrap_or_default()
}

/// The names by which apps can be called as tools: their ids, and the names that only one app has.
fn callable(apps: &Json) -> Vec<String> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for app in rows(apps) {
        *names.entry(app["name"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let ids = rows(apps).filter_map(|app| app["id"].as_str());
    let unique = names.iter().filter(|(name, apps)| !name.is_empty() && **apps == 1).map(|(name, _)| *name);
    ids.chain(unique).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_common::requirements::{ModelRole, Requirement};

    use crate::migrate::installation::Has;

    #[test]
    fn records_of_the_api_are_read_although_their_times_have_another_form() {
        let worker = json!({"name": "w", "started_at": 1.5, "missing": [{"asked_at": 2.5}], "tools": ["api:pets"],
            "providers": [{"name": "openai", "usable": true}]});
        let installation = Installation { workers: vec![about(&worker)], ..Installation::default() };
        let model = |provider: &str| Requirement::Model {
            provider: provider.into(),
            model: "m".into(),
            role: ModelRole::Chat,
        };
        assert_eq!(installation.has(&model("langgenius/openai/openai")), Has::Yes);
        assert_eq!(installation.has(&model("anthropic")), Has::No);
    }

    #[test]
    fn apps_are_called_by_id_or_by_a_name_that_only_one_has() {
        let apps =
            json!({"data": [{"id": "1", "name": "a"}, {"id": "2", "name": "a"}, {"id": "3", "name": "b"}]});
        assert_eq!(callable(&apps), ["1", "2", "3", "b"]);
    }
}
