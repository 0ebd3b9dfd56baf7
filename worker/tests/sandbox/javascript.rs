//! Tests of JavaScript in its confined helper.

use super::*;

async fn javascript(sandbox: &BuiltIn, code: &str) -> Result<Json, String> {
    returns(sandbox, CodeLanguage::JavaScript, code, json!({"n": 7, "t": "日本 😀"})).await
}

#[tokio::test]
async fn main_gets_one_object_and_finds_no_host() {
    let sandbox = sandbox(&CodeConfig::default());
    let code = "const main = ({n, t}) => ({n: n / 2, t, l: [...t].length})";
    assert_eq!(javascript(&sandbox, code).await, Ok(json!({"n": 3.5, "t": "日本 😀", "l": 4})));
    let names = "require process fetch Buffer setTimeout setInterval XMLHttpRequest WebSocket Worker module exports std os scriptArgs URL TextEncoder crypto";
    let code = format!(
        "function main() {{ return {{found: '{names}'.split(' ').filter((name) => name in globalThis)}} }}"
    );
    assert_eq!(javascript(&sandbox, &code).await, Ok(json!({"found": []})));
    for (code, wanted) in [
        ("function main() { throw new Error('bang') }", "Error: bang\n    at main (code.js:1"),
        ("function main() { return import('fs') }", "Error"),
        ("import fs from 'fs'; function main() {}", "SyntaxError"),
    ] {
        let error = javascript(&sandbox, code).await.map_or_else(|error| error, |value| value.to_string());
        assert!(error.contains(wanted) || error == "{}", "{code}: {error}");
    }
}

#[tokio::test]
async fn hostile_code_ends_and_leaves_nothing_to_the_next() {
    let sandbox = sandbox(&CodeConfig {
        concurrency: 1,
        memory_bytes_max: 64 << 20,
        output_bytes_max: 1 << 20,
        ..HASTY.clone()
    });
    for (code, wanted) in [
        ("function main() { while (true) {} }", "error: timeout"),
        ("function main() { while (true) { try { main() } catch {} } }", "error: timeout"),
        ("function main() { /(a+)+b/.exec('a'.repeat(64)) }", ""),
        ("async function main() { while (true) await null }", "error: timeout"),
        (
            "function main() { const all = []; while (true) all.push('x'.repeat(1e6) + all.length) }",
            "out of memory",
        ),
        ("function main() { return {b: new ArrayBuffer(1e10)} }", "rror"),
        ("function main() { while (true) console.log('x'.repeat(1e5)) }", "printed more than 1048576 bytes"),
        ("function main() { return {r: 'x'.repeat(2e6)} }", "printed more than 1048576 bytes"),
        (
            "Object.prototype.left = 1; globalThis.left = 1; JSON.parse = null; function main() {}",
            "TypeError",
        ),
    ] {
        let error = javascript(&sandbox, code).await.err().unwrap_or_default();
        assert!(error.contains(wanted), "{code}: {error}");
        let after =
            javascript(&sandbox, "function main({n}) { return {n, left: [typeof left, typeof ({}).left]} }")
                .await;
        assert_eq!(after, Ok(json!({"n": 7, "left": ["undefined", "undefined"]})), "after {code}");
    }
}
