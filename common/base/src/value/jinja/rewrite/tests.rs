//! Tests of the rewritten form of templates.

use super::*;

#[test]
fn arithmetic_becomes_calls_with_the_precedence_of_jinja() {
    for (source, rewritten) in [
        ("a {{ b }} {% if c %}", "a {{ b }} {% if c %}"),
        ("{{ a ~ b ~ 1 }}", "{{ __cat('~ ~', a, b, 1) }}"),
        ("{{ a + b * c - d }}", "{{ __sum('+ -', a, __prod('*', b, c), d) }}"),
        ("{{ a ~ b + c }}", "{{ __sum('+', __cat('~', a, b), c) }}"),
        ("{{ '%s' % x|upper }}", "{{ __prod('%', '%s', x|upper) }}"),
        ("{{ -5|abs }}", "{{ -5|abs }}"),
        ("{{ -a.b|abs }}", "{{ __neg(a.b)|abs }}"),
        ("{{ a < b in c and d == e }}", "{{ __cmp('< in', a, b, c) and d == e }}"),
        ("{{ a not in b }}", "{{ __cmp('not-in', a, b) }}"),
        ("{% for a in 1, 2 if a %}", "{% for a in __iter((1, 2)) if a %}"),
        ("{{ (a + b)[1:n-1] }}", "{{ ( __sum('+',a, b))[1: __sum('-',n,1)] }}"),
        (
            "{{ 1 if a is divisibleby 3 and b is not none else c + 1 }}",
            "{{ 1 if a is divisibleby 3 and b is not none else __sum('+', c, 1) }}",
        ),
        ("{%- set x = a+1 -%}", "{%- set x = __keep( __sum('+',a,1)) -%}"),
        (
            "{% for k, v in d.items() if v > 1 + 2 recursive %}",
            "{% for k, v in __iter(d.items()) if __cmp('>', v, __sum('+', 1, 2)) recursive %}",
        ),
        ("{{ {'a': {}}['a'] }}", "{{ {'a': {}}['a'] }}"),
        (
            "{% raw %}{{ a + b }}{% endraw %}{{ a+b }}",
            "{% raw %}{{ a + b }}{% endraw %}{{ __sum('+', a,b) }}",
        ),
        ("{# {{ a + b }} #}", "{# {{ a + b }} #}"),
        ("{{ f(*a, **b) }}", "{{ f(*a, **b) }}"),
        ("{{ 'a' 'b' }}", "{{ __cat('~', 'a','b') }}"),
    ] {
        assert_eq!(squeeze(&done(source, false)), squeeze(rewritten), "{source}");
    }
}

#[test]
fn literals_become_calls_only_when_values_change() {
    assert!(changes_values("{% set _ = l.append(1) %}"));
    assert_eq!(
        squeeze(&done("{% set l = [1, {}] %}", true)),
        squeeze("{% set l = __keep( __list( [1, __dict( {})])) %}")
    );
    assert_eq!(done("{{ [1, {}] }}", false), "{{ [1, {}] }}");
}

#[test]
fn expressions_that_are_not_understood_stay_unchanged() {
    for source in [
        "{{ a + }}",
        "{{ 'open }}",
        "{{ a } }}",
        "{% %}",
        "{{",
        "{# x",
        "{% raw %}{{ a + b }}",
        "{{ a + (b }}",
    ] {
        assert_eq!(done(source, true), source);
    }
    let deep = format!("{{{{ {}1 + 1{} }}}}", "(".repeat(100), ")".repeat(100));
    assert_eq!(done(&deep, false), deep);
}

#[test]
fn values_are_watched_where_they_are_kept() {
    for (source, rewritten) in [
        ("{% set ns.a = [ns.a] %}", "{% set ns.a = __put([ns.a]) %}"),
        ("{% set a, b = 1, 2 %}", "{% set a, b = __keep((1, 2)) %}"),
        ("{% set a = (1, 2) %}", "{% set a = __keep((1, 2)) %}"),
        ("{% set a %}", "{% set a %}"),
        ("{% set a | indent(1 + 1) %}", "{% set a | indent( __sum('+',1, 1)) %}"),
    ] {
        assert_eq!(squeeze(&done(source, false)), squeeze(rewritten), "{source}");
    }
}

#[test]
fn chains_have_a_longest_length_and_lists_have_not() {
    assert!(rewrite(&format!("{{{{ a{} }}}}", "|e".repeat(1000)), false).is_err());
    assert!(rewrite(&format!("{{{{ a{} }}}}", " and a".repeat(1000)), false).is_err());
    assert!(rewrite(&format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(1000)), false).is_err());
    assert!(rewrite(&format!("{{{{ [1{}] }}}}", ", 2".repeat(10_000)), false).is_ok());
}

fn done(source: &str, wrap_literals: bool) -> String {
    rewrite(source, wrap_literals).ok().expect("not too long")
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| *c != ' ').collect()
}
