//! Parses JSON as Python does, repairs broken JSON of models, and reads stored values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use tidemill_common::value::pyrepr::{json_line, repr};
use tidemill_common::value::{Segment, json_repair, pyjson};
use tidemill_common::wire::codec::value::{named_from_json, stored_from_json};

fuzz_target!(|text: &str| {
    if let Ok(value) = pyjson::loads(text) {
        let written = json_line(&value);
        assert_eq!(
            pyjson::loads(&written).as_ref(),
            Ok(&value),
            "reading what was written gives the same value: {written}"
        );
        repr(&value);
        let segment = Segment::restore_files(value);
        (segment.text(), segment.markdown(), segment.log());
    }
    let _ = json_repair::repair(text);
    if let Ok(value) = serde_json::from_str::<Json>(text) {
        let _ = named_from_json(Some(value.clone()));
        let _ = stored_from_json(value);
    }
});
