//! Converts both forms of a schedule, an expression or the choices of Dify's editor, to a cron expression of five
//! fields.

use serde_json::Value as Json;

use super::visual_config;
use crate::dsl::Problems;
use crate::dsl::fields::{Fields, lax_integer, shown};
use crate::nodes::fields::INVALID_NODE_DATA;
use tidemill_base::value::JsonMap;

/// Days of the week as Dify writes them, Sunday first: the index is cron's number.
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The word for the last day in the list of a month's days, besides 1 to 31.
const LAST_DAY: &str = "last";

/// The key of `data` with the schedule, for messages, and the cron expression. `None` after reporting a problem.
pub(super) fn read(data: &JsonMap, problems: &mut Problems) -> Option<(&'static str, String)> {
    let fields = Fields::new(data, INVALID_NODE_DATA);
    let mode = match fields.given("mode") {
        None => "visual",
        Some(_) => fields.one_of("mode", &["visual", "cron"], problems)?,
    };
    if mode == "cron" {
        let given = fields.text("cron_expression", problems)?.trim();
        return Some(("cron_expression", given.to_string()));
    }
    let frequency = fields.one_of("frequency", &["hourly", "daily", "weekly", "monthly"], problems)?;
    let config = visual_config(data, problems)?;
    let cron = problems.within("visual_config", |problems| of_visual(frequency, config, problems))?;
    Some(("visual_config", cron))
}

fn of_visual(frequency: &str, config: &JsonMap, problems: &mut Problems) -> Option<String> {
    if frequency == "hourly" {
        let minute = config.get("on_minute").filter(|value| !value.is_null());
        let minute = minute.map_or(Some(0), lax_integer).filter(|minute| (0..60).contains(minute));
        return match minute {
            Some(minute) => Some(format!("{minute} * * * *")),
            None => wrong(config, "on_minute", "a minute, 0 to 59", problems),
        };
    }
    let (hour, minute) = match config.get("time") {
        None | Some(Json::Null) => (0, 0),
        Some(given) => match given.as_str().and_then(time_of_day) {
            Some(time) => time,
            None => return wrong(config, "time", "a time such as \"2:30 PM\"", problems),
        },
    };
    match frequency {
        "weekly" => Some(format!("{minute} {hour} * * {}", weekdays(config, problems)?)),
        "monthly" => Some(format!("{minute} {hour} {} * *", days_of_month(config, problems)?)),
        // Daily: the caller has checked the word.
        _ => Some(format!("{minute} {hour} * * *")),
    }
}

/// Converts a 12-hour time to (hour of 24, minute).
fn time_of_day(text: &str) -> Option<(u32, u32)> {
    let (clock, half) = text.trim().split_once(' ')?;
    let (hour, minute) = clock.split_once(':')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    let (hour, minute) = (number(hour)?, number(minute)?);
    if !(1..=12).contains(&hour) || minute > 59 {
        return None;
    }
    let afternoon = match half.trim().to_ascii_uppercase().as_str() {
        "AM" => 0,
        "PM" => 12,
        _ => return None,
    };
    Some((hour % 12 + afternoon, minute))
}

fn weekdays(config: &JsonMap, problems: &mut Problems) -> Option<String> {
    let number = |day: &Json| {
        let name = day.as_str()?.to_ascii_lowercase();
        WEEKDAYS.iter().position(|known| *known == name)
    };
    let given = config.get("weekdays").and_then(Json::as_array).filter(|days| !days.is_empty());
    let numbers: Option<Vec<usize>> = given.and_then(|days| days.iter().map(number).collect());
    let Some(mut numbers) = numbers else {
        return wrong(config, "weekdays", &format!("a list of {}", WEEKDAYS.join(", ")), problems);
    };
    numbers.sort_unstable();
    numbers.dedup();
    Some(joined(numbers.iter().map(usize::to_string)))
}

fn days_of_month(config: &JsonMap, problems: &mut Problems) -> Option<String> {
    let given = config.get("monthly_days").and_then(Json::as_array).filter(|days| !days.is_empty());
    let is_last = |day: &Json| day.as_str() == Some(LAST_DAY);
    let number = |day: &Json| lax_integer(day).filter(|day| (1..=31).contains(day));
    let numbers: Option<Vec<i64>> =
        given.and_then(|days| days.iter().filter(|day| !is_last(day)).map(number).collect());
    let Some(mut numbers) = numbers else {
        return wrong(config, "monthly_days", "a list of days, 1 to 31 or \"last\"", problems);
    };
    numbers.sort_unstable();
    numbers.dedup();
    let last = given.is_some_and(|days| days.iter().any(is_last)).then(|| "L".to_string());
    Some(joined(numbers.iter().map(i64::to_string).chain(last)))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn wrong<T>(config: &JsonMap, key: &str, wanted: &str, problems: &mut Problems) -> Option<T> {
    let found = config.get(key).map_or_else(|| "nothing".to_string(), shown);
    problems.within(key, |problems| {
        problems.error(INVALID_NODE_DATA, format!("`{key}` must be {wanted}, not {found}"));
    });
    None
}
