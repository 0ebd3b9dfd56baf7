//! When a schedule fires: the next time, the last one, and what is to be done about times that were missed.
//!
//! Times are those of the schedule's zone. Where a clock is put forward, a time of day that the day lacks fires at the
//! first moment behind the gap; where it is put back, a time of day that comes twice fires the first time only. A
//! schedule of an interval (a `*` or a step among minutes or hours) goes by the clock on the wall instead: it fires at no time
//! that does not exist and at both that come twice.

use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::clock::Timestamp;

/// Words for a whole expression, and what they stand for.
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
/// How late a time may be fired where missed times are not caught up: a fleet that starts anew has missed nothing yet.
const LATE_MAX: Duration = Duration::from_secs(60);

/// Why a schedule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression.
    #[error("ScheduleConfigError: {expression:?} is no cron expression of five fields: {reason}")]
    Expression {
        /// What was given.
        expression: String,
        /// What is wrong.
        reason: String,
    },
    /// The zone.
    #[error("ScheduleConfigError: {0:?} is no time zone; take a name such as Europe/Paris")]
    Zone(String),
    /// No day fits.
    #[error("ScheduleConfigError: {0:?} names no time that ever comes")]
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
    /// A schedule.
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
            return Err(wrong(format!("it has {count} fields, and is none of {}", names.join(" "))));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
        let cron = parser.build().parse(fields);
        // The library puts seconds and years where there were none only for what it takes as optional.
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
    /// The first time behind a moment.
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        self.cron.find_next_occurrence(&self.local(moment)?, false).ok().map(|time| back(&time))
    }
    /// The last time at a moment or before it.
    pub fn until(&self, moment: Timestamp) -> Option<Timestamp> {
        self.cron.find_previous_occurrence(&self.local(moment)?, true).ok().map(|time| back(&time))
    }
    fn local(&self, moment: Timestamp) -> Option<DateTime<Tz>> {
        let utc: DateTime<Utc> = DateTime::from_timestamp(moment.seconds(), 0)?;
        Some(self.zone.from_utc_datetime(&utc.naive_utc()))
    }

    /// What to do at `now` about a schedule that was due at `due` or has been ever since. Of missed times, at most `max` are
    /// caught up, the newest.
    pub fn plan(&self, due: Timestamp, now: Timestamp, catch_up: CatchUp, max: u64) -> Plan {
        if due > now {
            return Plan { fire: None, next: Some(due), dropped: false };
        }
        // Never before what was due: going back must not fire again what has been.
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

/// What becomes of times at which nobody was there to fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// The last of them is fired, late.
    #[default]
    Last,
    /// None is.
    None,
    /// Each is, oldest first, within a bound.
    All,
}

impl CatchUp {
    /// The words for them.
    pub const NAMES: [&'static str; 3] = ["last", "none", "all"];
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::None => "none",
            Self::All => "all",
        }
    }
    /// What a word means.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Last, Self::None, Self::All].into_iter().find(|known| known.name() == name)
    }
}

/// What is to be done about a schedule now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Start the run of this time.
    pub fire: Option<Timestamp>,
    /// When it is due then; none when no time ever comes again.
    pub next: Option<Timestamp>,
    /// Times before were passed over.
    pub dropped: bool,
}
