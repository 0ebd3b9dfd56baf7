//! A stream that a client opens again without event ids begins with the start of the run, so that nothing is missing. Forms
//! and pauses that are over are left out of this repetition: a client that has just answered a form would take its
//! `workflow_paused` for a new one.

use serde_json::Value as Json;

/// Holds forms and the pause back until it is known which of them are still open.
#[derive(Debug, Default)]
pub(super) struct Replay {
    forms: Vec<Json>,
    paused: Option<Json>,
}

impl Replay {
    /// The payload, unless it is held back.
    pub(super) fn pass(&mut self, payload: Json) -> Option<Json> {
        match payload["event"].as_str() {
            Some("human_input_required") => self.forms.push(payload),
            Some("workflow_paused") => self.paused = Some(payload),
            Some("workflow_started") if payload["data"]["reason"] == "resumption" => {
                self.paused = None;
                return Some(payload);
            }
            Some(_) | None => return Some(payload),
        }
        None
    }

    /// True when nothing is held back.
    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty() && self.paused.is_none()
    }

    /// The payloads that were held back and still count. `is_open` says whether a form waits for an answer.
    pub(super) fn end(self, is_open: impl Fn(&str) -> bool) -> Vec<Json> {
        let is_open = |form: &Json| form["form_id"].as_str().is_some_and(&is_open);
        // A pause that a command has asked for has no form.
        let waits = |reason: &Json| reason.get("form_id").is_none() || is_open(reason);
        let forms = self.forms.into_iter().filter(|form| is_open(&form["data"])).collect::<Vec<_>>();
        let paused = self.paused.filter(|paused| {
            paused["data"]["reasons"].as_array().is_some_and(|reasons| reasons.iter().any(waits))
        });
        forms.into_iter().chain(paused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(id: &str) -> Json {
        json!({"event": "human_input_required", "data": {"form_id": id}})
    }

    fn paused(reasons: Json) -> Json {
        json!({"event": "workflow_paused", "data": {"reasons": reasons}})
    }

    /// The payloads at the end of the repetition, when only form `open` waits.
    fn ended(events: &[Json]) -> Vec<Json> {
        let mut replay = Replay::default();
        for event in events {
            replay.pass(event.clone());
        }
        replay.end(|form| form == "open")
    }

    #[test]
    fn only_open_forms_and_the_pause_that_waits_for_them_are_sent_again() {
        let resumed = json!({"event": "workflow_started", "data": {"reason": "resumption"}});
        let waits = paused(json!([{"form_id": "open"}]));
        let asked = paused(json!([{"TYPE": "scheduled_pause"}]));
        for (events, left) in [
            (vec![form("open"), waits.clone()], vec![form("open"), waits.clone()]),
            (vec![form("done"), paused(json!([{"form_id": "done"}]))], vec![]),
            (vec![form("done"), waits.clone(), resumed.clone(), form("open")], vec![form("open")]),
            (vec![asked.clone()], vec![asked]),
            (vec![resumed], vec![]),
        ] {
            assert_eq!(ended(&events), left, "{events:?}");
        }
    }

    #[test]
    fn other_events_pass() {
        let mut replay = Replay::default();
        let started = json!({"event": "workflow_started", "data": {"reason": "initial"}});
        assert_eq!(replay.pass(started.clone()), Some(started));
        assert!(replay.is_empty());
        assert_eq!(replay.pass(form("f")), None);
        assert!(!replay.is_empty());
    }
}
