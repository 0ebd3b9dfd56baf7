//! What templates render to, compared with Jinja2 3.1.

use serde_json::{Value as Json, json};

use super::*;

pub(super) fn render(source: &str, inputs: &Json) -> Result<String, String> {
    let inputs: Vec<(String, Segment)> =
        inputs.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), Segment::infer(v.clone()))).collect();
    JinjaTemplate::new(source).render(&inputs, UndefinedNames::Empty, Some(1_000_000)).map_err(|e| e.to_string())
}

#[test]
fn zz_compare() {
    let Ok(text) = std::fs::read_to_string("/tmp/jx/cases.json") else { return };
    let cases: Vec<Json> = serde_json::from_str(&text).unwrap();
    let mut bad = 0;
    for case in cases {
        let got = render(case["t"].as_str().unwrap(), &case["i"]);
        let got = match got { Ok(t) => json!({"ok": t}), Err(e) => json!({"err": e}) };
        if got != case["e"] {
            bad += 1;
            println!("T {}\n   want {}\n   got  {}", case["t"], case["e"], got);
        }
    }
    println!("BAD {bad}");
}
