//! Code by example, with the modules found in it.

use super::*;

fn names(language: CodeLanguage, code: &str) -> Vec<(String, usize, bool)> {
    let found = foreign_modules(language, code).into_iter();
    found.map(|module| (module.name, module.line, module.is_optional)).collect()
}

fn python(code: &str) -> Vec<(String, usize, bool)> {
    names(CodeLanguage::Python, code)
}

#[test]
fn each_form_of_an_import_is_found() {
    for (code, wanted) in [
        ("import requests", vec!["requests"]),
        ("import requests as r, numpy.linalg as la, json", vec!["requests", "numpy"]),
        ("from bs4 import BeautifulSoup", vec!["bs4"]),
        ("from  lxml.etree  import (\n  fromstring,\n  tostring as t,\n)", vec!["lxml"]),
        ("from pandas import*", vec!["pandas"]),
        ("from pandas import(DataFrame)", vec!["pandas"]),
        ("import json; import httpx", vec!["httpx"]),
        ("if True: import httpx", vec!["httpx"]),
        ("import \\\n  httpx", vec!["httpx"]),
        ("def main():\n\timport jinja2\n\treturn {}", vec!["jinja2"]),
        ("import requests\nimport requests.auth", vec!["requests"]),
        ("import\u{20}\u{6570}\u{636e}", vec!["数据"]),
        ("from . import x\nfrom .y import z\nfrom .. import w", vec![]),
        (
            "import os, sys\nfrom collections import abc\nfrom __future__ import annotations\nimport _csv",
            vec![],
        ),
        ("x = {'import': 1}\nimported = 2\nfrom_x = 3\nyield_from = import_x", vec![]),
        ("def f(x: int) -> str: return x", vec![]),
    ] {
        let found: Vec<String> = python(code).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(found, wanted, "{code}");
    }
}

#[test]
fn texts_and_comments_import_nothing() {
    for code in [
        "x = 'import requests'",
        "x = \"\"\"\nimport requests\n\"\"\"",
        "x = '''a''b\\'''\nimport requests\n'''",
        "# import requests",
        "x = f'{y}; import requests'",
        "x = r'\\'; import requests'",
        "x = ('a'\n  'import requests')",
        "x = ''; y = \"\"; z = '; import requests'",
        "x = [\nimport_requests\n]",
    ] {
        assert_eq!(python(code), [], "{code}");
    }
    // A text that does not end takes its line at most.
    assert_eq!(python("x = 'open\nimport requests"), [("requests".into(), 2, false)]);
    assert_eq!(python("x = '''open\nimport requests"), []);
}

#[test]
fn lines_are_those_of_the_code() {
    let code = "'''\n\n'''\nx = [1,\n 2]\n\n# c\nimport requests\ny = 'a\\\nb'\r\nimport numpy\nz = \\\n 1\nimport lxml";
    let found = python(code);
    assert_eq!(
        found,
        [("requests".into(), 8, false), ("numpy".into(), 11, false), ("lxml".into(), 14, false)]
    );
}

#[test]
fn an_import_that_may_fail_is_optional_unless_another_must_not() {
    for (code, wanted) in [
        ("try:\n  import ujson\nexcept ImportError:\n  import json as ujson", true),
        ("try: import ujson\nexcept: pass", true),
        ("try:\n  import ujson\nexcept (KeyError, ModuleNotFoundError) as e:\n  pass", true),
        ("try:\n  if 1:\n    import ujson\nexcept KeyError:\n  pass\nexcept Exception:\n  pass", true),
        ("try:\n  import ujson\nexcept KeyError:\n  pass", false),
        ("try:\n  import ujson\nfinally:\n  pass", false),
        ("try:\n  x\nexcept ImportError:\n  import ujson", false),
        ("tryit: import ujson\nexcept: pass", false),
        ("try:\n  import ujson\nexcept ImportError:\n  pass\nimport ujson", false),
    ] {
        let found: Vec<_> = python(code).into_iter().map(|(name, _, optional)| (name, optional)).collect();
        assert_eq!(found, [("ujson".to_owned(), wanted)], "{code}");
    }
}

#[test]
fn javascript_asks_for_modules_and_for_fetch() {
    for (code, wanted) in [
        ("const a = require('axios'), b = require(\"crypto\")", vec![("axios", 1), ("crypto", 1)]),
        ("async function main() {\n  return await fetch('x')\n}", vec![("fetch", 2)]),
        ("import fs from 'fs'\nimport 'left-pad'", vec![("fs", 1), ("left-pad", 2)]),
        ("// require('a')\n/* fetch('\n') */ let s = \"require('b')\", t = `fetch('c')`", vec![]),
        ("x.fetch('a'); function fetch2() {}; fetcher('a')", vec![]),
        ("const fetch = () => 1; fetch('a')", vec![]),
        ("let r = /require('a')/.test(x) ? 1 / 2 : fetch('b')", vec![("fetch", 1)]),
        ("Array.from('abc')\n`\n`; require('c')", vec![("c", 3)]),
        ("require(name)", vec![]),
    ] {
        let found = names(CodeLanguage::JavaScript, code);
        let found: Vec<_> = found.iter().map(|(name, line, _)| (name.as_str(), *line)).collect();
        assert_eq!(found, wanted, "{code}");
    }
    assert_eq!(foreign_modules(CodeLanguage::JavaScript, "require('x')")[0].package, None);
}

#[test]
fn modules_that_call_servers_are_known_by_how_they_do() {
    let of = |language, code| -> Vec<_> {
        let found = networked_modules(language, code).into_iter();
        found.map(|one| (one.name, one.line, one.reach)).collect()
    };
    for (code, wanted) in [
        ("import json\nimport requests, requests.auth", vec![("requests", 2, Reach::Http)]),
        ("from requests import get", vec![("requests", 1, Reach::Http)]),
        ("from urllib import parse, request", vec![("urllib.request", 1, Reach::Http)]),
        ("from urllib.request import urlopen", vec![("urllib.request", 1, Reach::Http)]),
        ("import smtplib, httpx", vec![("smtplib", 1, Reach::Socket), ("httpx", 1, Reach::Http)]),
        ("import urllib.parse, redistribute, http", vec![]),
    ] {
        assert_eq!(of(CodeLanguage::Python, code), wanted, "{code}");
    }
    assert_eq!(of(CodeLanguage::JavaScript, "import requests"), []);
}

#[test]
fn no_code_takes_the_scanner_long() {
    let deep = "try:\n".repeat(2_000) + &"import a;".repeat(2_000);
    let nested: String = (0..1_000).map(|n| format!("{}if x:\n", " ".repeat(n))).collect();
    for code in [deep, nested + "import a", "(".repeat(100_000), "'".repeat(100_001), "\\".repeat(100_000)] {
        foreign_modules(CodeLanguage::Python, &code);
        foreign_modules(CodeLanguage::JavaScript, &code);
    }
}
