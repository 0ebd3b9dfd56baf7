//! Renders a text with references (`{{#node.name#}}`). First line: the value that they can refer to, as JSON.
#![no_main]

mod pool;

use libfuzzer_sys::fuzz_target;
use pool::Pool;
use tidemill_common::value::template::Template;

fuzz_target!(|text: &str| {
    let (value, source) = text.split_once('\n').unwrap_or(("null", text));
    let pool = Pool::of(serde_json::from_str(value).unwrap_or_else(|_| value.into()));
    let template = Template::parse(source);
    template.mentions(&mut Vec::new());
    let rendered = template.render_text(&pool);
    template.render_markdown(&pool);
    template.render_log(&pool);
    if !source.contains("{{#") && !source.contains('.') {
        assert_eq!(rendered, source, "a text without references stays as it is");
    }
});
