//! The report of a few files, and its renderers.

use serde_json::{Value as Json, json};
use tidemill_common::config::Config;
use tidemill_common::graph::{Imported, import};

use super::installation::{Has, Installation};
use super::kinds::Kind;
use super::report::{Read, Report, Standing, report};
use super::{apply, html, skeleton, terminal};

fn flow(name: &str, nodes: Json) -> Imported {
    let mut all = vec![json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": []}})];
    let mut edges = Vec::new();
    let mut last = "start".to_owned();
    for (at, data) in nodes.as_array().unwrap().iter().enumerate() {
        let id = format!("n{at}");
        all.push(json!({"id": id, "data": data}));
        edges.push(json!({"source": last, "target": id}));
        last = id;
    }
    all.push(json!({"id": "end", "data": {"type": "end", "title": "End", "outputs": []}}));
    edges.push(json!({"source": last, "target": "end"}));
    let file = json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": name},
        "workflow": {"graph": {"nodes": all, "edges": edges}}});
    import(file.to_string().as_bytes())
}

fn ask(provider: &str, model: &str) -> Json {
    json!({"type": "llm", "title": "Ask", "model": {"provider": provider, "name": model, "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "x"}], "context": {"enabled": false}, "vision": {"enabled": false}})
}

fn tool(kind: &str, id: &str, name: &str) -> Json {
    json!({"type": "tool", "title": "T", "provider_type": kind, "provider_id": id, "provider_name": name, "tool_name": "t",
        "tool_label": "T", "tool_configurations": {}, "tool_parameters": {}})
}

fn template() -> Json {
    json!({"type": "template-transform", "title": "T", "template": "x", "variables": []})
}

const UUID: &str = "2ebe9c1d-46ef-4735-93f1-e901de242584";

fn files() -> Vec<(&'static str, Imported)> {
    vec![
        (
            "a.yml",
            flow("A", json!([ask("langgenius/openai/openai", "gpt-4o"), tool("workflow", UUID, "plain")])),
        ),
        ("b.yml", flow("B", json!([ask("openai", "gpt-4o-mini"), ask("openai", "gpt-4o")]))),
        ("c.yml", flow("C", json!([ask("anthropic", "claude-x"), tool("api", "pets", "Pets")]))),
        ("plain.yml", flow("Plain", json!([template()]))),
        ("broken.yml", import(b"kind: [")),
    ]
}

fn made(files: &[(&'static str, Imported)], settings: Json) -> Report {
    let config: Config = serde_json::from_value(settings).expect("these are settings");
    let mut read: Vec<Read<'_>> = files
        .iter()
        .map(|(path, imported)| Read { path: (*path).into(), imported: Ok(imported), is_converted: false })
        .collect();
    read.push(Read {
        path: "gone.yml".into(),
        imported: Err("cannot read gone.yml: no such file"),
        is_converted: false,
    });
    report(("flows".into(), "nothing".into()), &read, 3, &Installation::of_settings(&config))
}

#[test]
fn files_are_counted_by_what_they_need() {
    let files = files();
    let without = made(&files, json!({}));
    let numbers = |report: &Report| {
        let all = &report.summary;
        [all.files, all.run_as_they_are, all.need_a_setting, all.need_only_models, all.cannot_run]
    };
    assert_eq!(numbers(&without), [6, 1, 3, 1, 2]);
    let with = made(&files, json!({"providers": {"openai": {}, "anthropic": {}}}));
    assert_eq!(numbers(&with), [6, 2, 2, 0, 2]);
    let standing = |report: &Report| report.files.iter().map(|file| file.standing).collect::<Vec<_>>();
    use Standing::{CannotRun, NeedsSetting, Runs};
    assert_eq!(standing(&with), [NeedsSetting, Runs, NeedsSetting, Runs, CannotRun, CannotRun]);
}

#[test]
fn needs_are_grouped_by_kind_with_most_files_first_and_one_row_for_one_setting() {
    let report = made(&files(), json!({"tools": {"api": {"pets": {}}}}));
    let kinds: Vec<_> = report.needs.iter().map(|group| (group.kind, group.files)).collect();
    assert_eq!(kinds, [(Kind::Model, 3), (Kind::OpenApiTool, 1), (Kind::WorkflowTool, 1)]);
    let models = &report.needs[0];
    let rows: Vec<_> = models.rows.iter().map(|row| (row.name.as_str(), row.files.len())).collect();
    assert_eq!(rows, [("langgenius/openai/openai", 2), ("langgenius/anthropic/anthropic", 1)]);
    assert_eq!(models.rows[0].details, [("gpt-4o".to_owned(), 2), ("gpt-4o-mini".to_owned(), 1)]);
    assert!(models.rows[0].remedy.contains("[providers.openai]"), "{}", models.rows[0].remedy);
    assert_eq!(report.needs[1].rows[0].available, Has::Yes);
    let command = "tidemill apps add plain.yml --new-id 2ebe9c1d-46ef-4735-93f1-e901de242584";
    assert_eq!(report.needs[2].rows[0].remedy, command);
}

#[test]
fn a_workflow_that_is_called_as_a_tool_is_published_under_the_id_that_its_caller_names() {
    let ids = apply::ids(&made(&files(), json!({})), "flows");
    let files: Vec<&str> = ids.keys().map(String::as_str).collect();
    assert_eq!(files, ["a.yml", "b.yml", "c.yml", "plain.yml"]);
    assert_eq!(ids["plain.yml"], UUID);
    assert_eq!(ids["a.yml"], apply::id_of("flows", "a.yml"));
}

/// A file whose every text tries to leave its place in a page.
fn hostile() -> Imported {
    let attack = "<script>alert(1)</script>\"'&\u{1b}[2J\u{202e}";
    let mut node = ask(attack, attack);
    node["title"] = attack.into();
    flow(attack, json!([node, tool("builtin", attack, attack), tool("mcp", attack, attack)]))
}

#[test]
fn no_text_of_a_file_is_markup_or_controls_the_terminal() {
    let attack = "x<img src=x onerror=alert(1)>.yml";
    let imported = hostile();
    let broken = import(b"kind: app\napp: {mode: \"<b>\\u001b[2J\"}\n");
    let read = [
        Read { path: attack.into(), imported: Ok(&imported), is_converted: false },
        Read { path: "b".into(), imported: Ok(&broken), is_converted: false },
        Read { path: attack.into(), imported: Err("<i>\u{1b}[2J"), is_converted: false },
    ];
    let names = || ("<of>".to_owned(), "<with>".to_owned());
    let report = report(names(), &read, 0, &Installation::of_settings(&Config::default()));
    let page = html::render(&report);
    for markup in ["<script", "<img", "<b>\u{1b}", "<b> ", "<i>", "<of>", "<with>", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(markup), "{markup:?} in {page}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"), "{page}");
    assert!(!page.contains("src=\"http") && !page.contains("<link"), "the page needs nothing else");
    for text in [terminal::render(&report, true), terminal::render(&report, false), skeleton::render(&report)]
    {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn the_proposed_settings_are_valid_when_they_are_filled_in() {
    let mut files = files();
    files.push(("hostile.yml", hostile()));
    files.push(("http.yml", flow("H", json!([{"type": "http-request", "title": "H", "url": "http://10.0.0.1/\"", "method": "get",
        "headers": "", "params": "", "authorization": {"type": "no-auth"}, "body": {"type": "none", "data": []}}]))));
    // A model with two purposes, one of which needs a feature, is one table; a known model is none.
    let mut sees = ask("acme/own/own", "own-7b");
    sees["vision"] =
        json!({"enabled": true, "configs": {"variable_selector": ["sys", "files"], "detail": "high"}});
    let mut known = ask("acme/own/own", "gpt-4o");
    known["vision"] = sees["vision"].clone();
    let search = json!({"type": "knowledge-retrieval", "title": "S", "query_variable_selector": ["start", "q"],
        "dataset_ids": ["d1"], "retrieval_mode": "multiple", "multiple_retrieval_config": {"top_k": 4,
        "reranking_enable": true, "reranking_mode": "reranking_model",
        "reranking_model": {"provider": "acme/own/own", "model": "own-7b"}}});
    let mut structured = sees.clone();
    structured["structured_output_enabled"] = true.into();
    structured["structured_output"] = json!({"schema": {"type": "object", "properties": {}}});
    files.push(("two.yml", flow("Two", json!([sees, known, search]))));
    files.push(("other.yml", flow("Other", json!([structured]))));
    let text = skeleton::render(&made(&files, json!({})));
    assert_eq!(text.matches("[providers.own.models.own-7b]").count(), 1, "{text}");
    assert!(!text.contains("models.gpt-4o"), "{text}");
    let is_setting = |line: &&str| line.starts_with('[') || line.contains(" = ");
    let filled: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# ")).filter(is_setting).collect();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("tidemill.toml");
    std::fs::write(&path, filled.join("\n")).expect("writes");
    let sources = tidemill_common::config::Sources { file: Some(path.clone()), ..Default::default() };
    let config = Config::load(&sources).unwrap_or_else(|error| panic!("{error}\n{}", filled.join("\n")));
    assert!(config.providers.contains_key("anthropic") && config.tools.api.contains_key("pets"));
    assert_eq!(config.http.allow, ["10.0.0.1"]);
    assert!(config.knowledge.names().any(|name| name == "d1"), "{text}");
    assert!(
        skeleton::not_filled_in(&filled.join("\n")).is_some() && skeleton::not_filled_in(&text).is_none()
    );
    std::fs::write(&path, &text).expect("writes");
    let mut commented = Config::load(&sources).expect("comments are valid");
    commented.code.python.folder = Config::default().code.python.folder.clone();
    assert_eq!(commented, Config::default());
}

#[test]
fn the_terminal_shows_the_numbers_first_and_each_missing_setting_once() {
    let shown = terminal::render(&made(&files(), json!({"providers": {"anthropic": {}}})), false);
    let expected = "6 workflow files in flows\n\n     1  run as they are\n     3  need something first (1 of them only a provider of models)\n     2  cannot run\n";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("3 other files passed over: not a workflow"), "{shown}");
    assert!(shown.contains("     2  langgenius/openai/openai  gpt-4o, gpt-4o-mini\n"), "{shown}");
    assert!(shown.contains("THERE ALREADY\n  Models: langgenius/anthropic/anthropic\n"), "{shown}");
    assert!(shown.contains("gone.yml"), "{shown}");
}
