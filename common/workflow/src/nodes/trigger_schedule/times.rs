//! The times of a schedule: the next, the last, and the treatment of missed ones.
//!
//! Times are in the schedule's zone. When the clock goes forward, a time of day in the gap fires at the first moment
//! after the gap. When it goes back, a time of day that comes twice fires only the first time. An interval schedule (a
//! `*` or a step in minutes or hours) follows local time instead: it does not fire at missing times and fires at both
//! repeated ones.

use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use tidemill_base::clock::Timestamp;

/// Names for whole expressions.
const NAMED: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];
const FIELDS: usize = 5;
/// The delay up to which a time still fires when missed times are not caught up, so that a restart misses none.
const LATE_MAX: Duration = Duration::from_secs(60);

/// The reason why a schedule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Invalid expression.
    #[error("ScheduleConfigError: {expression:?} is not a cron expression of five fields: {reason}")]
    Expression {
        /// As given.
        expression: String,
        reason: String,
    },
    /// Unknown time zone.
    #[error("ScheduleConfigError: {0:?} is not a time zone; use a name such as Europe/Paris")]
    Zone(String),
    /// No day matches.
    #[error("ScheduleConfigError: {0:?} matches no date")]
    Never(String),
}

/// A cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    expression: String,
    cron: Cron,
    zone: Tz,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, self.zone) == (&other.expression, other.zone)
    }
}

impl Schedule {
    /// Parses a schedule.
    ///
    /// # Errors
    /// [`ScheduleError`].
    pub fn new(expression: &str, zone: &str) -> Result<Self, ScheduleError> {
        let wrong = |reason: String| ScheduleError::Expression { expression: expression.to_string(), reason };
        let named = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(expression.trim()));
        let fields = named.map_or(expression.trim(), |(_, fields)| fields);
        let count = fields.split_whitespace().count();
        if count != FIELDS || fields.starts_with('@') {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            return Err(wrong(format!("it has {count} fields and is not one of {}", names.join(" "))));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
        let cron = parser.build().parse(fields);
        // With `Disallowed` the library reads five fields and adds none.
        let cron = cron.map_err(|error| wrong(error.to_string()))?;
        let zone: Tz = zone.parse().map_err(|_| ScheduleError::Zone(zone.to_string()))?;
        let schedule = Self { expression: expression.trim().to_string(), cron, zone };
        if schedule.after(Timestamp::default()).is_none() {
            return Err(ScheduleError::Never(schedule.expression));
        }
        Ok(schedule)
    }

    /// The expression, as given.
    pub fn expression(&self) -> &str {
        &self.expression
    }
    /// The zone's name.
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }
    /// The first time after a moment.
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        self.cron.find_next_occurrence(&self.local(moment)?, false).ok().map(|time| back(&time))
    }
    /// The last time at or before a moment.
    pub fn until(&self, moment: Timestamp) -> Option<Timestamp> {
        self.cron.find_previous_occurrence(&self.local(moment)?, true).ok().map(|time| back(&time))
    }
    fn local(&self, moment: Timestamp) -> Option<DateTime<Tz>> {
        let utc: DateTime<Utc> = DateTime::from_timestamp(moment.seconds(), 0)?;
        Some(self.zone.from_utc_datetime(&utc.naive_utc()))
    }

    /// Decides at `now` about a schedule that is due at `due`. Of missed times at most `max` are caught up, the newest.
    pub fn plan(&self, due: Timestamp, now: Timestamp, catch_up: CatchUp, max: u64) -> Plan {
        if due > now {
            return Plan { fire: None, next: Some(due), dropped: false };
        }
        // Never before the due time: earlier times have fired already.
        let last = self.until(now).map_or(due, |last| last.max(due));
        let after_now = self.after(now);
        match catch_up {
            CatchUp::Last => Plan { fire: Some(last), next: after_now, dropped: last > due },
            CatchUp::None if last.plus(LATE_MAX) >= now => {
                Plan { fire: Some(last), next: after_now, dropped: last > due }
            }
            CatchUp::None => Plan { fire: None, next: after_now, dropped: true },
            CatchUp::All => {
                let first = self.newest(due, last, max.max(1));
                Plan { fire: Some(first), next: self.after(first), dropped: first > due }
            }
        }
    }

    /// The oldest of the `max` newest times from `due` to `last`.
    fn newest(&self, due: Timestamp, last: Timestamp, max: u64) -> Timestamp {
        let mut first = last;
        for _ in 1..max {
            let before = Timestamp::from_micros(first.micros() - 1_000_000);
            match self.until(before) {
                Some(earlier) if earlier > due => first = earlier,
                Some(_) | None => return due,
            }
        }
        first
    }
}

fn back(time: &DateTime<Tz>) -> Timestamp {
    Timestamp::from_millis(time.timestamp_millis())
}

/// Treatment of times that were missed because no scheduler was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// The last of them fires, late.
    #[default]
    Last,
    /// None of them fires.
    None,
    /// All of them fire, oldest first, up to a limit.
    All,
}

impl CatchUp {
    /// The names.
    pub const NAMES: [&'static str; 3] = ["last", "none", "all"];
    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::None => "none",
            Self::All => "all",
        }
    }
    /// Finds a value by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Last, Self::None, Self::All].into_iter().find(|known| known.name() == name)
    }
}

/// The decision about a schedule at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Starts the run of this time.
    pub fire: Option<Timestamp>,
    /// The next due time. `None` when the schedule never fires again.
    pub next: Option<Timestamp>,
    /// True when earlier times were skipped.
    pub dropped: bool,
}
