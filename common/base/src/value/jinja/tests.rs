//! Tests of typical templates, and of templates that must not do harm. The comparison with Jinja2 is in
//! `corpus`.

use serde_json::{Value as Json, json};

use super::*;

fn render_as(source: &str, inputs: &Json, undefined: UndefinedNames) -> Result<String, String> {
    let inputs: Vec<(String, Segment)> = inputs
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.clone(), Segment::infer(v.clone())))
        .collect();
    JinjaTemplate::new(source).render(&inputs, undefined, Some(1_000_000)).map_err(|error| error.to_string())
}
fn render(source: &str, inputs: &Json) -> Result<String, String> {
    render_as(source, inputs, UndefinedNames::Empty)
}

#[test]
fn values_print_as_python_prints_them() {
    let inputs = json!({
        "huge": 1e22, "tiny": 1e-7, "whole": 3.0, "o": {"k": "vé", "n": null, "t": true, "l": [1, 2.0]},
        "mixed": [1, "x", null, [2], {"d": 3}], "texts": ["a", "ü'"], "none": null,
    });
    let source = "{{ huge }} {{ tiny }} {{ whole }} {{ o }} {{ mixed }} {{ texts }} {{ none }}";
    let text = "1e+22 1e-07 3.0 {'k': 'vé', 'n': None, 't': True, 'l': [1, 2.0]} [1, 'x', None, [2], {'d': 3}] ['a', \"ü'\"] None";
    assert_eq!(render(source, &inputs), Ok(text.into()));
}

#[test]
fn lines_end_where_python_ends_them() {
    let inputs = json!({"t": "a\r\nb\r\n", "u": "x\u{2028}y"});
    for (source, text) in [
        ("{{ t | indent(2) }}|", "a\n  b\n|"),
        ("{{ u | indent(1, true) }}", " x\n y"),
        ("{{ t | wordwrap(9) }}", "a\nb"),
        ("{{ t.splitlines() }}", "['a', 'b']"),
        ("{{ t.splitlines(true) }}", "['a\\r\\n', 'b\\r\\n']"),
        ("{{ u.splitlines(keepends=true) | length }}", "2"),
        ("{{ '\u{7f}' | tojson }}", "\"\\u007f\""),
    ] {
        assert_eq!(render(source, &inputs), Ok(text.into()), "{source}");
    }
}

#[test]
fn undefined_names_are_nothing_or_an_error() {
    let inputs = json!({"o": {"k": 1}, "l": [1]});
    for (source, empty, strict) in [
        ("[{{ x }}]", Ok("[]"), Err("'x' is undefined")),
        ("[{{ o.y }}]", Ok("[]"), Err("'dict object' has no attribute 'y'")),
        ("[{{ o['y'] }}]", Ok("[]"), Err("'dict object' has no attribute 'y'")),
        ("{{ l[5] }}", Ok(""), Err("list object has no element 5")),
        ("{{ x | upper }}", Ok(""), Err("'x' is undefined")),
        ("{{ x | e }}{{ x | title }}{{ x | join }}", Ok(""), Err("'x' is undefined")),
        ("{{ x ~ 'a' }}", Ok("a"), Err("'x' is undefined")),
        ("{% if x %}{% endif %}", Ok(""), Err("'x' is undefined")),
        ("{% for y in x %}{% endfor %}", Ok(""), Err("'x' is undefined")),
        ("{{ x == 1 }}", Ok("False"), Err("'x' is undefined")),
        ("{{ x.y }}", Err("'x' is undefined"), Err("'x' is undefined")),
        ("{{ x + 1 }}", Err("'x' is undefined"), Err("'x' is undefined")),
        ("{{ o.y.z }}", Err("'dict object' has no attribute 'y'"), Err("'dict object' has no attribute 'y'")),
        ("{{ x | default('d') }}{{ x is defined }}", Ok("dFalse"), Ok("dFalse")),
        ("{{ 'no' if not o }}", Ok(""), Ok("")),
    ] {
        let owned = |expected: Result<&str, &str>| expected.map(String::from).map_err(String::from);
        assert_eq!(render_as(source, &inputs, UndefinedNames::Empty), owned(empty), "{source}");
        assert_eq!(render_as(source, &inputs, UndefinedNames::Strict), owned(strict), "{source}");
    }
}

#[test]
fn a_report_of_rows_renders_as_its_author_means_it() {
    let inputs = json!({"rows": [{"name": "nail", "qty": 2}, {"name": "SAW", "qty": 0}], "price": 2.375});
    let source = "{% for row in rows -%}\n{{ loop.index }}/{{ loop.length }} {{ row.name | title }}\
                  {% if row.qty > 1 %} x{{ row.qty }}{% else %} none{% endif %}{% if not loop.last %};{% endif %}\n\
                  {% else %}empty\n{%- endfor %}\
                  {% set ns = namespace(total=0) %}{% for r in rows %}{% set ns.total = ns.total + r.qty %}{% endfor %}\
                  {{ ns.total }} {{ price * 2 }} {{ price | round }} {{ price | round(1) }} {{ '%.3f' | format(price) }} \
                  {{ rows | map(attribute='name') | join('+') }} {{ rows[0] | tojson }}";
    let text = "1/2 Nail x2;\n2/2 Saw none\n2 4.75 2.0 2.4 2.375 nail+SAW {\"name\": \"nail\", \"qty\": 2}";
    assert_eq!(render(source, &inputs), Ok(text.into()));
}

#[test]
fn nothing_a_template_does_takes_the_process_down() {
    let many = "{% for i in range(90000) %}";
    let chain = |step: &str| format!("{{{{ l{} }}}}", step.repeat(100_000));
    for source in [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_string(),
        "{% for r in [1] recursive %}{{ loop([1]) }}{% endfor %}".into(),
        "{% set ns = namespace(a='ab') %}".to_string() + many + "{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{% set ns = namespace(a='ab') %}".to_string() + many + "{% set ns.a = ns.a + ns.a %}{% endfor %}",
        "{% set ns = namespace(a='ab') %}".to_string()
            + many
            + "{% set x %}{{ ns.a }}{{ ns.a }}{% endset %}{% set ns.a = x %}{% endfor %}",
        "{% set ns = namespace(a=[1]) %}".to_string() + many + "{% set ns.a = ns.a * 2 %}{% endfor %}",
        "{% set ns = namespace(a=[]) %}".to_string() + many + "{% set ns.a = [ns.a] %}{% endfor %}",
        "{% set ns = namespace(a=[1]) %}".to_string() + many + "{% set ns.a = cycler(ns.a) %}{% endfor %}",
        "{% set ns = namespace(a=[1]) %}".to_string()
            + many
            + "{% set ns.a = {'a': ns.a} | items %}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}".into(),
        "{% set a = [] %}{% set _ = a.append(a) %}{{ a }}".into(),
        "{% set a = [] %}{% set b = [a] %}{% set _ = a.append(b) %}{{ a }}".into(),
        "{% set d = {} %}{% set _ = d.update(x=d) %}{{ d }}".into(),
        "{% set a = [] %}{% set ns = namespace(a=a) %}{% set _ = a.append(ns) %}{{ a }}".into(),
        "{{ 'a' * 10000000000 }}".into(),
        "{{ [0] * 10000000000 }}".into(),
        "{{ '%1000000000d' % 1 }}".into(),
        "{{ 'a' | center(10000000000) }}".into(),
        "{{ 'a\nb' | indent(10000000000) }}".into(),
        "{{ 'a'.ljust(10000000000) }}".into(),
        "{{ '{:>1000000000}'.format(1) }}".into(),
        "{{ 2 ** 100000 ** 100000 }}".into(),
        "{{ range(10000000000) | list }}".into(),
        chain("|list"),
        chain(".x"),
        chain(" and l"),
        chain(" ~ l"),
        chain("[0]"),
        format!("{{{{ {}1 }}}}", "(".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(100_000)),
        "{% if a %}".repeat(100_000),
        "{% for a in b %}".repeat(100_000),
    ] {
        let shown: String = source.chars().take(120).collect();
        assert!(render(&source, &json!({"l": [1]})).is_err(), "{shown}");
    }
}

#[test]
fn running_out_of_fuel_differs_from_a_failure() {
    let template = JinjaTemplate::new("{% for i in range(1000) %}{{ i }}{% endfor %}");
    assert_eq!(template.render(&[], UndefinedNames::Empty, Some(100)), Err(JinjaError::OutOfFuel));
    assert!(template.render(&[], UndefinedNames::Empty, None).is_ok());
    assert_eq!(template.render_within(&[], UndefinedNames::Empty, None, 100), Ok(None));
}

#[test]
fn a_syntax_error_waits_for_the_render() {
    let template = JinjaTemplate::new("{% for x in %}");
    let message = "Expected an expression, got 'end of statement block'";
    assert_eq!(template.syntax_error(), Some(message));
    assert_eq!(template.render(&[], UndefinedNames::Empty, None), Err(JinjaError::Failed(message.into())));
    assert_eq!(JinjaTemplate::new("{{ x }}").syntax_error(), None);
}
