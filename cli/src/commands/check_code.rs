//! The warnings of `tidemill check` about code nodes: modules and network that workers with these settings lack.

use std::path::PathBuf;

use tidemill_common::config::{Config, Sources};
use tidemill_common::graph::Graph;
use tidemill_common::graph::code_modules::{Provided, warnings};
use tidemill_common::nodes::code::CodeConfig;
use tidemill_sandbox::environment;

use crate::error::Error;
use crate::workflow_file::WorkflowFile;

/// Adds a warning to each file for each thing that its code needs and the settings do not provide.
pub(super) fn warn(files: &mut [&mut WorkflowFile], config: Option<PathBuf>) -> Result<(), Error> {
    let nothing = Provided { module: &|_| false, network: false };
    let needs = |file: &&mut WorkflowFile| {
        file.imported.graph.as_ref().is_some_and(|graph| !warnings(graph, nothing).is_empty())
    };
    // The settings are read only for a file that needs them.
    if !files.iter().any(needs) {
        return Ok(());
    }
    let config = Config::load(&Sources::of_process(config, Vec::new()));
    let config = config.map_err(|error| Error::Usage(error.to_string()))?;
    for file in files {
        if let Some(graph) = &file.imported.graph {
            file.imported.diagnostics.extend(of_graph(graph, &config.code));
        }
    }
    Ok(())
}

/// The warnings with these settings. What a dify-sandbox has is not known here.
fn of_graph(graph: &Graph, code: &CodeConfig) -> Vec<tidemill_common::dsl::Diagnostic> {
    if !code.endpoint.is_empty() {
        return Vec::new();
    }
    let module = |name: &str| environment::provides(&code.python, name);
    warnings(graph, Provided { module: &module, network: code.network })
}
