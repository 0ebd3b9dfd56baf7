//! One execution of JavaScript, in its own runtime and context.

mod intl;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::function::Func;
use rquickjs::{CaughtError, Coerced, Context, Ctx, Exception, Function, Runtime, Value};
use tidemill_common::nodes::code::result::MARK;

use crate::frame::{COMPLAINT_BYTES_MAX, Verdict};

const PRELUDE: &str = include_str!("prelude.js");
/// Calls the user's code as Dify does, so that `undefined` and promises give the same results.
const CALL: &str = "(function (inputs) { return JSON.stringify(main(JSON.parse(inputs))); })";
/// Stack size of the engine in bytes; the thread has several times as much.
const STACK_BYTES: usize = 1 << 20;

/// The limits of an execution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Duration,
    pub(super) memory_bytes: usize,
    pub(super) output_bytes: usize,
}

/// The result of an execution.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) verdict: Verdict,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The printed output, and the reasons to stop the execution.
#[derive(Debug, Default)]
struct Printed {
    stdout: RefCell<String>,
    stderr: RefCell<String>,
    too_much: Cell<bool>,
    too_long: Cell<bool>,
    /// Rejected promises without a handler so far.
    unhandled: Cell<i64>,
    rejection: RefCell<String>,
}

/// Runs a program.
pub(super) fn execute(code: &str, inputs: &str, limits: Limits) -> Ended {
    let printed = Rc::new(Printed::default());
    let ran = run(code, inputs, limits, &printed);
    let verdict = match &ran {
        _ if printed.too_long.get() => Verdict::Timeout,
        _ if printed.too_much.get() => Verdict::Output,
        Ok(()) => Verdict::Exit { code: 0 },
        Err(_) => Verdict::Exit { code: 1 },
    };
    let mut stderr = printed.stderr.take();
    if let (Err(error), Verdict::Exit { .. }) = (ran, &verdict) {
        stderr.push_str(&error);
    }
    Ended { verdict, stdout: printed.stdout.take(), stderr }
}

fn run(code: &str, inputs: &str, limits: Limits, printed: &Rc<Printed>) -> Result<(), String> {
    let own = |error: rquickjs::Error| format!("the JavaScript engine does not start: {error}");
    let runtime = Runtime::new().map_err(own)?;
    runtime.set_memory_limit(limits.memory_bytes);
    runtime.set_max_stack_size(STACK_BYTES);
    let (deadline, seen) = (Instant::now() + limits.time, printed.clone());
    runtime.set_interrupt_handler(Some(Box::new(move || {
        let late = Instant::now() >= deadline;
        seen.too_long.set(seen.too_long.get() || late);
        late || seen.too_much.get()
    })));
    let seen = printed.clone();
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, handled| {
        seen.unhandled.set(seen.unhandled.get() + if handled { -1 } else { 1 });
        if !handled {
            seen.rejection.replace(text_of(reason));
        }
    })));
    let context = Context::full(&runtime).map_err(own)?;
    context.with(|ctx| {
        let done = program(&ctx, code, inputs, limits, printed);
        done.map_err(|error| complaint(CaughtError::from_error(&ctx, error)))
    })?;
    while runtime.is_job_pending() {
        if let Err(error) = runtime.execute_pending_job() {
            let thrown = |ctx: Ctx<'_>| complaint(CaughtError::from_error(&ctx, rquickjs::Error::Exception));
            return Err(error.0.with(thrown));
        }
    }
    if printed.unhandled.get() > 0 {
        // As in Node: an unhandled rejection fails the program.
        return Err(printed.rejection.take());
    }
    Ok(())
}

fn program(
    ctx: &Ctx<'_>,
    code: &str,
    inputs: &str,
    limits: Limits,
    printed: &Rc<Printed>,
) -> rquickjs::Result<()> {
    let script = |name: &str| {
        let mut options = EvalOptions::default();
        (options.strict, options.filename) = (false, Some(name.to_owned()));
        options
    };
    let sink = printed.clone();
    let print = move |ctx: Ctx<'_>, to_errors: bool, text: String| {
        write(&sink, to_errors, &text, limits.output_bytes)
            .map_err(|reason| Exception::throw_range(&ctx, reason))
    };
    let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, script("console.js"))?;
    prelude.call::<_, ()>((Func::from(print), Func::from(intl::load)))?;
    ctx.eval_with_options::<Value<'_>, _>(code, script("code.js"))?;
    let call: Function<'_> = ctx.eval_with_options(CALL, script("node.js"))?;
    let result: Value<'_> = call.call((inputs,))?;
    let text = match result.as_string() {
        Some(text) => text.to_string()?,
        None => "undefined".into(),
    };
    let line = format!("{MARK}{text}{MARK}\n");
    write(printed, false, &line, limits.output_bytes).map_err(|reason| Exception::throw_range(ctx, reason))
}

fn write(printed: &Printed, to_errors: bool, text: &str, bytes_max: usize) -> Result<(), &'static str> {
    if to_errors {
        let mut stderr = printed.stderr.borrow_mut();
        if stderr.len() + text.len() <= COMPLAINT_BYTES_MAX {
            stderr.push_str(text);
        }
        return Ok(());
    }
    let mut stdout = printed.stdout.borrow_mut();
    if stdout.len() + text.len() > bytes_max {
        printed.too_much.set(true);
        return Err("too much output");
    }
    stdout.push_str(text);
    Ok(())
}

/// The thrown value as Node shows it: name, message, stack.
fn complaint(error: CaughtError<'_>) -> String {
    match error {
        CaughtError::Exception(exception) => of_exception(&exception),
        CaughtError::Value(value) => format!("Uncaught {}", text_of(value)),
        CaughtError::Error(error) => error.to_string(),
    }
}

fn of_exception(exception: &Exception<'_>) -> String {
    let name: String = exception.as_object().get("name").unwrap_or_else(|_| "Error".into());
    let message = exception.message().unwrap_or_default();
    let stack = exception.stack().unwrap_or_default();
    format!("{name}: {message}\n{stack}").trim_end().to_owned()
}

fn text_of(value: Value<'_>) -> String {
    if let Some(exception) = value.clone().into_object().and_then(Exception::from_object) {
        return of_exception(&exception);
    }
    value.get::<Coerced<String>>().map_or_else(|_| "a value that cannot be shown".into(), |text| text.0)
}

#[cfg(test)]
mod tests;
