//! `SLOT`: fills the fields of a schema from given values and the conversation. Fields that are still missing become an
//! output, or a person is asked for them if the step wants that.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::NodeData;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{Standard, standard};
use tidemill_common::slots::{Filled, Schema, with_overrides};
use tidemill_common::value::JsonMap;

use crate::outside::calls::params::{Asking, sources};
use crate::outside::calls::search::Search;
use crate::outside::calls::{Call, CallContext, ChunkSink, resolve};

pub(super) struct Slot;

#[async_trait::async_trait]
impl Call for Slot {
    fn standard(&self) -> Option<Standard> {
        standard("Slot")
    }
    async fn init(&self, cx: CallContext<'_>, mut params: JsonMap) -> Result<JsonMap, CallError> {
        if !params.contains_key("schema") {
            let target = params.get("target_node").and_then(Json::as_str).unwrap_or_default();
            params.insert("schema".into(), schema_of(cx, target).await?);
        }
        Ok(params)
    }
    fn is_kept(&self) -> bool {
        false
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        let schema = Schema::new(input.get("schema").cloned().unwrap_or_else(|| json!({})));
        let schema = schema.map_err(|error| CallError::of("ValueError", error.to_string()))?;
        let data = input.get("data").and_then(Json::as_object).cloned().unwrap_or_default();
        let mut filled = Filled::begin(&schema, data);
        filled.take_defaults(&schema);
        let sources = sources(cx.background);
        let search = Search {
            schema: &schema,
            sources: &sources,
            language: cx.language,
            providers: cx.providers,
            profile: cx.profile(&input),
            secrets: cx.secrets,
            journal: cx.journal,
            key: "slot",
        };
        let searched = search.run(&mut filled).await;
        if !filled.is_complete() && input.get("on_missing").and_then(Json::as_str) == Some("pause") {
            let is_interactive = cx.options.choices().interactive;
            let (step_events, secrets) = (cx.step_events, cx.secrets);
            let asking =
                Asking { search: &search, journal: cx.journal, is_interactive, step_events, secrets };
            asking.run(&mut filled, searched.error.as_deref()).await?;
        }
        let mut output = filled.output().object();
        if let Some(error) = searched.error {
            output.insert("slot_error".into(), error.into());
        }
        out(Chunk::Data(output));
        Ok(())
    }
}

/// The schema of another node's input.
async fn schema_of(cx: CallContext<'_>, target: &str) -> Result<Json, CallError> {
    let node = cx.graph.find(target).map(|ix| cx.graph.node(ix));
    let Some(NodeData::Step(data)) = node.map(|node| &node.data) else {
        return Err(CallError::of(
            "ValueError",
            format!("target_node {target:?} is not a node that runs a call"),
        ));
    };
    let found = resolve(data.id(), cx.calls).await?;
    let library = found.library.as_ref().map(|library| library.override_input.clone()).unwrap_or_default();
    Ok(with_overrides(&with_overrides(&found.call.input_schema(), &library), &data.override_input))
}
