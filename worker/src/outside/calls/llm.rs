//! `LLM`: asks a model with two Jinja prompts, which may use the time, the question, and the last steps.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::nodes::step::texts::{LLM_SYSTEM_PROMPT, LLM_USER_PROMPT, Text};
use tidemill_common::nodes::step::{CallError, Chunk, HISTORY_SIZE};
use tidemill_common::registry::calls::{LLM_TEMPERATURE, Standard, standard};
use tidemill_common::value::jinja::{JinjaError, JinjaTemplate};
use tidemill_common::value::{JsonMap, Segment};

use crate::jobs::shared::now;
use crate::outside::calls::model;
use crate::outside::calls::model::messages;
use crate::outside::calls::{Call, CallContext, ChunkSink};

/// Fuel for rendering a prompt: some ten seconds of work.
const FUEL: u64 = 1_000_000_000;

pub(super) struct Llm;

#[async_trait::async_trait]
impl Call for Llm {
    fn standard(&self) -> Option<Standard> {
        standard("LLM")
    }
    fn templates(&self) -> &'static [&'static str] {
        &["system_prompt", "user_prompt"]
    }
    async fn init(&self, cx: CallContext<'_>, params: JsonMap) -> Result<JsonMap, CallError> {
        let size = params.get("step_history_size").map_or(Some(HISTORY_SIZE), Json::as_u64);
        let size = size.filter(|size| (1..=10).contains(size)).ok_or_else(|| {
            CallError::of("ValueError", "step_history_size must be a whole number from 1 to 10")
        })?;
        let context = match params.get("enable_context") {
            Some(Json::Bool(false)) => String::new(),
            _ => {
                let mut background = cx.background.clone();
                let first =
                    background.history.len().saturating_sub(usize::try_from(size).unwrap_or(usize::MAX));
                background.history.drain(..first);
                background.context()
            }
        };
        let names = [
            ("time".to_owned(), Segment::string(shown(now()))),
            ("context".to_owned(), Segment::string(context)),
            ("question".to_owned(), Segment::string(&cx.background.question)),
        ];
        let render = |key: &str, default: Text| {
            let source = params.get(key).and_then(Json::as_str).unwrap_or_else(|| default.of(cx.language));
            let rendered =
                JinjaTemplate::new(source).render(&names, cx.options.template_undefined, Some(FUEL));
            rendered.map_err(|error| match error {
                JinjaError::OutOfFuel => {
                    CallError::new(format!("{key}: the prompt takes too long to render"))
                }
                JinjaError::Failed(reason) => {
                    CallError::new(format!("{key}: the prompt cannot be rendered: {reason}"))
                }
            })
        };
        let (system, user) =
            (render("system_prompt", LLM_SYSTEM_PROMPT)?, render("user_prompt", LLM_USER_PROMPT)?);
        let mut input = params;
        input.insert("system_prompt".into(), system.into());
        input.insert("user_prompt".into(), user.into());
        input.entry("temperature").or_insert_with(|| json!(LLM_TEMPERATURE));
        Ok(input)
    }
    fn is_kept(&self) -> bool {
        false
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        let text = |key: &str| input.get(key).and_then(Json::as_str).unwrap_or_default();
        let model = model::find(cx.providers, cx.profile(&input)).await?;
        let temperature = input.get("temperature").cloned().unwrap_or_else(|| json!(LLM_TEMPERATURE));
        let params = JsonMap::from_iter([("temperature".to_owned(), temperature)]);
        let messages = messages(text("system_prompt"), text("user_prompt"));
        let mut on_delta = |piece: &str| out(Chunk::Text(piece.to_owned()));
        let reply = model.ask(cx.journal, "llm:1", messages, params, &mut on_delta).await?;
        cx.spend(reply.usage);
        Ok(())
    }
}

/// Formats a time as `2026-01-31 10:00:00`, in UTC.
fn shown(at: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp_millis(at.millis());
    time.map(|time| time.format("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}
