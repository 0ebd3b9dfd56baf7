//! `EMPTY`: a step that does nothing.

use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{Standard, standard};
use tidemill_common::value::JsonMap;

use crate::outside::calls::{Call, CallContext, ChunkSink};

pub(super) struct Empty;

#[async_trait::async_trait]
impl Call for Empty {
    fn standard(&self) -> Option<Standard> {
        standard("Empty")
    }
    fn is_kept(&self) -> bool {
        false
    }
    async fn exec(&self, _: CallContext<'_>, _: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        out(Chunk::Data(JsonMap::new()));
        Ok(())
    }
}
