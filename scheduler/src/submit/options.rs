//! The options of a run: the request wins over `workflow.tidemill`, and that over the settings.

use tidemill_common::config::{self, Config, Undefined};
use tidemill_common::limits::LISTS_MAX;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::options::budget;
use tidemill_common::machine::state::options::budget::{Budget, SetBy};
use tidemill_common::machine::state::options::choices::{Choices, WrongChoice};
use tidemill_common::machine::state::options::compat::{ConversationWrites, DifyWays, NestedAnswers};
use tidemill_common::messages::{Message, MessageLimits, given_messages};
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::value::JsonMap;

use super::SubmitError;
use super::given::Given;

/// The largest `inline_bytes_max`: above it a commit takes too long for its shard.
pub(super) const INLINE_BYTES_CEILING: usize = 32 * 1024;
/// The most bytes in a list of messages that a request gives: the list travels with the start fact.
const GIVEN_BYTES_MAX: u64 = 1024 * 1024;
const KEYS: [&str; 33] = [
    "max_steps",
    "max_execution_time_s",
    "deadline_ms",
    "template_undefined",
    "template_chars_max",
    "inline_bytes_max",
    "iteration_conversation_writes",
    "nested_answer_stream",
    "iteration_failures_count",
    "loop_next_after_last",
    "code_texts_become_numbers",
    "extractor_requires_all",
    "webhook_missing_file_is_all",
    "retries_count_as_exceptions",
    "loop_conditions_break",
    "limits_stop_runs",
    "container_rounds_max",
    "human_input_timeout_s",
    "budget_tokens",
    "budget_price",
    "interactive",
    "on_error",
    "step_executor",
    "tool_approval",
    "language",
    "messages",
    "messages_max",
    "messages_bytes_max",
    "runtime_bytes_max",
    "history_records_max",
    "history_record_bytes_max",
    "messages_tokens_limit",
    "messages_tokens_warning",
];

/// Computes the options of a run.
pub(super) fn resolve(
    config: &Config,
    of_workflow: &JsonMap,
    of_request: &JsonMap,
) -> Result<RunOptions, SubmitError> {
    let mut options = RunOptions {
        steps_max: config.run.max_steps,
        seconds_max: config.run.max_execution_time_s,
        deadline_ms: None,
        template_undefined: match config.compat.template_undefined {
            Undefined::Empty => UndefinedNames::Empty,
            Undefined::Strict => UndefinedNames::Strict,
        },
        template_chars_max: config.run.template_chars_max,
        inline_bytes_max: config.run.inline_bytes_max,
        iteration_conversation_writes: match config.compat.iteration_conversation_writes {
            config::ConversationWrites::Parent => ConversationWrites::Parent,
            config::ConversationWrites::Local => ConversationWrites::Local,
        },
        nested_answer_stream: match config.compat.nested_answer_stream {
            config::NestedAnswers::Whole => NestedAnswers::Whole,
            config::NestedAnswers::Segments => NestedAnswers::Segments,
            config::NestedAnswers::None => NestedAnswers::None,
        },
        iteration_failures_count: config.compat.iteration_failures_count,
        loop_next_after_last: config.compat.loop_next_after_last,
        dify_ways: DifyWays {
            code_texts_become_numbers: config.compat.code_texts_become_numbers,
            extractor_requires_all: config.compat.extractor_requires_all,
            webhook_missing_file_is_all: config.compat.webhook_missing_file_is_all,
            retries_count_as_exceptions: config.compat.retries_count_as_exceptions,
            loop_conditions_break: config.compat.loop_conditions_break,
            limits_stop_runs: config.compat.limits_stop_runs,
        },
        container_rounds_max: config.run.container_rounds_max,
        human_input_timeout_s: config.run.human_input_timeout_s,
        budget: None,
        choices: None,
        message_limits: of_settings(config),
        messages: None,
        warnings_max: config.run.warnings_max,
        warnings: Vec::new(),
    };
    let settings = JsonMap::from_iter([
        ("budget_tokens".to_string(), config.run.budget_tokens.into()),
        ("budget_price".to_string(), config.run.budget_price.as_str().into()),
    ]);
    set_budget(&mut options, &Given::new(&settings, "settings"), SetBy::Settings)?;
    for (given, by) in [
        (Given::new(of_workflow, "workflow.tidemill"), SetBy::Workflow),
        (Given::new(of_request, "options"), SetBy::Request),
    ] {
        apply(&mut options, &given)?;
        set_budget(&mut options, &given, by)?;
    }
    Ok(options)
}

/// Sets the limits of the run's budget; 0 or an empty text removes a limit.
fn set_budget(options: &mut RunOptions, given: &Given<'_>, by: SetBy) -> Result<(), SubmitError> {
    let mut budget = options.budget.take().map(|budget| *budget).unwrap_or_default();
    if let Some(value) = given.value("budget_tokens") {
        const EXPECTED: &str = "a whole number; 0: no bound";
        let tokens = value.as_u64().ok_or_else(|| given.wrong("budget_tokens", EXPECTED))?;
        budget.tokens = (tokens > 0).then_some((tokens, by));
    }
    if let Some(value) = given.value("budget_price") {
        const EXPECTED: &str = "an amount and a currency, such as \"0.50 EUR\"; empty: no bound";
        let wrong = || given.wrong("budget_price", EXPECTED);
        budget.price = match value.as_str().ok_or_else(wrong)?.trim() {
            "" => None,
            text => Some((budget::price(text).ok_or_else(wrong)?, by)),
        };
    }
    options.budget = (budget != Budget::default()).then(|| Box::new(budget));
    Ok(())
}

/// Sets all options that are given, besides the budget.
fn apply(options: &mut RunOptions, given: &Given<'_>) -> Result<(), SubmitError> {
    given.allow_only(&KEYS)?;
    set_limits(options, given)?;
    set_compatibility(options, given)?;
    set_choices(options, given)?;
    let limits = set_message_limits(options, given)?;
    add_messages(options, given, &limits)
}

/// Sets the limits on steps, time and sizes; a deadline of 0 removes the deadline.
fn set_limits(options: &mut RunOptions, given: &Given<'_>) -> Result<(), SubmitError> {
    if let Some(steps) = given.number("max_steps", 1, u64::MAX)? {
        options.steps_max = steps;
    }
    if let Some(seconds) = given.number("max_execution_time_s", 1, u64::MAX)? {
        options.seconds_max = seconds;
    }
    if let Some(ms) = given.number("deadline_ms", 0, u64::MAX)? {
        options.deadline_ms = (ms > 0).then_some(ms);
    }
    if let Some(chars) = given.size("template_chars_max", u64::MAX)? {
        options.template_chars_max = chars;
    }
    if let Some(bytes) = given.size("inline_bytes_max", INLINE_BYTES_CEILING as u64)? {
        options.inline_bytes_max = bytes;
    }
    if let Some(rounds) = given.number("container_rounds_max", 1, u64::MAX)? {
        options.container_rounds_max = rounds;
    }
    if let Some(seconds) = given.number("human_input_timeout_s", 0, u64::MAX)? {
        options.human_input_timeout_s = seconds;
    }
    Ok(())
}

/// Sets how the run does what other programs do in another way.
fn set_compatibility(options: &mut RunOptions, given: &Given<'_>) -> Result<(), SubmitError> {
    if let Some(counts) = given.truth("iteration_failures_count")? {
        options.iteration_failures_count = counts;
    }
    if let Some(is_sent) = given.truth("loop_next_after_last")? {
        options.loop_next_after_last = is_sent;
    }
    for key in DifyWays::KEYS {
        if let (Some(way), Some(value)) = (options.dify_ways.of(key), given.truth(key)?) {
            *way = value;
        }
    }
    if let Some(word) = given.word("template_undefined") {
        options.template_undefined = match word {
            "empty" => UndefinedNames::Empty,
            "strict" => UndefinedNames::Strict,
            _ => return Err(given.wrong("template_undefined", "empty or strict")),
        };
    }
    if let Some(word) = given.word("iteration_conversation_writes") {
        options.iteration_conversation_writes = ConversationWrites::from_name(word)
            .ok_or_else(|| given.wrong("iteration_conversation_writes", "parent or local"))?;
    }
    if let Some(word) = given.word("nested_answer_stream") {
        options.nested_answer_stream = NestedAnswers::from_name(word)
            .ok_or_else(|| given.wrong("nested_answer_stream", "whole, segments or none"))?;
    }
    Ok(())
}

fn set_choices(options: &mut RunOptions, given: &Given<'_>) -> Result<(), SubmitError> {
    let mut choices = options.choices.take().unwrap_or_default();
    choices.take(given.options).map_err(|WrongChoice { key, expected }| given.wrong(key, expected))?;
    options.choices = (*choices != Choices::default()).then_some(choices);
    Ok(())
}

/// Sets the limits of lists of messages and other stored objects, and returns those that hold now.
fn set_message_limits(options: &mut RunOptions, given: &Given<'_>) -> Result<MessageLimits, SubmitError> {
    let mut limits = options.object_limits();
    for key in MessageLimits::KEYS {
        let min = u64::from(!key.starts_with("messages_tokens"));
        if let (Some(limit), Some(number)) = (limits.of(key), given.number(key, min, u64::MAX)?) {
            *limit = number;
        }
    }
    options.message_limits = (limits != MessageLimits::default()).then(|| Box::new(limits));
    Ok(limits)
}

/// Adds the lists of messages that the run begins with.
fn add_messages(
    options: &mut RunOptions,
    given: &Given<'_>,
    limits: &MessageLimits,
) -> Result<(), SubmitError> {
    const EXPECTED: &str =
        "lists of messages by their names, {\"main\": [{\"role\": \"user\", \"content\": \"…\"}]}";
    let Some(value) = given.value("messages") else { return Ok(()) };
    let lists = given_messages(value).ok_or_else(|| given.wrong("messages", EXPECTED))?;
    let bytes_max = limits.messages_bytes_max.min(GIVEN_BYTES_MAX);
    let is_too_large = |list: &Vec<Message>| {
        let bytes = list.iter().map(Message::size).sum::<usize>() as u64;
        list.len() as u64 > limits.messages_max || bytes > bytes_max
    };
    if lists.len() > LISTS_MAX || lists.values().any(is_too_large) {
        let most = limits.messages_max;
        let expected =
            format!("at most {LISTS_MAX} lists of at most {most} messages, of {GIVEN_BYTES_MAX} bytes each");
        return Err(given.wrong("messages", expected));
    }
    options.messages.get_or_insert_default().extend(lists);
    Ok(())
}

/// The limits of stored objects, or `None` when the settings are the defaults.
fn of_settings(config: &Config) -> Option<Box<MessageLimits>> {
    let run = &config.run;
    let limits = MessageLimits {
        messages_max: run.messages_max,
        messages_bytes_max: run.messages_bytes_max,
        runtime_bytes_max: run.runtime_bytes_max,
        history_records_max: run.history_records_max,
        history_record_bytes_max: run.history_record_bytes_max,
        tokens_limit: run.messages_tokens_limit,
        tokens_warning: run.messages_tokens_warning,
    };
    (limits != MessageLimits::default()).then(|| Box::new(limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn map(value: Json) -> JsonMap {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_request_wins_over_the_workflow_and_the_workflow_over_the_settings() {
        let mut config = Config::default();
        config.run.max_steps = 1;
        config.run.max_execution_time_s = 1;
        config.run.template_chars_max = 1;
        let options = resolve(
            &config,
            &map(json!({"max_steps": 2, "max_execution_time_s": 2})),
            &map(json!({"max_steps": 3, "template_undefined": "strict"})),
        )
        .unwrap();
        assert_eq!((options.steps_max, options.seconds_max, options.template_chars_max), (3, 2, 1));
        assert_eq!(options.template_undefined, UndefinedNames::Strict);
    }

    #[test]
    fn the_workflow_or_the_request_sets_the_deadline_and_0_removes_it() {
        let deadline = |workflow: Json, request: Json| {
            resolve(&Config::default(), &map(workflow), &map(request)).unwrap().deadline_ms
        };
        assert_eq!(deadline(json!({}), json!({})), None);
        assert_eq!(deadline(json!({"deadline_ms": 5}), json!({})), Some(5));
        assert_eq!(deadline(json!({"deadline_ms": 5}), json!({"deadline_ms": 7})), Some(7));
        assert_eq!(deadline(json!({"deadline_ms": 5}), json!({"deadline_ms": 0})), None);
        let refused = resolve(&Config::default(), &map(json!({})), &map(json!({"deadline_ms": "soon"})));
        let expected = "option deadline_ms in options must be a whole number, 0 or more";
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }

    #[test]
    fn each_limit_of_a_budget_knows_who_set_it() {
        let mut config = Config::default();
        config.run.budget_tokens = 10;
        config.run.budget_price = "1 EUR".into();
        let budget =
            |workflow: Json, request: Json| resolve(&config, &map(workflow), &map(request)).unwrap().budget;
        let settled = budget(json!({"budget_tokens": 5}), json!({"budget_price": "0.5 USD"})).unwrap();
        assert_eq!(settled.tokens, Some((5, SetBy::Workflow)));
        assert_eq!(settled.price.unwrap(), (budget::price("0.5 USD").unwrap(), SetBy::Request));
        assert_eq!(budget(json!({"budget_tokens": 0}), json!({"budget_price": ""})), None);
        assert_eq!(budget(json!({}), json!({})).unwrap().tokens, Some((10, SetBy::Settings)));
    }

    #[test]
    fn an_invalid_option_is_refused_with_its_name() {
        let refused =
            |value: Json| resolve(&Config::default(), &JsonMap::new(), &map(value)).unwrap_err().to_string();
        for (given, said) in [
            (json!({"max_step": 3}), "unknown option max_step in options; did you mean max_steps?"),
            (json!({"max_steps": 0}), "option max_steps in options must be a whole number, 1 or more"),
            (json!({"max_steps": "3"}), "option max_steps in options must be a whole number, 1 or more"),
            (
                json!({"inline_bytes_max": 1_000_000}),
                "option inline_bytes_max in options must be a whole number, 1 to 32768",
            ),
            (
                json!({"template_undefined": "x"}),
                "option template_undefined in options must be empty or strict",
            ),
            (
                json!({"budget_price": "5"}),
                "option budget_price in options must be an amount and a currency, such as \"0.50 EUR\"; empty: no bound",
            ),
            (
                json!({"loop_next_after_last": 1}),
                "option loop_next_after_last in options must be true or false",
            ),
            (
                json!({"tool_approval": {"auto_approved_tools": 1}}),
                "option tool_approval in options must be an object with auto_approved_tools, a list of names",
            ),
            (
                json!({"nested_answer_stream": 7}),
                "option nested_answer_stream in options must be whole, segments or none",
            ),
        ] {
            assert_eq!(refused(given), said);
        }
    }
}
