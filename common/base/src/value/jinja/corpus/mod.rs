//! Compares our results with Jinja2's for about a thousand templates. The JSON files here have the recorded
//! results (`record.py` records them); `accepted.json` lists the templates that may differ, with the reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::{JinjaTemplate, UndefinedNames};
use crate::value::Segment;

#[test]
fn templates_render_as_with_jinja2() {
    let inputs = inputs();
    let mut accepted = accepted();
    let mut differences = Vec::new();
    let mut count = 0;
    for (file, case) in cases() {
        count += 1;
        let source = case["template"].as_str().expect("a template");
        let found = differences_of(source, &case, &inputs);
        if !found.is_empty() && !accepted.remove(source) {
            differences.push(format!("{file}: {source:?}{found}"));
        }
    }
    let shown = differences.join("\n");
    assert!(shown.is_empty(), "{} of {count} templates differ:\n{shown}", differences.len());
    assert!(accepted.is_empty(), "these do not differ any more, or are no cases: {accepted:#?}");
}

/// Returns the differences from the recorded result, in both modes; empty when there are none.
fn differences_of(source: &str, case: &Json, inputs: &[(String, Segment)]) -> String {
    let strict = case.get("strict").unwrap_or(case);
    let template = JinjaTemplate::new(source);
    let mut out = String::new();
    for (undefined, recorded) in [(UndefinedNames::Empty, case), (UndefinedNames::Strict, strict)] {
        let (field, rendered) = match template.render(inputs, undefined, Some(1_000_000)) {
            Ok(text) => ("text", text),
            Err(error) => ("error", error.to_string()),
        };
        if recorded.get(field) != Some(&json!(rendered)) {
            let (wanted, text) = ["text", "error"]
                .map(|f| (f, &recorded[f]))
                .into_iter()
                .find(|(_, t)| !t.is_null())
                .expect("either");
            out += &format!(
                "\n  {undefined:?}\n    jinja2   {wanted} {text}\n    tidemill {field} {rendered:?}"
            );
        }
    }
    out
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/value/jinja/corpus")
}

fn read(name: &str) -> Json {
    let text = std::fs::read_to_string(directory().join(name)).expect("a file of the corpus");
    serde_json::from_str(&text).expect("well-formed JSON")
}

fn inputs() -> Vec<(String, Segment)> {
    let inputs = read("inputs.json");
    inputs.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), Segment::infer(v.clone()))).collect()
}

/// Returns every case with the name of its file.
fn cases() -> Vec<(String, Json)> {
    let files = std::fs::read_dir(directory()).expect("the corpus");
    let mut names: Vec<String> =
        files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.retain(|name| name.ends_with(".json") && name != "inputs.json" && name != "accepted.json");
    let of_file = |name: String| {
        let cases = read(&name).as_array().expect("a list").clone();
        cases.into_iter().map(move |case| (name.clone(), case))
    };
    names.into_iter().flat_map(of_file).collect()
}

/// Returns the templates that may differ, from lists with a reason each.
fn accepted() -> BTreeSet<String> {
    let list = read("accepted.json");
    let mut accepted = BTreeSet::new();
    for group in list.as_array().expect("a list") {
        assert!(group["why"].as_str().is_some_and(|why| !why.is_empty()), "each has a reason: {group}");
        for template in group["templates"].as_array().expect("a list") {
            assert!(accepted.insert(template.as_str().expect("a text").to_string()), "twice: {template}");
        }
    }
    accepted
}
