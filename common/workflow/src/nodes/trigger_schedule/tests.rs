//! Tables for schedules: the editor's choices, the resulting times, and the state after an outage.

use serde_json::{Value as Json, json};

use super::*;
use crate::nodes::condition::tests::Pool;
use crate::nodes::parse::tests::paths_of;
use tidemill_base::clock::Timestamp;

fn parsed(data: &Json) -> TriggerScheduleData {
    let mut problems = Problems::new();
    let read = TriggerScheduleData::parse(data.as_object().expect("a mapping"), &mut problems);
    read.unwrap_or_else(|| panic!("{data}: {:?}", problems.into_vec()))
}

fn visual(frequency: &str, config: Json) -> Json {
    json!({"mode": "visual", "frequency": frequency, "visual_config": config, "timezone": "UTC"})
}

#[test]
fn the_choices_of_the_editor_become_an_expression() {
    for (frequency, config, cron) in [
        ("hourly", json!({"on_minute": 15}), "15 * * * *"),
        ("hourly", json!({}), "0 * * * *"),
        ("daily", json!({"time": "12:00 AM"}), "0 0 * * *"),
        ("daily", json!({"time": "12:05 PM"}), "5 12 * * *"),
        ("daily", json!({"time": "11:30 pm"}), "30 23 * * *"),
        ("weekly", json!({"time": "2:30 AM", "weekdays": ["fri", "mon"]}), "30 2 * * 1,5"),
        ("weekly", json!({"time": "9:00 AM", "weekdays": ["sun", "sat"]}), "0 9 * * 0,6"),
        ("monthly", json!({"time": "1:00 AM", "monthly_days": [15, 1, 15]}), "0 1 1,15 * *"),
        ("monthly", json!({"time": "1:00 AM", "monthly_days": ["last", 2]}), "0 1 2,L * *"),
        ("monthly", json!({"time": "1:00 AM", "monthly_days": ["last"]}), "0 1 L * *"),
    ] {
        let data = visual(frequency, config);
        assert_eq!(parsed(&data).schedule.expression(), cron, "{data}");
    }
}

#[test]
fn an_invalid_time_is_refused_at_its_place() {
    let check: fn(&JsonMap, &mut Problems) = |data, problems| {
        TriggerScheduleData::parse(data, problems);
    };
    for (data, path) in [
        (json!({"mode": "moon"}), "mode"),
        (json!({"mode": "visual"}), "frequency"),
        (json!({"mode": "visual", "frequency": "daily"}), "visual_config"),
        (visual("hourly", json!({"on_minute": 60})), "visual_config.on_minute"),
        (visual("daily", json!({"time": "13:00 PM"})), "visual_config.time"),
        (visual("daily", json!({"time": "9:60 AM"})), "visual_config.time"),
        (visual("daily", json!({"time": "+9:00 AM"})), "visual_config.time"),
        (visual("weekly", json!({"time": "9:00 AM"})), "visual_config.weekdays"),
        (visual("weekly", json!({"weekdays": []})), "visual_config.weekdays"),
        (visual("weekly", json!({"weekdays": ["monday"]})), "visual_config.weekdays"),
        (visual("monthly", json!({"monthly_days": [32]})), "visual_config.monthly_days"),
        (json!({"mode": "cron"}), "cron_expression"),
        (json!({"mode": "cron", "cron_expression": "* * * *"}), "cron_expression"),
        (json!({"mode": "cron", "cron_expression": "* * * * * *"}), "cron_expression"),
        (json!({"mode": "cron", "cron_expression": "@often"}), "cron_expression"),
        (json!({"mode": "cron", "cron_expression": "61 * * * *"}), "cron_expression"),
        (json!({"mode": "cron", "cron_expression": "0 0 30 2 *"}), "cron_expression"),
        (json!({"mode": "cron", "cron_expression": "0 0 * * *", "timezone": "Mars/Olympus"}), "timezone"),
        (
            json!({"mode": "cron", "cron_expression": "0 0 * * *", "tidemill": {"catch_up": "some"}}),
            "tidemill.catch_up",
        ),
    ] {
        assert_eq!(paths_of(check, data.clone()), [path], "{data}");
    }
}

fn at(text: &str) -> Timestamp {
    Timestamp::from_millis(chrono::DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis())
}

fn shown(time: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp(time.seconds(), 0).expect("a time");
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// The next times of a schedule, in UTC.
fn next(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::new(cron, zone).unwrap_or_else(|error| panic!("{error}"));
    let mut moment = at(from);
    let step = |_| {
        moment = schedule.after(moment).expect("a further time");
        assert_eq!(schedule.until(moment), Some(moment), "{cron} at {}", shown(moment));
        shown(moment)
    };
    (0..count).map(step).collect()
}

#[test]
fn times_are_those_of_the_zone() {
    for (cron, zone, from, times) in [
        ("30 2 * * *", "UTC", "2026-01-01T00:00:00Z", vec!["2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"]),
        ("0 9 * * 1-5", "Asia/Tokyo", "2026-01-02T01:00:00Z", vec!["2026-01-05T00:00:00Z"]),
        ("0 9 * * MON", "America/New_York", "2026-07-01T00:00:00Z", vec!["2026-07-06T13:00:00Z"]),
        ("@hourly", "Asia/Kolkata", "2026-01-01T00:00:00Z", vec!["2026-01-01T00:30:00Z"]),
        ("@midnight", "UTC", "2026-01-01T00:00:00Z", vec!["2026-01-02T00:00:00Z"]),
        ("@weekly", "UTC", "2026-01-01T00:00:00Z", vec!["2026-01-04T00:00:00Z"]),
        ("@annually", "UTC", "2026-01-01T00:00:00Z", vec!["2027-01-01T00:00:00Z"]),
        // Days that a month does not have are skipped; the last day always exists.
        ("0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", vec!["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"]),
        (
            "0 0 30,L * *",
            "UTC",
            "2026-01-31T00:00:00Z",
            vec!["2026-02-28T00:00:00Z", "2026-03-30T00:00:00Z", "2026-03-31T00:00:00Z"],
        ),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", vec!["2028-02-29T00:00:00Z"]),
        // A day of the month and one of the week: either matches.
        ("0 0 13 * 5", "UTC", "2026-03-01T00:00:00Z", vec!["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"]),
        (
            "*/20 23 * * 7",
            "UTC",
            "2026-01-01T00:00:00Z",
            vec!["2026-01-04T23:00:00Z", "2026-01-04T23:20:00Z"],
        ),
    ] {
        assert_eq!(next(cron, zone, from, times.len()), times, "{cron} {zone}");
    }
}

#[test]
fn a_skipped_time_of_day_fires_after_the_gap_and_a_repeated_one_fires_once() {
    // Paris, 29 March 2026: 02:00 becomes 03:00 (01:00 UTC). 25 October 2026: 03:00 becomes 02:00 (01:00 UTC).
    for (cron, from, times) in [
        ("30 2 * * *", "2026-03-28T12:00:00Z", vec!["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("0 3 * * *", "2026-03-28T12:00:00Z", vec!["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]),
        ("30 2 * * *", "2026-10-24T12:00:00Z", vec!["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        // By local time: no firing between 02:00 and 03:00 in spring, both hours in autumn.
        ("30 * * * *", "2026-03-29T00:00:00Z", vec!["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"]),
        (
            "30 * * * *",
            "2026-10-24T23:45:00Z",
            vec!["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"],
        ),
        ("*/30 2 * * *", "2026-03-28T12:00:00Z", vec!["2026-03-30T00:00:00Z"]),
    ] {
        assert_eq!(next(cron, "Europe/Paris", from, times.len()), times, "{cron} from {from}");
    }
}

#[test]
fn missed_times_are_treated_as_the_file_says() {
    let hourly = Schedule::new("0 * * * *", "UTC").expect("a schedule");
    let due = at("2026-01-01T01:00:00Z");
    for (now, catch_up, max, fire, next, dropped) in [
        // On time.
        ("2026-01-01T00:59:59Z", CatchUp::Last, 9, None, "2026-01-01T01:00:00Z", false),
        (
            "2026-01-01T01:00:00Z",
            CatchUp::Last,
            9,
            Some("2026-01-01T01:00:00Z"),
            "2026-01-01T02:00:00Z",
            false,
        ),
        (
            "2026-01-01T01:00:01Z",
            CatchUp::None,
            9,
            Some("2026-01-01T01:00:00Z"),
            "2026-01-01T02:00:00Z",
            false,
        ),
        (
            "2026-01-01T01:00:01Z",
            CatchUp::All,
            9,
            Some("2026-01-01T01:00:00Z"),
            "2026-01-01T02:00:00Z",
            false,
        ),
        // Three hours late.
        (
            "2026-01-01T04:20:00Z",
            CatchUp::Last,
            9,
            Some("2026-01-01T04:00:00Z"),
            "2026-01-01T05:00:00Z",
            true,
        ),
        ("2026-01-01T04:20:00Z", CatchUp::None, 9, None, "2026-01-01T05:00:00Z", true),
        (
            "2026-01-01T04:00:30Z",
            CatchUp::None,
            9,
            Some("2026-01-01T04:00:00Z"),
            "2026-01-01T05:00:00Z",
            true,
        ),
        (
            "2026-01-01T04:20:00Z",
            CatchUp::All,
            9,
            Some("2026-01-01T01:00:00Z"),
            "2026-01-01T02:00:00Z",
            false,
        ),
        (
            "2026-01-01T04:20:00Z",
            CatchUp::All,
            4,
            Some("2026-01-01T01:00:00Z"),
            "2026-01-01T02:00:00Z",
            false,
        ),
        ("2026-01-01T04:20:00Z", CatchUp::All, 2, Some("2026-01-01T03:00:00Z"), "2026-01-01T04:00:00Z", true),
        ("2026-01-01T04:20:00Z", CatchUp::All, 0, Some("2026-01-01T04:00:00Z"), "2026-01-01T05:00:00Z", true),
    ] {
        let plan = Plan { fire: fire.map(at), next: Some(at(next)), dropped };
        assert_eq!(hourly.plan(due, at(now), catch_up, max), plan, "{now} {catch_up:?} {max}");
    }
}

#[test]
fn an_entry_between_two_times_fires_nothing_from_before_it() {
    // The due time was set to a time outside the schedule.
    let hourly = Schedule::new("0 * * * *", "UTC").expect("a schedule");
    let (due, now) = (at("2026-01-01T01:30:00Z"), at("2026-01-01T01:40:00Z"));
    assert_eq!(hourly.plan(due, now, CatchUp::Last, 9).fire, Some(due));
}

#[test]
fn the_node_shows_the_runs_variables() {
    let data = parsed(&json!({"mode": "cron", "cron_expression": "@daily", "tidemill": {"catch_up": "all"}}));
    assert_eq!((data.catch_up, data.schedule.zone()), (CatchUp::All, "UTC"));
    let pool = Pool::new(json!({"n": {"note": "x"}, "sys": {"timestamp": 5}}));
    let result = data.evaluate("n", &pool);
    let names: Vec<&str> = result.outputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["note", "sys.timestamp"]);
    assert_eq!(result.inputs, result.outputs);
}
