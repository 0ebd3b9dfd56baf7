//! Compares the expected result with the observed one: one line for each field that differs.

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::observed::Observed;

/// Differences of a run that was accepted. An unknown field counts as a difference, so that nothing is ignored.
pub(crate) fn differences(expected: &Json, seen: &Observed) -> Vec<String> {
    let mut found = Vec::new();
    for (field, wanted) in expected.as_object().into_iter().flatten() {
        let chunks = || seen.chunks();
        match field.as_str() {
            // `drop` is only for the recorder; `error_code` is compared for refused workflows only.
            "drop" | "error_code" => {}
            "status" => same(&mut found, field, wanted, &seen.field("status")),
            "outputs" => same(&mut found, field, wanted, &seen.field("outputs")),
            "answer" => same(&mut found, field, wanted, &seen.answer()),
            "stream" => same(&mut found, field, wanted, &json!(chunks().concat())),
            "chunks" => same(&mut found, field, wanted, &json!(chunks())),
            "reasoning_stream" => same(&mut found, field, wanted, &json!(seen.reasoning())),
            "error_contains" => contains(&mut found, wanted, seen.error()),
            "exceptions_count" => same(&mut found, field, wanted, &seen.field("exceptions_count")),
            "total_tokens" => same(&mut found, field, wanted, &seen.field("total_tokens")),
            "steps" => same(&mut found, field, wanted, &seen.field("total_steps")),
            "node_status" => each(&mut found, field, wanted, &seen.node_status()),
            "node_runs" => each(&mut found, field, wanted, &seen.node_runs()),
            "retries" => same(&mut found, field, wanted, &seen.retries()),
            "conversation" => each(&mut found, field, wanted, &seen.field("conversation")),
            "events" => same(&mut found, field, wanted, &json!(seen.event_names())),
            "pause" => same(&mut found, field, wanted, &seen.pause()),
            "forms" => same(&mut found, field, wanted, &seen.forms()),
            "order" => order(&mut found, wanted, seen),
            "process_data" => process_data(&mut found, wanted, seen),
            unknown => found.push(format!("{unknown}: this program does not know this field")),
        }
    }
    // When a run fails unexpectedly, its error explains more than the other differences.
    if !found.is_empty() && !seen.error().is_empty() && expected.get("error_contains").is_none() {
        found.push(format!("the run's error: {}", seen.error()));
    }
    found
}

/// Differences of a workflow that must be refused: for its own error, and not because something else is missing.
pub(crate) fn refusal_differences(expected: &Json, status: u16, body: &Json) -> Vec<String> {
    if status != 422 {
        return vec![format!(
            "status: want invalid, the submission was answered with {status} {}",
            body["code"]
        )];
    }
    let of_errors = |d: &&Json| d["severity"] == "error";
    let errors: Vec<&Json> = body["diagnostics"].as_array().into_iter().flatten().filter(of_errors).collect();
    let code = expected["error_code"].as_str();
    let of_code = |d: &&&Json| code.is_none() || d["code"].as_str() == code;
    let own: Vec<&Json> = errors.iter().filter(of_code).copied().collect();
    if own.is_empty() {
        let codes: Vec<String> = errors.iter().map(|d| format!("{} {}", d["code"], d["message"])).collect();
        return vec![format!("error_code: want {}, have {}", expected["error_code"], codes.join(", "))];
    }
    let mut found = Vec::new();
    let messages: Vec<&str> = own.iter().filter_map(|d| d["message"].as_str()).collect();
    if let Some(wanted) = expected.get("error_contains") {
        contains(&mut found, wanted, &messages.join("\n"));
    }
    let looked_at = ["status", "error_code", "error_contains"];
    let fields = expected.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    found.extend(
        fields.filter(|f| !looked_at.contains(f)).map(|f| format!("{f}: unknown for a refused workflow")),
    );
    found
}

fn same(found: &mut Vec<String>, field: &str, wanted: &Json, have: &Json) {
    if !equal(wanted, have) {
        found.push(difference(field, wanted, have));
    }
}

/// Compares the expected members; others may exist.
fn each(found: &mut Vec<String>, field: &str, wanted: &Json, have: &Json) {
    for (key, wanted) in wanted.as_object().into_iter().flatten() {
        same(found, &format!("{field}.{key}"), wanted, &have[key.as_str()]);
    }
}

fn contains(found: &mut Vec<String>, wanted: &Json, have: &str) {
    let parts = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
    for part in parts.iter().filter_map(Json::as_str).filter(|part| !have.contains(part)) {
        found.push(format!("error_contains: want {part:?} in {have:?}"));
    }
}

fn order(found: &mut Vec<String>, wanted: &Json, seen: &Observed) {
    for pair in wanted.as_array().into_iter().flatten() {
        if let (Some(first), Some(second)) = (pair[0].as_str(), pair[1].as_str())
            && !seen.in_order(first, second)
        {
            found.push(format!("order: {first} did not finish before {second} started"));
        }
    }
}

fn process_data(found: &mut Vec<String>, wanted: &Json, seen: &Observed) {
    for (node, entries) in wanted.as_object().into_iter().flatten() {
        for (key, wanted) in entries.as_object().into_iter().flatten() {
            let have = seen.process_data(node, key).cloned().unwrap_or_default();
            same(found, &format!("process_data.{node}.{key}"), wanted, &have);
        }
    }
}

/// Describes the first difference between two values, as a path.
fn difference(path: &str, wanted: &Json, have: &Json) -> String {
    match (wanted, have) {
        (Json::Object(w), Json::Object(h)) if !w.contains_key("$sha256") => {
            let keys = w.keys().chain(h.keys().filter(|key| !w.contains_key(*key)));
            let mut parts = keys.filter_map(|key| match (w.get(key), h.get(key)) {
                (Some(w), Some(h)) if equal(w, h) => None,
                (Some(w), Some(h)) => Some(difference(&format!("{path}.{key}"), w, h)),
                (Some(w), None) => Some(format!("{path}.{key}: want {w}, have nothing")),
                (None, h) => Some(format!("{path}.{key}: want nothing, have {}", h.unwrap_or(&Json::Null))),
            });
            parts.by_ref().take(3).collect::<Vec<_>>().join("; ")
        }
        (Json::Array(w), Json::Array(h)) => {
            let at = w.iter().zip(h).position(|(w, h)| !equal(w, h)).unwrap_or(w.len().min(h.len()));
            let show = |list: &[Json]| list.get(at).map_or_else(|| "the end".into(), Json::to_string);
            format!("{path}[{at}]: want {}, have {}", show(w), show(h))
        }
        _ => format!("{path}: want {wanted}, have {have}"),
    }
}

/// Compares numbers by value, and a digest with the text that it stands for.
fn equal(wanted: &Json, have: &Json) -> bool {
    match (wanted, have) {
        (Json::Number(w), Json::Number(h)) => {
            w == h || w.as_f64() == h.as_f64() && (w.is_f64() || h.is_f64())
        }
        (Json::Object(w), Json::String(text)) if w.contains_key("$sha256") => {
            let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
            w["$sha256"] == digest && w.get("$length").is_none_or(|n| *n == json!(text.chars().count()))
        }
        // Each system has its own reference to the content of a file; the cases list the other members.
        (Json::Object(w), Json::Object(h)) if w.contains_key("dify_model_identity") => {
            w.iter().all(|(key, w)| h.get(key).is_some_and(|h| equal(w, h)))
        }
        (Json::Object(w), Json::Object(h)) => {
            w.len() == h.len() && w.iter().all(|(key, w)| h.get(key).is_some_and(|h| equal(w, h)))
        }
        (Json::Array(w), Json::Array(h)) => w.len() == h.len() && w.iter().zip(h).all(|(w, h)| equal(w, h)),
        (w, h) => w == h,
    }
}
