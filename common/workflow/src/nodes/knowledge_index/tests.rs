//! Tests of the node without a store: its checks, the preview, and the document that it orders.

use super::*;
use tidemill_base::value::pool::Pool;

fn work(structure: &str, sys: Json, chunks: Json) -> Work {
    let data = json!({"chunk_structure": structure, "index_chunk_variable_selector": ["c", "result"]});
    let mut problems = Problems::new();
    let data = KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems);
    let pool = match chunks {
        Json::Null => json!({ "sys": sys }),
        chunks => json!({"sys": sys, "c": {"result": chunks}}),
    };
    data.expect("usable").work(&Pool::new(pool))
}

fn run(structure: &str, sys: Json, chunks: Json) -> NodeResult {
    match work(structure, sys, chunks) {
        Work::Done(result) => *result,
        Work::Keep(order) => panic!("{order:?}"),
    }
}

#[test]
fn missing_inputs_fail_in_difys_order_with_difys_messages() {
    let set = json!({"dataset_id": "d"});
    for (sys, chunks, error_type, message) in [
        (json!({}), json!(null), "WorkflowNodeError", "Dataset ID is required."),
        (set.clone(), json!(null), "WorkflowNodeError", "Index chunk variable is required."),
        (set.clone(), json!([]), ERROR, "Chunks is required."),
        (set, json!(["x"]), ERROR, "Batch is required."),
        (json!({"dataset_id": "d", "batch": "b"}), json!(["x"]), ERROR, "document_id is required."),
        (
            json!({"dataset_id": "d", "batch": "b", "document_id": "o", "invoke_from": "published"}),
            json!([1]),
            ERROR,
            "A chunk is not a text",
        ),
        (json!({"dataset_id": "d", "invoke_from": "debugger"}), json!("x"), ERROR, "Chunks is not a list"),
    ] {
        let result = run("text_model", sys, chunks.clone());
        let failure = result.failure.expect("a failure");
        assert_eq!((failure.error_type.as_str(), failure.message.as_str()), (error_type, message));
        assert_eq!(result.inputs.is_empty(), error_type != ERROR, "{message}");
    }
}

#[test]
fn the_preview_shows_chunks_by_their_structure() {
    let sys = json!({"dataset_id": "d", "invoke_from": "debugger"});
    for (structure, chunks, shown) in [
        (
            "text_model",
            json!(["a", "b"]),
            json!({"preview": [{"content": "a"}, {"content": "b"}], "total_segments": 2}),
        ),
        (
            "hierarchical_model",
            json!({"parent_mode": "full-doc", "parent_child_chunks": [{"parent_content": "p", "child_contents": ["c"]}]}),
            json!({"parent_mode": "full-doc", "preview": [{"content": "p", "child_chunks": ["c"]}], "total_segments": 1}),
        ),
        (
            "qa_model",
            json!({"qa_chunks": [{"question": "q", "answer": "a"}]}),
            json!({"qa_preview": [{"question": "q", "answer": "a"}], "total_segments": 1}),
        ),
    ] {
        let result = run(structure, sys.clone(), chunks);
        assert_eq!(result.failure, None, "{structure}");
        let mut outputs: JsonMap =
            result.outputs.into_iter().map(|(name, value)| (name, value.value)).collect();
        assert_eq!(outputs.shift_remove("chunk_structure"), Some(json!(structure)));
        assert_eq!(Json::Object(outputs), shown);
    }
}

#[test]
fn chunks_of_every_structure_become_pieces_of_a_document() {
    let sys = json!({"dataset_id": "d", "document_id": "o", "batch": "b"});
    let piece = |content: &str, answer: Option<&str>| Piece {
        content: content.into(),
        answer: answer.map(Into::into),
        ..Piece::default()
    };
    for (structure, chunks, expected) in [
        ("text_model", json!(["a", " ", "b"]), vec![piece("a", None), piece("b", None)]),
        (
            "hierarchical_model",
            json!({"parent_child_chunks": [{"parent_content": "p", "child_contents": ["c"]}]}),
            vec![piece("p", None)],
        ),
        ("qa_model", json!({"qa_chunks": [{"question": "q", "answer": "a"}]}), vec![piece("q", Some("a"))]),
        (
            "text_model",
            json!({"segments": [{"content": "q", "answer": "a"}, {"content": "c", "answer": null}]}),
            vec![piece("q", Some("a")), piece("c", None)],
        ),
    ] {
        let Work::Keep(order) = work(structure, sys.clone(), chunks) else { panic!("{structure}") };
        assert_eq!(order.pieces, expected, "{structure}");
        assert_eq!((order.name.as_str(), order.data_source_type.as_str()), ("o", "upload_file"));
        assert_eq!(order.noted_run, None);
    }
    let named = json!({"segments": [{"content": "c"}], "document": {
        "name": "n.md", "data_source_type": "website_crawl", "doc_metadata": {"year": 1}, "noted_run": "r"}});
    let Work::Keep(order) = work("text_model", sys, named) else { panic!("it is to be kept") };
    assert_eq!((order.name.as_str(), order.data_source_type.as_str()), ("n.md", "website_crawl"));
    assert_eq!(order.noted_run.as_deref(), Some("r"));
    assert_eq!(order.doc_metadata.map(Json::Object), Some(json!({"year": 1})));
}

#[test]
fn changed_segments_keep_their_ids_and_a_text_is_split_by_its_rule() {
    let sys = json!({"dataset_id": "d", "document_id": "o", "batch": "b"});
    let changed = json!({"segments": [{"content": "c", "id": "s1", "enabled": false}],
        "document": {"based_on": "g1", "notes": {"language": "German"}}});
    let Work::Keep(order) = work("text_model", sys.clone(), changed) else { panic!("it is to be kept") };
    let expected = Piece { content: "c".into(), answer: None, id: Some("s1".into()), is_disabled: true };
    assert_eq!(order.pieces, [expected]);
    assert_eq!((order.based_on.as_deref(), order.notes.language.as_str()), (Some("g1"), "German"));
    assert_eq!(order.doc_metadata, None, "that of the version before stays");
    let data = json!({"chunk_structure": "text_model", "index_chunk_variable_selector": ["c", "result"],
        "text_variable_selector": ["t", "text"]});
    let mut problems = Problems::new();
    let data = KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems);
    let rule = json!({"mode": "custom", "rules": {"segmentation": {"separator": "#", "max_tokens": 9}}});
    for (text, pieces, failure) in
        [("one#two", vec!["one", "two"], None), (" ", vec![], Some("there is no text in the file"))]
    {
        let chunks = json!({"process_rule": rule, "document": {"name": "n"}});
        let pool = json!({"sys": sys, "c": {"result": chunks}, "t": {"text": text}});
        match data.as_ref().expect("usable").work(&Pool::new(pool)) {
            Work::Keep(order) => {
                let texts: Vec<&str> = order.pieces.iter().map(|piece| piece.content.as_str()).collect();
                assert_eq!((texts, None), (pieces, failure));
            }
            Work::Done(result) => {
                assert_eq!(result.failure.map(|it| it.message).as_deref(), failure);
            }
        }
    }
}

#[test]
fn wrong_fields_are_reported_at_their_place() {
    let chunks = json!(["c", "r"]);
    for (data, path) in [
        (json!({"index_chunk_variable_selector": chunks}), "chunk_structure"),
        (json!({"chunk_structure": "lines", "index_chunk_variable_selector": chunks}), "chunk_structure"),
        (json!({"chunk_structure": "qa_model"}), "index_chunk_variable_selector"),
        (
            json!({"chunk_structure": "qa_model", "index_chunk_variable_selector": chunks, "indexing_technique": "fast"}),
            "indexing_technique",
        ),
    ] {
        let mut problems = Problems::new();
        assert!(KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems).is_none());
        let paths: Vec<String> = problems.into_vec().into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, [path]);
    }
}
