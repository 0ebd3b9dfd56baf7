//! Settings of an http-request node as users write them: one header or parameter per line, any kind of body.
//! First byte: the kind of body; then URL, parameters, headers and body, each ended by a tab.
#![no_main]

mod pool;

use libfuzzer_sys::fuzz_target;
use pool::Pool;
use serde_json::json;
use tidemill_common::dsl::Problems;
use tidemill_common::nodes::http_request::{HttpRequestData, body, draft};

const KINDS: [&str; 6] = ["none", "form-data", "x-www-form-urlencoded", "raw-text", "json", "binary"];

fuzz_target!(|bytes: &[u8]| {
    let [kind, rest @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let mut parts = text.splitn(4, '\t');
    let mut part = || parts.next().unwrap_or_default();
    let (url, params, headers, content) = (part(), part(), part(), part());
    let data = json!({
        "method": "post", "url": url, "params": params, "headers": headers,
        "authorization": {"type": "no-auth"},
        "body": {
            "type": KINDS[usize::from(*kind) % KINDS.len()],
            "data": [{"type": "text", "key": params, "value": content, "file": ["n", "v"]}],
        },
    });
    let Some(map) = data.as_object() else { return };
    if let Some(data) = HttpRequestData::parse(map, &mut Problems::new()) {
        let pool = Pool::of(json!({"a": [1, "x"], "b": "line\nbreak"}));
        let _ = draft::head(&data, &pool);
        let _ = body::content(&data, &pool);
    }
});
