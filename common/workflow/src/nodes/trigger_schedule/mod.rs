//! The `trigger-schedule` node: starts a run at the times of a schedule. [`cron`] reads the schedule, [`times`]
//! computes the times. The node itself only shows the run's variables.

pub mod cron;
pub mod times;

use serde_json::Value as Json;

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, mapping};
use super::trigger::{own, system};
use crate::dsl::Problems;
use crate::dsl::fields::Fields;
use tidemill_base::value::{JsonMap, Variables};

pub use times::{CatchUp, Plan, Schedule};

/// Configuration of `trigger-schedule`.
#[derive(Debug, Clone)]
pub struct TriggerScheduleData {
    /// The times of the trigger.
    pub schedule: Schedule,
    /// Treatment of missed times (`tidemill.catch_up`).
    pub catch_up: CatchUp,
}

impl TriggerScheduleData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let cron = cron::read(data, problems);
        let zone = match data.get("timezone") {
            None | Some(Json::Null) => Some("UTC"),
            Some(_) => Fields::new(data, INVALID_NODE_DATA).text("timezone", problems),
        };
        let catch_up = catch_up(data, problems);
        let ((key, cron), zone) = (cron?, zone?);
        match Schedule::new(&cron, zone) {
            Ok(schedule) => Some(Self { schedule, catch_up: catch_up? }),
            Err(error) => {
                let place = if matches!(error, times::ScheduleError::Zone(_)) { "timezone" } else { key };
                problems.within(place, |problems| problems.error(INVALID_NODE_DATA, error.to_string()));
                None
            }
        }
    }

    /// Runs the node: it shows the run's variables.
    pub fn evaluate(&self, id: &str, variables: &dyn Variables) -> NodeResult {
        let mut outputs = own(id, variables);
        outputs.extend(system(variables));
        NodeResult { inputs: outputs.clone(), outputs, ..NodeResult::default() }
    }
}

fn catch_up(data: &JsonMap, problems: &mut Problems) -> Option<CatchUp> {
    // The check of the settings of all nodes covers the block's type and its other keys.
    let Some(block) = data.get("tidemill").and_then(Json::as_object) else { return Some(CatchUp::default()) };
    let fields = Fields::new(block, INVALID_NODE_DATA);
    if fields.given("catch_up").is_none() {
        return Some(CatchUp::default());
    }
    problems.within("tidemill", |problems| {
        fields.one_of("catch_up", &CatchUp::NAMES, problems).and_then(CatchUp::from_name)
    })
}

/// The visual editor's configuration, for [`cron`].
fn visual_config<'a>(data: &'a JsonMap, problems: &mut Problems) -> Option<&'a JsonMap> {
    match data.get("visual_config") {
        None | Some(Json::Null) => {
            Fields::new(data, INVALID_NODE_DATA).wrong("visual_config", "a mapping", problems);
            None
        }
        Some(given) => problems.within("visual_config", |problems| mapping(given, problems)),
    }
}

#[cfg(test)]
mod tests;
