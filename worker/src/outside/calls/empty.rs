//! `EMPTY`: a step that does nothing.

use serde_json::{Value as Json, json};
use tidemill_common::language::Language;
use tidemill_common::nodes::step::texts::Text;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::value::JsonMap;

use crate::outside::calls::{Call, CallContext, CallInfo, ChunkSink, info};

pub(super) struct Empty;

#[async_trait::async_trait]
impl Call for Empty {
    fn info(&self, language: Language) -> CallInfo {
        let name = Text { zh: "空白", en: "Empty" };
        info(language, name, Text { zh: "空白节点，用于占位", en: "Does nothing; holds a place" })
    }
    fn input_schema(&self) -> Json {
        json!({"type": "object"})
    }
    fn output_schema(&self) -> Option<Json> {
        Some(json!({"type": "object"}))
    }
    fn is_kept(&self) -> bool {
        false
    }
    async fn exec(&self, _: CallContext<'_>, _: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        out(Chunk::Data(JsonMap::new()));
        Ok(())
    }
}
