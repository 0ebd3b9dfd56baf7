//! Requests of each kind, and what the mock without rules answers.

use super::*;

/// The text of the reply.
fn text(body: &Json) -> String {
    match rule(body).says {
        Says::Chunks(chunks) => chunks.concat(),
        other => panic!("no chunks: {other:?}"),
    }
}

fn call(body: &Json) -> (String, Json) {
    let mut calls = rule(body).tool_calls;
    assert_eq!(calls.len(), 1, "{body}");
    let (name, arguments) = calls.remove(0);
    (name, serde_json::from_str(&arguments).unwrap())
}

fn said(role: &str, content: impl Into<Json>) -> Json {
    json!({"role": role, "content": content.into()})
}

fn tool(name: &str, properties: Json) -> Json {
    let parameters = json!({"type": "object", "properties": properties, "required": ["q"]});
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

#[test]
fn made_up_values_fit_their_schema() {
    for (schema, expected) in [
        (json!({"type": "string"}), json!("mock v")),
        (json!({"type": "string", "minLength": 9}), json!("mock vxxx")),
        (json!({"type": "string", "maxLength": 2}), json!("mo")),
        (json!({"type": "string", "format": "date"}), json!("2025-01-01")),
        (json!({"type": "string", "enum": ["b", "a"]}), json!("b")),
        (json!({"type": "string", "default": "d"}), json!("d")),
        (json!({"type": "string", "default": 3}), json!("mock v")),
        (json!({"const": [1]}), json!([1])),
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "integer", "minimum": 7}), json!(7)),
        (json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}), json!(0.5)),
        (json!({"type": "integer", "maximum": -2}), json!(-2)),
        (json!({"type": "integer", "minimum": 7, "multipleOf": 5}), json!(10)),
        (json!({"type": "boolean"}), json!(true)),
        (json!({"type": "null"}), json!(null)),
        (json!({"type": ["null", "integer"]}), json!(1)),
        (json!({"type": "array", "items": {"type": "string"}}), json!(["mock v"])),
        (json!({"type": "array", "items": {"type": "number"}, "minItems": 3}), json!([1, 1, 1])),
        (json!({"type": "array", "items": {"type": "number"}, "maxItems": 0}), json!([])),
        (json!({"type": "array", "items": {"type": "string"}, "enum": ["a", "b"]}), json!(["a"])),
        (
            json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "boolean"}]}),
            json!([1, true]),
        ),
        (json!({"type": "array"}), json!([])),
        (json!({"type": "object"}), json!({})),
        (
            json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "c"]}),
            json!({"a": "mock a", "b": 1, "c": "mock c"}),
        ),
        (json!({"anyOf": [{"type": "null"}, {"type": "boolean"}]}), json!(true)),
        (json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "minimum": 4}), json!(4)),
        (json!({"allOf": [{"properties": {"a": {"type": "number"}}}, {"required": ["a"]}]}), json!({"a": 1})),
        (
            json!({"$defs": {"d": {"type": "number"}}, "properties": {"x": {"$ref": "#/$defs/d"}}}),
            json!({"x": 1}),
        ),
        (json!({}), json!("mock v")),
    ] {
        assert_eq!(fitting::value(&schema, "v"), expected, "{schema}");
    }
    assert_eq!(fitting::object(&json!({"type": "string"})), json!({}));
}

#[test]
fn a_schema_that_contains_itself_ends() {
    let tree = json!({"type": "object", "properties": {"child": {"$ref": "#"}}});
    assert!(fitting::value(&tree, "v").is_object());
    let endless = json!({"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]});
    assert!(fitting::value(&endless, "v").is_object());
    assert_eq!(fitting::value(&json!({"$ref": "#"}), "v"), json!(null));
}

#[test]
fn a_tool_is_called_once_and_then_there_is_an_answer() {
    let tools = json!([tool("find", json!({"q": {"type": "string"}})), tool("other", json!({}))]);
    let asked = json!({"tools": tools, "messages": [said("system", "s"), said("user", "where?")]});
    assert_eq!(call(&asked), ("find".to_owned(), json!({"q": "mock q"})));
    assert_eq!(text(&asked), "");

    let mut forced = asked.clone();
    forced["tool_choice"] = json!({"type": "function", "function": {"name": "other"}});
    assert_eq!(call(&forced).0, "other");
    let mut refused = asked.clone();
    refused["tool_choice"] = json!("none");
    assert_eq!((rule(&refused).tool_calls.len(), text(&refused)), (0, "You said: where?".to_owned()));

    let mut answered = asked;
    let messages = answered["messages"].as_array_mut().unwrap();
    messages.extend([said("assistant", ""), said("tool", "there")]);
    assert_eq!(
        (rule(&answered).tool_calls.len(), text(&answered)),
        (0, "The tool answered: there".to_owned())
    );
    // The next question of the same conversation leads to a call again.
    answered["messages"].as_array_mut().unwrap().push(said("user", "and now?"));
    assert_eq!(call(&answered).0, "find");
}

#[test]
fn tools_and_results_are_known_in_the_form_of_anthropic() {
    let tools = json!([{"name": "find", "input_schema": {"properties": {"n": {"type": "integer"}}}}]);
    let mut body = json!({"tools": tools, "messages": [said("user", "where?")]});
    assert_eq!(call(&body), ("find".to_owned(), json!({"n": 1})));
    let result =
        json!([{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "there"}]}]);
    body["messages"].as_array_mut().unwrap().extend([said("assistant", ""), said("user", result)]);
    assert_eq!((rule(&body).tool_calls.len(), text(&body)), (0, "The tool answered: there".to_owned()));
}

#[test]
fn the_fields_of_a_request_say_which_json_it_wants() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let of = |field: &str, value: Json| {
        let mut body = json!({"messages": [said("user", "x")]});
        body[field] = value;
        serde_json::from_str::<Json>(&text(&body)).unwrap_or_default()
    };
    let format =
        |schema: &Json| json!({"type": "json_schema", "json_schema": {"name": "r", "schema": schema}});
    assert_eq!(of("response_format", format(&schema)), json!({"n": 1}));
    assert_eq!(of("format", schema.clone()), json!({"n": 1}));
    assert_eq!(of("response_format", json!({"type": "json_object"})), json!({"answer": "You said: x"}));
    assert_eq!(of("response_format", json!({"type": "text"})), json!(null));
}

#[test]
fn what_a_prompt_asks_for_is_known_by_the_json_that_it_carries() {
    let schema = r#"{"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}"#;
    let example = r#"{"input_text": ["a"], "categories": [{"category_id": "9", "category_name": "no"}]}"#;
    let question = "{\"input_text\": [\"Two\nlines \"quoted\"\"], \"categories\": [{\"category_id\": \"1\", \"category_name\": \"bills\"}, {\"category_id\": \"2\", \"category_name\": \"x\"}], \"classification_instructions\": [\"First.\nSecond.\"]}";
    let class = "```json\n{\"keywords\":[],\"category_id\":\"1\",\"category_name\":\"bills\"}\n```";
    let in_words =
        format!("### Structure\n<structure>\n{schema}\n</structure>\n\n### Text\n<text>\n3 {{}}\n</text>");
    let structured = format!("Be brief.\n<schema>\n{schema}\n</schema>");
    for (messages, expected) in [
        (json!([said("user", example), said("assistant", "x"), said("user", question)]), class),
        (json!([said("user", format!("Input: {example}\nInput: {question}\nOutput:"))]), class),
        (json!([said("user", in_words.clone())]), "{\"n\":1}"),
        (json!([said("system", structured), said("user", "x")]), "{\"n\":1}"),
        (
            json!([said("user", format!("<schema>\n{schema}\n</schema>\n\n<known>\n{{}}\n</known>"))]),
            "{\"n\":1}",
        ),
        (
            json!([said("user", "the <structure> of \"categories\": [1] and {\"category_id\": 1}")]),
            "You said: the <structure> of \"categories\": [1] and {\"category_id\": 1}",
        ),
    ] {
        assert_eq!(text(&json!({"messages": messages})), expected, "{messages}");
    }
}

#[test]
fn react_is_known_by_its_stop_word_and_acts_once() {
    let tools = json!([{"name": "find", "description": "d", "parameters": {"properties": {"q": {"type": "string"}}}}]);
    let system = format!("Use [{{\"x\": 1}}] well. These tools can be used:\n\n{tools}\n\nTo use one, …");
    let mut body =
        json!({"stop": ["Observation"], "messages": [said("system", system), said("user", "where?")]});
    let action = "Thought: I try the first tool.\nAction:\n```\n{\"action\":\"find\",\"action_input\":{\"q\":\"mock q\"}}\n```\n";
    assert_eq!(text(&body), action);
    let past = format!("{action}Observation: there\n");
    body["messages"]
        .as_array_mut()
        .unwrap()
        .extend([said("assistant", past), said("user", "Go on from there.")]);
    assert_eq!(text(&body), "Thought: I know the answer.\nFinalAnswer: The tool answered: there");
    let without_tools = json!({"stop": "Observation", "messages": [said("user", "where?")]});
    assert_eq!(text(&without_tools), "Thought: I know the answer.\nFinalAnswer: You said: where?");
}

#[test]
fn calls_as_text_are_written_once_in_the_form_of_the_instructions() {
    let tools = "Tools:\n- find: finds\n  arguments (JSON schema): {\"properties\": {\"q\": {\"type\": \"string\"}}}\n- b: c\n  arguments (JSON schema): {}\n";
    for (mark, expected) in [
        (
            "<tool_use>…",
            "<tool_use><tool_name>find</tool_name><parameters>{\"q\":\"mock q\"}</parameters></tool_use>",
        ),
        (
            "<<<TOOL_CALL>>>…",
            "<<<TOOL_CALL>>>{\"tool\":\"find\",\"parameters\":{\"q\":\"mock q\"}}<<<END_TOOL_CALL>>>",
        ),
    ] {
        let system = said("system", format!("{mark}\n{tools}"));
        let mut body = json!({"messages": [system, said("user", "where?")]});
        assert_eq!(text(&body), expected);
        body["messages"]
            .as_array_mut()
            .unwrap()
            .extend([said("assistant", expected), said("user", "Result of find: there")]);
        assert_eq!(text(&body), "You said: Result of find: there");
    }
}
