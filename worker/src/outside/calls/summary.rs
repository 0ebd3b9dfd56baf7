//! `SUMMARY`: summarizes the conversation and results in a few sentences, which the run keeps (`rt.summary`).

use tidemill_common::nodes::step::texts::SUMMARY_PROMPT;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{Standard, standard};
use tidemill_common::value::JsonMap;

use crate::outside::calls::model;
use crate::outside::calls::model::messages;
use crate::outside::calls::{Call, CallContext, ChunkSink};

pub(super) struct Summary;

#[async_trait::async_trait]
impl Call for Summary {
    fn standard(&self) -> Option<Standard> {
        standard("Summary")
    }
    fn is_kept(&self) -> bool {
        false
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        let model = model::find(cx.providers, cx.profile(&input)).await?;
        let facts = cx.background.facts.join("\n");
        let asked = format!(
            "<conversation>\n{}\n</conversation>\n\n<facts>\n{facts}\n</facts>",
            cx.background.conversation()
        );
        let steps = cx.background.steps();
        let asked = if steps.is_empty() { asked } else { format!("{asked}\n\n{steps}") };
        let asked = messages(SUMMARY_PROMPT.of(cx.language), &asked);
        let mut on_delta = |piece: &str| out(Chunk::Text(piece.to_owned()));
        let reply = model.ask(cx.journal, "llm:1", asked, JsonMap::new(), &mut on_delta).await?;
        cx.spend(reply.usage);
        cx.keep("summary", reply.text.trim().into());
        cx.output("summary", reply.text.trim().into());
        Ok(())
    }
}
