//! What a strategy of a plugin says: its text while it comes, its log as events, and its outputs at the end.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::agent::AgentData;
use tidemill_common::nodes::agent::log::{AgentLog, LogStatus, Logs};
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};
use tidemill_common::nodes::tool::Message;
use tidemill_common::nodes::tool::outputs::Collected;
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::value::{JsonMap, Segment, SegmentType};

use super::super::Means;
use super::super::text_stream::TextStream;
use super::{info, map};
use crate::attempt::executor::{PieceSink, ThoughtSink};
use crate::nodes::tool::files;
use crate::outside::plugins::{FoundStrategy, StrategyMessage};

/// Most lines of the log and lists of sources that are shown. A plugin can write more.
const EVENTS_MAX: usize = 1_000;

/// Takes the messages of one invocation.
pub(super) struct Telling<'a> {
    data: &'a AgentData,
    node: &'a Node,
    means: Means<'a>,
    text: TextStream<'a>,
    collected: Collected,
    json: Vec<Json>,
    logs: Logs,
    /// Lines of the log, and lists of sources.
    events: usize,
    /// The first message that cannot be used.
    wrong: Option<NodeFailure>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(
        data: &'a AgentData,
        node: &'a Node,
        means: Means<'a>,
        on_thought: ThoughtSink<'a>,
    ) -> Self {
        Self {
            data,
            node,
            means,
            text: TextStream::new(data.reasoning, means.on_piece, on_thought),
            collected: Collected::default(),
            json: Vec::new(),
            logs: Logs::default(),
            events: 0,
            wrong: None,
        }
    }

    pub(super) fn take(&mut self, message: StrategyMessage) {
        match message {
            StrategyMessage::Log(log) => self.log(&log),
            StrategyMessage::Resources(resources) if self.may_show() => {
                let mut event = map(&resources);
                event.insert("node_id".into(), json!(self.node.id.as_str()));
                self.send(StepEvent::RetrieverResource, event);
            }
            StrategyMessage::Resources(_) => {}
            StrategyMessage::Tool(Message::Text(text)) => self.text.push(&text),
            // The plugin's own sum of the cost: this worker has counted it already.
            StrategyMessage::Tool(Message::Json(mut value)) => {
                let is_cost =
                    value.as_object_mut().and_then(|map| map.shift_remove("execution_metadata")).is_some();
                if !is_cost || value.as_object().is_some_and(|rest| !rest.is_empty()) {
                    self.json.push(value);
                }
            }
            StrategyMessage::Tool(Message::Link { text, file: None }) => {
                self.text.push(&format!("Link: {text}\n"));
            }
            StrategyMessage::Tool(message) => match self.collected.take(message) {
                Ok(Some((output, piece))) if output == "text" => self.text.push(&piece),
                Ok(Some((output, piece))) => (self.means.on_piece)(&output, &piece),
                Ok(None) => {}
                Err(failure) => {
                    self.wrong.get_or_insert(failure);
                }
            },
        }
    }

    /// Counts an event. False for one too much.
    fn may_show(&mut self) -> bool {
        self.events += 1;
        self.events <= EVENTS_MAX
    }

    fn log(&mut self, log: &Json) {
        if !self.may_show() {
            return;
        }
        let text = |key: &str| log[key].as_str().map(str::to_owned);
        let secrets = self.means.journal.secrets();
        let log = AgentLog {
            id: text("id").unwrap_or_default(),
            parent: text("parent_id"),
            label: secrets.masked(text("label").unwrap_or_default()),
            status: match log["status"].as_str() {
                Some("success") => LogStatus::Success,
                Some("error") => LogStatus::Error,
                _ => LogStatus::Start,
            },
            error: text("error").map(|error| secrets.masked(error)),
            data: secrets.hidden_in(map(&log["data"])),
            metadata: secrets.hidden_in(map(&log["metadata"])),
        };
        let event = log.event(&self.means.execution, self.node.id.as_str());
        self.logs.note(log);
        self.send(StepEvent::AgentLog, event);
    }

    /// Sends an event after the text so far.
    fn send(&self, event: StepEvent, data: JsonMap) {
        (self.means.flush)();
        self.means.journal.emit(vec![(event, data)]);
    }

    pub(super) fn metadata(&self, found: &FoundStrategy) -> JsonMap {
        let log = self.logs.to_json(self.node.id.as_str());
        JsonMap::from_iter([
            ("tool_info".to_owned(), info(self.data, &found.plugin())),
            ("agent_log".to_owned(), Json::Array(log)),
        ])
    }

    /// The outputs, as Dify's agent node has them.
    ///
    /// # Errors
    /// A message that cannot be used, or a file that cannot be stored.
    pub(super) async fn end(
        mut self,
        found: &FoundStrategy,
        spent: Option<Usage>,
    ) -> Result<Outcome, NodeFailure> {
        if let Some(failure) = self.wrong.take() {
            return Err(failure);
        }
        self.collected.end()?;
        let own = self.metadata(found);
        let usage = spent.unwrap_or_else(|| usage::bill(Tokens::default(), None, Timing::default()));
        let (text, thoughts) = self.text.end();
        let pending = std::mem::take(&mut self.collected.files);
        let Means { run, http, files: place, .. } = self.means;
        let files = files::kept(pending, run, http, place).await?;
        let mut json = self.logs.outputs(self.node.id.as_str());
        if self.json.is_empty() {
            json.push(json!({"data": []}));
        }
        json.append(&mut self.json);
        let of_variables = self.collected.outputs(Vec::new());
        let mut outputs = vec![
            ("text".to_owned(), Segment::string(text)),
            ("reasoning_content".to_owned(), Segment::string(thoughts)),
            ("usage".to_owned(), Segment::new(SegmentType::Object, Json::Object(usage.record.clone()))),
            ("files".to_owned(), Segment::new(SegmentType::ArrayFile, Json::Array(files))),
            ("json".to_owned(), Segment::new(SegmentType::ArrayObject, Json::Array(json))),
        ];
        let is_new = |name: &str| outputs.iter().all(|(known, _)| known != name);
        let more: Vec<_> = of_variables.into_iter().filter(|(name, _)| is_new(name)).collect();
        outputs.extend(more);
        let mut metadata = usage::metadata(&usage);
        metadata.extend(own);
        Ok(Outcome { outputs, metadata, usage })
    }
}

/// The result of an invocation.
pub(super) struct Outcome {
    outputs: Vec<(String, Segment)>,
    metadata: JsonMap,
    usage: Usage,
}

impl Outcome {
    pub(super) fn to_json(&self) -> Json {
        let outputs = self.outputs.iter();
        let outputs: Vec<Json> =
            outputs.map(|(name, segment)| json!([name, segment.ty.name(), segment.value])).collect();
        json!({"outputs": outputs, "metadata": self.metadata, "usage": self.usage.record})
    }

    pub(super) fn read(known: &Json) -> Option<Self> {
        let outputs = known["outputs"].as_array()?.iter().map(|output| {
            let ty: SegmentType = output.get(1)?.as_str()?.parse().ok()?;
            Some((output.get(0)?.as_str()?.to_owned(), Segment::new(ty, output.get(2)?.clone())))
        });
        Some(Self {
            outputs: outputs.collect::<Option<_>>()?,
            metadata: map(&known["metadata"]),
            usage: Usage::from_record(map(&known["usage"])),
        })
    }

    /// Sends the text again, because the reader does not know what an earlier worker has sent.
    pub(super) fn stream(&self, on_piece: PieceSink<'_>) {
        let text =
            self.outputs.iter().find(|(name, _)| name == "text").and_then(|(_, text)| text.value.as_str());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            on_piece("text", text);
        }
    }

    pub(super) fn result(self, result: NodeResult) -> NodeResult {
        let Self { outputs, metadata, usage } = self;
        NodeResult { outputs, metadata, usage: Some(usage), ..result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_comes_back_as_it_was() {
        let outcome = Outcome {
            outputs: vec![("text".into(), Segment::string("a")), ("n".into(), Segment::infer(json!(1)))],
            metadata: map(&json!({"agent_log": []})),
            usage: Usage::from_record(map(&json!({"total_tokens": 3}))),
        };
        let read = Outcome::read(&outcome.to_json()).unwrap();
        assert_eq!((&read.outputs, read.usage.total_tokens), (&outcome.outputs, 3));
        assert!(Outcome::read(&json!({"outputs": [["a"]]})).is_none());
    }
}
