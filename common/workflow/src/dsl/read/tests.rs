use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read_all(text: &[u8]) -> (Option<(Tree, Json)>, Vec<Diagnostic>) {
    let mut problems = Problems::new();
    match read(text, &ParseOptions::default(), &mut problems) {
        Ok(found) => (Some(found), problems.into_vec()),
        Err(problem) => (None, vec![problem]),
    }
}

fn value_of(text: &str) -> Json {
    let (found, problems) = read_all(text.as_bytes());
    found.unwrap_or_else(|| panic!("{text:?}: {problems:?}")).1
}

fn refused(text: &[u8]) -> Diagnostic {
    let (found, mut problems) = read_all(text);
    assert!(found.is_none(), "{:?}", String::from_utf8_lossy(&text[..text.len().min(80)]));
    problems.remove(0)
}

#[test]
fn collections_anchors_aliases_and_merge_keys_become_json() {
    for (text, value) in [
        ("a: 1\nb: [x, 'y', \"z\\n\"]\n", json!({"a": 1, "b": ["x", "y", "z\n"]})),
        ("{a: 1, b: {c: }}", json!({"a": 1, "b": {"c": null}})),
        ("- |\n  a\n  b\n- >-\n  c\n  d\n", json!(["a\nb\n", "c d"])),
        ("a: &x {k: 1}\nb: *x\n", json!({"a": {"k": 1}, "b": {"k": 1}})),
        (
            "base: &b {p: 1, q: 2}\nc:\n  <<: *b\n  q: 3\n",
            json!({"base": {"p": 1, "q": 2}, "c": {"p": 1, "q": 3}}),
        ),
        (
            "a: &a {p: 1}\nb: &b {p: 2, q: 2}\nc: {<<: [*a, *b]}",
            json!({"a": {"p": 1}, "b": {"p": 2, "q": 2}, "c": {"p": 1, "q": 2}}),
        ),
        ("1: a\non: b\n~: c\n", json!({"1": "a", "on": "b", "~": "c"})),
        ("a: !!str 12\nb: !!int '7'\nc: !!float 1\nd: ! 5\n", json!({"a": "12", "b": 7, "c": 1.0, "d": "5"})),
        ("\u{feff}a: 1\n", json!({"a": 1})),
        ("# nothing\n", json!(null)),
        ("a: \"😀 \\u00e9\"\r\nb: 2\r\n", json!({"a": "😀 é", "b": 2})),
    ] {
        assert_eq!(value_of(text), value, "{text}");
    }
}

#[test]
fn what_pyyaml_takes_and_the_parser_does_not_is_read() {
    for (text, value) in [
        ("a: \"one line\nof text\"\nb: 1\n", json!({"a": "one line of text", "b": 1})),
        (
            "a:\n  b:\n    c: 'x\n\ny: ''z\n# w'\n    d: 2\n",
            json!({"a": {"b": {"c": "x\ny: 'z # w", "d": 2}}}),
        ),
        ("a:\n- \"x\n  \\\"y\nz\"\n- w\n", json!({"a": ["x \"y z", "w"]})),
        (
            "a: {\n  b: [1,\n2, \"x\ny\"]\n}\nc:\n  d: [\n1\n]\n",
            json!({"a": {"b": [1, 2, "x y"]}, "c": {"d": [1]}}),
        ),
        ("a: \"\\ud83e\\udd16!\"\nb: \"\\ud83e\\udd16\"\n", json!({"a": "🤖!", "b": "🤖"})),
        ("a: 'x\nb: '#c'\nd: \"é\"#f\ng: [1]#h\n", json!({"a": "x b: ", "d": "é", "g": [1]})),
        ("&k a: 1\nb: *k\n*k : 2\nc: &n 7\n*n : x\n", json!({"a": 2, "b": "a", "c": 7, "7": "x"})),
        ("a: |\n  x", json!({"a": "x"})),
        ("a: |\n  x\n", json!({"a": "x\n"})),
        ("a: >\n  x\n  y", json!({"a": "x y"})),
    ] {
        assert_eq!(value_of(text), value, "{text}");
    }
}

#[test]
fn what_pyyaml_refuses_at_the_margin_stays_refused() {
    for text in ["a:\n  b: 1\n c: 2\n", "a: [1, 2\nb: 3\n", "a: \"x\nb: 1\n", "a: \"\\ud83e\"\n"] {
        assert_eq!(refused(text.as_bytes()).code, INVALID_YAML, "{text}");
    }
}

#[test]
fn json_files_are_read_as_json() {
    let text = r#"{"a": "\ud83d\ude00\/", "b": 1e3,	"c": [true, null, -0.5], "d": {}}"#;
    assert_eq!(value_of(text), json!({"a": "😀/", "b": 1000.0, "c": [true, null, -0.5], "d": {}}));
}

#[test]
fn a_duplicate_key_is_a_warning_and_the_last_one_wins() {
    for text in ["a: 1\nb: 2\na: 3\n", "{\"a\": 1,\n\"b\": 2,\n\"a\": 3}"] {
        let (found, problems) = read_all(text.as_bytes());
        assert_eq!(found.unwrap().1, json!({"a": 3, "b": 2}));
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].code, problems[0].line), ("parse.duplicate_key", Some(3)));
    }
}

#[test]
fn an_unreadable_text_is_refused_with_its_line() {
    for (text, line, part) in [
        (&b"kind: app\n  app: : :\n"[..], 2, "YAML"),
        (b"a: 1\nb: [1, 2\n", 3, "YAML"),
        (b"a: 1\n---\nb: 2\n", 2, "more than one document"),
        (b"a: 1\nb: \xff\xfe\n", 2, "UTF-8"),
        (b"a: 1\nb: x\0y\n", 2, "NUL"),
        (b"a: 1\nb: *nothing\n", 2, "anchor"),
        (b"a: 1\nb: &x [*x]\n", 2, "inside the value that it refers to"),
        (b"a: 1\n? [b]\n: 2\n", 2, "key"),
        (b"a: !foo 1\n", 1, "tag"),
        (b"a:\n  <<: 5\n", 2, "mapping"),
    ] {
        let problem = refused(text);
        assert_eq!(problem.code, INVALID_YAML);
        assert!(problem.message.contains(part), "{problem:?}");
        assert_eq!(problem.line, Some(line), "{problem:?}");
    }
}

#[test]
fn an_alias_bomb_is_refused_while_its_expansion_is_still_small() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", "));
    }
    assert!(refused(text.as_bytes()).message.contains("aliases"));

    let long = "x".repeat(1 << 20);
    let many = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 100].join(", "));
    assert!(refused(many.as_bytes()).message.contains("bytes of text"));

    let keys: Vec<String> = (0..3000).map(|n| format!("k{n}: 1")).collect();
    let merges = vec!["- {<<: *a}"; 3000].join("\n");
    let merged = format!("a: &a {{{}}}\nb:\n{merges}\n", keys.join(", "));
    assert!(refused(merged.as_bytes()).message.contains("merge"));
}

#[test]
fn deep_nesting_is_refused_however_it_is_written() {
    for text in [
        "[".repeat(200_000),
        "{\"a\":".repeat(200_000),
        "- ".repeat(200_000),
        format!("{}1{}", "[".repeat(150), "]".repeat(150)),
        format!("{{\"a\": {}1{}}}", "[".repeat(150), "]".repeat(150)),
    ] {
        assert_eq!(refused(text.as_bytes()).code, TOO_LARGE);
    }
    let deep_by_alias = format!("a: &a {0}1{1}\nb: {0}*a{1}\n", "[".repeat(60), "]".repeat(60));
    assert!(refused(deep_by_alias.as_bytes()).message.contains("levels deep"));
}

#[test]
fn a_file_of_fifty_megabytes_is_refused_unread() {
    let text = vec![0xffu8; 50 * 1024 * 1024];
    let problem = refused(&text);
    assert_eq!(problem.code, "parse.too_large");
    assert!(problem.hint.unwrap().contains("import_bytes_max"));
}

#[test]
fn a_path_leads_to_its_line_or_to_that_of_its_nearest_part() {
    let (found, _) = read_all(b"a:\n  b:\n    - x\n    - k: 1\n      l.m: 2\n");
    let tree = found.unwrap().0;
    for (path, line) in [
        ("", 1),
        ("a", 1),
        ("a.b[1].k", 4),
        ("a.b[1].l.m", 5),
        ("a.b[1].nope.deep", 4),
        ("a.b[7]", 2),
        ("z", 1),
    ] {
        assert_eq!(tree.line_of(path), Some(line), "{path}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
    }

    #[test]
    fn no_text_of_yaml_signs_makes_the_reader_panic(
        text in r#"([-?:,\[\]{}#&*!|>'"%@` \n\ta-c01<.]|: |- |<<: \*a|&a |\n  ){0,120}"#
    ) {
        read_all(text.as_bytes());
    }
}
