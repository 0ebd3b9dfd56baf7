//! `workflow_paused`, and the events of forms: `human_input_required`, `human_input_form_filled`,
//! `human_input_form_timeout`.

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::EventRecord;

use crate::runs::forms::FormTokens;
use crate::runs::pauses::Pause;
use crate::runs::projection::{Projection, field, node, text};

/// Creates the tokens of one run's forms.
#[derive(Debug, Clone)]
pub struct FormsOfRun {
    pub run: RunId,
    pub tokens: FormTokens,
}

impl Projection {
    /// The run waits. The payload contains its forms completely, as Dify's clients need them.
    pub(super) fn workflow_paused(&self, record: &EventRecord) -> Json {
        let reasons = field(record, "reasons", json!([]));
        let reasons = reasons.as_array().map(Vec::as_slice).unwrap_or_default();
        let pauses = field(record, "pauses", json!([]));
        let pauses: Vec<Pause> = pauses.as_array().into_iter().flatten().filter_map(Pause::of_json).collect();
        let paused_nodes: Vec<&Json> = reasons.iter().filter_map(|reason| reason.get("node_id")).collect();
        let reasons: Vec<Json> = reasons.iter().map(|reason| self.reason(reason, &pauses)).collect();
        let data = json!({
            "workflow_run_id": self.run.id,
            "paused_nodes": paused_nodes,
            "outputs": {},
            "reasons": reasons,
            "status": "paused",
            "created_at": self.created_at,
            "elapsed_time": self.elapsed(record),
            "total_tokens": self.totals.tokens,
            "total_steps": self.totals.steps,
        });
        self.envelope("workflow_paused", data)
    }

    fn reason(&self, reason: &Json, pauses: &[Pause]) -> Json {
        let session = reason.get("session_id").and_then(Json::as_str);
        let Some(pause) = pauses.iter().find(|pause| Some(pause.id.as_str()) == session) else {
            return reason.clone();
        };
        let mut form = JsonMap::new();
        form.insert("TYPE".into(), "human_input_required".into());
        form.extend(pause.dify(self.form_token(&pause.id)));
        Json::Object(form)
    }

    pub(super) fn human_input_required(&self, record: &EventRecord) -> Option<Json> {
        let pause = Pause::of_json(record.data.get("pause")?)?;
        let data = pause.dify(self.form_token(&pause.id));
        Some(self.envelope("human_input_required", Json::Object(data)))
    }

    pub(super) fn form_filled(&self, record: &EventRecord) -> Json {
        let data = json!({
            "node_id": text(record, "node_id"),
            "node_title": node::title(self.node(record)),
            "rendered_content": text(record, "rendered_content"),
            "action_id": text(record, "action_id"),
            "action_text": text(record, "action_text"),
            "submitted_data": field(record, "submitted_data", json!({})),
        });
        self.envelope("human_input_form_filled", data)
    }

    pub(super) fn form_timeout(&self, record: &EventRecord) -> Json {
        let data = json!({
            "node_id": text(record, "node_id"),
            "node_title": node::title(self.node(record)),
            "expiration_time": field(record, "expiration_time", Json::Null),
        });
        self.envelope("human_input_form_timeout", data)
    }

    fn form_token(&self, pause: &str) -> String {
        self.run.forms.as_ref().map_or_else(String::new, |forms| forms.tokens.token(forms.run, pause))
    }
}
