//! The provider `time`: the clock and time zone conversions, with Dify's messages.

use std::fmt::Write;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, Duration, LocalResult, NaiveDate, NaiveDateTime, TimeZone, Utc};
use chrono_tz::Tz;
use serde_json::json;
use tidemill_common::nodes::tool::{Declaration, Form, Parameter, ParameterType};
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::repr_text;

use crate::outside::tools::builtin::text;

/// The format of times.
const FORMAT: &str = "%Y-%m-%d %H:%M:%S";
const FORMAT_WITH_ZONE: &str = "%Y-%m-%d %H:%M:%S %Z";
const SHANGHAI: &str = "Asia/Shanghai";

pub(super) fn tools() -> Vec<Declaration> {
    let parameter = |name: &str, form: Form, default: Option<&str>, description: &str| Parameter {
        name: name.into(),
        ty: ParameterType::String,
        form,
        required: default.is_none(),
        default: default.map(|text| json!(text)),
        description: description.into(),
        ..Parameter::default()
    };
    let number = |name: &str| Parameter { ty: ParameterType::Number, ..parameter(name, Form::Llm, None, "") };
    let tool = |name: &str, description: &str, parameters: Vec<Parameter>| Declaration {
        name: name.into(),
        description: description.into(),
        parameters,
        takes_more: false,
        has_output_schema: false,
    };
    let llm = |name: &str, description: &str| parameter(name, Form::Llm, None, description);
    let form = |name: &str, default: &str| parameter(name, Form::Form, Some(default), "");
    vec![
        tool(
            "current_time",
            "The present date and time.",
            vec![form("format", FORMAT_WITH_ZONE), form("timezone", "UTC")],
        ),
        tool(
            "timezone_conversion",
            "Converts a time from one time zone to another.",
            vec![
                llm("current_time", "the time, such as 2024-01-01 00:00:00"),
                Parameter {
                    required: false,
                    ..parameter("current_timezone", Form::Llm, Some(SHANGHAI), "its time zone")
                },
                parameter("target_timezone", Form::Llm, Some("Asia/Tokyo"), "the time zone that is wanted"),
            ],
        ),
        tool(
            "localtime_to_timestamp",
            "Converts a local time to a Unix timestamp.",
            vec![llm("localtime", "the time, such as 2024-01-01 00:00:00"), form("timezone", SHANGHAI)],
        ),
        tool(
            "timestamp_to_localtime",
            "Converts a Unix timestamp to a local time.",
            vec![
                Parameter { description: "seconds since 1970".into(), ..number("timestamp") },
                form("timezone", SHANGHAI),
            ],
        ),
        tool(
            "weekday",
            "The day of the week of a date.",
            vec![number("year"), number("month"), number("day")],
        ),
    ]
}

pub(super) fn run(tool: &str, arguments: &JsonMap) -> Result<String, String> {
    match tool {
        "current_time" => current_time(arguments, Utc::now()),
        "timezone_conversion" => {
            let from = zone(&text(arguments, "current_timezone", SHANGHAI))?;
            let to = zone(&text(arguments, "target_timezone", "Asia/Tokyo"))?;
            let time = local(&text(arguments, "current_time", ""), from)?;
            Ok(time.with_timezone(&to).format(FORMAT).to_string())
        }
        "localtime_to_timestamp" => {
            let zone = zone(&text(arguments, "timezone", SHANGHAI))?;
            Ok(local(&text(arguments, "localtime", ""), zone)?.timestamp().to_string())
        }
        "timestamp_to_localtime" => {
            let zone = zone(&text(arguments, "timezone", SHANGHAI))?;
            let given = text(arguments, "timestamp", "");
            let seconds = given.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite());
            // The cast saturates, and a value far out of range is not a valid time.
            let time = seconds.and_then(|seconds| DateTime::from_timestamp(seconds.floor() as i64, 0));
            let time = time.ok_or_else(|| format!("Invalid timestamp: {given}"))?;
            Ok(time.with_timezone(&zone).format(FORMAT).to_string())
        }
        "weekday" => Ok(weekday(arguments)),
        other => Err(format!("there is no tool {other}")),
    }
}

fn current_time(arguments: &JsonMap, now: DateTime<Utc>) -> Result<String, String> {
    let name = text(arguments, "timezone", "UTC");
    let Ok(zone) = name.parse::<Tz>() else { return Ok(format!("Invalid timezone: {name}")) };
    // Python's fraction has six digits.
    let format = text(arguments, "format", FORMAT_WITH_ZONE).replace("%f", "%6f");
    let items: Vec<Item<'_>> = StrftimeItems::new(&format).collect();
    let mut said = String::new();
    let is_sound = !items.contains(&Item::Error);
    let written =
        is_sound && write!(said, "{}", now.with_timezone(&zone).format_with_items(items.iter())).is_ok();
    if written { Ok(said) } else { Err(format!("Invalid format: {format}")) }
}

fn zone(name: &str) -> Result<Tz, String> {
    name.parse().map_err(|_| format!("Invalid timezone: {}", repr_text(name)))
}

/// Parses a local time. An ambiguous time is the later one, and a skipped one is counted from before the gap: standard
/// time in both cases, as in Dify's library.
fn local(text: &str, zone: Tz) -> Result<DateTime<Tz>, String> {
    let wrong = || format!("time data {} does not match format {}", repr_text(text), repr_text(FORMAT));
    let naive = NaiveDateTime::parse_from_str(text.trim(), FORMAT).map_err(|_| wrong())?;
    match zone.from_local_datetime(&naive) {
        LocalResult::Single(time) | LocalResult::Ambiguous(_, time) => Ok(time),
        LocalResult::None => {
            let before =
                zone.from_local_datetime(&(naive - Duration::hours(3))).latest().ok_or_else(wrong)?;
            Ok(before + Duration::hours(3))
        }
    }
}

fn weekday(arguments: &JsonMap) -> String {
    let [year, month, day] = ["year", "month", "day"].map(|name| text(arguments, name, "None"));
    let date = match (year.parse(), month.parse(), day.parse()) {
        (Ok(year), Ok(month), Ok(day)) if year > 0 => NaiveDate::from_ymd_opt(year, month, day),
        _ => None,
    };
    match date {
        Some(date) => {
            format!("{} {}, {} is {}.", date.format("%B"), date.day(), date.year(), date.format("%A"))
        }
        None => format!("Invalid date: Year {year}, Month {month}, Day {day}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(tool: &str, arguments: serde_json::Value) -> Result<String, String> {
        run(tool, arguments.as_object().expect("a mapping"))
    }

    #[test]
    fn times_are_converted() {
        for (tool, arguments, expected) in [
            ("timezone_conversion", json!({"current_time": "2024-01-01 00:00:00"}), "2024-01-01 01:00:00"),
            (
                "timezone_conversion",
                json!({"current_time": "2024-07-01 12:00:00", "current_timezone": "UTC", "target_timezone": "Europe/Oslo"}),
                "2024-07-01 14:00:00",
            ),
            ("localtime_to_timestamp", json!({"localtime": "2024-01-01 08:00:00"}), "1704067200"),
            (
                "localtime_to_timestamp",
                json!({"localtime": "2024-10-27 02:30:00", "timezone": "Europe/Oslo"}),
                "1729992600",
            ),
            (
                "localtime_to_timestamp",
                json!({"localtime": "2024-03-31 02:30:00", "timezone": "Europe/Oslo"}),
                "1711848600",
            ),
            ("timestamp_to_localtime", json!({"timestamp": 1704067200}), "2024-01-01 08:00:00"),
            ("timestamp_to_localtime", json!({"timestamp": "0", "timezone": "UTC"}), "1970-01-01 00:00:00"),
            ("weekday", json!({"year": 2024, "month": 2, "day": 29}), "February 29, 2024 is Thursday."),
            (
                "weekday",
                json!({"year": 2023, "month": 2, "day": 29}),
                "Invalid date: Year 2023, Month 2, Day 29.",
            ),
        ] {
            assert_eq!(said(tool, arguments.clone()).as_deref(), Ok(expected), "{tool} {arguments}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_an_error_or_a_text_as_on_dify() {
        for (tool, arguments, expected) in [
            ("current_time", json!({"timezone": "Moon/Sea"}), Ok("Invalid timezone: Moon/Sea")),
            ("current_time", json!({"format": "%!"}), Err("Invalid format: %!")),
            ("timezone_conversion", json!({"current_timezone": "X"}), Err("Invalid timezone: 'X'")),
            (
                "localtime_to_timestamp",
                json!({"localtime": "now"}),
                Err("time data 'now' does not match format '%Y-%m-%d %H:%M:%S'"),
            ),
            ("timestamp_to_localtime", json!({"timestamp": "soon"}), Err("Invalid timestamp: soon")),
        ] {
            let found = said(tool, arguments);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{tool}");
        }
    }

    #[test]
    fn the_present_time_is_told_in_its_zone() {
        let now = DateTime::from_timestamp(1_704_067_200, 0).expect("a time");
        let told =
            |arguments: serde_json::Value| current_time(arguments.as_object().expect("a mapping"), now);
        assert_eq!(told(json!({})).as_deref(), Ok("2024-01-01 00:00:00 UTC"));
        let arguments = json!({"timezone": "Asia/Tokyo", "format": "%d.%m.%Y %H:%M:%S.%f"});
        assert_eq!(told(arguments).as_deref(), Ok("01.01.2024 09:00:00.000000"));
    }
}
