//! Actions of people: they answer forms as the script says, and pause, resume and stop runs.

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Answered, PauseAnswer, RunCommand, Runs, Sent};
use tidemill_common::wire::fact::{kind, stop_body};

use super::shared::{Shared, at_once};
use crate::features::Features;
use crate::script::FormFate;

impl Shared {
    /// Acts on one of these runs, or does nothing.
    pub(crate) fn somebody_acts(&mut self, runs: &[RunId], features: Features) {
        let Some(run) = self.dice.pick(runs).copied().filter(|run| !self.is_still(run.shard())) else {
            return;
        };
        if features.forms && self.dice.percent(30) {
            self.answer_forms(run);
        }
        if features.pauses && self.dice.percent(4) {
            let pause = RunCommand::new(kind::PAUSE, "{\"reason\":\"wait\"}".into());
            if self.command(run, &pause) {
                self.count("runs paused");
            }
        }
        if features.pauses && self.dice.percent(10) {
            self.command(run, &RunCommand::new(kind::RESUME, "{}".into()));
        }
        // Most stories have no stop, because it cuts them short.
        if features.stops
            && self.dice.permille(8)
            && self.command(run, &RunCommand::new(kind::STOP, stop_body("enough")))
        {
            self.count("runs stopped");
            self.watch.stop_sent(run);
        }
    }

    /// Answers all that waits for a person, except the forms that expire in the script.
    ///
    /// A form may wait while other nodes of its run are working. Before a long time passes such forms are answered too:
    /// otherwise they could expire against the script in a run that works for longer.
    pub(crate) fn everybody_acts(&mut self, runs: &[RunId], is_long_time_next: bool) {
        for run in runs {
            let fields = at_once(self.store.run_fields(*run)).ok().flatten().unwrap_or_default();
            let is_paused = fields.get("status").map(String::as_str) == Some(RunStatus::Paused.name());
            if !is_paused && !is_long_time_next {
                continue;
            }
            if self.answer_forms(*run) == 0 && is_paused {
                self.command(*run, &RunCommand::new(kind::RESUME, "{}".into()));
            }
        }
    }

    fn command(&mut self, run: RunId, command: &RunCommand) -> bool {
        let sent = at_once(self.store.send_command(run, command));
        let is_accepted = matches!(sent, Ok(Sent::Accepted));
        if is_accepted {
            self.log(|| format!("a person commands {run}: {} {}", command.kind, command.body));
        }
        is_accepted
    }

    /// Answers the pending forms of a run. Returns the number of pending forms.
    fn answer_forms(&mut self, run: RunId) -> usize {
        let mut pauses = at_once(self.store.pauses(run)).unwrap_or_default();
        // The fields of a hash have no order, but a story must have one.
        pauses.sort();
        let mut pending = 0;
        for (id, text) in pauses.into_iter().filter(|(id, _)| !id.ends_with(":answer")) {
            let pause: Json = serde_json::from_str(&text).unwrap_or_default();
            if pause["status"] != "pending" {
                continue;
            }
            pending += 1;
            let place = |key: &str| pause[key].as_str().unwrap_or_default().to_string();
            let Some(plan) = self.plans.get(&run) else { continue };
            let fate = plan.script.form(&place("frame"), &place("node_id"));
            let FormFate::Answered(action, comment) = fate else { continue };
            let inputs = json!({ "comment": comment });
            let record = json!({"action": action, "inputs": &inputs}).to_string();
            let fact = json!({"pause": &id, "action": action, "inputs": &inputs}).to_string();
            let answer = PauseAnswer { key: None, record, fact: fact.clone() };
            let answered = at_once(self.store.answer_pause(run, &id, &answer));
            if matches!(answered, Ok(Answered::Accepted)) {
                self.log(|| format!("a person answers {fact} of {run}"));
                self.count("forms answered");
                self.remember(run, kind::ANSWER, fact);
            }
        }
        pending
    }
}
