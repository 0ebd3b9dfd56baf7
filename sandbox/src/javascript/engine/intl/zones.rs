//! Offsets of time zones, from the same table of zones that schedules use.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

/// Returns the zone's name as its database spells it; upper and lower case in `name` do not matter.
pub(super) fn named(name: &str) -> Option<&'static str> {
    TZ_VARIANTS.iter().map(|zone| zone.name()).find(|known| known.eq_ignore_ascii_case(name))
}

/// Rules that are newer than the table: since that second, a zone has one offset.
const SINCE: [(&str, i64, i32); 7] = [
    ("Africa/Casablanca", 1_789_866_000, 0),
    ("Africa/El_Aaiun", 1_789_866_000, 0),
    ("America/Edmonton", 1_772_960_400, -6 * 3600),
    ("America/Vancouver", 1_772_964_000, -7 * 3600),
    ("America/Yellowknife", 1_772_960_400, -6 * 3600),
    ("Canada/Mountain", 1_772_960_400, -6 * 3600),
    ("Canada/Pacific", 1_772_964_000, -7 * 3600),
];
/// Zones whose table is wrong before 1976.
const UNKNOWN: [&str; 4] =
    ["America/Ensenada", "America/Santa_Isabel", "America/Tijuana", "Mexico/BajaNorte"];
const YEAR_1976: i64 = 189_302_400;

/// Returns the seconds that a zone is ahead of UTC at an instant, if they are known.
pub(super) fn offset(name: &str, seconds: f64) -> Option<i32> {
    let zone: Tz = name.parse().ok()?;
    // Dates of JavaScript are far inside the range.
    #[allow(clippy::cast_possible_truncation)]
    let second = seconds.floor() as i64;
    if second < YEAR_1976 && UNKNOWN.contains(&name) {
        return None;
    }
    if let Some((_, _, offset)) = SINCE.iter().find(|(zone, since, _)| *zone == name && second >= *since) {
        return Some(*offset);
    }
    let instant = DateTime::from_timestamp(second, 0)?;
    Some(zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc())
}
