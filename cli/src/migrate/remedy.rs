//! Names the setting or command that provides a requirement. Pure.

use tidemill_common::kinds::NodeKind;
use tidemill_common::nodes::tool::ProviderKind;
use tidemill_common::requirements::{ModelRole, Required, Requirement};

use super::kinds::Kind;
use super::providers::{advice, canonical, kind_and_address, short};

/// A requirement in the words of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) kind: Kind,
    /// The thing that a setting provides as a whole, such as a provider. Needs with the same kind and name are one row.
    pub(crate) name: String,
    /// The part of it, such as a model.
    pub(crate) detail: String,
    /// The setting as TOML, a command, or a sentence.
    pub(crate) remedy: String,
    /// The file of a workflow that is called as a tool, if it is known.
    pub(crate) called: Option<String>,
}

/// Describes a requirement. `file_named` finds the file whose app has a name.
pub(crate) fn describe(required: &Required, file_named: &dyn Fn(&str) -> Option<String>) -> Described {
    let described = |kind: Kind, name: &str, detail: &str, remedy: String| Described {
        kind,
        name: name.into(),
        detail: detail.into(),
        remedy,
        called: None,
    };
    match &required.what {
        Requirement::Model { provider, model, role } => {
            let remedy = provider_settings(provider);
            described(Kind::Model, &canonical(provider), &model_detail(model, *role, required), remedy)
        }
        Requirement::Profile { id } => {
            let remedy = format!("[profiles.{}]\nprovider = \"…\"\nmodel = \"…\"", key(id));
            described(Kind::Profile, id, "", remedy)
        }
        Requirement::Tool { kind, provider, name, tool, plugin } => match plugin {
            Some(plugin) => described(Kind::PluginTool, plugin, tool, install(plugin)),
            None => tool_of(*kind, (provider, name), tool, file_named),
        },
        Requirement::Strategy { provider, strategy, plugin } => {
            let by_hand = || Kind::Strategy.row().provided_by.to_owned();
            let remedy = plugin.as_deref().map_or_else(by_hand, install);
            described(Kind::Strategy, provider, strategy, remedy)
        }
        Requirement::McpServer { name, url } => {
            // An address often has a key in its path.
            let remedy = format!("[tools.mcp.{}]\nurl = \"…\"   # as in the workflow", key(name));
            described(Kind::AgentServer, name, url, remedy)
        }
        Requirement::Dataset { id } => {
            let remedy = format!(
                "[knowledge.datasets.{}]\nkind = \"external_http\"\nendpoint = \"https://…\"\nknowledge_id = \"…\"\n\
                 api_key_env = \"KNOWLEDGE_KEY\"   # if the service needs a key",
                key(id)
            );
            described(Kind::Dataset, id, "", remedy)
        }
        Requirement::Secret { name } => {
            let remedy =
                format!("write the value of {name} into environment_variables of the file, then publish it");
            described(Kind::Secret, name, "", remedy)
        }
        Requirement::Module { name, package: Some(package) } => {
            let remedy =
                format!("[code.python]\npackages = [{}]\n# then: tidemill code install", quoted(package));
            described(Kind::Module, name, "", remedy)
        }
        Requirement::Module { name, package: None } => {
            let remedy = "no setting: JavaScript has no modules and no network here; write the node in Python, or set \
                          code.endpoint to a dify-sandbox";
            described(Kind::Module, name, "JavaScript", remedy.into())
        }
        Requirement::CodeNetwork { module } => {
            described(Kind::CodeNetwork, module, "", "[code]\nnetwork = true".into())
        }
        Requirement::Host { host } => {
            described(Kind::PrivateHost, host, "", format!("[http]\nallow = [{}]", quoted(host)))
        }
        Requirement::Upload { field, required, by_url } => upload(field, *required, *by_url),
        Requirement::Trigger { kind, node, id } => trigger(*kind, node, id),
        Requirement::Feature { name: "sensitive_word_avoidance" } => {
            let remedy = "[compat]\nmoderation_left_out = true";
            described(Kind::Moderation, "sensitive_word_avoidance", "", remedy.into())
        }
        Requirement::Feature { name } => {
            described(Kind::Feature, name, "", Kind::Feature.row().provided_by.into())
        }
    }
}

fn model_detail(model: &str, role: ModelRole, required: &Required) -> String {
    let role = (role != ModelRole::Chat).then_some(role.name());
    let marks: Vec<&str> = role.into_iter().chain(required.features.iter().map(|one| one.name())).collect();
    if marks.is_empty() { model.into() } else { format!("{model} ({})", marks.join(", ")) }
}

/// The settings of a provider: its name, its kind, its address and the variable with its key.
fn provider_settings(provider: &str) -> String {
    let name = short(provider);
    let (kind, address) = kind_and_address(name);
    let advice = advice(name);
    let advice = if advice.is_empty() { String::new() } else { format!("\n# {advice}") };
    let mut settings = format!("[providers.{}]{advice}\nkind = {}", key(name), quoted(kind));
    if !address.is_empty() {
        settings.push_str(&format!("\nbase_url = {}", quoted(address)));
    }
    if kind != "ollama" {
        settings.push_str(&format!("\napi_key_env = {}", quoted(&variable(name))));
    }
    settings
}

fn tool_of(
    kind: ProviderKind,
    (provider, name): (&str, &str),
    tool: &str,
    file_named: &dyn Fn(&str) -> Option<String>,
) -> Described {
    let shown = if name.is_empty() || name == provider {
        provider.to_owned()
    } else {
        format!("{name} ({provider})")
    };
    let called = if kind == ProviderKind::Workflow { file_named(name) } else { None };
    let (kind, name, remedy) = match kind {
        ProviderKind::Api => {
            let remedy = format!(
                "[tools.api.{}]\nspec = \"/etc/tidemill/….yml\"   # the OpenAPI document, from Dify: Tools, Custom",
                key(provider)
            );
            (Kind::OpenApiTool, shown, remedy)
        }
        ProviderKind::Mcp => {
            (Kind::McpServer, shown, format!("[tools.mcp.{}]\nurl = \"https://…\"", key(provider)))
        }
        ProviderKind::Workflow => {
            let file = called.as_deref().unwrap_or("ITS_EXPORT.yml");
            (
                Kind::WorkflowTool,
                shown,
                format!("tidemill apps add {} --new-id {}", word(file), word(provider)),
            )
        }
        // A tool whose provider is not named is known by its own name only.
        ProviderKind::Any => {
            (Kind::PluginTool, tool.to_owned(), "[tools]\nendpoint = \"http://…\"".to_owned())
        }
        ProviderKind::Plugin | ProviderKind::Builtin | ProviderKind::App | ProviderKind::DatasetRetrieval => {
            (Kind::PluginTool, provider.to_owned(), "[tools]\nendpoint = \"http://…\"".to_owned())
        }
    };
    Described { kind, name, detail: tool.into(), remedy, called }
}

/// The command that installs a plugin.
fn install(plugin: &str) -> String {
    let (id, version) = plugin.split_once(':').unwrap_or((plugin, "VERSION"));
    format!("tidemill plugins add {}", word(&format!("{}_{version}.difypkg", id.replace('/', "-"))))
}

fn upload(field: &str, required: bool, by_url: bool) -> Described {
    let name = if field.is_empty() { "files of a message" } else { "fields of the form" };
    let marks = [(required, "required"), (!by_url, "by upload only")];
    let marks: Vec<&str> = marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect();
    let detail = match (field, &marks[..]) {
        ("", marks) => marks.join(", "),
        (field, []) => field.to_owned(),
        (field, marks) => format!("{field} ({})", marks.join(", ")),
    };
    Described {
        kind: Kind::Upload,
        name: name.into(),
        detail,
        remedy: Kind::Upload.row().provided_by.into(),
        called: None,
    }
}

fn trigger(kind: NodeKind, node: &str, id: &str) -> Described {
    let (name, remedy) = match kind {
        NodeKind::TriggerWebhook if !id.is_empty() => {
            ("webhook", format!("callers use the new address: URL/triggers/webhook/{id}"))
        }
        NodeKind::TriggerWebhook => {
            ("webhook", "callers use the new address, which publishing shows: URL/triggers/webhook/ID".into())
        }
        NodeKind::TriggerSchedule => {
            ("schedule", "begins when the workflow is published; end it on Dify first".into())
        }
        _ => ("plugin", format!("the host application starts runs for the event {id:?}")),
    };
    Described { kind: Kind::Trigger, name: name.into(), detail: node.into(), remedy, called: None }
}

/// The variable for the key of a provider.
fn variable(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}_API_KEY", name.chars().map(upper).collect::<String>())
}

/// A key of TOML: bare where it can be.
pub(super) fn key(text: &str) -> String {
    let is_bare =
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare { text.into() } else { quoted(text) }
}

/// A text of TOML. JSON escapes are valid there.
pub(super) fn quoted(text: &str) -> String {
    let safe: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    serde_json::Value::from(safe).to_string()
}

/// A word of a shell command.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    let safe: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", safe.replace('\'', r"'\''"))
}
