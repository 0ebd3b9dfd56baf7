//! Values of code and templates: small numbers, texts that look like numbers, large values, texts by locale.

use serde_json::json;

use super::workflow::{Sketch, choose, code, end, javascript, start, template};
use super::{Case, Desk};

/// Numbers below 1e-5 from both languages, on their way through code, a template and a condition.
fn small_numbers() -> Sketch {
    let js = "function main() { return {v: 0.0000001, l: [1e-9, 1e21]} }";
    let py = "def main(v):\n    return {\"s\": \"v \" + repr(v), \"x\": 2.5e-10}\n";
    let conditions = &[("js.v", "<", "0.000001", "number"), ("js.v", ">", "0", "number")];
    let outputs =
        &[("s", "py.s"), ("v", "js.v"), ("x", "py.x"), ("t", "shown.output"), ("small", "yes.output")];
    Sketch::workflow("start > js > py > shown > is; is[small] > yes > end; is[false] > no > end")
        .node("start", start(&[]))
        .node("js", javascript(js, &[("v", "number"), ("l", "array[number]")]))
        .node("py", code(py, &[("s", "string"), ("x", "number")], &[("v", "js.v")]))
        .node("shown", template("{{ v }} {{ l }}", &[("v", "js.v"), ("l", "js.l")]))
        .node("is", choose("small", conditions))
        .node("yes", template("small", &[]))
        .node("no", template("large", &[]))
        .node("end", end(outputs))
}

/// Texts that Python and JavaScript could read as numbers, declared as texts and within an object.
fn numeric_texts() -> Sketch {
    let py = "def main():\n    return {\"part\": \"12e+3\", \"list\": [\"5e-1\", \"1e5\"], \"o\": {\"deep\": \"7E+2\"}}\n";
    let js = "function main() { return {part: '1e-5', n: '4e+2'} }";
    let outputs =
        &[("part", "py.part"), ("list", "py.list"), ("o", "py.o"), ("js", "js.part"), ("n", "js.n")];
    Sketch::workflow("start > py > js > end")
        .node("start", start(&[]))
        .node("py", code(py, &[("part", "string"), ("list", "array[string]"), ("o", "object")], &[]))
        .node("js", javascript(js, &[("part", "string"), ("n", "number")]))
        .node("end", end(outputs))
}

/// A result of a megabyte, read by another code node.
fn large_result() -> Sketch {
    let made = "def main():\n    return {\"o\": {f\"k{i}\": \"潮\" * 30 for i in range(4000)}, \"s\": \"水\" * 390000}\n";
    let read = "def main(o, s):\n    return {\"r\": [len(o), len(s), ord(o[\"k3999\"][-1]), ord(s[-1])]}\n";
    Sketch::workflow("start > made > read > end")
        .node("start", start(&[]))
        .node("made", code(made, &[("o", "object"), ("s", "string")], &[]))
        .node("read", code(read, &[("r", "array[number]")], &[("o", "made.o"), ("s", "made.s")]))
        .node("end", end(&[("r", "read.r")]))
}

/// Numbers, dates and order of texts by locale, as Node.js writes them.
fn by_locale() -> Sketch {
    let js = "function main() { const d = new Date(Date.UTC(2026, 0, 2, 15, 4, 5)); const n = 1234567.891;
        return {r: [n.toLocaleString(), n.toLocaleString('de-DE'), d.toLocaleDateString('en-US'),
        d.toLocaleString('zh-CN', {timeZone: 'Asia/Shanghai'}), ['ä', 'z', 'a'].sort((x, y) => x.localeCompare(y)).join(''),
        n.toLocaleString('en-US', {style: 'currency', currency: 'USD'})]} }";
    Sketch::workflow("start > js > end")
        .node("start", start(&[]))
        .node("js", javascript(js, &[("r", "array[string]")]))
        .node("end", end(&[("r", "js.r")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_code_keep_their_type_and_size() {
    let desk = Desk::without_model().await;
    let small =
        json!({"s": "v 1e-07", "v": 1e-7, "x": 2.5e-10, "t": "1e-07 [1e-09, 1e+21]", "small": "small"});
    let texts =
        json!({"part": "12e+3", "list": ["5e-1", "1e5"], "o": {"deep": "7E+2"}, "js": "1e-5", "n": 400.0});
    let locale =
        json!(["1,234,567.891", "1.234.567,891", "1/2/2026", "2026/1/2 23:04:05", "aäz", "$1,234,567.89"]);
    desk.all_hold(&[
        Case::new("small numbers", &small_numbers(), json!({}), small),
        Case::new("texts that look like numbers", &numeric_texts(), json!({}), texts),
        Case::new(
            "a large result",
            &large_result(),
            json!({}),
            json!({"r": [4000, 390_000, 0x6f6e, 0x6c34]}),
        ),
        Case::new("texts by locale", &by_locale(), json!({}), json!({"r": locale})),
    ])
    .await;
    let as_dify = numeric_texts().with("tidemill", json!({"code_texts_become_numbers": true}));
    let failed = desk.run(&as_dify, json!({})).await;
    let error = failed["error"].as_str().unwrap_or_default();
    assert_eq!(
        (&failed["status"], error),
        (&json!("failed"), "Output part must be a string, got float instead."),
        "{failed:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_text_passes_whole_or_is_refused() {
    let desk = Desk::without_model().await;
    let sketch = Sketch::workflow("start > cut > end")
        .node("start", start(&[("t", "paragraph")]))
        .node("cut", template("{{ t[:9] }}", &[("t", "start.t")]))
        .node("end", end(&[("t", "start.t"), ("cut", "cut.output")]));
    let (_, app) = desk.publish(&sketch).await;
    let text = "0123456789abcdef".repeat(4 * 65_536);
    let ended = super::run(&app, json!({"t": text})).await;
    let found = (&ended["outputs"]["cut"], ended["outputs"]["t"].as_str().map(str::len));
    assert_eq!(found, (&json!("012345678"), Some(text.len())));
    assert!(ended["outputs"]["t"].as_str() == Some(&text), "not a byte is different");
    let body = json!({"inputs": {"t": text.repeat(5)}, "user": "field", "response_mode": "blocking"});
    let refused = app.post("/v1/workflows/run", &body).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (413, &json!("request_entity_too_large")),
        "{}",
        refused.text
    );
}
