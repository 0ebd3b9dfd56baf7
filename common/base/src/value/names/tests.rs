use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::pool::Pool;
use super::*;

const LEVELS: usize = 5;

fn names(scopes: &[&str]) -> Names {
    Names { scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(), ..Names::default() }
}

fn rendered(text: &str, run: Json) -> Result<String, NameError> {
    let pool = Pool::new(json!({"run": run, "start": {"q": "Q", "none": null}}));
    NamedText::parse(text, LEVELS)?.render(&names(&["run"]), &pool)
}

#[test]
fn lp_a06_paths_and_values_of_every_kind() {
    let run = json!({
        "user": {"name": "B"}, "items": [{"id": 1}, {"id": 7}], "n": 0, "obj": {"k": 1}, "yes": true,
        "half": 0.5, "list": [1, "a"], "text": "a \"b\"", "empty": "",
    });
    for (text, expected) in [
        ("{{user.name}} {{items[1].id}} {{n}} {{obj}}", r#"B 7 0 {"k":1}"#),
        ("{{ user . name }}|{{ items[ 1 ] . id }}", "B|7"),
        ("{{yes}} {{half}} {{list}} {{text}}{{empty}}", r#"true 0.5 [1,"a"] a "b""#),
        ("{{items[0]}}", r#"{"id":1}"#),
        ("{{#start.q#}}{{n}}{{#start.q#}}", "Q0Q"),
    ] {
        assert_eq!(rendered(text, run.clone()).unwrap(), expected, "{text}");
    }
}

#[test]
fn lp_a05_a_variable_that_is_not_there_is_named() {
    let run = json!({"user": {"name": null}, "nothing": null, "items": [1]});
    for (text, name) in [
        ("{{missing}}", "missing"),
        ("a {{ nothing }}", "nothing"),
        ("{{user.name}}", "user.name"),
        ("{{user.age}}", "user.age"),
        ("{{items[1]}}", "items[1]"),
        ("{{items[x]}}", "items[x]"),
        ("{{items[0}}", "items[0"),
        ("{{.a}}", ".a"),
        ("{{user..name}}", "user..name"),
        ("{{#start.none#}}", "start.none"),
        ("{{#start.gone#}}", "start.gone"),
        ("{{gone_{{items}}}}", "gone_[1]"),
    ] {
        let error = rendered(text, run.clone()).unwrap_err();
        assert_eq!(error, NameError::NotFound(name.into()), "{text}");
        assert_eq!(error.to_string(), format!("Variable not found: {name}"));
    }
}

#[test]
fn lp_a07_nested_names_are_filled_in_from_the_inside_out_and_values_are_not_parsed() {
    let run = json!({
        "lang": "en", "v_en": "hello", "v_hello": "twice", "secret": "S", "user": "say {{secret}} {{#start.q#}}",
        "field": "lang", "o": {"lang": "fr"}, "i": 0, "l": ["first"],
    });
    for (text, expected) in [
        ("{{v_{{lang}} }}", "hello"),
        ("{{v_{{lang}}}}", "hello"),
        ("{{v_{{v_{{lang}}}}}}", "twice"),
        ("{{user}}", "say {{secret}} {{#start.q#}}"),
        ("{{{{field}}}}", "en"),
        ("{{o.{{field}}}} {{l[{{i}}]}}", "fr first"),
    ] {
        assert_eq!(rendered(text, run.clone()).unwrap(), expected, "{text}");
    }
    // A value that looks like a name is not one either when it becomes part of a name.
    let tricky = json!({"a": "{{secret}}", "secret": "S"});
    assert_eq!(rendered("{{x_{{a}}}}", tricky).unwrap_err(), NameError::NotFound("x_{{secret}}".into()));
}

#[test]
fn text_that_is_not_a_name_is_unchanged() {
    for text in [
        "",
        "{{}}",
        "{{  }}",
        "{{ #a }}",
        "{{@llm.context@}}",
        "{{# no reference #}}",
        "{{#a#}}",
        "{",
        "}}",
        "{{ open",
        "{\"a\": {\"b\": 1}}",
        "{{",
        "é{{",
        "{{ {{ {{ {{ {{ {{ {{",
        "}}}}{{",
    ] {
        assert_eq!(rendered(text, json!({})).unwrap(), text);
    }
    assert_eq!(rendered("{{@ {{n}} @}}", json!({"n": 1})).unwrap(), "{{@ 1 @}}");
    assert_eq!(rendered("{{{n}}}", json!({"n": 1})).unwrap_err(), NameError::NotFound("{n".into()));
}

#[test]
fn placeholders_stand_in_each_other_up_to_a_limit() {
    let nested = |levels: usize| format!("{}x{}", "{{".repeat(levels), "}}".repeat(levels));
    assert!(NamedText::parse(&nested(5), LEVELS).is_ok());
    assert_eq!(NamedText::parse(&nested(6), LEVELS).unwrap_err(), NameError::TooDeep(5));
    assert_eq!(NamedText::parse(&nested(100_000), LEVELS).unwrap_err(), NameError::TooDeep(5));
    assert!(NamedText::parse(&"{{".repeat(100_000), LEVELS).is_ok(), "never closed");
    assert!(NamedText::parse(&"{{a}}".repeat(10_000), LEVELS).is_ok(), "beside each other");
}

#[test]
fn a_name_is_looked_for_in_order_and_null_is_passed_over() {
    let pool = Pool::new(json!({
        "start": {"a": "input", "b": "input", "c": "input", "own": "input"},
        "lp": {"a": "loop", "b": null},
        "conversation": {"a": "conversation", "b": "conversation"},
        "n": {"x": "own"},
    }));
    let names = Names {
        own: vec![("own".into(), vec!["n".into(), "x".into()])],
        ..names(&["lp", "run", "conversation", "start", "sys"])
    };
    let text = NamedText::parse("{{a}} {{b}} {{c}} {{own}}", LEVELS).unwrap();
    assert_eq!(text.render(&names, &pool).unwrap(), "loop conversation input own");
}

#[test]
fn a_name_mentions_every_variable_that_it_may_mean() {
    let names = Names {
        own: vec![("v_own".into(), vec!["n".into(), "x".into(), "deep".into()])],
        declared: vec![("run".into(), "v_en".into()), ("sys".into(), "w".into())],
        ..names(&["run", "sys"])
    };
    let of = |text: &str| {
        let mut found = Vec::new();
        NamedText::parse(text, LEVELS).unwrap().mentions(&names, &mut found);
        found.into_iter().map(|(node, name)| format!("{node}.{name}")).collect::<Vec<_>>()
    };
    assert_eq!(of("{{ a }} {{#s.b#}}"), ["run.a", "sys.a", "s.b"]);
    assert_eq!(of("{{a.b[0]}}"), ["run.a", "sys.a"]);
    assert_eq!(of("{{v_own}}"), ["n.x", "run.v_own", "sys.v_own"]);
    assert_eq!(of("{{v_{{l}}}}"), ["run.l", "sys.l", "n.x", "run.v_en"]);
    assert_eq!(of("{{o.{{l}}}}"), ["run.l", "sys.l", "run.o", "sys.o"]);
    assert_eq!(of("{{}} {{@a@}}"), Vec::<String>::new());
}

proptest! {
    #[test]
    fn a_rendered_value_is_never_parsed_again(value in "[ -~]*|[{}#@a.]{0,40}") {
        let text = rendered("<{{v}}|{{o.v}}>", json!({"v": value, "o": {"v": value}}));
        prop_assert_eq!(text.unwrap(), format!("<{value}|{value}>"));
    }

    #[test]
    fn any_text_is_read_and_text_without_names_stays_the_same(text in "([{}#@ab. é]|\\{\\{|\\}\\})*") {
        let parsed = NamedText::parse(&text, LEVELS);
        if let Ok(parsed) = parsed && parsed.pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
            prop_assert_eq!(parsed.render(&Names::default(), &Pool::new(json!({}))).unwrap(), text);
        }
    }

    #[test]
    fn every_variable_that_rendering_reads_is_mentioned(text in "([ab.{}]|\\{\\{|\\}\\})*") {
        let names = names(&["run"]);
        let Ok(parsed) = NamedText::parse(&text, LEVELS) else { return Ok(()) };
        let mut mentioned = Vec::new();
        parsed.mentions(&names, &mut mentioned);
        let all = Pool::new(json!({"run": {"a": "a", "b": "b", "ab": "b", "ba": "a", "aa": "a", "bb": "b"}}));
        let only = Only(&all, &mentioned);
        // Nested names need the declared variables, of which there are none here.
        if !text.contains("{{{{") && parsed.pieces.iter().all(|p| !matches!(p, Piece::Name(inner) if inner.len() > 1)) {
            prop_assert_eq!(parsed.render(&names, &only), parsed.render(&names, &all));
        }
    }
}

/// Only those variables that were mentioned.
struct Only<'a>(&'a Pool, &'a [(String, String)]);

impl Variables for Only<'_> {
    fn variable(&self, node: &str, name: &str) -> super::super::Lookup<'_> {
        let known = self.1.iter().any(|(of, known)| of == node && known == name);
        if known { self.0.variable(node, name) } else { super::super::Lookup::Missing }
    }
    fn names(&self) -> Vec<(String, String)> {
        self.1.to_vec()
    }
}
