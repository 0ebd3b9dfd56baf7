//! What Dify's editor changes in an older file when it opens it. Dify's engine alone does not read these forms, but
//! every workflow that was saved on Dify went through the editor, so a file runs there and must run here.
//!
//! The setting `compat.editor_migrations` switches these rewrites off together. Two changes of the editor are left out,
//! because Dify's server does not make them: an http-request node without `retry_config` gets no tries, and an edge of
//! a cycle is refused and not dropped.

mod agent_version;
pub(super) mod container_start;
mod tool_options;

use super::{Form, Part};

/// The rewrites, in the order of their application.
pub(super) const MIGRATIONS: &[Form] = &[
    Form { name: "container-start", rewrite: container_start::rewrite, part: Part::Graph },
    Form { name: "tool-options", rewrite: tool_options::rewrite, part: Part::NodeData },
    Form { name: "agent-version", rewrite: agent_version::rewrite, part: Part::NodeData },
];

#[cfg(test)]
mod tests;
