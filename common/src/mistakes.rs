//! Messages about mistakes in the settings. They contain the position and the expected type, but never the value:
//! it may be a key, and such messages are logged.

use toml::de::Error;

use crate::hidden;

/// Describes an error in TOML text by its position, without the line.
pub fn syntax(text: &str, error: &Error) -> String {
    let message = without_value(error.message());
    let Some(span) = error.span() else { return message };
    let before = &text[..text.floor_char_boundary(span.start)];
    let (lines, last) = match before.rsplit_once('\n') {
        Some((above, last)) => (above.matches('\n').count() + 1, last),
        None => (0, before),
    };
    format!("line {}, column {}: {message}", lines + 1, last.chars().count() + 1)
}

/// Returns the key of a value that does not fit, such as `section.key`; empty for the table itself.
pub fn key_of(error: &Error) -> String {
    let whole = error.to_string();
    let key = whole.strip_prefix(error.message()).map(str::trim);
    let key = key.and_then(|key| key.strip_prefix("in `")?.strip_suffix('`'));
    key.unwrap_or_default().to_owned()
}

/// Describes the field of a table that does not fit.
pub fn field(error: &Error) -> String {
    let (key, why) = (key_of(error), without_value(error.message()));
    if key.is_empty() { why } else { format!("{key}: {why}") }
}

/// Removes the value from a message of serde. Names of fields and of enum variants stay: they are not secrets.
pub fn without_value(message: &str) -> String {
    if message.starts_with("unknown variant ") {
        return message.to_owned();
    }
    with_a_table(hidden::without_value(message))
}

/// Names a section as TOML does. serde names the type in the program (`struct LogConfig`), which tells a reader nothing.
fn with_a_table(message: String) -> String {
    const STRUCT: &str = "expected struct ";
    match message.split_once(STRUCT) {
        Some((before, rest)) => {
            let after = rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_');
            format!("{before}expected a table{after}")
        }
        None => message,
    }
}

/// Returns the name of an environment variable if it looks like one, else a mask: an operator may have written the
/// key itself there.
pub fn variable_shown(name: &str) -> &str {
    let is_usual =
        name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if is_usual && !name.is_empty() { name } else { "***" }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_syntax_error_is_named_by_its_position_without_its_line() {
        for (text, place) in [
            ("[scheduler]\nadmin_key = \"hush\nlisten = \"x\"\n", "line 2, column "),
            ("[scheduler]\nadmin_key = hush\n", "line 2, column 13: "),
            ("[scheduler]\nadmin_key = \"hush\"\nadmin_key = \"hush\"\n", "line 3, column 1: "),
            ("ä = 'ö' hush", "line 1, column "),
            ("hush", "line 1, column "),
            ("[hush", "line 1, column "),
            ("a = \"hush\\q\"", "line 1, column "),
            ("a = [\"hush\", hush]", "line 1, column "),
            ("a = { hush = }", "line 1, column "),
            ("\n\n\"\"\"hush\n\"\"\" = 1", "line "),
        ] {
            let error = text.parse::<Table>().expect_err(text);
            let told = syntax(text, &error);
            assert!(told.starts_with(place) && !told.contains("hush"), "{text}: {told}");
        }
    }

    #[test]
    fn a_message_loses_the_value_and_keeps_the_rest() {
        for (message, told) in [
            (r#"invalid type: string "hush", expected a map"#, "invalid type: string, expected a map"),
            (
                r#"invalid type: string "a, expected hush", expected a map"#,
                "invalid type: string, expected a map",
            ),
            ("invalid type: integer `12`, expected a string", "invalid type: integer, expected a string"),
            ("invalid value: integer `-1`, expected u64", "invalid value: integer, expected u64"),
            ("invalid type: sequence, expected a map", "invalid type: sequence, expected a map"),
            (
                r#"invalid type: string "hush", expected struct LogConfig"#,
                "invalid type: string, expected a table",
            ),
            ("invalid value: hush", "invalid value:"),
            ("unknown variant `xml`, expected `a` or `b`", "unknown variant `xml`, expected `a` or `b`"),
            ("missing field `model`", "missing field `model`"),
        ] {
            assert_eq!(without_value(message), told);
        }
    }

    #[test]
    fn a_variable_is_named_only_if_it_looks_like_one() {
        for (name, shown) in
            [("OPENAI_API_KEY", "OPENAI_API_KEY"), ("sk-hush", "***"), ("AIzahush", "***"), ("", "***")]
        {
            assert_eq!(variable_shown(name), shown);
        }
    }

    /// Tries values of several types for each setting and for the fields of nested tables.
    #[test]
    fn no_message_about_any_setting_contains_its_value() {
        let mut places: Vec<String> = Vec::new();
        for (section, keys) in &Table::try_from(Config::default()).expect("settings are TOML") {
            let keys = keys.as_table().expect("a section");
            places.extend(keys.keys().map(|key| format!("{section}.{key}")));
            places.push(section.clone());
        }
        for (table, keys) in [
            ("tools.mcp.one", ["command", "env", "headers", "url", "headers_env"]),
            ("tools.api.one", ["spec", "server", "api_key_value", "auth_type", "read_seconds"]),
            ("knowledge.datasets.one", ["endpoint", "api_key", "knowledge_id", "score_threshold", "name"]),
        ] {
            places.push(table.to_owned());
            places.extend(keys.map(|key| format!("{table}.{key}")));
        }
        places.extend(["providers.one".to_owned(), "profiles.one".to_owned()]);
        let mut refused = 0;
        for name in places {
            for value in [
                "\"hush\"",
                "[\"hush\"]",
                "{ hush = \"hush\" }",
                "[[\"hush\"]]",
                "713713",
                "713.25",
                "-713713",
            ] {
                let text = format!("{name} = {value}");
                let table: Table = text.parse().expect("it is TOML");
                let Err(error) = table.try_into::<Config>() else { continue };
                refused += 1;
                let told = without_value(error.message());
                // A field that does not exist is named.
                let is_field =
                    told.starts_with("unknown field `hush`") || told.starts_with("unknown variant `hush`");
                assert!(is_field || !told.contains("hush") && !told.contains("713"), "{text}: {told}");
                assert!(
                    name.starts_with(&key_of(&error)) || key_of(&error).starts_with(&name),
                    "{text}: {error}"
                );
            }
        }
        assert!(refused > 300, "{refused}");
    }
}
