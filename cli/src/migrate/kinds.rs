//! The kinds of needs, in one table: the order and the words of all reports.

use serde::Serialize;

/// A kind of need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Model,
    Profile,
    PluginTool,
    OpenApiTool,
    McpServer,
    WorkflowTool,
    Strategy,
    Dataset,
    Secret,
    Module,
    CodeNetwork,
    PrivateHost,
    Moderation,
    AgentServer,
    Upload,
    Trigger,
    Feature,
}

/// A row of the table.
pub(crate) struct KindRow {
    pub(crate) kind: Kind,
    /// The heading of its table.
    pub(crate) title: &'static str,
    /// The heading of the first column: what a row is about.
    pub(crate) name: &'static str,
    /// What provides needs of this kind, in general.
    pub(crate) provided_by: &'static str,
    /// True when a workflow runs without it, only differently: nothing has to be set.
    pub(crate) is_note: bool,
}

macro_rules! kinds {
    ($($kind:ident $title:literal $name:literal $is_note:literal $provided_by:literal;)*) => {
        /// All kinds, in the order of the reports.
        pub(crate) const KINDS: &[KindRow] = &[$(KindRow {
            kind: Kind::$kind, title: $title, name: $name, provided_by: $provided_by, is_note: $is_note,
        },)*];
    };
}

kinds! {
    Model "Models" "provider" false "[providers.NAME] in the workers' settings, or `tidemill providers add NAME`";
    Profile "Profiles" "profile" false "[profiles.ID] in the workers' settings, or `tidemill profiles add ID`";
    PluginTool "Tools of plugins" "provider" false "`tidemill plugins add FILE` installs a plugin for all workers (docs/plugins.md); or tools.endpoint: a service of yours that runs them";
    OpenApiTool "OpenAPI tools" "provider" false "[tools.api.\"ID\"] with the OpenAPI document";
    McpServer "MCP servers" "server" false "[tools.mcp.\"ID\"] with the server's address";
    WorkflowTool "Workflows that are called as tools" "workflow" false "publish the called workflow under the id that the caller names";
    Strategy "Agent strategies of other plugins" "strategy" false "`tidemill plugins add FILE` installs a plugin for all workers (docs/plugins.md); or choose function_calling or ReAct of langgenius/agent in the workflow";
    Dataset "Datasets" "dataset" false "[knowledge.datasets.\"ID\"], or `tidemill knowledge create ID`, then `tidemill knowledge add ID FILES`";
    Secret "Secrets that the export left out" "secret" false "write the value into environment_variables of the file, then publish it";
    Module "Modules of code nodes" "module" false "[code.python] packages, then `tidemill code install` on each host of a worker; or a dify-sandbox that has them: code.endpoint";
    CodeNetwork "Code that calls servers" "module" false "[code] network, or a dify-sandbox with network: code.endpoint";
    PrivateHost "Private hosts" "host" false "http.allow";
    Moderation "Moderation" "feature" false "compat.moderation_left_out = true runs these workflows without it";
    AgentServer "MCP servers that agents name" "server" true "called at their addresses; [tools.mcp.\"NAME\"] gives a key or another address";
    Upload "Files that a run takes" "field" true "clients upload them (POST /api/v1/files) or give their URLs";
    Trigger "Triggers" "trigger" true "new addresses after publishing: `tidemill triggers ls`";
    Feature "Features that are not served" "feature" true "the workflow runs without them";
}

impl Kind {
    /// The row of the kind. The table has every kind; a test checks it.
    pub(crate) fn row(self) -> &'static KindRow {
        KINDS.iter().find(|row| row.kind == self).unwrap_or(&KINDS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row_in_the_order_of_the_kinds() {
        assert!(KINDS.iter().all(|row| row.kind.row().title == row.title));
        assert!(KINDS.is_sorted_by_key(|row| row.kind));
        assert_eq!(KINDS.last().map(|row| row.kind as usize + 1), Some(KINDS.len()));
    }
}
