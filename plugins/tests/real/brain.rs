//! The plugin `brain`: a model of each kind.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;
use tidemill_plugins::model::chunk::{Chunk, Piece};
use tidemill_plugins::model::{ModelCall, ModelError, Named, answer, chunk};
use tidemill_plugins::package::{Facts, ModelKind};
use tidemill_plugins::process::{NoAnswers, Origin, ProcessError};

use crate::lab::{Bench, Lab, map};

#[allow(clippy::print_stdout, reason = "the results of tests")]
pub(crate) async fn all(lab: &Lab) {
    let bench = lab.bench(&lab.brain, |_| {});
    an_llm_answers_in_parts(&bench).await;
    errors_have_their_classes_and_no_secrets(&bench).await;
    models_of_the_other_kinds_answer(&bench).await;
    credentials_are_checked_and_models_described(&bench).await;
    bench.plugins.stop().await;
    println!("brain: passed");
}

fn credentials(key: &str) -> JsonMap {
    map(json!({"key": key}))
}

fn call<'a>(bench: &'a Bench, credentials: &'a JsonMap) -> ModelCall<'a> {
    ModelCall {
        plugins: &bench.plugins,
        installed: &bench.installed,
        provider: "brain",
        credentials,
        user: "tester",
        owner: &bench.owner,
        answers: Arc::new(NoAnswers),
        origin: Origin::default(),
    }
}

const ECHO: Named<'_> = Named { kind: ModelKind::Llm, model: "echo" };

async fn asked(bench: &Bench, content: Json, more: Json) -> Result<Vec<Chunk>, ModelError> {
    let mut request = json!({
        "prompt_messages": [{"role": "user", "content": content}], "model_parameters": {}, "stop": null, "tools": null,
        "stream": true,
    });
    for (key, value) in map(more) {
        request[key] = value;
    }
    let credentials = credentials("the-right-key");
    let mut parts = call(bench, &credentials).begin(ECHO, "invoke_llm", request).await?;
    let mut chunks = Vec::new();
    while let Some(part) = parts.next().await? {
        chunks.push(chunk::read(&part).unwrap());
    }
    Ok(chunks)
}

fn text(chunks: &[Chunk]) -> String {
    let pieces = chunks.iter().flat_map(|chunk| &chunk.content);
    let texts = pieces.map(|piece| match piece {
        Piece::Text(text) => text.as_str(),
        Piece::File { .. } => "[file]",
    });
    texts.collect()
}

async fn an_llm_answers_in_parts(bench: &Bench) {
    let chunks = asked(bench, json!("hello you"), json!({})).await.unwrap();
    assert_eq!((text(&chunks).as_str(), chunks.len()), ("echo heard hello you", 5));
    let last = chunks.last().unwrap();
    assert_eq!((last.tokens, last.finish_reason.as_deref()), (Some((10, 5)), Some("stop")));
    let whole = asked(bench, json!("hello"), json!({"stream": false})).await.unwrap();
    assert_eq!((text(&whole).as_str(), whole.len()), ("echo heard hello", 1));

    let picture = json!({"type": "image", "format": "png", "mime_type": "image/png", "filename": "a.png", "url": "", "base64_data": "AAAA"});
    let chunks = asked(bench, json!([{"type": "text", "data": "look"}, picture]), json!({})).await.unwrap();
    assert!(text(&chunks).ends_with("look and saw 1 pictures of 4 characters"), "{}", text(&chunks));

    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let tools = json!([{"name": "f", "description": "d", "parameters": schema}]);
    let chunks = asked(bench, json!("x"), json!({"tools": tools})).await.unwrap();
    let calls: Vec<_> = chunks.iter().flat_map(|chunk| &chunk.calls).collect();
    let arguments: String = calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!((calls.len(), calls[0].name.as_str(), arguments.as_str()), (2, "f", "{\"a\": \"a\"}"));
}

async fn errors_have_their_classes_and_no_secrets(bench: &Bench) {
    for (said, expected, part) in [
        ("no such thing", "InvokeBadRequestError", "refused with the key ***"),
        ("not allowed", "InvokeAuthorizationError", "Incorrect model credentials"),
        ("it breaks here now", "ConnectionError", "the line is cut"),
    ] {
        let error = asked(bench, json!(said), json!({})).await.unwrap_err();
        let ModelError::Process(ProcessError::Failed { kind, message, .. }) = error else {
            panic!("{said}: {error}")
        };
        assert_eq!(kind, expected, "{said}");
        assert!(message.contains(part), "{message}");
    }
}

async fn models_of_the_other_kinds_answer(bench: &Bench) {
    let credentials = credentials("the-right-key");
    let call = call(bench, &credentials);
    let named = |kind, model| Named { kind, model };
    let letters = named(ModelKind::TextEmbedding, "letters");
    let more = json!({"texts": ["aab", "c"], "input_type": "query"});
    let vectors = call.ask(letters, "invoke_text_embedding", more).await.unwrap();
    let (vectors, tokens) = answer::vectors(&vectors, 2).unwrap();
    assert_eq!((vectors[0][..2].to_vec(), tokens), (vec![2.0, 1.0], 4));
    let shortest = named(ModelKind::Rerank, "shortest");
    let more = json!({"query": "q", "docs": ["long text", "s"], "score_threshold": null, "top_n": 1});
    let ranking = call.ask(shortest, "invoke_rerank", more).await.unwrap();
    assert_eq!(answer::ranking(&ranking, 2, 1), Ok(vec![(1, 0.5)]));
    let guard = named(ModelKind::Moderation, "guard");
    let flagged = call.ask(guard, "invoke_moderation", json!({"text": "violence"})).await.unwrap();
    assert_eq!(answer::flagged(&flagged), Ok(true));
    let ear = named(ModelKind::Speech2Text, "ear");
    let more = json!({"file": answer::hexadecimal(b"sound")});
    let heard = call.ask(ear, "invoke_speech2text", more).await.unwrap();
    assert_eq!(answer::transcript(&heard), Ok("5 bytes".into()));
    let voice = named(ModelKind::Tts, "voice");
    let more = json!({"content_text": "hi", "voice": "low", "tenant_id": "t"});
    let mut parts = call.begin(voice, "invoke_tts", more).await.unwrap();
    let mut sound = Vec::new();
    while let Some(part) = parts.next().await.unwrap() {
        sound.extend(answer::sound(&part).unwrap());
    }
    assert_eq!(sound, b"low:hi");
}

async fn credentials_are_checked_and_models_described(bench: &Bench) {
    let (right, wrong) = (credentials("the-right-key"), credentials("another-key"));
    let mine = Named { kind: ModelKind::Llm, model: "mine" };
    for named in [None, Some(mine)] {
        call(bench, &right).validate(named).await.unwrap();
        let error = call(bench, &wrong).validate(named).await.unwrap_err();
        assert!(matches!(&error, ModelError::Credentials(_)), "{error}");
        assert!(error.to_string().contains("the key *** is wrong"), "{error}");
    }
    let schema = call(bench, &right).ask(mine, "get_ai_model_schemas", json!({})).await.unwrap();
    let facts = Facts::of(&schema["model_schema"]);
    assert_eq!((facts.context_size, facts.mode.as_deref()), (Some(100), Some("chat")));
}
