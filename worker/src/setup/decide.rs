//! Decides from the records of workers which of them can meet a need. Pure.

use tidemill_common::graph::Node;
use tidemill_common::need::Need;
use tidemill_common::nodes::NodeData;
use tidemill_common::registry::PROFILE_PREFIX;
use tidemill_common::registry::plugins::PluginName;
use tidemill_common::store::LiveWorker;
use tidemill_common::wire::worker::{
    AboutWorker, HostedAbility, PluginAbility, PluginState, ProviderAbility,
};

use crate::outside::providers::profile::{DEFAULT_IDS, first_match};
use crate::outside::tools::source_of;

/// What a job needs: of the worker's set-up, or instead of it a program that executes the node itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) need: Need,
    /// Absent when the node's graph is not known.
    pub(crate) node: Option<NodeNames>,
    /// The program around this worker executes the node, so the need is beside it: another program does not meet it.
    pub(crate) is_hosted_here: bool,
}

/// The names under which a program can register an executor for a node, besides its queue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeNames {
    id: String,
    kind: &'static str,
    /// The id and the name of its tool's provider.
    tool: Option<[String; 2]>,
}

impl NodeNames {
    pub(crate) fn of(node: &Node) -> Self {
        let tool = match &node.data {
            NodeData::Tool(data) => Some([data.provider_id.clone(), data.provider_name.clone()]),
            _ => None,
        };
        Self { id: node.id.as_str().to_owned(), kind: node.kind.wire(), tool }
    }
}

/// Returns the names of the workers, other than `me`, that serve the queue and can do the job. `key` is the fingerprint
/// of this worker's secret key.
pub(crate) fn able<'a>(
    workers: &'a [LiveWorker],
    me: &str,
    queue: &str,
    wanted: &Wanted,
    key: Option<&str>,
) -> Vec<&'a str> {
    let does = |about: &AboutWorker| {
        let node = wanted.node.as_ref();
        let is_hosted = node.is_some_and(|node| executes(&about.hosted, node, queue));
        if !wanted.is_hosted_here {
            return is_hosted || can(about, &wanted.need, key);
        }
        // Otherwise two workers, each of which has what the other one lacks, would leave the job to each other for ever.
        let lacks_tool = node.is_some_and(|node| has_missed_tool(about, node));
        can(about, &wanted.need, key) && (is_hosted || !lacks_tool)
    };
    let is_able = |worker: &&LiveWorker| {
        worker.name != me
            && worker.serves(queue) == Some(true)
            && worker.about.as_ref().is_some_and(|about| does(about))
    };
    workers.iter().filter(is_able).map(|worker| worker.name.as_str()).collect()
}

/// Returns true if the program around a worker has an executor for the node.
fn executes(hosted: &HostedAbility, node: &NodeNames, queue: &str) -> bool {
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    has(&hosted.nodes, &node.id)
        || node.tool.iter().flatten().any(|provider| has(&hosted.tools, provider))
        || has(&hosted.types, node.kind)
        || has(&hosted.queues, queue)
}

/// Returns true if a job has shown that a worker lacks the tool of the node.
fn has_missed_tool(about: &AboutWorker, node: &NodeNames) -> bool {
    let is_of_node = |name: &String| node.tool.iter().flatten().any(|known| known == name);
    about.missing.iter().any(|missing| {
        let Need::Tool { provider, also, .. } = &missing.need else { return false };
        missing.asked_at.is_some() && (is_of_node(provider) || is_of_node(also))
    })
}

/// Returns true if a worker has the plugin of a provider ready, in any version.
fn has_plugin_of(about: &AboutWorker, provider: &str) -> bool {
    PluginName::of(None, provider).is_some_and(|named| ready(about, &named).next().is_some())
}

/// Returns true if a worker has a plugin ready that has this provider of models, in any version.
fn has_models_of(about: &AboutWorker, provider: &str) -> bool {
    PluginName::of_models(provider).is_some_and(|named| {
        let is_it = |name: &String| named.provider.is_none_or(|wanted| wanted == name);
        ready(about, &named).any(|plugin| plugin.models.iter().any(is_it))
    })
}

fn ready<'a>(about: &'a AboutWorker, named: &PluginName<'a>) -> impl Iterator<Item = &'a PluginAbility> {
    let named = *named;
    about.plugins.iter().filter(move |plugin| {
        let id = plugin.id.split(':').next().unwrap_or_default();
        let is_it = id.split_once('/').is_some_and(|(author, name)| named.is(author, name));
        is_it && plugin.state == PluginState::Ready
    })
}

/// Returns true if a worker with this record can meet the need. `key` is the fingerprint of a key that does not open
/// the secrets, if the need is about secrets.
pub(crate) fn can(about: &AboutWorker, need: &Need, key: Option<&str>) -> bool {
    let has_failed = |missing: &tidemill_common::wire::worker::Missing| missing.asked_at.is_some();
    if about.missing.iter().any(|missing| missing.need == *need && has_failed(missing)) {
        return false;
    }
    match need {
        Need::Provider { provider, model } => {
            let seen = |ability: &ProviderAbility, test: &dyn Fn(&str, Option<&str>) -> bool| {
                ability.serves.iter().any(|served| test(&served.provider, served.model.as_deref()))
            };
            let found = first_match(&about.providers, |it| it.name.as_str(), seen, provider, model);
            found.is_some_and(|found| found.usable) || has_models_of(about, provider)
        }
        Need::Profile { id } => {
            let id = id.strip_prefix(PROFILE_PREFIX).unwrap_or(id);
            let of = |id: &str| about.profiles.iter().find(|profile| profile.id == id);
            let default = || of(about.default_profile.as_deref().filter(|_| DEFAULT_IDS.contains(&id))?);
            of(id).or_else(default).is_some_and(|profile| profile.usable)
        }
        Need::Tool { kind, provider, also } => {
            let has = |source: &str| about.tools.iter().any(|known| known == source);
            let is_plugin = matches!(kind.as_str(), "builtin" | "plugin") && has_plugin_of(about, provider);
            is_plugin || has("service") || has(&source_of(kind, provider)) || has(&source_of(kind, also))
        }
        // A worker that is still preparing it keeps the job until it is ready.
        Need::Plugin { id, sha256 } => {
            matches!(about.plugin(id, sha256), Some(PluginState::Ready | PluginState::Preparing))
        }
        // A worker has not checked its Calls yet when it starts, and knows those of its program.
        Need::Call { id } => {
            about.hosted.calls.contains(id) || about.calls.iter().any(|call| call.id == *id && call.usable)
        }
        Need::Variable { name } => about.variables.iter().any(|known| known == name),
        Need::SecretKey { .. } => about.key.is_some() && about.key.as_deref() != key,
        Need::Code { language } => about.code.iter().any(|known| known == language),
        Need::Documents => about.documents,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tidemill_common::clock::Timestamp;
    use tidemill_common::wire::worker::{CallAbility, Missing, ProfileAbility, ServedName};

    fn provider(name: &str, usable: bool) -> ProviderAbility {
        ProviderAbility { name: name.into(), serves: Vec::new(), usable }
    }

    fn full() -> AboutWorker {
        let served = ServedName { provider: "acme/a/a".into(), model: Some("m".into()) };
        AboutWorker {
            queues: vec!["default".into()],
            providers: vec![
                provider("openai", true),
                provider("keyless", false),
                ProviderAbility { serves: vec![served], ..provider("other", true) },
            ],
            profiles: vec![ProfileAbility { id: "fast".into(), usable: true }],
            default_profile: Some("fast".into()),
            tools: vec!["api:pets".into(), "workflow".into()],
            calls: [("greet", true), ("broken", false)]
                .map(|(id, usable)| CallAbility { id: id.into(), usable, ..CallAbility::default() })
                .into(),
            hosted: HostedAbility { calls: vec!["own".into()], ..HostedAbility::default() },
            variables: vec!["TOKEN".into()],
            code: vec!["python3".into()],
            documents: true,
            key: Some("k1".into()),
            ..AboutWorker::default()
        }
    }

    fn model(provider: &str, model: &str) -> Need {
        Need::Provider { provider: provider.into(), model: model.into() }
    }

    fn tool(kind: &str, provider: &str) -> Need {
        Need::Tool { kind: kind.into(), provider: provider.into(), also: String::new() }
    }

    #[test]
    fn a_need_is_met_by_what_the_record_lists() {
        let secrets = || Need::SecretKey { of: "g".into() };
        let profile = |id: &str| Need::Profile { id: id.into() };
        for (need, key, expected) in [
            (model("openai", "m"), None, true),
            (model("langgenius/openai/openai", "m"), None, true),
            (model("keyless", "m"), None, false),
            (model("acme/a/a", "m"), None, true),
            (model("acme/a/a", "n"), None, false),
            (model("missing", "m"), None, false),
            (profile("fast"), None, true),
            (profile(""), None, true),
            (profile("slow"), None, false),
            (tool("api", "pets"), None, true),
            (tool("mcp", "pets"), None, false),
            (tool("workflow", "any"), None, true),
            (Need::Call { id: "greet".into() }, None, true),
            (Need::Call { id: "own".into() }, None, true),
            (Need::Call { id: "broken".into() }, None, false),
            (Need::Call { id: "other".into() }, None, false),
            (Need::Variable { name: "TOKEN".into() }, None, true),
            (Need::Variable { name: "OTHER".into() }, None, false),
            (secrets(), Some("k2"), true),
            (secrets(), None, true),
            (secrets(), Some("k1"), false),
            (Need::Code { language: "python3".into() }, None, true),
            (Need::Code { language: "javascript".into() }, None, false),
            (Need::Documents, None, true),
        ] {
            assert_eq!(can(&full(), &need, key), expected, "{need} {key:?}");
        }
        assert!(!can(&AboutWorker::default(), &secrets(), Some("k1")), "it has no key");
    }

    #[test]
    fn what_a_job_has_missed_is_missing_whatever_the_survey_says() {
        let failed = |asked_at| Missing { need: Need::Documents, reason: String::new(), asked_at };
        let with = |missing| AboutWorker { missing: vec![missing], ..full() };
        assert!(!can(&with(failed(Some(1))), &Need::Documents, None));
        assert!(can(&with(failed(None)), &Need::Documents, None));
    }

    #[test]
    fn a_program_around_a_worker_does_a_job_whose_need_the_worker_does_not_meet() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let node = NodeNames { id: "n".into(), kind: "tool", tool: Some(["acme".into(), "Acme".into()]) };
        for (hosted, expected) in [
            (HostedAbility::default(), false),
            (HostedAbility { nodes: names(&["n"]), ..HostedAbility::default() }, true),
            (HostedAbility { types: names(&["tool"]), ..HostedAbility::default() }, true),
            (HostedAbility { types: names(&["llm"]), ..HostedAbility::default() }, false),
            (HostedAbility { tools: names(&["acme"]), ..HostedAbility::default() }, true),
            (HostedAbility { tools: names(&["Acme"]), ..HostedAbility::default() }, true),
            (HostedAbility { tools: names(&["other"]), ..HostedAbility::default() }, false),
            (HostedAbility { queues: names(&["gpu"]), ..HostedAbility::default() }, true),
            (HostedAbility { queues: names(&["cpu"]), ..HostedAbility::default() }, false),
        ] {
            assert_eq!(executes(&hosted, &node, "gpu"), expected, "{hosted:?}");
        }
    }

    #[test]
    fn workers_that_lack_what_each_other_have_do_not_leave_a_job_to_each_other() {
        let node = NodeNames { id: "n".into(), kind: "tool", tool: Some(["acme".into(), "Acme".into()]) };
        let hosts = || HostedAbility { tools: vec!["acme".into()], ..HostedAbility::default() };
        let missed = |name: &str| Missing {
            need: Need::Tool { kind: "builtin".into(), provider: name.into(), also: String::new() },
            reason: String::new(),
            asked_at: Some(1),
        };
        let keyless = || AboutWorker { providers: Vec::new(), ..full() };
        for (name, is_hosted_here, other, expected) in [
            ("it hosts the node", false, AboutWorker { hosted: hosts(), ..keyless() }, true),
            (
                "it hosts the node and lacks the model, too",
                true,
                AboutWorker { hosted: hosts(), ..keyless() },
                false,
            ),
            ("it hosts the node and has the model", true, AboutWorker { hosted: hosts(), ..full() }, true),
            ("it has the model, and may have the tool", true, full(), true),
            ("it has missed the tool", true, AboutWorker { missing: vec![missed("Acme")], ..full() }, false),
            ("it has missed another tool", true, AboutWorker { missing: vec![missed("x")], ..full() }, true),
        ] {
            let (node, need) = (Some(node.clone()), model("openai", "m"));
            let other = LiveWorker {
                name: "other".into(),
                seen_at: Timestamp::from_millis(0),
                held: None,
                about: Some(Arc::new(other)),
            };
            let wanted = Wanted { need, node, is_hosted_here };
            assert_eq!(!able(&[other], "me", "default", &wanted, None).is_empty(), expected, "{name}");
        }
    }

    #[test]
    fn a_plugin_counts_where_it_is_ready_or_prepared_and_only_with_its_files() {
        let plugin = |id: &str, state| PluginAbility {
            id: id.into(),
            sha256: "ab".into(),
            state,
            note: String::new(),
            models: Vec::new(),
        };
        let of_models =
            |id: &str, state, name: &str| PluginAbility { models: vec![name.into()], ..plugin(id, state) };
        let about = AboutWorker {
            plugins: vec![
                of_models("langgenius/gemini:1.0", PluginState::Ready, "google"),
                plugin("acme/maps:1.0", PluginState::Ready),
                plugin("acme/mail:1.0", PluginState::Preparing),
                plugin("acme/fax:1.0", PluginState::Failed),
                plugin("acme/telex:1.0", PluginState::Disabled),
            ],
            ..AboutWorker::default()
        };
        let files = |id: &str, sha256: &str| Need::Plugin { id: id.into(), sha256: sha256.into() };
        let version = |id: &str| files(id, "ab");
        let model = |provider: &str| Need::Provider { provider: provider.into(), model: "m".into() };
        let tool = |kind: &str, provider: &str| Need::Tool {
            kind: kind.into(),
            provider: provider.into(),
            also: String::new(),
        };
        for (need, expected) in [
            (version("acme/maps:1.0"), true),
            (version("acme/maps:2.0"), false),
            (files("acme/maps:1.0", "cd"), false),
            (version("acme/mail:1.0"), true),
            (version("acme/fax:1.0"), false),
            (version("acme/telex:1.0"), false),
            (model("google"), true),
            (model("langgenius/gemini/google"), true),
            (model("langgenius/gemini/other"), false),
            (model("acme/maps/maps"), false),
            (tool("builtin", "acme/maps/maps"), true),
            (tool("plugin", "acme/maps"), true),
            (tool("builtin", "acme/mail/mail"), false),
            (tool("api", "acme/maps/maps"), false),
        ] {
            assert_eq!(can(&about, &need, None), expected, "{need}");
        }
    }

    #[test]
    fn only_other_workers_that_serve_the_queue_count() {
        let worker = |name: &str, about: Option<AboutWorker>| LiveWorker {
            name: name.into(),
            seen_at: Timestamp::from_millis(0),
            held: None,
            about: about.map(Arc::new),
        };
        let elsewhere = AboutWorker { queues: vec!["gpu".into()], ..full() };
        let workers = [
            worker("me", Some(full())),
            worker("able", Some(full())),
            worker("elsewhere", Some(elsewhere)),
            worker("empty", Some(AboutWorker { queues: vec!["default".into()], ..AboutWorker::default() })),
            worker("older", None),
        ];
        let wanted = Wanted { need: model("openai", "m"), node: None, is_hosted_here: false };
        let found = |queue: &str| able(&workers, "me", queue, &wanted, None);
        assert_eq!(found("default"), ["able"]);
        assert_eq!(found("gpu"), ["elsewhere"]);
        assert!(found("none").is_empty());
    }
}
