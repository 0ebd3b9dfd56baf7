//! Models behind their APIs: a workflow names a provider and a model, a profile says where that is and how to get in.
//!
//! [`profile`] finds the profile, [`openai`] speaks to everything that is OpenAI-compatible; [`errors`] gives every
//! failure the class that workflows branch on, and [`retry`] says which of them are tried again within one call.

pub mod errors;
pub mod openai;
pub mod profile;
pub mod retry;
pub mod sse;

use std::fmt;
use std::time::Duration;

use tidemill_common::nodes::llm::ModelMode;
use tidemill_common::nodes::llm::message::{Message, ToolCall, ToolSpec};
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::value::JsonMap;

pub use errors::{ErrorClass, ModelError};
pub use profile::{Model, Providers, ProvidersConfig, Question};

/// One question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The provider's name as errors show it, such as `openai`.
    pub label: String,
    /// The model's name as the workflow has it.
    pub model: String,
    /// The conversation; at least one message.
    pub messages: Vec<Message>,
    /// Further fields of the request; they cannot replace the ones that the provider sets itself.
    pub params: JsonMap,
    /// Texts that end the reply; empty: not sent.
    pub stop: Vec<String>,
    /// Tools that the model may call; empty: none, and nothing is said of tools.
    pub tools: Vec<ToolSpec>,
    /// How the model is asked: with messages, or with the one text of the only message.
    pub mode: ModelMode,
    /// Whether the reply is to come in pieces.
    pub stream: bool,
}

/// A reply, complete.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// All pieces of text together.
    pub text: String,
    /// The calls that the model asks for, whole, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// The provider's own word for why the reply ended, such as `stop` or `length`; none when it gave none.
    pub finish_reason: Option<String>,
    /// What the provider counted; zero when it does not count.
    pub tokens: Tokens,
    /// From just before the request (of the try that succeeded) to the end of the reply.
    pub latency: Duration,
    /// From just before the request to the first piece of text; none without text.
    pub first_token: Option<Duration>,
}

/// Takes the pieces of a reply as they arrive, none of them empty.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(&str) + Send);

/// An API that models are behind.
#[async_trait::async_trait]
pub trait ModelProvider: fmt::Debug + Send + Sync {
    /// Asks and streams the reply: each piece of text goes to `on_delta` as it arrives. Tries again by itself as far as
    /// [`retry`] allows, but never after a piece was handed on. Dropping the future ends the request.
    ///
    /// # Errors
    /// A [`ModelError`] whose class and text a workflow may see; it holds no secret.
    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError>;
}
