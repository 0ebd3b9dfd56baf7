//! The built-in sandbox: warm helpers, and as many parallel executions as processors.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidemill_common::http::Http;
use tidemill_common::nodes::code::{CodeConfig, CodeLanguage, filled};
use tokio::sync::OnceCell;

use crate::confine;
use crate::fair::{FairSlots, Owner};
use crate::frame::Bounds;
use crate::helper::Host;
use crate::javascript::JavaScript;
use crate::network::Network;
use crate::python::Python;
use crate::{CodeError, CodeRunner, Program, State, scratch};

/// Runs programs in its own helper processes.
#[derive(Debug)]
pub struct BuiltIn {
    refusal: Option<String>,
    weaker: Option<&'static str>,
    slots: FairSlots,
    python: Python,
    javascript: JavaScript,
    shared: Arc<Shared>,
    /// Set once a helper of each language has started.
    tried: OnceCell<()>,
}

/// The settings shared by all helpers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: CodeConfig,
    pub(crate) host: Host,
    pub(crate) bounds: Bounds,
    /// `None`: programs have no network.
    pub(crate) network: Option<Network>,
}

impl BuiltIn {
    /// Creates a sandbox. Nothing is started before it is needed. Without a host it refuses every program; so it does
    /// if the kernel cannot confine a process and the settings require that.
    pub fn new(config: &CodeConfig, host: Option<Host>) -> Self {
        Self::with_network(config, host, None)
    }

    /// As [`BuiltIn::new`]. If the settings allow it, programs call servers through this client's guard.
    pub fn with_network(config: &CodeConfig, host: Option<Host>, http: Option<Arc<Http>>) -> Self {
        let missing = confine::missing();
        let refusal = match (&host, missing) {
            (None, _) => Some(
                "code and documents need the tidemill program as a helper, and this program is not it; name it with code.helper".into(),
            ),
            (_, Some(missing)) if !config.allow_weaker_sandbox => Some(format!(
                "this machine's kernel lacks {missing}; set code.allow_weaker_sandbox to run code without it, or code.endpoint to a dify-sandbox"
            )),
            (Some(_), _) => None,
        };
        let at_once = match config.concurrency {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            some => some,
        };
        let shared = Arc::new(Shared {
            config: config.clone(),
            host: host.unwrap_or_else(|| Host::at("")),
            bounds: Bounds {
                timeout: Duration::from_millis(config.timeout_ms),
                scratch_bytes: config.scratch_bytes_max,
                output_bytes: config.output_bytes_max,
            },
            network: http.filter(|_| config.network).map(|http| Network::new(config, http)),
        });
        Self {
            refusal,
            weaker: missing,
            slots: FairSlots::new(at_once),
            python: Python::new(shared.clone()),
            javascript: JavaScript::new(shared.clone()),
            shared,
            tried: OnceCell::new(),
        }
    }
}

/// A trivial program that tests whether programs run.
const TRIAL: Program<'_> = Program {
    language: CodeLanguage::JavaScript,
    code: "function main() { return {} }",
    inputs: "{}",
    owner: Owner { app: "", run: "" },
};

#[async_trait::async_trait]
impl CodeRunner for BuiltIn {
    async fn run(&self, program: Program<'_>) -> Result<String, CodeError> {
        if let Some(refusal) = &self.refusal {
            return Err(CodeError(format!("code nodes do not run here: {refusal}")));
        }
        let _slot = self.slots.acquire(program.owner).await;
        let code = filled(program.code, || STANDARD.encode(program.inputs));
        let program = Program { code: &code, ..program };
        match program.language {
            CodeLanguage::Python => self.python.run(program).await,
            CodeLanguage::JavaScript => self.javascript.run(program).await,
        }
    }

    async fn ready(&self) -> Result<String, CodeError> {
        // Test this each time, because a disk may fill up or a mount may change.
        if self.refusal.is_none() {
            scratch::try_out(&self.shared.config).map_err(|error| CodeError(error.to_string()))?;
        }
        let text = self.state().text;
        if self.refusal.is_some() {
            return Ok(text);
        }
        let has_python = self.python.is_there();
        if let (false, Err(missing)) = (has_python, self.python.candidates()) {
            return Err(CodeError(missing));
        }
        let helpers = || async {
            self.javascript.run(TRIAL).await?;
            if has_python { self.python.try_start().await } else { Ok(()) }
        };
        self.tried.get_or_try_init(helpers).await?;
        if has_python {
            return Ok(text);
        }
        Ok(format!(
            "{text}; without Python: code.python is {:?}, but no such Python exists",
            self.shared.config.python.interpreter
        ))
    }

    fn seems_able(&self, language: CodeLanguage) -> Result<(), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        match language {
            CodeLanguage::JavaScript => Ok(()),
            CodeLanguage::Python if self.python.candidates()?.is_empty() => {
                let python = &self.shared.config.python.interpreter;
                Err(format!("code.python is {python:?}, but no such Python exists"))
            }
            CodeLanguage::Python => scratch::try_out(&self.shared.config).map_err(|error| error.to_string()),
        }
    }

    async fn able(&self, language: CodeLanguage) -> Result<(), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let tried = match language {
            CodeLanguage::Python => self.python.able().await,
            CodeLanguage::JavaScript => self.javascript.run(TRIAL).await.map(drop),
        };
        tried.map_err(|error| error.to_string())
    }

    fn state(&self) -> State {
        if self.refusal.is_none()
            && let Err(error) = scratch::try_out(&self.shared.config)
        {
            return State { sound: false, text: error.to_string() };
        }
        let (sound, text) = match (&self.refusal, self.weaker) {
            (Some(refusal), _) => (false, format!("code nodes are refused: {refusal}")),
            (None, Some(missing)) => (
                false,
                format!(
                    "code nodes run in a weaker sandbox, as code.allow_weaker_sandbox says: the kernel lacks {missing}"
                ),
            ),
            (None, None) => (true, "code nodes run in the built-in sandbox, fully confined".into()),
        };
        State { sound, text }
    }
}
