//! Finds the installed plugin that runs a tool, and waits until it is prepared: on this worker, or on another one to which the
//! job is handed back.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::need::Need;
use tidemill_common::registry::plugins::{self, InstalledPlugin, PluginName};
use tidemill_common::store::LiveWorker;
use tidemill_common::wire::worker::PluginState;
use tidemill_plugins::install::Installed;
use tokio::time::Instant;

use super::host::{Listed, PluginHost, State};
use crate::outside::tools::{ToolError, ToolName};
use crate::setup::FLEET_KEPT;

/// The pause between two looks at a plugin that is not ready here.
const LOOK_AGAIN: Duration = Duration::from_millis(2_200);

/// The state of a plugin here, with the reason why it does not run.
enum Here {
    Ready(Arc<Installed>),
    NotYet(String),
    /// Or only after it is tried again.
    Never(String),
}

/// What the other workers of the same queues can do with a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// One has it ready.
    Ready,
    /// One is preparing it.
    Preparing,
    /// One has not seen it yet.
    Unknown,
    /// None can run it: it has failed there, they run no plugins, or there are none.
    NoWorker,
}

/// What can be hoped for while no version is ready here.
struct Hope {
    /// The place of the version that is waited for.
    at: usize,
    reason: String,
    /// None of them becomes ready here.
    is_over: bool,
}

/// The first version that is ready; else the first that may become ready, or the first.
fn hope(here: impl Iterator<Item = Here>) -> Result<Arc<Installed>, Hope> {
    let mut hope: Option<Hope> = None;
    for (at, here) in here.enumerate() {
        let (reason, is_over) = match here {
            Here::Ready(installed) => return Ok(installed),
            Here::NotYet(reason) => (reason, false),
            Here::Never(reason) => (reason, true),
        };
        if hope.as_ref().is_none_or(|known| known.is_over && !is_over) {
            hope = Some(Hope { at, reason, is_over });
        }
    }
    Err(hope.unwrap_or(Hope { at: 0, reason: "no version is installed".into(), is_over: true }))
}

/// The best state, with the place of the first version that has it.
fn best(states: impl Iterator<Item = Others>) -> (Others, Option<usize>) {
    let rank = |state: Others| match state {
        Others::Ready => 3,
        Others::Preparing => 2,
        Others::Unknown => 1,
        Others::NoWorker => 0,
    };
    states.enumerate().fold((Others::NoWorker, None), |(best, place), (at, state)| {
        if rank(state) > rank(best) { (state, (rank(state) > 1).then_some(at)) } else { (best, place) }
    })
}

impl PluginHost {
    /// The plugin that runs a tool, prepared on this worker. Waits while it is being prepared here, unless another worker has
    /// it. `None` if no installed plugin is named; `has_service`: also if this worker cannot run it, and does not prepare it.
    pub(super) async fn ready(
        &self,
        name: &ToolName<'_>,
        has_service: bool,
    ) -> Result<Option<Arc<Installed>>, ToolError> {
        let Some(named) = PluginName::of(name.plugin, name.provider_id) else { return Ok(None) };
        let plugin = match self.chosen(&named, name.tool).await {
            Ok(Some(plugin)) => plugin,
            Ok(None) => return Ok(None),
            Err(_) if has_service => return Ok(None),
            Err(error) => return Err(error),
        };
        self.prepared(&plugin, has_service).await
    }

    /// This plugin, prepared on this worker; as [`Self::ready`].
    pub(super) async fn prepared(
        &self,
        plugin: &InstalledPlugin,
        has_service: bool,
    ) -> Result<Option<Arc<Installed>>, ToolError> {
        self.one_prepared(std::slice::from_ref(plugin), has_service).await
    }

    /// The first of these versions of a plugin that is prepared on this worker; as [`Self::ready`]. One that is ready here does
    /// not wait for those before it.
    pub(super) async fn one_prepared(
        &self,
        versions: &[InstalledPlugin],
        has_service: bool,
    ) -> Result<Option<Arc<Installed>>, ToolError> {
        let begun = Instant::now();
        let mut able_since = None;
        loop {
            let mut changes = self.changes.subscribe();
            let Hope { at, reason, is_over } = match hope(versions.iter().map(|plugin| self.here(plugin))) {
                Ok(installed) => return Ok(Some(installed)),
                Err(hope) if hope.is_over && has_service => return Ok(None),
                Err(hope) => hope,
            };
            // The list of workers with which the job is handed back may be as old as that.
            let others = self.best_of_others(versions).await;
            let wanted = &versions[others.map_or(at, |(_, best)| best.unwrap_or(at))];
            let lacking = |reason: String| {
                let need = Need::Plugin { id: wanted.id(), sha256: wanted.sha256.clone() };
                Err(ToolError::unavailable(reason).lacking(need))
            };
            let is_able = match others.map(|(state, _)| state) {
                Some(Others::NoWorker) if is_over => return lacking(reason),
                Some(Others::Ready) => true,
                Some(Others::Preparing) => is_over,
                Some(Others::Unknown | Others::NoWorker) | None => false,
            };
            able_since = if is_able { able_since.or_else(|| Some(Instant::now())) } else { None };
            if able_since.is_some_and(|since| since.elapsed() >= FLEET_KEPT) {
                return lacking(reason);
            }
            let left = self.wait.saturating_sub(begun.elapsed());
            if left.is_zero() && has_service {
                return Ok(None);
            }
            if left.is_zero() {
                let seconds = self.wait.as_secs();
                return lacking(format!(
                    "{reason}; the job has waited {seconds} s for it (plugins.wait_seconds)"
                ));
            }
            let _ = tokio::time::timeout(LOOK_AGAIN.min(left), changes.changed()).await;
            // Its record may have been written again, for the same files.
            let is_there = |known: &InstalledPlugin| {
                versions.iter().any(|plugin| known.sha256 == plugin.sha256 && known.id() == plugin.id())
            };
            let is_gone = |listed: &Listed| !listed.plugins.iter().any(is_there);
            if self.listed(false).await.is_some_and(|listed| is_gone(&listed)) {
                return Err(ToolError::unavailable(format!(
                    "the plugin {} has been removed",
                    versions[at].id()
                )));
            }
        }
    }

    /// The state of a plugin here. One that was not seen yet is looked for at once.
    fn here(&self, plugin: &InstalledPlugin) -> Here {
        let id = plugin.id();
        if let Err(reason) = &self.processes {
            return Here::Never(format!("this worker does not run the plugin {id}: {reason}"));
        }
        match self.state_of(plugin) {
            Some(State::Ready(installed)) => Here::Ready(installed),
            Some(State::Disabled(reason)) => {
                Here::Never(format!("this worker does not run the plugin {id}: {reason}"))
            }
            Some(State::Failed { brief, .. }) => Here::Never(format!(
                "the plugin {id} cannot be prepared on this worker: {brief} (`tidemill plugins show {id}` has the whole reason)"
            )),
            Some(State::Preparing(_)) => {
                Here::NotYet(format!("the plugin {id} is being prepared on this worker"))
            }
            None => {
                self.wanted.notify_one();
                Here::NotYet(format!("the plugin {id} is not prepared on this worker yet"))
            }
        }
    }

    async fn chosen(&self, named: &PluginName<'_>, tool: &str) -> Result<Option<InstalledPlugin>, ToolError> {
        let find = |listed: Option<Arc<Listed>>| match listed {
            Some(listed) => plugins::choose(&listed.plugins, named, tool).map(Option::<&_>::cloned),
            None => Ok(None),
        };
        if let Ok(Some(found)) = find(self.listed(false).await) {
            return Ok(Some(found));
        }
        // It may have been installed just now.
        find(self.listed(true).await).map_err(ToolError::unavailable)
    }

    /// Tests whether a version is ready here.
    pub(super) fn is_ready(&self, plugin: &InstalledPlugin) -> bool {
        matches!(self.here(plugin), Here::Ready(_))
    }

    /// The best that the other workers can do with one of these versions, with its place if one has or prepares it. `None` while
    /// the store does not answer.
    async fn best_of_others(&self, versions: &[InstalledPlugin]) -> Option<(Others, Option<usize>)> {
        let workers = self.jobs.fleet().workers().await.ok()?;
        let of = |plugin: &InstalledPlugin| {
            others(&workers, &self.me, &self.queues, (&plugin.id(), &plugin.sha256))
        };
        Some(best(versions.iter().map(of)))
    }
}

/// One that serves only some of the queues may not get the job, so only what it can still become counts.
fn others(workers: &[LiveWorker], me: &str, queues: &[String], (id, sha256): (&str, &str)) -> Others {
    let mut found = Others::NoWorker;
    for about in workers.iter().filter(|worker| worker.name != me).filter_map(|worker| worker.about.as_ref())
    {
        let serves = |queue: &String| about.queues.contains(queue);
        let (is_any, is_all) = (queues.iter().any(serves), queues.iter().all(serves));
        found = match about.plugin(id, sha256) {
            Some(PluginState::Ready) if is_all => return Others::Ready,
            Some(PluginState::Preparing) if is_all => Others::Preparing,
            Some(PluginState::Ready | PluginState::Preparing) | None
                if is_any && found == Others::NoWorker =>
            {
                Others::Unknown
            }
            _ => found,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use tidemill_common::clock::Timestamp;
    use tidemill_common::wire::worker::{AboutWorker, PluginAbility};

    use super::*;

    fn worker(name: &str, queues: &[&str], state: Option<(&str, PluginState)>) -> LiveWorker {
        let ability = |(sha256, state): (&str, PluginState)| PluginAbility {
            id: "acme/maps:1".into(),
            sha256: sha256.into(),
            state,
            note: String::new(),
            models: Vec::new(),
        };
        let about = AboutWorker {
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            plugins: state.map(ability).into_iter().collect(),
            ..AboutWorker::default()
        };
        let seen_at = Timestamp::from_millis(0);
        LiveWorker { name: name.into(), seen_at, held: None, about: Some(Arc::new(about)) }
    }

    #[test]
    fn the_newest_version_is_waited_for_unless_an_older_one_may_be_ready_sooner() {
        let not_yet = |text: &str| Here::NotYet(text.into());
        let never = |text: &str| Here::Never(text.into());
        let hoped = |here: Vec<Here>| {
            let hope = hope(here.into_iter()).map(|_| ()).unwrap_err();
            (hope.at, hope.reason, hope.is_over)
        };
        assert_eq!(hoped(vec![not_yet("new"), not_yet("old")]), (0, "new".into(), false));
        assert_eq!(hoped(vec![never("new"), not_yet("old")]), (1, "old".into(), false));
        assert_eq!(hoped(vec![never("new"), never("old")]), (0, "new".into(), true));
    }

    #[test]
    fn a_job_is_handed_back_for_the_version_that_another_worker_has() {
        use Others::{NoWorker, Preparing, Ready, Unknown};
        for (states, expected) in [
            (vec![NoWorker, Ready], (Ready, Some(1))),
            (vec![Preparing, Ready], (Ready, Some(1))),
            (vec![Ready, Ready], (Ready, Some(0))),
            (vec![NoWorker, Preparing], (Preparing, Some(1))),
            (vec![Unknown, NoWorker], (Unknown, None)),
            (vec![NoWorker, NoWorker], (NoWorker, None)),
        ] {
            assert_eq!(best(states.iter().copied()), expected, "{states:?}");
        }
    }

    #[test]
    fn other_workers_count_by_what_their_records_say_of_these_files() {
        use PluginState::{Disabled, Failed, Preparing, Ready};
        let queues = ["a".to_owned(), "b".to_owned()];
        let all: &[&str] = &["a", "b"];
        for (case, workers, expected) in [
            ("none is there", vec![], Others::NoWorker),
            ("only this worker has it", vec![worker("me", all, Some(("ab", Ready)))], Others::NoWorker),
            ("one has it", vec![worker("o", all, Some(("ab", Ready)))], Others::Ready),
            ("one has other files", vec![worker("o", all, Some(("cd", Ready)))], Others::Unknown),
            ("one has not seen it", vec![worker("o", all, None)], Others::Unknown),
            (
                "all have failed or run none",
                vec![worker("o", all, Some(("ab", Failed))), worker("p", all, Some(("ab", Disabled)))],
                Others::NoWorker,
            ),
            (
                "one has failed and one is preparing it",
                vec![worker("o", all, Some(("ab", Preparing))), worker("p", all, Some(("ab", Failed)))],
                Others::Preparing,
            ),
            ("one serves other queues", vec![worker("o", &["c"], Some(("ab", Ready)))], Others::NoWorker),
            ("one serves one of them", vec![worker("o", &["a"], Some(("ab", Ready)))], Others::Unknown),
        ] {
            assert_eq!(others(&workers, "me", &queues, ("acme/maps:1", "ab")), expected, "{case}");
        }
    }
}
