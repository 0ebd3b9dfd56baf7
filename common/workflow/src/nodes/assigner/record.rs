//! The record of the writes. The written value of a secret is the plain one; the recorded value is masked.

use serde_json::{Value as Json, json};

use crate::nodes::VariableUpdate;
use crate::nodes::condition::secrets::Secrets;
use tidemill_base::value::{JsonMap, SegmentType};

/// Final values by name. Variables of the same name under different nodes collide, as on Dify.
pub(super) fn finals(updates: &[VariableUpdate], secrets: &Secrets<'_>) -> JsonMap {
    updates.iter().map(|update| (update.name.clone(), shown(update, secrets))).collect()
}

/// Adds Dify's list of updated variables.
pub(super) fn updated(mut record: JsonMap, updates: &[VariableUpdate], secrets: &Secrets<'_>) -> JsonMap {
    let list = updates.iter().map(|update| {
        json!({
            "name": update.name,
            "selector": [update.node, update.name],
            "value_type": update.value.ty.name(),
            "new_value": shown(update, secrets),
        })
    });
    record.insert("__updated_variables".into(), list.collect::<Vec<_>>().into());
    record
}

fn shown(update: &VariableUpdate, secrets: &Secrets<'_>) -> Json {
    if update.value.ty == SegmentType::Secret {
        return update.value.log().into();
    }
    secrets.hide_in(update.value.value.clone())
}
