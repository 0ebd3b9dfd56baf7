//! What the test programs of this crate share. They are two, because one measures its own memory.

/// A workflow that greets by a template.
pub(crate) const GREET: &str = "
app: {mode: workflow, name: Greet}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: [{variable: name, label: Name, type: text-input, required: true}]}}
    - id: greet
      data: {type: template-transform, title: Greet, template: 'Good morning, {{ name }}', variables: [{variable: name, value_selector: [start, name]}]}
    - {id: end, data: {type: end, title: End, outputs: [{variable: text, value_selector: [greet, output]}]}}
    edges: [{source: start, target: greet}, {source: greet, target: end}]
";

/// A workflow that asks for a number.
pub(crate) const ASK: &str = "
app: {mode: workflow, name: Ask}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: ask
      data: {type: user-interaction, title: Ask, interaction_type: ask_for_input, show_message: How many?, input_schema: {type: integer}}
    - {id: end, data: {type: end, title: End, outputs: [{variable: given, value_selector: [ask, content]}]}}
    edges: [{source: start, target: ask}, {source: ask, target: end}]
";

/// The threads of this process that belong to engines.
pub(crate) fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| ["shards", "leases", "heartbeat"].contains(&name.trim())).count()
}
