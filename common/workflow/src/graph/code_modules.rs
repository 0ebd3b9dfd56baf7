//! What the code of code nodes needs of the workers: modules of packages, and the network. Whether workers have it is
//! known only by their settings, so a file alone is never wrong.

use std::collections::BTreeMap;

use crate::dsl::{Diagnostic, Severity};
use crate::graph::Graph;
use crate::nodes::NodeData;
use crate::nodes::code::modules::{Module, Reach, foreign_modules, networked_modules};
use crate::nodes::code::{CodeData, CodeLanguage};

/// The code for a module that the workers' Python does not have.
pub const MODULE_MISSING: &str = "code.module_missing";
/// The code for a call of servers where code has no network.
pub const NO_NETWORK: &str = "code.no_network";
/// The code for a name of a host that JavaScript does not have here.
pub const NO_HOST: &str = "code.no_host";
/// Most nodes that a warning lists.
const SHOWN_MAX: usize = 5;

/// What workers with some settings provide.
#[derive(Clone, Copy)]
pub struct Provided<'a> {
    /// Whether Python code can import a top-level module.
    pub module: &'a dyn Fn(&str) -> bool,
    /// Whether code may call servers by HTTP.
    pub network: bool,
}

/// One warning for each thing that the code nodes of a workflow need and the workers lack.
pub fn warnings(graph: &Graph, provided: Provided<'_>) -> Vec<Diagnostic> {
    // By code and name, with the nodes that need it.
    let mut lacks: BTreeMap<(&str, String), (Lack, Vec<&str>)> = BTreeMap::new();
    for node in &graph.nodes {
        let NodeData::Code(data) = &node.data else { continue };
        for lack in lacking(data, provided) {
            let (code, name) = lack.key();
            lacks.entry((code, name)).or_insert_with(|| (lack, Vec::new())).1.push(node.id.as_str());
        }
    }
    lacks.into_values().map(|(lack, nodes)| lack.warning(&nodes, provided.network)).collect()
}

/// Something that a node's code needs and the workers lack.
#[derive(Debug, Clone)]
enum Lack {
    Module(Module),
    Host(String),
    Network { module: &'static str, reach: Reach },
}

fn lacking(data: &CodeData, provided: Provided<'_>) -> Vec<Lack> {
    let foreign = foreign_modules(data.language, &data.code);
    if data.language == CodeLanguage::JavaScript {
        return foreign.into_iter().map(|module| Lack::Host(module.name)).collect();
    }
    let missing =
        foreign.into_iter().filter(|module| !module.is_optional && !(provided.module)(&module.name));
    let missing: Vec<Module> = missing.collect();
    let networked = networked_modules(data.language, &data.code).into_iter().filter(|found| {
        let is_reached = found.reach == Reach::Http && provided.network;
        // The warning about a missing module also names the network.
        let is_missing =
            missing.iter().any(|module| Some(module.name.as_str()) == found.name.split('.').next());
        !(is_reached || is_missing && found.reach == Reach::Http)
    });
    let networked = networked.map(|found| Lack::Network { module: found.name, reach: found.reach });
    let networked: Vec<Lack> = networked.collect();
    missing.into_iter().map(Lack::Module).chain(networked).collect()
}

impl Lack {
    fn key(&self) -> (&'static str, String) {
        match self {
            Self::Module(module) => (MODULE_MISSING, module.name.clone()),
            Self::Host(name) => (NO_HOST, name.clone()),
            Self::Network { module, .. } => (NO_NETWORK, (*module).to_owned()),
        }
    }

    fn warning(&self, nodes: &[&str], has_network: bool) -> Diagnostic {
        let by = by(nodes);
        let (message, hint) = match self {
            Self::Module(module) => {
                let package = module.package.as_deref().unwrap_or(&module.name);
                let mut hint = format!(
                    "add {package:?} to code.python.packages of the workers and run `tidemill code install` on their hosts"
                );
                let calls = networked_modules(CodeLanguage::Python, &format!("import {}", module.name));
                if !has_network && !calls.is_empty() {
                    hint.push_str("; to call servers it also needs code.network = true");
                }
                (format!("the Python of code nodes has no module {}, which is imported by {by}", module.name), hint)
            }
            Self::Host(name) => (
                format!("JavaScript of code nodes has no host, and so no {name}, which is used by {by}"),
                "write the node in Python, call servers with an http-request node, or let a dify-sandbox run the code \
                 (code.endpoint)"
                    .to_owned(),
            ),
            Self::Network { module, reach: Reach::Http } => (
                format!("code nodes have no network, and {module} is imported to call servers by {by}"),
                "set code.network = true in the settings of the workers".to_owned(),
            ),
            Self::Network { module, reach: Reach::Socket } => (
                format!("code nodes reach servers only by HTTP through a proxy, not with {module}, which is imported by {by}"),
                "let a dify-sandbox run the code (code.endpoint)".to_owned(),
            ),
        };
        let hint = Some(format!("{hint}; for `tidemill check`, name the settings with --config"));
        Diagnostic {
            severity: Severity::Warning,
            code: self.key().0,
            path: String::new(),
            line: None,
            message,
            hint,
        }
    }
}

/// `node "a"`, or `nodes "a", "b" and 3 more`.
fn by(nodes: &[&str]) -> String {
    let listed: Vec<String> = nodes.iter().take(SHOWN_MAX).map(|node| format!("{node:?}")).collect();
    let more = nodes.len() - listed.len();
    let noun = if nodes.len() == 1 { "node" } else { "nodes" };
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{noun} {}{more}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::import;

    fn graph(codes: &[(&str, &str)]) -> Graph {
        let mut nodes = vec![json!({"id": "s", "data": {"type": "start", "title": "S", "variables": []}})];
        let mut edges = Vec::new();
        for (at, (language, code)) in codes.iter().enumerate() {
            let id = format!("n{at}");
            edges.push(json!({"source": "s", "target": id}));
            nodes.push(json!({"id": id, "data": {"type": "code", "title": "C", "code_language": language, "code": code,
                "variables": [], "outputs": {}}}));
        }
        let imported = import(json!({"graph": {"nodes": nodes, "edges": edges}}).to_string().as_bytes());
        imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
    }

    fn told(codes: &[(&str, &str)], has: &[&str], network: bool) -> Vec<String> {
        let provided = Provided { module: &|module| has.contains(&module), network };
        warnings(&graph(codes), provided)
            .into_iter()
            .map(|one| format!("{}: {}", one.code, one.message))
            .collect()
    }

    #[test]
    fn each_missing_module_of_a_file_is_one_warning() {
        let codes =
            [("python3", "import requests, bs4, json"), ("python3", "def main():\n  import requests")];
        let requests = "code.module_missing: the Python of code nodes has no module requests, which is imported by nodes \"n0\", \"n1\"";
        let bs4 = "code.module_missing: the Python of code nodes has no module bs4, which is imported by node \"n0\"";
        assert_eq!(told(&codes, &[], true), [bs4, requests]);
        assert_eq!(told(&codes, &["requests"], true), [bs4]);
        assert_eq!(told(&codes, &["requests", "bs4"], true), [""; 0]);
        assert_eq!(told(&[("python3", "try: import ujson\nexcept: pass")], &[], true), [""; 0]);
        let provided = Provided { module: &|_| false, network: false };
        let hints: Vec<_> =
            warnings(&graph(&codes), provided).into_iter().filter_map(|one| one.hint).collect();
        assert!(hints[0].contains("\"beautifulsoup4\"") && !hints[0].contains("code.network"), "{hints:?}");
        assert!(hints[1].contains("add \"requests\" to code.python.packages"), "{hints:?}");
        assert!(hints[1].contains("code.network = true") && hints[1].contains("--config"), "{hints:?}");
    }

    #[test]
    fn calls_of_servers_need_the_network_and_sockets_are_never_there() {
        let urllib = [("python3", "from urllib import request")];
        let off = "code.no_network: code nodes have no network, and urllib.request is imported to call servers by node \"n0\"";
        assert_eq!(told(&urllib, &[], false), [off]);
        assert_eq!(told(&urllib, &[], true), [""; 0]);
        let mail = told(&[("python3", "import smtplib")], &[], true);
        assert!(mail[0].contains("only by HTTP") && mail[0].contains("smtplib"), "{mail:?}");
    }

    #[test]
    fn javascript_has_no_host() {
        let found = told(&[("javascript", "const a = require('axios'); fetch('x')")], &["axios"], true);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("code.no_host: ") && found[0].contains("no axios"), "{found:?}");
    }
}
