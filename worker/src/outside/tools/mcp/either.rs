//! An MCP server over HTTP whose version of the transport is not given. As the specification tells clients, the newer one
//! is tried first, and the older one if the server answers the first message with a status of 4xx.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value as Json;

use crate::outside::tools::mcp::Transport;
use crate::outside::tools::mcp::http::{Address, StreamableHttp};
use crate::outside::tools::mcp::protocol::McpError;
use crate::outside::tools::mcp::sse::TwoUrls;

/// A server with one URL or with two; see the module.
pub(super) struct Either {
    one_url: StreamableHttp,
    two_urls: TwoUrls,
    /// Set when the server has answered as one of the first version.
    has_two_urls: AtomicBool,
}

impl Either {
    pub(super) fn new(at: Address, stream_silence: Duration) -> Self {
        let two_urls = TwoUrls::new(at.clone(), stream_silence);
        Self { one_url: StreamableHttp::new(at), two_urls, has_two_urls: AtomicBool::new(false) }
    }
}

#[async_trait::async_trait]
impl Transport for Either {
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        if self.has_two_urls.load(Ordering::Relaxed) {
            return self.two_urls.request(method, params, silence).await;
        }
        let refused = match self.one_url.request(method, params.clone(), silence).await {
            Err(McpError::NotSpoken(reason)) => reason,
            answered => return answered,
        };
        let answered = self.two_urls.request(method, params, silence).await;
        if answered.is_ok() {
            self.has_two_urls.store(true, Ordering::Relaxed);
        }
        answered.map_err(|error| {
            error.worded(|text| format!("{refused}; with the older transport (SSE): {text}"))
        })
    }
}
