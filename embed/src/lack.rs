//! The node types that an engine cannot run, and why, so that a host can say so before a run fails.

use std::fmt;

use tidemill_common::need::Need;

use crate::helper::Helper;

/// A node type that cannot run in this engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The type, as in workflow files.
    pub node_type: &'static str,
    /// The language of code nodes, if only those in this one cannot run.
    pub language: Option<String>,
    /// The reason, which nodes that fail show too.
    pub reason: String,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.language {
            Some(language) => write!(f, "{} ({language}): {}", self.node_type, self.reason),
            None => write!(f, "{}: {}", self.node_type, self.reason),
        }
    }
}

/// The lacks among the needs that the worker cannot meet. Other needs, such as a provider without a key, are a matter of
/// settings, and the node that has one says so.
pub(crate) fn of(missing: &[(Need, String)], helper: &Helper) -> Vec<Lack> {
    let of_need = |(need, reason): &(Need, String)| {
        let (node_type, language) = match need {
            Need::Code { language } => ("code", Some(language.clone())),
            Need::Documents => ("document-extractor", None),
            _ => return None,
        };
        let reason = match helper {
            Helper::None(why) => format!("{reason} ({why})"),
            Helper::Running | Helper::At(_) => reason.clone(),
        };
        Some(Lack { node_type, language, reason })
    };
    missing.iter().filter_map(of_need).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needs_of_node_types_are_lacks() {
        let missing = [
            (Need::Code { language: "python3".into() }, "no Python".to_owned()),
            (Need::Variable { name: "KEY".into() }, "not set".to_owned()),
            (Need::Documents, "no helper".to_owned()),
        ];
        let found: Vec<String> = of(&missing, &Helper::Running).iter().map(Lack::to_string).collect();
        assert_eq!(found, ["code (python3): no Python", "document-extractor: no helper"]);
        let found = of(&missing, &Helper::None("not found".into()));
        assert_eq!(found[1].reason, "no helper (not found)");
    }
}
