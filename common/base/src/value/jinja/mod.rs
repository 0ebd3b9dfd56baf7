//! Jinja templates as Dify renders them: Jinja2 3.1, on top of minijinja.
//!
//! minijinja parses and runs the statements. This module replaces everything that Python does differently:
//! the syntax check (`check`); arithmetic, comparisons and `~` (`rewrite` turns them into calls of `ops` and
//! `compare`); printing (`show`); lists that methods change (`mutable`); filters (`filters`, `layout`,
//! `numbers`, `percent`, `pick`, `sequences`, `sorting`, `urlize`); methods (`methods`, `search`, `braces`);
//! error messages (`errors`).
//!
//! Work (fuel), produced bytes (`budget`) and depth of a template are limited, so that it cannot bring down
//! the process.
//!
//! The tests in `corpus` compare the results with Jinja2's for a thousand templates. Known differences: the
//! templates listed in `corpus/accepted.json`; integers have 128 bits; `random` and `lipsum` always choose
//! the same, since a node that runs again must produce the same result. `docs/templates.md` describes
//! templates for users.

mod arguments;
mod braces;
mod budget;
mod check;
mod compare;
mod compiled;
mod convert;
#[cfg(test)]
mod corpus;
mod errors;
mod filters;
mod globals;
mod layout;
mod methods;
mod mutable;
mod numbers;
mod ops;
mod percent;
mod pick;
mod rewrite;
mod search;
mod sequences;
mod show;
mod sorting;
mod tokens;
mod urlize;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use minijinja::{AutoEscape, Environment, ErrorKind, Value};

use self::compiled::{Compiled, RenderSettings};
use super::Segment;
use crate::limits;

/// Fuel of a render without an explicit limit: some minutes of work, after which it counts as stuck.
const FUEL_MAX: u64 = 2_000_000_000;
/// Deepest nesting of macro calls and loops. Each level uses stack, and a thread has two megabytes.
const RECURSION_MAX: usize = 120;
/// How a Jinja template treats an unknown name (switch `template_undefined`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UndefinedNames {
    /// Empty text, as on Dify's service.
    #[default]
    Empty,
    /// An error, as bare graphon does.
    Strict,
}

/// The template's name within its environment.
const NAME: &str = "template";

/// The environment that every template starts from.
static BASE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    // minijinja tracks the origin of undefined values only in debug mode, and our errors name a value by its
    // origin.
    env.set_debug(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_recursion_limit(RECURSION_MAX);
    env.set_formatter(show::format);
    env.set_unknown_method_callback(methods::call);
    globals::add(&mut env);
    ops::add(&mut env);
    compare::add(&mut env);
    filters::add(&mut env);
    layout::add(&mut env);
    numbers::add(&mut env);
    sequences::add(&mut env);
    sorting::add(&mut env);
    pick::add(&mut env);
    env.add_test("callable", show::is_callable);
    env.add_test("sequence", show::is_sequence);
    env.add_test("iterable", show::is_iterable);
    env
});

/// The reason why a render produced no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JinjaError {
    /// The template needs more work than the fuel allows. With more fuel, elsewhere, it may succeed.
    #[error("the template needs more fuel than it was given")]
    OutOfFuel,
    /// The template failed, with the last line of Jinja2's message.
    #[error("{0}")]
    Failed(String),
}

/// A parsed template; cheap to clone.
#[derive(Clone)]
pub struct JinjaTemplate {
    compiled: Arc<Result<Compiled, String>>,
    /// True when methods of the template change lists or objects, so that inputs must be mutable.
    mutable: bool,
}

impl fmt::Debug for JinjaTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JinjaTemplate").field("syntax_error", &self.syntax_error()).finish()
    }
}

impl JinjaTemplate {
    /// Parses a template. A syntax error is stored, and every render returns it.
    pub fn new(source: &str) -> Self {
        // Jinja2 treats every kind of line end as `\n`, and drops the last.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let mutable = rewrite::changes_values(&source);
        Self { compiled: Arc::new(compile(&source, mutable).map(Compiled::new)), mutable }
    }

    /// Returns the syntax error of the template, if any.
    pub fn syntax_error(&self) -> Option<&str> {
        self.compiled.as_ref().as_ref().err().map(String::as_str)
    }

    /// Renders with the inputs as names. Without fuel the work is still limited, far above the needs of any
    /// sensible template.
    ///
    /// # Errors
    /// [`JinjaError`]; a text of more than [`limits::VALUE_BYTES_MAX`] bytes is a failure.
    pub fn render(
        &self,
        inputs: &[(String, Segment)],
        undefined: UndefinedNames,
        fuel: Option<u64>,
    ) -> Result<String, JinjaError> {
        let rendered = self.render_within(inputs, undefined, fuel, limits::VALUE_BYTES_MAX)?;
        rendered.ok_or_else(|| {
            JinjaError::Failed(format!("the rendered text has more than {} bytes", limits::VALUE_BYTES_MAX))
        })
    }

    /// As [`JinjaTemplate::render`]; returns `None` when the text has more than `bytes_max` bytes, and stops
    /// rendering there.
    ///
    /// # Errors
    /// [`JinjaError`].
    pub fn render_within(
        &self,
        inputs: &[(String, Segment)],
        undefined: UndefinedNames,
        fuel: Option<u64>,
        bytes_max: usize,
    ) -> Result<Option<String>, JinjaError> {
        let failed = |message: &str| JinjaError::Failed(message.into());
        let env = match self.compiled.as_ref() {
            Ok(compiled) => {
                compiled.environment(RenderSettings { fuel: fuel.unwrap_or(FUEL_MAX), undefined })
            }
            Err(message) => return Err(failed(message)),
        };
        let template = env.get_template(NAME).map_err(|error| failed(&error.to_string()))?;
        let context = Value::from_pairs(
            inputs
                .iter()
                .map(|(name, segment)| (name.as_str(), convert::value(&segment.value, self.mutable))),
        );
        let mut writer = Writer { text: Vec::new(), bytes_max, full: false };
        // minijinja panics on a few templates, such as a `cycle` without items. No state survives the panic.
        let render = AssertUnwindSafe(|| template.render_captured_to(context.clone(), &mut writer).map(drop));
        let Ok(rendered) = catch_unwind(render) else {
            return Err(failed("the template cannot be rendered"));
        };
        match rendered {
            Ok(()) => Ok(Some(String::from_utf8_lossy(&writer.text).into_owned())),
            Err(_) if writer.full => Ok(None),
            Err(error) if is_out_of_fuel(&error) => match fuel {
                Some(_) => Err(JinjaError::OutOfFuel),
                None => Err(failed("the template takes too much work; it may loop without end")),
            },
            Err(error) => Err(JinjaError::Failed(errors::message(&error, Some(&context)))),
        }
    }
}

fn compile(source: &str, mutable: bool) -> Result<Environment<'static>, String> {
    if let Some(complaint) = check::complaint(source) {
        return Err(complaint);
    }
    let rewritten = rewrite::rewrite(source, mutable)
        .map_err(|rewrite::TooLong| "an expression of the template is too long; split it with `set`")?;
    let mut env = BASE.clone();
    env.add_template_owned(NAME, rewritten).map_err(|error| errors::message(&error, None))?;
    Ok(env)
}

/// Collects the text and stops rendering when it is too long.
struct Writer {
    text: Vec<u8>,
    bytes_max: usize,
    full: bool,
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.bytes_max {
            self.full = true;
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_out_of_fuel(error: &minijinja::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<minijinja::Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfFuel) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
