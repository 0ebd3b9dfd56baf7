//! The `datasource` node: what the client has found at a source needs no work; a page of an online document and a file of an
//! online drive are read by the plugin that the node names.

use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::datasource::{DatasourceData, ERROR};
use tidemill_common::nodes::tool::ProviderKind;
use tidemill_common::value::Variables;

use super::tool::{Means, called, recalled};
use crate::outside::tools::{ToolError, ToolName};

/// Runs the node.
pub async fn run(
    data: &DatasourceData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let Some(reading) = data.reading(variables) else { return data.evaluate(variables) };
    let name = ToolName {
        kind: ProviderKind::Plugin,
        provider_id: &data.provider,
        provider_name: &data.provider,
        tool: reading.question,
        plugin: data.plugin.as_deref(),
    };
    // As for a tool, a call that has ended before is not repeated, also if the plugin is not there any more.
    let found = match means.tools.of_plugin(name).await {
        Ok(Some(tool)) => called(&tool, &reading.arguments, node, means).await,
        Ok(None) => match recalled(means).await {
            Some(found) => Ok(found),
            None => return data.evaluate(variables),
        },
        Err(error) => recalled(means).await.ok_or_else(|| failure(error)),
    };
    match found {
        Ok(found) => data.read(&reading, found, variables),
        Err(failure) => data.failed(failure, variables),
    }
}

/// The failure of a plugin, with Dify's words.
pub(super) fn failure(error: ToolError) -> NodeFailure {
    let ToolError { message, retryable, retry_after_ms, lacks, .. } = error;
    let message = format!("Failed to invoke datasource: {message}");
    NodeFailure { retryable, retry_after_ms, lacks, ..NodeFailure::new(ERROR, message) }
}
