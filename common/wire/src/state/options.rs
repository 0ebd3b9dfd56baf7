//! The options and the budget of a run. Only differences from the defaults are written.

use serde_json::Value as Json;

use crate::warnings;
use tidemill_base::value::JsonMap;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::options::budget;
use tidemill_engine::state::options::budget::{Budget, SetBy};
use tidemill_engine::state::options::choices::Choices;
use tidemill_engine::state::options::compat::{ConversationWrites, DifyWays, NestedAnswers};
use tidemill_workflow::messages::{Message, MessageLimits, given_messages};
use tidemill_workflow::nodes::evaluate::UndefinedNames;

/// Writes the options that differ from their defaults.
pub fn options_to_json(options: &RunOptions) -> JsonMap {
    let default = RunOptions::default();
    let mut map = JsonMap::new();
    if options.steps_max != default.steps_max {
        map.insert("max_steps".into(), options.steps_max.into());
    }
    if options.seconds_max != default.seconds_max {
        map.insert("max_execution_time_s".into(), options.seconds_max.into());
    }
    if let Some(ms) = options.deadline_ms {
        map.insert("deadline_ms".into(), ms.into());
    }
    if options.template_undefined == UndefinedNames::Strict {
        map.insert("template_undefined".into(), "strict".into());
    }
    if options.template_chars_max != default.template_chars_max {
        map.insert("template_chars_max".into(), options.template_chars_max.into());
    }
    if options.inline_bytes_max != default.inline_bytes_max {
        map.insert("inline_bytes_max".into(), options.inline_bytes_max.into());
    }
    if options.iteration_conversation_writes != default.iteration_conversation_writes {
        let word = options.iteration_conversation_writes.name();
        map.insert("iteration_conversation_writes".into(), word.into());
    }
    if options.nested_answer_stream != default.nested_answer_stream {
        map.insert("nested_answer_stream".into(), options.nested_answer_stream.name().into());
    }
    if options.iteration_failures_count != default.iteration_failures_count {
        map.insert("iteration_failures_count".into(), options.iteration_failures_count.into());
    }
    if options.loop_next_after_last != default.loop_next_after_last {
        map.insert("loop_next_after_last".into(), options.loop_next_after_last.into());
    }
    write_dify_ways(&mut map, options.dify_ways);
    if options.human_input_timeout_s != default.human_input_timeout_s {
        map.insert("human_input_timeout_s".into(), options.human_input_timeout_s.into());
    }
    if options.container_rounds_max != default.container_rounds_max {
        map.insert("container_rounds_max".into(), options.container_rounds_max.into());
    }
    if let Some(choices) = &options.choices {
        choices.write(&mut map);
    }
    if let Some(budget) = &options.budget {
        write_budget(&mut map, budget);
    }
    if let Some(given) = &options.messages {
        let list = |messages: &Vec<Message>| messages.iter().map(Message::to_map).map(Json::Object).collect();
        let lists = given.iter().map(|(name, messages)| (name.clone(), list(messages)));
        map.insert("messages".into(), Json::Object(lists.collect()));
    }
    if options.warnings_max != default.warnings_max {
        map.insert("warnings_max".into(), options.warnings_max.into());
    }
    if !options.warnings.is_empty() {
        map.insert("warnings".into(), warnings::list_json(&options.warnings));
    }
    if let Some(limits) = &options.message_limits {
        let (mut limits, mut default) = (**limits, MessageLimits::default());
        for key in MessageLimits::KEYS {
            if let (Some(limit), Some(default)) = (limits.of(key), default.of(key))
                && limit != default
            {
                map.insert(key.into(), (*limit).into());
            }
        }
    }
    map
}

fn write_dify_ways(map: &mut JsonMap, mut ways: DifyWays) {
    let mut default = DifyWays::default();
    for key in DifyWays::KEYS {
        if let (Some(way), Some(default)) = (ways.of(key), default.of(key))
            && way != default
        {
            map.insert(key.into(), (*way).into());
        }
    }
}

fn read_dify_ways(map: &JsonMap) -> DifyWays {
    let mut ways = DifyWays::default();
    for key in DifyWays::KEYS {
        if let (Some(way), Some(given)) = (ways.of(key), map.get(key).and_then(Json::as_bool)) {
            *way = given;
        }
    }
    ways
}

/// Adds the budget to the options.
pub(crate) fn write_budget(map: &mut JsonMap, budget: &Budget) {
    if let Some((tokens, by)) = &budget.tokens {
        map.insert("budget_tokens".into(), (*tokens).into());
        map.insert("budget_tokens_by".into(), by.name().into());
    }
    if let Some((price, by)) = &budget.price {
        map.insert("budget_price".into(), budget::price_text(price).into());
        map.insert("budget_price_by".into(), by.name().into());
    }
}

/// Reads the budget from the options of a run or the order of a sub-workflow run.
pub fn read_budget(map: &JsonMap) -> Option<Box<Budget>> {
    let words = |key: &str| map.get(key).and_then(Json::as_str);
    let by = |key: &str| words(key).and_then(SetBy::from_name).unwrap_or(SetBy::Request);
    let tokens = map.get("budget_tokens").and_then(Json::as_u64);
    let tokens = tokens.map(|tokens| (tokens, by("budget_tokens_by")));
    let price = words("budget_price").and_then(budget::price).map(|price| (price, by("budget_price_by")));
    (tokens.is_some() || price.is_some()).then(|| Box::new(Budget { tokens, price }))
}

/// Reads choices; an unreadable one gets its default, like every option.
fn read_choices(map: &JsonMap) -> Option<Box<Choices>> {
    let mut choices = Choices::default();
    choices.take(map).ok()?;
    (choices != Choices::default()).then(|| Box::new(choices))
}

fn read_limits(map: &JsonMap) -> Option<Box<MessageLimits>> {
    let mut limits = MessageLimits::default();
    for key in MessageLimits::KEYS {
        if let (Some(limit), Some(given)) = (limits.of(key), map.get(key).and_then(Json::as_u64)) {
            *limit = given;
        }
    }
    (limits != MessageLimits::default()).then(|| Box::new(limits))
}

/// Reads options; absent or invalid ones get their defaults.
pub fn options_from_json(map: &JsonMap) -> RunOptions {
    let default = RunOptions::default();
    let number = |key: &str| map.get(key).and_then(Json::as_u64);
    let size = |key: &str| number(key).and_then(|n| usize::try_from(n).ok());
    let words = |key: &str| map.get(key).and_then(Json::as_str);
    let truth = |key: &str| map.get(key).and_then(Json::as_bool);
    RunOptions {
        steps_max: number("max_steps").unwrap_or(default.steps_max),
        seconds_max: number("max_execution_time_s").unwrap_or(default.seconds_max),
        deadline_ms: number("deadline_ms"),
        template_undefined: match map.get("template_undefined").and_then(Json::as_str) {
            Some("strict") => UndefinedNames::Strict,
            Some(_) | None => UndefinedNames::Empty,
        },
        template_chars_max: size("template_chars_max").unwrap_or(default.template_chars_max),
        inline_bytes_max: size("inline_bytes_max").unwrap_or(default.inline_bytes_max),
        iteration_conversation_writes: words("iteration_conversation_writes")
            .and_then(ConversationWrites::from_name)
            .unwrap_or(default.iteration_conversation_writes),
        nested_answer_stream: words("nested_answer_stream")
            .and_then(NestedAnswers::from_name)
            .unwrap_or(default.nested_answer_stream),
        iteration_failures_count: truth("iteration_failures_count")
            .unwrap_or(default.iteration_failures_count),
        loop_next_after_last: truth("loop_next_after_last").unwrap_or(default.loop_next_after_last),
        dify_ways: read_dify_ways(map),
        container_rounds_max: number("container_rounds_max").unwrap_or(default.container_rounds_max),
        human_input_timeout_s: number("human_input_timeout_s").unwrap_or(default.human_input_timeout_s),
        budget: read_budget(map),
        choices: read_choices(map),
        message_limits: read_limits(map),
        messages: map.get("messages").and_then(given_messages).map(Box::new),
        warnings_max: size("warnings_max").unwrap_or(default.warnings_max),
        warnings: map.get("warnings").map(warnings::read_list).unwrap_or_default(),
    }
}
