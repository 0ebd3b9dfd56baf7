//! Plugins that are installed for all workers, and the credentials of their providers, as catalog entries. Several
//! versions of a plugin may be installed; [`choose`] finds the one that a node uses, [`with_models`] the one that serves a model.

mod models;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::entry;
use super::plugin_strategies::StrategyGroup;
use super::secrets::{MASK, SecretError};
use tidemill_base::value::JsonMap;
use tidemill_storage::store::{Catalog, CatalogEntry, CatalogKind};
use tidemill_workflow::dsl::SealingKey;
pub use tidemill_workflow::nodes::datasource::{DOWNLOAD, PAGE};

pub(super) use models::lengths;
pub use models::{
    ModelOf, PluginModels, ShowOn, find_of_model, has_of_model, model_credentials_id, with_models,
};

/// The author of plugins that an older file names by a single word.
const OFFICIAL: &str = "langgenius";

/// The tool that each provider has besides its own: the plugin checks its credentials. Only runs without an app may name
/// the `app` whose credentials are checked.
pub const VALIDATE: &str = "tidemill:validate";

/// The tool that each provider has besides its own: the options of a parameter (`tool`, `parameter`) of the kind
/// `dynamic-select`, as the plugin lists them now. Runs without an app may name the `app`, as for [`VALIDATE`].
pub const OPTIONS: &str = "tidemill:options";

/// An installed plugin, in one version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InstalledPlugin {
    pub author: String,
    pub name: String,
    /// An entry has a `version` of its own, which counts changes.
    #[serde(rename = "plugin_version")]
    pub version: String,
    /// The SHA-256 of its files, under which its package is stored.
    pub sha256: String,
    /// The size of the package.
    pub bytes: u64,
    /// The storage of files has the package (`files.url`), not Redis.
    pub in_files: bool,
    /// What is known about its signature, in words.
    pub signature: String,
    /// What it may do, in words.
    pub permissions: Vec<String>,
    pub providers: Vec<PluginProvider>,
    /// Its providers of datasources; their `tools` are the datasources.
    pub datasources: Vec<PluginProvider>,
    /// Its providers of models.
    pub models: Vec<PluginModels>,
    /// Its agent strategies.
    pub strategies: Vec<StrategyGroup>,
    /// What else it offers, which no worker runs.
    pub others: Vec<String>,
}

/// A provider of tools.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginProvider {
    pub name: String,
    pub tools: Vec<String>,
    /// The form of its credentials.
    pub credentials: Vec<CredentialField>,
}

/// A field of credentials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CredentialField {
    pub name: String,
    pub label: String,
    /// As in the plugin, such as `secret-input`.
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
    pub default: Option<Json>,
    pub options: Vec<String>,
    pub help: String,
    /// It is asked for only if all of these hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub show_on: Vec<ShowOn>,
}

impl InstalledPlugin {
    /// The id: `author/name:version`.
    pub fn id(&self) -> String {
        format!("{}/{}:{}", self.author, self.name, self.version)
    }

    /// The name of its storage, which all its versions share: `author/name`.
    pub fn storage(&self) -> String {
        format!("{}/{}", self.author, self.name)
    }

    /// The stored fields.
    pub fn fields(&self) -> BTreeMap<String, String> {
        let object = serde_json::to_value(self).ok().and_then(|value| value.as_object().cloned());
        entry::fields(CatalogKind::Plugin, object.unwrap_or_default())
    }

    /// Reads an entry; `None` for one that this version cannot read.
    pub fn of(stored: &CatalogEntry) -> Option<Self> {
        let object = entry::object(CatalogKind::Plugin, &stored.fields);
        serde_json::from_value(Json::Object(object)).ok()
    }

    fn all_providers(&self) -> impl Iterator<Item = &PluginProvider> {
        self.providers.iter().chain(&self.datasources)
    }

    /// The form of the credentials of a provider: for one of its models, or for all of it.
    fn form(&self, name: &str, model: Option<ModelOf<'_>>) -> Option<&[CredentialField]> {
        let mut of_models = self.models.iter().filter(|provider| provider.name == name);
        if let Some(ModelOf { kind, .. }) = model {
            let serves = |provider: &&PluginModels| {
                provider.is_customizable && provider.kinds.iter().any(|known| known == kind)
            };
            return of_models.find(serves).map(|provider| provider.model_credentials.as_slice());
        }
        let of_others = self.all_providers().find(|provider| provider.name == name);
        let of_others = of_others.map(|provider| provider.credentials.as_slice());
        of_others.or_else(|| of_models.next().map(|provider| provider.credentials.as_slice()))
    }

    /// Tests whether it has a tool, of a provider if one is named.
    fn has(&self, provider: Option<&str>, tool: &str) -> bool {
        let is_it = |known: &&PluginProvider| provider.is_none_or(|provider| provider == known.name);
        let has = |provider: &PluginProvider| provider.tools.iter().any(|known| known == tool);
        if [PAGE, DOWNLOAD].contains(&tool) {
            return self.datasources.iter().any(|provider| is_it(&provider));
        }
        let is_named = |known: &PluginModels| provider.is_none_or(|provider| provider == known.name);
        if tool == VALIDATE && self.models.iter().any(is_named) {
            return true;
        }
        let mut fitting = self.all_providers().filter(is_it);
        fitting.any(|provider| [VALIDATE, OPTIONS].contains(&tool) || has(provider))
    }
}

/// Whether a version of the plugin `author/name` is installed, also one that a newer version of Tidemill has described.
pub fn has_version(catalog: &Catalog, plugin: &str) -> bool {
    let is_it = |id: &str| id.strip_prefix(plugin).is_some_and(|rest| rest.starts_with(':'));
    catalog.plugins.iter().any(|entry| is_it(&entry.id))
}

/// All plugins of a catalog.
pub fn all(catalog: &Catalog) -> Vec<InstalledPlugin> {
    catalog.plugins.iter().filter_map(InstalledPlugin::of).collect()
}

/// The plugin that a node or a requirement names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginName<'a> {
    pub author: &'a str,
    pub name: &'a str,
    /// The provider in it.
    pub provider: Option<&'a str>,
    /// The version that the file was written with.
    pub version: Option<&'a str>,
}

impl<'a> PluginName<'a> {
    /// Reads the names in a file: the plugin's identifier (`author/name:version@hash`), if there is one, and the
    /// provider's id (`author/name/provider`, `author/name`, or one word). `None` if they name no plugin.
    pub fn of(identifier: Option<&'a str>, provider_id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = provider_id.split('/').collect();
        let is_whole = parts.iter().all(|part| !part.is_empty());
        let of_provider = match parts[..] {
            [author, name, provider] if is_whole => {
                Some(Self { author, name, provider: Some(provider), version: None })
            }
            [author, name] if is_whole => Some(Self { author, name, provider: None, version: None }),
            [name] if is_whole => Some(Self { author: OFFICIAL, name, provider: Some(name), version: None }),
            _ => None,
        };
        let of_identifier = identifier.and_then(|text| {
            let text = text.split_once('@').map_or(text, |(text, _)| text);
            let (id, version) = text.split_once(':').map_or((text, None), |(id, text)| (id, Some(text)));
            let (author, name) = id
                .split_once('/')
                .filter(|(author, name)| !author.is_empty() && !name.is_empty() && !name.contains('/'))?;
            let provider = match parts[..] {
                [_, _, provider] | [provider] if !provider.is_empty() => Some(provider),
                _ => None,
            };
            Some(Self { author, name, provider, version })
        });
        of_identifier.or(of_provider)
    }

    /// Tests whether this is its plugin, in any version.
    pub fn is(&self, author: &str, name: &str) -> bool {
        self.author == author && self.name == name
    }
}

/// The installed version that runs a tool: the one that the file names, else the newest that has the tool. `None` if the plugin
/// is not installed.
///
/// # Errors
/// No installed version has the tool; in words.
pub fn choose<'p>(
    installed: &'p [InstalledPlugin],
    named: &PluginName<'_>,
    tool: &str,
) -> Result<Option<&'p InstalledPlugin>, String> {
    choose_by(
        installed,
        named,
        |plugin| plugin.has(named.provider, tool),
        || {
            let provider =
                named.provider.map(|provider| format!(" of a provider {provider}")).unwrap_or_default();
            match tool {
                PAGE | DOWNLOAD => format!("datasource{provider}"),
                VALIDATE | OPTIONS => format!("provider {}", named.provider.unwrap_or_default()),
                _ => format!("tool {tool}{provider}"),
            }
        },
    )
}

/// The installed version that has something: the one that the file names, else the newest. `None` if the plugin is not installed.
///
/// # Errors
/// No installed version has it; in words, with what `lacking` says it is.
pub(super) fn choose_by<'p>(
    installed: &'p [InstalledPlugin],
    named: &PluginName<'_>,
    has: impl Fn(&InstalledPlugin) -> bool,
    lacking: impl FnOnce() -> String,
) -> Result<Option<&'p InstalledPlugin>, String> {
    let versions: Vec<&InstalledPlugin> =
        installed.iter().filter(|plugin| named.is(&plugin.author, &plugin.name)).collect();
    if versions.is_empty() {
        return Ok(None);
    }
    let able = || versions.iter().copied().filter(|plugin| has(plugin));
    let exact = able().find(|plugin| Some(plugin.version.as_str()) == named.version);
    let newest = || able().max_by(|one, other| compare(&one.version, &other.version));
    if let Some(found) = exact.or_else(newest) {
        return Ok(Some(found));
    }
    let known: Vec<&str> = versions.iter().map(|plugin| plugin.version.as_str()).collect();
    let (author, name, lacking) = (named.author, named.name, lacking());
    Err(format!(
        "the plugin {author}/{name} is installed ({}), and has no {lacking}; install a version that has it (`tidemill plugins add`; \
         add the same package again if an earlier version of Tidemill has installed it)",
        known.join(", "),
    ))
}

/// Compares versions as semantic versioning does: number by number, and a version before its release (`1.0.0-beta.2`) is
/// older than it. What follows a `+` decides only between versions that are else the same.
pub fn compare(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| {
        let (text, build) = text.split_once('+').unwrap_or((text, ""));
        let (release, before) = text.split_once('-').unwrap_or((text, ""));
        [release, before, build].map(str::to_owned)
    };
    let ([ours, our_before, our_build], [theirs, their_before, their_build]) = (parts(one), parts(other));
    by_parts(&ours, &theirs)
        // The release has nothing here, and is the newer one.
        .then_with(|| our_before.is_empty().cmp(&their_before.is_empty()))
        .then_with(|| by_parts(&our_before, &their_before))
        .then_with(|| by_parts(&our_build, &their_build))
}

/// Compares texts part by part: numbers as such and before words.
fn by_parts(one: &str, other: &str) -> Ordering {
    let (mut ours, mut theirs) = (one.split('.'), other.split('.'));
    loop {
        let order = match (ours.next(), theirs.next()) {
            (None, None) => return Ordering::Equal,
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The id of the credentials of a provider: for one app, or for all.
pub fn credentials_id(author: &str, plugin: &str, provider: &str, app: Option<&str>) -> String {
    let app = app.map(|app| format!("@{app}")).unwrap_or_default();
    format!("{author}/{plugin}/{provider}{app}")
}

/// Checks credentials before they are stored.
pub(super) fn check_credentials(id: &str, object: &JsonMap, catalog: &Catalog) -> Result<(), String> {
    let of = |reason: String| format!("the plugin credentials {id}: {reason}");
    let (provider_id, app) = id.split_once('@').map_or((id, None), |(id, app)| (id, Some(app)));
    let shape = "the id is AUTHOR/PLUGIN/PROVIDER, for one model AUTHOR/PLUGIN/PROVIDER:KIND:MODEL, and for one app with @APP";
    let (provider_id, model) = models::parts(provider_id).ok_or_else(|| of(shape.into()))?;
    let model = model.as_ref().map(|(kind, name)| ModelOf { kind, name });
    let [author, plugin, provider] = provider_id.split('/').collect::<Vec<_>>()[..] else {
        return Err(of(shape.into()));
    };
    if app.is_some_and(|app| app.is_empty() || app.contains(['@', '/'])) {
        return Err(of("an app's id is needed after the `@`".into()));
    }
    if let Some(model) = model {
        let right = model_credentials_id((author, plugin, provider), model, app);
        if id != right {
            return Err(of(format!(
                "credentials with this id are never found; the id for this model is {right}"
            )));
        }
    }
    let mut installed = all(catalog);
    installed.retain(|known| known.author == author && known.name == plugin);
    let forms: Vec<&[CredentialField]> =
        installed.iter().filter_map(|known| known.form(provider, model)).collect();
    if forms.is_empty() {
        let what = model.map(|model| format!(" that serves models of the type {} by their name", model.kind));
        let what = what.unwrap_or_default();
        return Err(of(format!("no plugin {author}/{plugin} with a provider {provider}{what} is installed")));
    }
    let known: Vec<&CredentialField> = forms.iter().copied().flatten().collect();
    let mut given: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for (part, value) in object {
        let texts = value.as_object().filter(|texts| texts.values().all(Json::is_string));
        let (true, Some(texts)) = (["values", "env"].contains(&part.as_str()), texts) else {
            return Err(of("it has `values` and `env`, each an object of texts".into()));
        };
        for (name, value) in texts {
            if !known.iter().any(|field| field.name == *name) {
                let names: Vec<&str> = known.iter().map(|field| field.name.as_str()).collect();
                let names = if names.is_empty() { "none".into() } else { names.join(", ") };
                return Err(of(format!("the provider has no field {name}; its fields: {names}")));
            }
            // The value of a variable is known to the workers only, and so is one that is stored already.
            let value = value.as_str().filter(|text| part == "values" && *text != MASK);
            if given.insert(name, value).is_some() {
                return Err(of(format!("{name} is in `values` and in `env`")));
            }
        }
    }
    // Several versions may have different forms; what one of them can do without is not demanded.
    match forms.iter().map(|form| models::missing(form, &given, model)).min_by_key(Vec::len) {
        Some(missing) if !missing.is_empty() => {
            Err(of(format!("the provider also needs: {}", missing.join(", "))))
        }
        Some(_) | None => Ok(()),
    }
}

/// Texts by the names of fields.
pub type Texts = BTreeMap<String, String>;

/// Opens stored credentials: the values that are stored, and the variables of the worker's environment that have others.
///
/// # Errors
/// A value cannot be opened.
pub fn credentials_of(
    stored: &CatalogEntry,
    key: Option<&SealingKey>,
) -> Result<(Texts, Texts), SecretError> {
    let object = entry::opened(CatalogKind::PluginCredentials, stored, key)?;
    let texts = |part: &str| {
        let texts = object.get(part).and_then(Json::as_object).into_iter().flatten();
        let text = |(name, value): (&String, &Json)| Some((name.clone(), value.as_str()?.to_owned()));
        texts.filter_map(text).collect()
    };
    Ok((texts("values"), texts("env")))
}

/// The entry with the credentials of a provider for an app: its own, else those for all.
pub fn find_credentials<'c>(
    entries: &'c [CatalogEntry],
    (author, plugin, provider): (&str, &str, &str),
    app: Option<&str>,
) -> Option<&'c CatalogEntry> {
    let find = |app: Option<&str>| {
        let id = credentials_id(author, plugin, provider, app);
        entries.iter().find(|entry| entry.id == id)
    };
    app.and_then(|app| find(Some(app))).or_else(|| find(None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plugin(version: &str, tools: &[&str]) -> InstalledPlugin {
        InstalledPlugin {
            author: "acme".into(),
            name: "maps".into(),
            version: version.into(),
            sha256: "ab".into(),
            bytes: 12,
            signature: "unchecked".into(),
            providers: vec![PluginProvider {
                name: "maps".into(),
                tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
                credentials: vec![CredentialField {
                    name: "key".into(),
                    required: true,
                    ..CredentialField::default()
                }],
            }],
            ..InstalledPlugin::default()
        }
    }

    fn stored(plugin: &InstalledPlugin) -> CatalogEntry {
        let at = tidemill_base::clock::Timestamp::from_millis(0);
        CatalogEntry { id: plugin.id(), version: 1, created_at: at, updated_at: at, fields: plugin.fields() }
    }

    #[test]
    fn a_plugin_is_read_as_it_was_stored() {
        let plugin = plugin("0.0.10", &["find"]);
        assert!(!plugin.fields().contains_key("version"), "that is the entry's own");
        assert_eq!(InstalledPlugin::of(&stored(&plugin)), Some(plugin));
    }

    #[test]
    fn a_plugin_is_found_by_all_the_names_that_files_have() {
        let named = |author, name, provider, version| Some(PluginName { author, name, provider, version });
        for (identifier, provider, expected) in [
            (None, "acme/maps/maps", named("acme", "maps", Some("maps"), None)),
            (Some("acme/maps:1.2@ab"), "acme/maps/maps", named("acme", "maps", Some("maps"), Some("1.2"))),
            (Some("acme/maps"), "maps", named("acme", "maps", Some("maps"), None)),
            (None, "json_process", named("langgenius", "json_process", Some("json_process"), None)),
            (Some("broken"), "acme/maps", named("acme", "maps", None, None)),
            (None, "a//b", None),
            (None, "", None),
        ] {
            assert_eq!(PluginName::of(identifier, provider), expected, "{identifier:?} {provider}");
        }
    }

    #[test]
    fn the_version_of_the_file_is_chosen_else_the_newest_that_has_the_tool() {
        let all = [plugin("0.0.9", &["find"]), plugin("0.0.10", &["find"]), plugin("0.1.0", &["route"])];
        let version = |identifier: Option<&str>, tool: &str| {
            let named = PluginName::of(identifier, "acme/maps/maps").unwrap();
            choose(&all, &named, tool).map(|found| found.map(|plugin| plugin.version.clone()))
        };
        assert_eq!(version(Some("acme/maps:0.0.9@x"), "find"), Ok(Some("0.0.9".into())));
        assert_eq!(version(Some("acme/maps:0.0.7@x"), "find"), Ok(Some("0.0.10".into())));
        assert_eq!(version(None, "find"), Ok(Some("0.0.10".into())));
        assert_eq!(version(Some("acme/other:1"), "find"), Ok(None));
        let error = version(None, "fly").unwrap_err();
        assert!(error.contains("(0.0.9, 0.0.10, 0.1.0), and has no tool fly of a provider maps"), "{error}");
        let error = version(None, PAGE).unwrap_err();
        assert!(
            error.contains("and has no datasource of a provider maps") && !error.contains(PAGE),
            "{error}"
        );
    }

    #[test]
    fn versions_are_compared_by_their_numbers_and_a_release_is_newer_than_those_before_it() {
        let sorted = [
            "0.9.0",
            "0.10.0-alpha",
            "0.10.0-beta.2",
            "0.10.0-beta.10",
            "0.10.0-rc.1",
            "0.10.0",
            "0.10.0+build",
            "0.10.1",
            "1",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&other_at), "{one} {other}");
            }
        }
    }

    #[test]
    fn credentials_must_fit_the_form_of_an_installed_provider() {
        let mut catalog = Catalog::default();
        catalog.plugins.push(stored(&plugin("1", &["find"])));
        let check = |id: &str, value: Json| check_credentials(id, value.as_object().unwrap(), &catalog);
        assert_eq!(check("acme/maps/maps", json!({"values": {"key": "k"}})), Ok(()));
        assert_eq!(check("acme/maps/maps@app", json!({"env": {"key": "MAPS_KEY"}})), Ok(()));
        for (id, value, part) in [
            ("acme/maps", json!({}), "AUTHOR/PLUGIN/PROVIDER"),
            ("acme/maps/maps@", json!({}), "after the `@`"),
            ("acme/maps/sea", json!({}), "no plugin acme/maps with a provider sea"),
            ("acme/maps/maps", json!({}), "also needs: key"),
            ("acme/maps/maps", json!({"values": {"kex": "k"}}), "no field kex; its fields: key"),
            ("acme/maps/maps", json!({"values": {"key": 1}}), "an object of texts"),
            (
                "acme/maps/maps",
                json!({"values": {"key": "k"}, "env": {"key": "V"}}),
                "in `values` and in `env`",
            ),
        ] {
            let error = check(id, value).unwrap_err();
            assert!(error.contains(part), "{id}: {error}");
        }
    }

    #[test]
    fn credentials_of_a_model_have_the_only_id_under_which_they_are_found() {
        let mut catalog = Catalog::default();
        let served = PluginModels {
            name: "maps".into(),
            kinds: vec!["llm".into()],
            is_customizable: true,
            ..PluginModels::default()
        };
        catalog.plugins.push(stored(&InstalledPlugin { models: vec![served], ..plugin("1", &[]) }));
        let check = |id: &str| check_credentials(id, &JsonMap::new(), &catalog);
        assert_eq!(check("acme/maps/maps:llm:qwen=2fa"), Ok(()));
        assert_eq!(check("acme/maps/maps:llm:qwen=2fa@app"), Ok(()));
        for id in
            ["acme/maps/maps:llm:qwen=2Fa", "acme/maps/maps:llm:qw=65n=2fa", "acme/maps/maps:llm:qwen/a"]
        {
            let error = check(id).unwrap_err();
            assert!(error.ends_with("the id for this model is acme/maps/maps:llm:qwen=2fa"), "{id}: {error}");
        }
    }

    #[test]
    fn credentials_of_an_app_come_before_those_for_all_and_serve_no_other_app() {
        let at = tidemill_base::clock::Timestamp::from_millis(0);
        let entry = |id: &str| CatalogEntry {
            id: id.into(),
            version: 1,
            created_at: at,
            updated_at: at,
            fields: BTreeMap::new(),
        };
        let entries = [entry("acme/maps/maps@one"), entry("acme/maps/maps")];
        let of = |entries: &[CatalogEntry], app| {
            find_credentials(entries, ("acme", "maps", "maps"), app).map(|entry| entry.id.clone())
        };
        assert_eq!(of(&entries, Some("one")).unwrap(), "acme/maps/maps@one");
        assert_eq!(of(&entries, Some("two")).unwrap(), "acme/maps/maps");
        assert_eq!(of(&entries, None).unwrap(), "acme/maps/maps");
        assert_eq!(of(&entries[..1], Some("two")), None);
    }
}
