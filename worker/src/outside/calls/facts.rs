//! `FACTS`: extracts facts about the user and the domains of a conversation. The facts replace those the run keeps
//! (`rt.facts`).

use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::texts::{DOMAIN_PROMPT, FACTS_PROMPT};
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{Standard, standard};
use tidemill_common::slots::answer::in_reply;
use tidemill_common::value::JsonMap;

use crate::outside::calls::model;
use crate::outside::calls::model::{StepModel, messages};
use crate::outside::calls::{Call, CallContext, ChunkSink};

/// Most domains that are kept.
const DOMAINS_MAX: usize = 5;

pub(super) struct Facts;

#[async_trait::async_trait]
impl Call for Facts {
    fn standard(&self) -> Option<Standard> {
        standard("Facts")
    }
    async fn init(&self, cx: CallContext<'_>, mut params: JsonMap) -> Result<JsonMap, CallError> {
        let background = cx.background;
        params.entry("message").or_insert_with(|| match background.messages.as_slice() {
            [] => json!([
                {"role": "user", "content": background.question},
                {"role": "assistant", "content": background.answer},
            ]),
            messages => {
                messages.iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
            }
        });
        Ok(params)
    }
    fn is_kept(&self) -> bool {
        false
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        let model = model::find(cx.providers, cx.profile(&input)).await?;
        let message = input.get("message").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let said = |one: &Json| {
            let text = |key: &str| one.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
            format!("{}: {}", text("role"), text("content"))
        };
        let said: Vec<String> = message.iter().map(said).collect();
        let said = format!("<conversation>\n{}\n</conversation>", said.join("\n"));
        let steps = cx.background.steps();
        let said = if steps.is_empty() { said } else { format!("{said}\n\n{steps}") };
        let facts = texts(cx, &model, "llm:1", FACTS_PROMPT.of(cx.language), &said, "facts").await?;
        let mut domain = texts(cx, &model, "llm:2", DOMAIN_PROMPT.of(cx.language), &said, "keywords").await?;
        domain.truncate(DOMAINS_MAX);
        cx.keep("facts", json!(facts));
        let output = [("facts".to_owned(), json!(facts)), ("domain".to_owned(), json!(domain))];
        out(Chunk::Data(JsonMap::from_iter(output)));
        Ok(())
    }
}

/// Returns the texts a model lists under a key, without duplicates. A reply without the key means that it found none.
async fn texts(
    cx: CallContext<'_>,
    model: &StepModel,
    step: &str,
    prompt: &str,
    said: &str,
    key: &str,
) -> Result<Vec<String>, CallError> {
    let reply = model.ask(cx.journal, step, messages(prompt, said), JsonMap::new(), &mut |_| {}).await?;
    cx.spend(reply.usage);
    let object = in_reply(&reply.text).unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    for text in object.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str) {
        let text = text.trim();
        if !text.is_empty() && !found.iter().any(|known| known == text) {
            found.push(text.to_owned());
        }
    }
    Ok(found)
}
