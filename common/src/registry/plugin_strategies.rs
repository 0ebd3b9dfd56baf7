//! Agent strategies of installed plugins: their record, and the version that an agent node uses.

use serde::{Deserialize, Serialize};

use super::plugins::{InstalledPlugin, PluginName, choose_by};

/// A provider of agent strategies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StrategyGroup {
    pub name: String,
    pub strategies: Vec<String>,
}

impl InstalledPlugin {
    /// Tests whether it has an agent strategy, of a provider if one is named.
    fn has_strategy(&self, provider: Option<&str>, strategy: &str) -> bool {
        let is_it = |group: &&StrategyGroup| provider.is_none_or(|provider| provider == group.name);
        self.strategies.iter().filter(is_it).any(|group| group.strategies.iter().any(|it| it == strategy))
    }
}

/// The installed version that runs an agent strategy: the one that the file names, else the newest that has it. `None` if the
/// plugin is not installed.
///
/// # Errors
/// No installed version has the strategy; in words.
pub fn choose_strategy<'p>(
    installed: &'p [InstalledPlugin],
    named: &PluginName<'_>,
    strategy: &str,
) -> Result<Option<&'p InstalledPlugin>, String> {
    let has = |plugin: &InstalledPlugin| plugin.has_strategy(named.provider, strategy);
    choose_by(installed, named, has, || format!("agent strategy {strategy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(version: &str, strategies: &[&str]) -> InstalledPlugin {
        let strategies = strategies.iter().map(|name| (*name).to_owned()).collect();
        InstalledPlugin {
            author: "acme".into(),
            name: "thinker".into(),
            version: version.into(),
            strategies: vec![StrategyGroup { name: "thinker".into(), strategies }],
            ..InstalledPlugin::default()
        }
    }

    #[test]
    fn the_version_of_the_file_is_chosen_else_the_newest_that_has_the_strategy() {
        let all = [plugin("0.0.9", &["plan"]), plugin("0.0.10", &["plan"]), plugin("0.1.0", &["refine"])];
        let version = |identifier: Option<&str>, provider: &str, strategy: &str| {
            let named = PluginName::of(identifier, provider).unwrap();
            choose_strategy(&all, &named, strategy).map(|found| found.map(|plugin| plugin.version.clone()))
        };
        let provider = "acme/thinker/thinker";
        assert_eq!(version(Some("acme/thinker:0.0.9@x"), provider, "plan"), Ok(Some("0.0.9".into())));
        assert_eq!(version(None, provider, "plan"), Ok(Some("0.0.10".into())));
        assert_eq!(version(None, "acme/other/other", "plan"), Ok(None));
        let error = version(None, provider, "fly").unwrap_err();
        assert!(error.contains("(0.0.9, 0.0.10, 0.1.0), and has no agent strategy fly"), "{error}");
    }
}
