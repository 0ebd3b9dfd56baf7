//! Python: warm fork servers, one per concurrent execution.

pub(crate) mod discover;
pub(crate) mod helper;
mod hint;
mod slot;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::builtin::Shared;
use crate::frame::outcome;
use crate::pool::{Failed, Pool};
use crate::{CodeError, Program, environment, scratch};
use discover::Interpreter;
use slot::Slot;

/// Runs Python programs.
#[derive(Debug)]
pub(crate) struct Python {
    shared: Arc<Shared>,
    /// The interpreter that works, once it is known.
    interpreter: Mutex<Option<Arc<Interpreter>>>,
    idle: Pool<Slot>,
}

impl Python {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, interpreter: Mutex::default(), idle: Pool::default() }
    }

    pub(crate) async fn run(&self, program: Program<'_>) -> Result<String, CodeError> {
        let bytes = crate::frame::program(program)?;
        let mut last = String::new();
        // An idle helper may have been killed meanwhile. Code that has called no server has no outside effects, so another
        // helper may run it.
        for _ in 0..2 {
            let mut slot = self.slot().await?;
            match slot.run(&bytes, &self.shared.bounds, self.shared.network.as_ref()).await {
                Ok((verdict, stdout, stderr)) => {
                    self.idle.give(slot);
                    let outcome = outcome(&verdict, stdout, &stderr, self.shared.bounds);
                    return outcome.map_err(|error| hint::with_package(error, &self.shared.config.python));
                }
                Err(Failed::Execution(verdict, stderr)) => {
                    return outcome(&verdict, String::new(), &stderr, self.shared.bounds);
                }
                Err(Failed::Helper(reason)) => last = reason,
            }
        }
        tracing::warn!(reason = last, "the Python sandbox failed twice with the same program");
        Err(CodeError(format!("the Python sandbox ended while it ran the code: {last}")))
    }

    /// The interpreters that the settings allow, best first: only that of the environment, if they declare one.
    ///
    /// # Errors
    /// The environment is not there, or code cannot read it.
    pub(crate) fn candidates(&self) -> Result<Vec<PathBuf>, String> {
        let python = &self.shared.config.python;
        if !python.has_environment() {
            return Ok(discover::candidates(&python.interpreter));
        }
        let found = environment::find(python).map_err(|missing| missing.to_string())?;
        environment::readable(&self.shared.config, &found).map_err(|error| error.to_string())?;
        Ok(vec![found.interpreter()])
    }

    /// Returns true if the setting matches any interpreter.
    pub(crate) fn is_there(&self) -> bool {
        self.candidates().is_ok_and(|candidates| !candidates.is_empty())
    }

    /// Starts a server to test whether that works, and ends it at once.
    ///
    /// # Errors
    /// No server starts.
    pub(crate) async fn try_start(&self) -> Result<(), CodeError> {
        self.slot().await.map(drop)
    }

    /// Tests whether programs can run: with the interpreter that is known to work, or by starting a server.
    ///
    /// # Errors
    /// They cannot.
    pub(crate) async fn able(&self) -> Result<(), CodeError> {
        // A disk may fill up, or a mount may change.
        scratch::try_out(&self.shared.config).map_err(|error| CodeError(error.to_string()))?;
        let is_known = self.interpreter.lock().await.is_some();
        if is_known { Ok(()) } else { self.try_start().await }
    }

    async fn slot(&self) -> Result<Slot, CodeError> {
        if let Some(idle) = self.idle.take() {
            return Ok(idle);
        }
        let known = self.interpreter.lock().await.clone();
        match known {
            Some(interpreter) => self.another_slot(&interpreter).await,
            None => self.first_slot().await,
        }
    }

    async fn another_slot(&self, interpreter: &Interpreter) -> Result<Slot, CodeError> {
        let scratch = self.scratch()?;
        Slot::start(&self.shared, interpreter, scratch).await.map_err(|reason| {
            CodeError(format!(
                "the Python sandbox does not start: {}: {reason}",
                interpreter.executable.display()
            ))
        })
    }

    /// Finds the interpreter by starting a server.
    async fn first_slot(&self) -> Result<Slot, CodeError> {
        let mut known = self.interpreter.lock().await;
        if let Some(interpreter) = &*known {
            // Another task was first.
            return self.another_slot(interpreter).await;
        }
        // Without a folder no interpreter can work, so installing another one would not help.
        scratch::try_out(&self.shared.config).map_err(|error| CodeError(error.to_string()))?;
        let mut reasons = Vec::new();
        for file in self.candidates().map_err(CodeError)? {
            match self.try_out(&file).await {
                Ok((interpreter, slot)) => {
                    tracing::info!(python = %interpreter.executable.display(), version = slot.version, landlock = slot.landlock,
                        "Python code runs in the built-in sandbox");
                    *known = Some(Arc::new(interpreter));
                    return Ok(slot);
                }
                Err(reason) => {
                    tracing::info!(python = %file.display(), reason, "this Python cannot be used for code nodes");
                    reasons.push(format!("{}: {reason}", file.display()));
                }
            }
        }
        let python = &self.shared.config.python;
        let tried = if reasons.is_empty() { "no candidate exists".into() } else { reasons.join("; ") };
        let advice = if python.has_environment() {
            let folder = &python.environments;
            format!(
                "every user must be able to read code.python.environments (now {folder:?}) and the Python of the environment"
            )
        } else {
            let setting = &python.interpreter;
            format!(
                "install python3 3.9 or newer where every user may read it, or set code.python (now {setting:?}) or code.endpoint"
            )
        };
        Err(CodeError(format!("no usable Python for code nodes ({tried}); {advice}")))
    }

    fn scratch(&self) -> Result<tempfile::TempDir, CodeError> {
        scratch::make(&self.shared.config).map_err(|error| CodeError(error.to_string()))
    }

    async fn try_out(&self, file: &Path) -> Result<(Interpreter, Slot), String> {
        let interpreter = discover::probe(file).await?;
        let python = &self.shared.config.python;
        if let Some(found) = python.has_environment().then(|| environment::find(python)).and_then(Result::ok)
            && found.manifest.python != interpreter.release()
        {
            let (made, now) = (found.manifest.python, interpreter.release());
            return Err(format!(
                "was made for Python {made} and is {now} now; run `tidemill code install` again"
            ));
        }
        let scratch = scratch::make(&self.shared.config).map_err(|error| error.to_string())?;
        let slot = Slot::start(&self.shared, &interpreter, scratch).await?;
        Ok((interpreter, slot))
    }
}
