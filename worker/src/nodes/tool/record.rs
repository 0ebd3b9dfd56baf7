//! The outputs of a call as the journal stores them.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::tool::outputs::RESERVED;
use tidemill_common::value::{Segment, SegmentType};

use crate::attempt::executor::PieceSink;

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Recorded {
    /// The outputs; their files are stored.
    pub(super) outputs: Vec<(String, Segment)>,
    /// The names of streamed outputs.
    pub(super) streamed: Vec<String>,
    /// The cost, if the tool reports one.
    pub(super) usage: Option<Usage>,
    /// The plugin that has run it: `author/name:version`.
    pub(super) plugin: Option<String>,
}

impl Recorded {
    pub(super) fn to_json(&self) -> Json {
        let outputs = self.outputs.iter();
        let outputs: Vec<Json> =
            outputs.map(|(name, segment)| json!([name, segment.ty.name(), segment.value])).collect();
        let mut value = json!({"outputs": outputs, "streamed": self.streamed});
        if let Some(usage) = &self.usage {
            value["usage"] = Json::Object(usage.record.clone());
        }
        if let Some(plugin) = &self.plugin {
            value["plugin"] = plugin.as_str().into();
        }
        value
    }

    pub(super) fn from_json(value: &Json) -> Option<Self> {
        let outputs = value.get("outputs")?.as_array()?.iter().map(|output| {
            let ty: SegmentType = output.get(1)?.as_str()?.parse().ok()?;
            Some((output.get(0)?.as_str()?.to_owned(), Segment::new(ty, output.get(2)?.clone())))
        });
        let streamed = value.get("streamed")?.as_array()?.iter().map(|name| name.as_str().map(str::to_owned));
        Some(Self {
            outputs: outputs.collect::<Option<_>>()?,
            streamed: streamed.collect::<Option<_>>()?,
            usage: value.get("usage").and_then(Json::as_object).cloned().map(Usage::from_record),
            plugin: value.get("plugin").and_then(Json::as_str).map(str::to_owned),
        })
    }

    /// Sends the streamed texts again, because the reader does not know what an earlier worker has sent.
    pub(super) fn stream(&self, on_piece: PieceSink<'_>) {
        for (name, value) in &self.outputs {
            match value.value.as_str() {
                Some(text) if self.streamed.contains(name) => on_piece(name, text),
                Some(_) | None if RESERVED.contains(&name.as_str()) => {}
                Some(_) | None => on_piece(name, ""),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn outputs_come_back_as_they_were_and_are_told_again() {
        let recorded = Recorded {
            outputs: vec![
                ("text".into(), Segment::string("a")),
                ("files".into(), Segment::new(SegmentType::ArrayFile, json!([]))),
                ("story".into(), Segment::string("once")),
                ("temp".into(), Segment::infer(json!(4.5))),
            ],
            streamed: vec!["text".into(), "story".into()],
            usage: json!({"total_tokens": 3}).as_object().cloned().map(Usage::from_record),
            plugin: Some("acme/maps:1".into()),
        };
        assert_eq!(Recorded::from_json(&recorded.to_json()), Some(recorded.clone()));
        let streamed = Mutex::new(Vec::new());
        recorded.stream(&|name, text| streamed.lock().unwrap().push(format!("{name}={text}")));
        assert_eq!(*streamed.lock().unwrap(), ["text=a", "story=once", "temp="]);
        assert_eq!(Recorded::from_json(&json!({"outputs": [["a"]]})), None);
    }
}
