//! Finds the tool of a node for the stages before its call, which show or fill its input.

use tidemill_common::need::Need;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::tool::ToolData;

use crate::jobs::shared::Core;
use crate::outside::tools::{Tool, ToolName};

/// The name of a node's tool.
fn name_of(data: &ToolData) -> ToolName<'_> {
    ToolName {
        kind: data.provider_type,
        provider_id: &data.provider_id,
        provider_name: &data.provider_name,
        tool: &data.tool_name,
        plugin: data.plugin_unique_identifier.as_deref(),
    }
}

/// The tool of a node, if it is found.
///
/// # Errors
/// This worker lacks its plugin, without whose declaration another input would be shown: the job may go to a worker that has it.
pub(super) async fn found_tool<'a>(
    core: &'a Core,
    data: &'a ToolData,
) -> Result<Option<Tool<'a>>, Box<NodeResult>> {
    match core.outside.tools.find(name_of(data)).await {
        Ok(tool) => Ok(Some(tool)),
        Err(error) if matches!(error.lacks.as_deref(), Some(Need::Plugin { .. })) => {
            let failure = Some(error.failure(&data.provider_name));
            Err(Box::new(NodeResult { failure, metadata: data.metadata(), ..NodeResult::default() }))
        }
        Err(_) => Ok(None),
    }
}
