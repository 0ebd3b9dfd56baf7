//! Rewrites hooks with keys in camel case and types in upper case.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    let Some(Json::Array(hooks)) = data.get_mut("hooks") else { return };
    for hook in hooks.iter_mut().filter_map(Json::as_object_mut) {
        for (from, to) in [
            ("hookType", "hook_type"),
            ("eventName", "event_name"),
            ("eventPayload", "event_payload"),
            ("createCheckpoint", "create_checkpoint"),
            ("continueOnError", "continue_on_error"),
        ] {
            if !hook.contains_key(to)
                && let Some(value) = hook.remove(from)
            {
                hook.insert(to.to_string(), value);
            }
        }
        if let Some(name) = hook.get("hook_type").and_then(Json::as_str)
            && ["BEFORE_EXECUTE", "AFTER_EXECUTE"].contains(&name)
        {
            let name = name.to_ascii_lowercase();
            hook.insert("hook_type".into(), name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn xc_09_each_spelling_becomes_the_one_form() {
        let mut data = json!({"hooks": [{"hookType": "BEFORE_EXECUTE", "eventName": "e", "eventPayload": {},
            "createCheckpoint": true, "continueOnError": false, "weight": 1}, 3]});
        let data = data.as_object_mut().unwrap();
        rewrite(data);
        let canonical = json!({"hooks": [{"hook_type": "before_execute", "event_name": "e", "event_payload": {},
            "create_checkpoint": true, "continue_on_error": false, "weight": 1}, 3]});
        assert_eq!(Json::Object(data.clone()), canonical);
        rewrite(data);
        assert_eq!(Json::Object(data.clone()), canonical);
    }
}
