//! The built-in sandbox on systems other than Linux, where it refuses everything.

use std::sync::Arc;

use tidemill_common::http::Http;
use tidemill_common::nodes::code::CodeConfig;

use crate::helper::Host;
use crate::{CodeError, CodeRunner, Program, State};

const REFUSAL: &str =
    "the built-in sandbox needs Linux; set code.endpoint (CODE_EXECUTION_ENDPOINT) to a dify-sandbox";

/// Refuses every program.
#[derive(Debug)]
pub struct BuiltIn;

impl BuiltIn {
    /// Creates the same sandbox for all settings.
    pub fn new(_: &CodeConfig, _: Option<Host>) -> Self {
        Self
    }

    /// As [`BuiltIn::new`].
    pub fn with_network(_: &CodeConfig, _: Option<Host>, _: Option<Arc<Http>>) -> Self {
        Self
    }
}

#[async_trait::async_trait]
impl CodeRunner for BuiltIn {
    async fn run(&self, _: Program<'_>) -> Result<String, CodeError> {
        Err(CodeError(REFUSAL.into()))
    }
    fn seems_able(&self, _: tidemill_common::nodes::code::CodeLanguage) -> Result<(), String> {
        Err(REFUSAL.into())
    }
    async fn able(&self, _: tidemill_common::nodes::code::CodeLanguage) -> Result<(), String> {
        Err(REFUSAL.into())
    }
    fn state(&self) -> State {
        State { sound: false, text: format!("code nodes are refused: {REFUSAL}") }
    }
}
