//! Reads one rule from JSON, key by key.

use serde_json::{Map, Value as Json};

use super::{BreakPoint, Echo, Match, Rule, Says};

/// A mistake in a rule.
pub(super) struct Wrong {
    pub(super) key: String,
    pub(super) reason: String,
}

pub(super) fn rule(value: &Json) -> Result<Rule, Wrong> {
    let Json::Object(map) = value else {
        return Err(Wrong { key: String::new(), reason: "a rule must be an object".into() });
    };
    let mut rule = Rule::default();
    for (key, value) in map {
        set(&mut rule, key, value).map_err(|wrong| Wrong {
            key: if wrong.key.is_empty() { key.clone() } else { format!("{key}.{}", wrong.key) },
            reason: wrong.reason,
        })?;
    }
    let sources =
        ["reply", "chunks", "echo"].into_iter().filter(|key| map.contains_key(*key)).collect::<Vec<_>>();
    match sources.as_slice() {
        [_, second, ..] => Err(Wrong {
            key: (*second).into(),
            reason: format!("cannot be used together with {:?}", sources[0]),
        }),
        [] | [_] => Ok(rule),
    }
}

fn set(rule: &mut Rule, key: &str, value: &Json) -> Result<(), Wrong> {
    match key {
        "match" => rule.matches = read_match(value)?,
        "reply" => {
            let texts = if value.is_string() { vec![text(value)?] } else { texts(value)? };
            if texts.is_empty() {
                return Err(wrong("a text, or a list of at least one text", value));
            }
            rule.says = Says::Texts(texts);
        }
        "chunks" => rule.says = Says::Chunks(texts(value)?),
        "echo" => rule.says = Says::Echo(echo(value)?),
        "tool_calls" => {
            rule.tool_calls = list(value)?.iter().map(tool_call).collect::<Result<_, _>>()?;
        }
        "thinking" => rule.thinking = text(value)?,
        "images" => rule.images = texts(value)?,
        "finish_reason" => rule.finish_reason = Some(value.clone()),
        "usage" => rule.usage = usage(value)?,
        "delay_ms" => rule.delay_ms = number(value)?,
        "chunk_delay_ms" => rule.chunk_delay_ms = number(value)?,
        "fail_times" => rule.fail_times = Some(number(value)?),
        "status" => rule.status = Some(status(value)?),
        "error" => rule.error = Some(text(value)?),
        "error_type" => rule.error_type = Some(text(value)?),
        "error_code" if value.is_string() || value.is_u64() => rule.error_code = Some(value.clone()),
        "error_code" => return Err(wrong("a text or a whole number", value)),
        "headers" => rule.headers = headers(value)?,
        "break_stream" => rule.break_stream = truth(value)?,
        "reset" => rule.reset = truth(value)?,
        "break_in" => rule.break_in = Some(place(value)?),
        "break_times" => rule.break_times = Some(number(value)?),
        "first_delay_ms" => rule.first_delay_ms = number(value)?,
        "tool_call_pieces" => {
            rule.tool_call_pieces = usize::try_from(number(value)?).unwrap_or(usize::MAX);
        }
        "invalid_json" => rule.invalid_json = truth(value)?,
        "stream_error" => rule.stream_error = Some(text(value)?),
        // Users may describe their rules.
        "description" => {}
        _ => {
            return Err(unknown(
                "match, reply, chunks, echo, tool_calls, thinking, images, finish_reason, usage, delay_ms, chunk_delay_ms, \
                 fail_times, status, error, error_type, error_code, headers, break_stream, reset, break_in, break_times, \
                 first_delay_ms, tool_call_pieces, invalid_json, stream_error, description",
            ));
        }
    }
    Ok(())
}

fn read_match(value: &Json) -> Result<Match, Wrong> {
    let mut matches = Match::default();
    for (key, value) in object(value)? {
        let read = || text(value).map(Some);
        let set = match key.as_str() {
            "model" => read().map(|text| matches.model = text),
            "contains" => read().map(|text| matches.contains = text),
            "equals" => read().map(|text| matches.equals = text),
            "system_contains" => read().map(|text| matches.system_contains = text),
            "has_tools" => truth(value).map(|truth| matches.has_tools = Some(truth)),
            "messages" => match value.as_u64() {
                Some(count) => {
                    matches.messages = Some(count);
                    Ok(())
                }
                None => Err(Wrong { key: String::new(), reason: format!("must be a number, not {value}") }),
            },
            _ => Err(unknown("model, contains, equals, system_contains, has_tools, messages")),
        };
        set.map_err(|wrong| Wrong { key: key.clone(), ..wrong })?;
    }
    Ok(matches)
}

fn echo(value: &Json) -> Result<Echo, Wrong> {
    match value.as_str() {
        Some("messages") => Ok(Echo::Messages),
        Some("last_user") => Ok(Echo::LastUser),
        Some("last_message") => Ok(Echo::LastMessage),
        Some("params") => Ok(Echo::Params),
        Some("tools") => Ok(Echo::Tools),
        _ => Err(wrong("one of messages, last_user, last_message, params, tools", value)),
    }
}

fn place(value: &Json) -> Result<BreakPoint, Wrong> {
    match value.as_str() {
        Some("calls") => Ok(BreakPoint::Calls),
        Some("event") => Ok(BreakPoint::Event),
        Some("character") => Ok(BreakPoint::Character),
        _ => Err(wrong("one of calls, event, character", value)),
    }
}

fn tool_call(value: &Json) -> Result<(String, String), Wrong> {
    let name = value.get("name").and_then(Json::as_str);
    let (Some(name), Some(arguments)) = (name, value.get("arguments")) else {
        return Err(wrong("a list of {\"name\": text, \"arguments\": text or object}", value));
    };
    let arguments = arguments.as_str().map_or_else(|| super::super::reply::dump(arguments), str::to_owned);
    Ok((name.to_owned(), arguments))
}

fn usage(value: &Json) -> Result<Map<String, Json>, Wrong> {
    let map = object(value)?;
    for key in ["prompt_tokens", "completion_tokens"] {
        if let Some(count) = map.get(key) {
            number(count).map_err(|wrong| Wrong { key: key.into(), ..wrong })?;
        }
    }
    Ok(map.clone())
}

fn headers(value: &Json) -> Result<Vec<(String, String)>, Wrong> {
    let header = |(name, value): (&String, &Json)| {
        let value = text(value).map_err(|wrong| Wrong { key: name.clone(), ..wrong })?;
        let sendable = name.parse::<axum::http::HeaderName>().is_ok()
            && value.parse::<axum::http::HeaderValue>().is_ok();
        if sendable {
            Ok((name.clone(), value))
        } else {
            Err(Wrong { key: name.clone(), reason: "cannot be sent".into() })
        }
    };
    object(value)?.iter().map(header).collect()
}

fn status(value: &Json) -> Result<u16, Wrong> {
    let status = value.as_u64().and_then(|status| u16::try_from(status).ok());
    status
        .filter(|status| (200..600).contains(status))
        .ok_or_else(|| wrong("a status from 200 to 599", value))
}

fn number(value: &Json) -> Result<u64, Wrong> {
    value.as_u64().ok_or_else(|| wrong("a whole number from 0 up", value))
}

fn truth(value: &Json) -> Result<bool, Wrong> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

fn text(value: &Json) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text", value))
}

fn texts(value: &Json) -> Result<Vec<String>, Wrong> {
    list(value)?.iter().map(text).collect()
}

fn list(value: &Json) -> Result<&Vec<Json>, Wrong> {
    value.as_array().ok_or_else(|| wrong("a list", value))
}

fn object(value: &Json) -> Result<&Map<String, Json>, Wrong> {
    value.as_object().ok_or_else(|| wrong("an object", value))
}

fn wrong(expected: &str, value: &Json) -> Wrong {
    Wrong { key: String::new(), reason: format!("must be {expected}, not {value}") }
}

fn unknown(known: &str) -> Wrong {
    Wrong { key: String::new(), reason: format!("unknown key; the keys are {known}") }
}
