//! Texts by locale, compared with those of Node.js (`cases.mjs` writes them), and the refusal of all else.

use crate::frame::Verdict;
use crate::javascript::engine::{Limits, execute};

const LIMITS: Limits =
    Limits { time: std::time::Duration::from_secs(60), memory_bytes: 64 << 20, output_bytes: 1 << 20 };

fn run(body: &str) -> String {
    let code = format!("function main() {{ {body} }}");
    let ended = execute(&code, "{}", LIMITS);
    assert_eq!(ended.verdict, Verdict::Exit { code: 0 }, "{}", ended.stderr);
    ended.stdout
}

#[test]
fn texts_are_those_of_node() {
    let cases = include_str!("cases.json");
    let body = format!(
        "for (const [text, wanted] of {cases}) {{ let got; try {{ got = String((0, eval)(text)) }} catch (error) {{ got = String(error) }}
        if (got !== wanted) console.log(`${{text}}\n  wanted ${{wanted}}\n  got    ${{got}}`) }} return 0"
    );
    assert_eq!(run(&body), "<<RESULT>>0<<RESULT>>\n");
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (expression, wanted) in [
        (
            "(1).toLocaleString('it-IT')",
            "RangeError: the locale \"it-IT\" is not supported in code nodes; supported are en-US, en-GB, zh-CN, ja-JP, ko-KR, de-DE, fr-FR, es-ES, pt-BR",
        ),
        ("(1).toLocaleString('de-AT')", "RangeError: the locale \"de-AT\""),
        ("(1).toLocaleString('ja-JP-u-ca-japanese')", "RangeError: the locale \"ja-JP-u-ca-japanese\""),
        ("new Date(0).toLocaleDateString('sv-SE')", "RangeError: the locale \"sv-SE\""),
        ("'a'.localeCompare('b', 'sv')", "RangeError: the locale \"sv\""),
        ("'i'.toLocaleUpperCase('tr')", "RangeError: the locale \"tr\""),
        ("[1].toLocaleString('tr')", "RangeError: the locale \"tr\""),
        ("(1).toLocaleString(null)", "TypeError: locales are null"),
        ("(1).toLocaleString(5)", "1"),
        (
            "(1).toLocaleString('en', {notation: 'compact'})",
            "RangeError: the option notation: \"compact\" of Intl.NumberFormat is not supported in code nodes; supported: \"standard\"",
        ),
        (
            "(1).toLocaleString('en', {style: 'unit', unit: 'liter'})",
            "RangeError: the option style: \"unit\"",
        ),
        ("(1).toLocaleString('en', {style: 'currency'})", "TypeError: Currency code is required"),
        (
            "(1).toLocaleString('en', {style: 'currency', currency: 'EUR', currencyDisplay: 'name'})",
            "RangeError: the option currencyDisplay",
        ),
        ("(1).toLocaleString('en', {roundingMode: 'floor'})", "RangeError: the option roundingMode"),
        ("(1).toLocaleString('en', {numberingSystem: 'arab'})", "RangeError: the option numberingSystem"),
        (
            "(1).toLocaleString('en', {minimumFractionDigits: 5, maximumFractionDigits: 1})",
            "RangeError: maximumFractionDigits value is out of range",
        ),
        (
            "new Date(0).toLocaleString('en', {timeZone: 'Mars/Olympus'})",
            "RangeError: the time zone \"Mars/Olympus\" is not supported in code nodes; supported are the names of the IANA database",
        ),
        ("new Date(0).toLocaleString('en', {calendar: 'hebrew'})", "RangeError: the option calendar"),
        ("new Date(0).toLocaleString('en', {era: 'short'})", "RangeError: the option era"),
        (
            "new Date(0).toLocaleString('en', {dayPeriod: 'long', hour: 'numeric'})",
            "RangeError: the option dayPeriod",
        ),
        (
            "new Date(0).toLocaleString('en', {timeZoneName: 'longGeneric'})",
            "RangeError: the option timeZoneName",
        ),
        (
            "new Date(0).toLocaleString('en', {dateStyle: 'short', year: 'numeric'})",
            "TypeError: Can't set option year when dateStyle is used",
        ),
        (
            "new Date(0).toLocaleDateString('en', {timeStyle: 'short'})",
            "TypeError: Invalid option : timeStyle",
        ),
        (
            "new Date(0).toLocaleString('en', {hour: 'numeric', second: 'numeric'})",
            "RangeError: the combination of hour, second is not supported",
        ),
        ("new Date(-1e14).toLocaleString('en', {timeZone: 'Asia/Tokyo'})", "RangeError: the year"),
        (
            "new Date(Date.UTC(2050, 1)).toLocaleString('en', {timeZone: 'Asia/Tokyo', timeZoneName: 'long'})",
            "RangeError: the long name of the time zone Asia/Tokyo",
        ),
        (
            "new Date(0).toLocaleString('en', {hourCycle: 'h24', timeZoneName: 'short'})",
            "RangeError: the option hourCycle",
        ),
        (
            "new Date(-1e11).toLocaleString('en', {timeZone: 'America/Tijuana'})",
            "RangeError: dates before 1976 in America/Tijuana",
        ),
        ("new Intl.DateTimeFormat('en').format(NaN)", "RangeError: Invalid time value"),
        (
            "new Intl.DateTimeFormat('en').formatRange(0, 1)",
            "TypeError: formatRange of Intl.DateTimeFormat is not supported",
        ),
        ("'\u{20000}'.localeCompare('中')", "RangeError: the order of the rare character"),
        ("'\\ud800'.localeCompare('a')", "RangeError: texts with half a surrogate pair"),
        ("'a'.localeCompare('b', 'de', {collation: 'phonebk'})", "RangeError: the option collation"),
        ("new Intl.Collator('en', {usage: 'search'})", "RangeError: the option usage"),
        (
            "new Intl.PluralRules('en')",
            "TypeError: Intl.PluralRules is not supported in code nodes; supported are Intl.NumberFormat, Intl.DateTimeFormat and Intl.Collator",
        ),
        ("new Intl.Segmenter('en')", "TypeError: Intl.Segmenter is not supported"),
        ("new Intl.ListFormat('en')", "TypeError: Intl.ListFormat is not supported"),
        ("new Intl.RelativeTimeFormat('en')", "TypeError: Intl.RelativeTimeFormat is not supported"),
        ("new Intl.DisplayNames('en', {type: 'region'})", "TypeError: Intl.DisplayNames is not supported"),
        ("Intl.supportedValuesOf('currency')", "TypeError: Intl.supportedValuesOf is not supported"),
    ] {
        let text = serde_json::to_string(expression).expect("a text");
        let got = run(&format!(
            "try {{ console.log(String((0, eval)({text}))) }} catch (error) {{ console.log(String(error)) }}"
        ));
        assert!(got.starts_with(wanted), "{expression}: {got}");
    }
}

/// Code that uses no locale does not pay for the tables.
#[test]
fn tables_are_read_only_where_code_needs_them() {
    let small = Limits { memory_bytes: 512 << 10, ..LIMITS };
    assert_eq!(execute("function main() { return {} }", "{}", small).verdict, Verdict::Exit { code: 0 });
}
