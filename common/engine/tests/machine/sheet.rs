//! Short workflow files, for nodes that drawings do not have: containers, forms, assigners. A line is a node (its id,
//! its type and the rest of its data), a variable of the conversation or the environment, or a chain of edges:
//!
//! ```text
//! conversation c, value_type: string, value: ''
//! it iteration iterator_selector: [s, l], output_selector: [t, output]
//! it/t text template: '{{ x }}', variables: [{variable: x, value_selector: [it, item]}]
//! it/k job                 in the iteration, and runs on a worker
//! s > it > e               edges; `g:false > b` names the handle
//! its > t > k              the start node of the container `it` is `its`
//! ```
//!
//! The start node `s` always exists. Types have Dify's names; the types of drawings are also known.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Makes the workflow file.
pub(super) fn sheet(text: &str) -> String {
    let (mut nodes, mut edges) = (String::new(), String::new());
    let (mut conversation, mut environment) = (String::new(), String::new());
    let mut containers: BTreeMap<&str, (&str, Option<&str>)> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "conversation" => writeln!(conversation, "  - {{name: {rest}}}").unwrap(),
            "environment" => writeln!(environment, "  - {{name: {rest}}}").unwrap(),
            _ if rest.starts_with("> ") => chain(line, &mut edges),
            _ => node(first, rest, &mut containers, &mut nodes),
        }
    }
    format!(
        "kind: app\nversion: 0.6.0\napp: {{mode: advanced-chat, name: t}}\nworkflow:\n  conversation_variables:\n\
         {conversation}  environment_variables:\n{environment}  graph:\n    nodes:\n    \
         - {{id: s, data: {{type: start, title: s, variables: []}}}}\n{nodes}    edges:\n{edges}"
    )
}

fn chain(line: &str, edges: &mut String) {
    let stops: Vec<(&str, &str)> = line
        .split(" > ")
        .map(|stop| stop.trim().split_once(':').unwrap_or((stop.trim(), "source")))
        .collect();
    for pair in stops.windows(2) {
        let ((source, handle), (target, _)) = (pair[0], pair[1]);
        writeln!(edges, "    - {{source: {source}, sourceHandle: {handle:?}, target: {target}}}").unwrap();
    }
}

fn node<'a>(
    place: &'a str,
    rest: &'a str,
    containers: &mut BTreeMap<&'a str, (&'a str, Option<&'a str>)>,
    nodes: &mut String,
) {
    let (parent, id) = place.split_once('/').map_or((None, place), |(parent, id)| (Some(parent), id));
    let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut data = match kind {
        "job" => {
            "type: template-transform, template: x, variables: [], tidemill: {runs_on: worker}".to_string()
        }
        "text" => "type: template-transform".to_string(),
        "llm" => "type: llm, prompt_template: [{role: user, text: hi}], context: {enabled: false}, \
                  model: {provider: p, name: m, mode: chat, completion_params: {}}"
            .to_string(),
        _ => format!("type: {kind}"),
    };
    // A node is part of the innermost loop around it.
    let mut around = parent;
    while let Some(container) = around {
        let (kind, outer) =
            containers.get(container).copied().expect("a container comes before its children");
        if kind == "loop" {
            write!(data, ", loop_id: {container}").unwrap();
            break;
        }
        around = outer;
    }
    let inside =
        |parent: Option<&str>| parent.map(|parent| format!("parentId: {parent}, ")).unwrap_or_default();
    let is_container = kind == "iteration" || kind == "loop";
    if is_container {
        containers.insert(id, (kind, parent));
        write!(data, ", start_node_id: {id}s").unwrap();
    }
    let rest = if rest.is_empty() { String::new() } else { format!(", {rest}") };
    writeln!(nodes, "    - {{id: {id}, {}data: {{{data}, title: {id}{rest}}}}}", inside(parent)).unwrap();
    if is_container {
        writeln!(nodes, "    - {{id: {id}s, {}data: {{type: {kind}-start, title: ''}}}}", inside(Some(id)))
            .unwrap();
    }
}
