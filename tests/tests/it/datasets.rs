//! Dify's `datasets` family of `/v1` on real processes: keys, datasets, documents, segments, metadata, tags, searches.

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::workspace;

struct Library {
    scheduler: Scheduler,
    _worker: Worker,
    _cluster: Cluster,
    /// With a key of datasets.
    client: Client,
}

impl Library {
    async fn new(model: &Running) -> Self {
        let cluster = Cluster::start(&[], Some(model)).await;
        let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
        let made = scheduler.client().post("/api/v1/keys", &json!({"scope": "datasets"})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let client = scheduler.client().with_key(made.body["key"].as_str());
        Self { scheduler, _worker: worker, _cluster: cluster, client }
    }

    async fn ask(&self, method: Method, path: &str, body: Json) -> HttpResponse {
        let request = self.client.request(method, &format!("/v1{path}"));
        self.client.send(if body.is_null() { request } else { request.json(&body) }).await
    }

    async fn get(&self, path: &str) -> Json {
        let answer = self.ask(Method::GET, path, Json::Null).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.body
    }

    async fn post(&self, path: &str, body: Json) -> Json {
        let answer = self.ask(Method::POST, path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.body
    }

    /// Creates a dataset and returns its path.
    async fn dataset(&self, body: Json) -> String {
        let made = self.post("/datasets", body).await;
        format!("/datasets/{}", text(&made["id"]))
    }

    /// Waits until a batch is indexed, and returns its status.
    async fn indexed(&self, dataset: &str, batch: &Json) -> Json {
        let path = format!("{dataset}/documents/{}/indexing-status", text(batch));
        until("the batch is indexed", LONG, async || {
            let status = self.get(&path).await["data"][0].clone();
            let is_done = ["completed", "error"].contains(&text(&status["indexing_status"]));
            if is_done { Ok(status) } else { Err(status.to_string()) }
        })
        .await
    }

    /// Adds a document from a text, waits until it is indexed, and returns its id.
    async fn document(&self, dataset: &str, body: Json) -> String {
        let made = self.post(&format!("{dataset}/document/create-by-text"), body).await;
        let status = self.indexed(dataset, &made["batch"]).await;
        assert_eq!(status["indexing_status"], "completed", "{status}");
        text(&made["document"]["id"]).to_owned()
    }

    /// Searches, and returns the texts that it finds.
    async fn found(&self, dataset: &str, body: Json) -> Vec<String> {
        let answer = self.post(&format!("{dataset}/retrieve"), body).await;
        let records = answer["records"].as_array().expect("a list");
        records.iter().map(|it| text(&it["segment"]["content"]).to_owned()).collect()
    }
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn refusal(answer: &HttpResponse) -> (u16, &str, &str) {
    let body = &answer.body;
    (answer.status, body["code"].as_str().unwrap_or_default(), body["message"].as_str().unwrap_or_default())
}

fn by_line(extra: Json) -> Json {
    let mut body = json!({"name": "leave.txt", "text": "Thirty days of leave.\nTrains are paid.",
        "indexing_technique": "economy", "process_rule": {"mode": "custom", "rules": {
            "pre_processing_rules": [{"id": "remove_extra_spaces", "enabled": true}],
            "segmentation": {"separator": "\n", "max_tokens": 500, "chunk_overlap": 50}}}});
    for (key, value) in extra.as_object().expect("an object") {
        body[key] = value.clone();
    }
    body
}

/// The body of a form: names, names of files, contents.
fn form(parts: &[(&str, Option<&str>, &str)]) -> String {
    let part = |(name, file, content): &(&str, Option<&str>, &str)| {
        let file = file.map_or_else(String::new, |file| format!("; filename=\"{file}\""));
        format!("--cut\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{content}\r\n")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("{parts}--cut--\r\n")
}

async fn silent() -> Running {
    llm::rules(json!([{"match": {}, "reply": "x"}])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_datasets_open_datasets_and_nothing_else() {
    let model = silent().await;
    let library = Library::new(&model).await;
    assert_eq!(library.get("/datasets").await["total"], 0);
    let admin = library.scheduler.client();
    let info = library.client.get("/v1/info").await;
    assert_eq!(refusal(&info), (401, "unauthorized", "Access token is invalid"));
    for key in [None, Some("app-x"), Some("dataset-x"), admin.key()] {
        let answer = library.client.with_key(key).get("/v1/datasets").await;
        assert_eq!((answer.status, &answer.body["code"]), (401, &json!("unauthorized")), "{key:?}");
    }
    let listed = admin.get("/api/v1/keys").await.body;
    let key = &listed["data"][0];
    assert_eq!((&key["scope"], &key["app"]), (&json!("datasets"), &Json::Null), "{listed}");
    let wrong = admin.post("/api/v1/keys", &json!({"scope": "all"})).await;
    assert_eq!(wrong.status, 400);
    let revoke = admin.request(Method::DELETE, &format!("/api/v1/keys/{}", text(&key["id"])));
    assert_eq!(admin.send(revoke).await.status, 204);
    assert_eq!(library.client.get("/v1/datasets").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn datasets_are_made_listed_changed_tagged_and_removed() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let made = library.post("/datasets", json!({"name": "Handbook"})).await;
    for (field, expected) in [
        ("indexing_technique", Json::Null),
        ("permission", json!("only_me")),
        ("document_count", json!(0)),
        ("embedding_available", Json::Null),
    ] {
        assert_eq!(made[field], expected, "{field}");
    }
    let path = format!("/datasets/{}", text(&made["id"]));
    let again = library.ask(Method::POST, "/datasets", json!({"name": "Handbook"})).await;
    let message = "The dataset name already exists. Please modify your dataset name.";
    assert_eq!(refusal(&again), (409, "dataset_name_duplicate", message));
    library.dataset(json!({"name": "Travel", "indexing_technique": "economy"})).await;
    let page = library.get("/datasets?limit=1&page=1").await;
    assert_eq!(
        (&page["data"][0]["name"], &page["has_more"], &page["total"]),
        (&json!("Travel"), &json!(true), &json!(2))
    );
    assert_eq!(library.get("/datasets?keyword=hand").await["total"], 1);
    let tag = library.post("/datasets/tags", json!({"name": "HR"})).await;
    assert_eq!((&tag["type"], &tag["binding_count"]), (&json!("knowledge"), &json!("0")));
    let bind = json!({"tag_ids": [tag["id"]], "target_id": made["id"]});
    assert_eq!(library.ask(Method::POST, "/datasets/tags/binding", bind.clone()).await.status, 204);
    assert_eq!(library.get("/datasets/tags").await[0]["binding_count"], "1");
    assert_eq!(
        library.get(&format!("{path}/tags")).await,
        json!({"data": [{"id": tag["id"], "name": "HR"}], "total": 1})
    );
    assert_eq!(library.get(&format!("/datasets?tag_ids={}", text(&tag["id"]))).await["total"], 1);
    let unbind = json!({"tag_id": tag["id"], "target_id": made["id"]});
    assert_eq!(library.ask(Method::POST, "/datasets/tags/unbinding", unbind).await.status, 204);
    assert_eq!(library.ask(Method::DELETE, "/datasets/tags", json!({"tag_id": tag["id"]})).await.status, 204);
    let gone = library.ask(Method::DELETE, "/datasets/tags", json!({"tag_id": tag["id"]})).await;
    assert_eq!(refusal(&gone), (404, "not_found", "Tag not found"));
    let change = json!({"name": "Rules", "retrieval_model": {"search_method": "semantic_search", "reranking_enable": false,
        "top_k": 2, "score_threshold_enabled": true, "score_threshold": 0.1}});
    let changed = library.ask(Method::PATCH, &path, change).await.body;
    assert_eq!(
        (&changed["name"], &changed["retrieval_model_dict"]["top_k"]),
        (&json!("Rules"), &json!(2)),
        "{changed}"
    );
    assert_eq!(library.ask(Method::DELETE, &path, Json::Null).await.status, 204);
    let missing = library.ask(Method::GET, &path, Json::Null).await;
    assert_eq!(refusal(&missing), (404, "not_found", "Dataset not found."));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_from_texts_are_split_searched_switched_off_and_replaced() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let path = library.dataset(json!({"name": "Handbook"})).await;
    let undecided = json!({"name": "a", "text": "b"});
    let refused = library.ask(Method::POST, &format!("{path}/document/create_by_text"), undecided).await;
    assert_eq!(refusal(&refused), (400, "invalid_param", "indexing_technique is required."));
    let made = library.post(&format!("{path}/document/create_by_text"), by_line(json!({}))).await;
    let document = &made["document"];
    assert_eq!(
        (&document["created_from"], &document["doc_form"]),
        (&json!("api"), &json!("text_model")),
        "{made}"
    );
    let status = library.indexed(&path, &made["batch"]).await;
    assert_eq!(
        (&status["completed_segments"], &status["total_segments"]),
        (&json!(2), &json!(2)),
        "{status}"
    );
    let document = format!("{path}/documents/{}", text(&document["id"]));
    let shown = library.get(&document).await;
    assert_eq!(
        (&shown["display_status"], &shown["segment_count"]),
        (&json!("available"), &json!(2)),
        "{shown}"
    );
    let only = library.get(&format!("{document}?metadata=only")).await;
    assert_eq!(only, json!({"id": shown["id"], "doc_type": null, "doc_metadata": []}));
    assert_eq!(library.found(&path, json!({"query": "days of leave"})).await, ["Thirty days of leave."]);
    let status = |action: &str| format!("{path}/documents/status/{action}");
    let ids = json!({"document_ids": [shown["id"]]});
    for (action, found, display) in
        [("disable", 0, "disabled"), ("enable", 1, "available"), ("archive", 0, "archived")]
    {
        let answer = library.ask(Method::PATCH, &status(action), ids.clone()).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({"result": "success"})), "{action}");
        let texts = library.found(&path, json!({"query": "leave"})).await;
        let page = library.get(&format!("{path}/documents?status={display}")).await;
        assert_eq!((texts.len(), &page["total"]), (found, &json!(1)), "{action}");
    }
    let archived = library.ask(Method::DELETE, &document, Json::Null).await;
    assert_eq!(refusal(&archived).1, "archived_document_immutable");
    let wrong = library.ask(Method::PATCH, &status("eat"), ids.clone()).await;
    assert_eq!(refusal(&wrong).1, "invalid_action");
    library.ask(Method::PATCH, &status("un_archive"), ids).await;
    let newer = json!({"name": "leave.txt", "text": "Forty days of leave."});
    let made = library.post(&format!("{document}/update-by-text"), newer).await;
    library.indexed(&path, &made["batch"]).await;
    assert_eq!(library.found(&path, json!({"query": "days of leave"})).await, ["Forty days of leave."]);
    let form = json!({"name": "a", "text": "b", "doc_form": "hierarchical_model"});
    let absent = library.ask(Method::POST, &format!("{path}/document/create-by-text"), form).await;
    assert_eq!((absent.status, refusal(&absent).1), (501, "not_implemented"));
    assert_eq!(library.ask(Method::DELETE, &document, Json::Null).await.status, 204);
    let missing = library.ask(Method::DELETE, &document, Json::Null).await;
    assert_eq!(refusal(&missing), (404, "not_found", "Document Not Exists."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_by_a_worker_and_replaced_by_another() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let path = library.dataset(json!({"name": "Handbook"})).await;
    let send = async |method: Method, path: &str, parts: &[(&str, Option<&str>, &str)]| {
        let request = library.client.request(method, &format!("/v1{path}"));
        let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=cut").body(form(parts));
        library.client.send(request).await
    };
    let data = json!({"indexing_technique": "economy", "process_rule": {"mode": "automatic"}}).to_string();
    let create = format!("{path}/document/create-by-file");
    let data = ("data", None, data.as_str());
    let file = |text, name| ("file", Some(name), text);
    for (parts, code) in [
        (&[data][..], "no_file_uploaded"),
        (&[file("a", "a.md"), file("b", "b.md")], "too_many_files"),
        (&[file("a", "")], "filename_not_exists_error"),
        (&[file("a", "a.md")], "invalid_param"),
        (&[data, file("a", "a:b.md")], "invalid_param"),
    ] {
        let answer = send(Method::POST, &create, parts).await;
        assert_eq!((answer.status, refusal(&answer).1), (400, code), "{}", answer.text);
    }
    let made = send(Method::POST, &create, &[data, file("# Leave\n\nThirty days.", "leave.md")]).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let document = &made.body["document"];
    let source = &document["data_source_detail_dict"]["upload_file"];
    assert_eq!((&source["name"], &source["extension"]), (&json!("leave.md"), &json!("md")), "{}", made.text);
    let status = library.indexed(&path, &made.body["batch"]).await;
    assert_eq!(status["indexing_status"], "completed", "{status}");
    assert_eq!(library.found(&path, json!({"query": "thirty days"})).await, ["# Leave\n\nThirty days."]);
    let document = format!("{path}/documents/{}", text(&document["id"]));
    let made = send(Method::PATCH, &document, &[file("Forty days.", "leave.md")]).await;
    assert_eq!(made.status, 200, "{}", made.text);
    library.indexed(&path, &made.body["batch"]).await;
    assert_eq!(library.found(&path, json!({"query": "days"})).await, ["Forty days."]);
    let made = send(Method::POST, &create, &[file("\u{1}\u{2}", "x.pdf")]).await;
    let status = library.indexed(&path, &made.body["batch"]).await;
    assert_eq!(
        (&status["indexing_status"], status["error"].is_string()),
        (&json!("error"), true),
        "{status}"
    );
    // After a document without a rule, a file needs none.
    let other = library.dataset(json!({"name": "Other", "indexing_technique": "economy"})).await;
    let create = format!("{other}/document/create-by-file");
    assert_eq!(send(Method::POST, &create, &[file("a", "a.md")]).await.status, 400);
    library.document(&other, json!({"name": "b", "text": "b"})).await;
    assert_eq!(send(Method::POST, &create, &[file("a", "a.md")]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_keep_their_ids_and_only_new_ones_are_embedded() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let of_model = json!({"name": "Handbook", "indexing_technique": "high_quality", "embedding_model": "e",
        "embedding_model_provider": "openai"});
    let path = library.dataset(of_model).await;
    let document = library.document(&path, by_line(json!({}))).await;
    let segments = format!("{path}/documents/{document}/segments");
    let listed = library.get(&segments).await;
    assert_eq!((&listed["total"], &listed["doc_form"]), (&json!(2), &json!("text_model")), "{listed}");
    let second = text(&listed["data"][1]["id"]).to_owned();
    let none = library.ask(Method::POST, &segments, json!({})).await;
    assert_eq!((none.status, &none.body), (400, &json!({"error": "Segments is required"})));
    let empty = library.ask(Method::POST, &segments, json!({"segments": [{"content": " "}]})).await;
    assert_eq!(refusal(&empty), (400, "invalid_param", "Content is empty"));
    let before = model.requests().len();
    let added =
        library.post(&segments, json!({"segments": [{"content": "Ask early.", "keywords": ["a"]}]})).await;
    let third = &added["data"][0];
    assert_eq!((&third["position"], &third["status"]), (&json!(3), &json!("completed")), "{added}");
    assert_eq!(model.requests().len(), before + 1, "only the new text is embedded");
    let first = text(&listed["data"][0]["id"]).to_owned();
    let removed = library.ask(Method::DELETE, &format!("{segments}/{first}"), Json::Null).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    assert_eq!(model.requests().len(), before + 1, "a removal asks no model");
    let one = library.get(&format!("{segments}/{second}")).await;
    assert_eq!((&one["data"]["position"], &one["data"]["content"]), (&json!(1), &json!("Trains are paid.")));
    let change = |fields: Json| json!({ "segment": fields });
    let path_of = format!("{segments}/{second}");
    let changed = library.post(&path_of, change(json!({"content": "Trains and buses are paid."}))).await;
    assert_eq!(
        (&changed["data"]["id"], &changed["data"]["content"]),
        (&json!(second), &json!("Trains and buses are paid."))
    );
    let off = library.post(&path_of, change(json!({"enabled": false}))).await;
    assert_eq!(off["data"]["enabled"], false);
    let refused = library.ask(Method::POST, &path_of, change(json!({"content": "x"}))).await;
    assert_eq!(refusal(&refused), (400, "invalid_param", "Can't update disabled segment!"));
    let search = json!({"query": "Trains and buses are paid.", "retrieval_model": {"search_method": "full_text_search",
        "reranking_enable": false, "top_k": 5, "score_threshold_enabled": false}});
    assert!(library.found(&path, search).await.iter().all(|text| !text.contains("Trains")));
    assert_eq!(library.get(&format!("{segments}?keyword=early")).await["total"], 1);
    // Of changes at the same time none is lost.
    let add = |text: &str| library.post(&segments, json!({"segments": [{ "content": text }]}));
    let added = tokio::join!(add("one"), add("two"));
    assert!(added.0["data"][0]["content"] == "one" && added.1["data"][0]["content"] == "two", "{added:?}");
    assert_eq!(library.get(&segments).await["total"], 4);
    // A disabled document stays disabled.
    let disable = format!("{path}/documents/status/disable");
    library.ask(Method::PATCH, &disable, json!({"document_ids": [document]})).await;
    library.post(&path_of, change(json!({"enabled": true}))).await;
    let shown = library.get(&format!("{path}/documents/{document}")).await;
    assert_eq!((&shown["display_status"], &shown["segment_count"]), (&json!("disabled"), &json!(4)));
    let missing = library.ask(Method::GET, &format!("{segments}/{first}"), Json::Null).await;
    assert_eq!(refusal(&missing), (404, "not_found", "Segment not found."));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_filters_searches_and_follows_its_fields() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let path = library.dataset(json!({"name": "Handbook"})).await;
    let mut documents = Vec::new();
    for year in [2020, 2024] {
        let name = format!("{year}.txt");
        let body = by_line(json!({"name": name, "text": format!("Leave of {year}.")}));
        documents.push(library.document(&path, body).await);
    }
    let fields = format!("{path}/metadata");
    let field = library.ask(Method::POST, &fields, json!({"type": "number", "name": "year"})).await;
    assert_eq!(field.status, 201, "{}", field.text);
    let again = library.ask(Method::POST, &fields, json!({"type": "number", "name": "year"})).await;
    assert_eq!(refusal(&again), (400, "invalid_param", "Metadata name already exists."));
    let values: Vec<Json> = documents
        .iter()
        .zip([2020, 2024])
        .map(|(id, year)| json!({"document_id": id, "metadata_list": [{"id": field.body["id"], "name": "year", "value": year}]}))
        .collect();
    let set = library.post(&format!("{path}/documents/metadata"), json!({"operation_data": values})).await;
    assert_eq!(set, json!({"result": "success"}));
    let listed = library.get(&fields).await;
    assert_eq!(
        (&listed["doc_metadata"][0]["count"], &listed["built_in_field_enabled"]),
        (&json!(2), &json!(false))
    );
    let search = |name: &str, operator: &str, value: Json| {
        let conditions = json!([{"name": name, "comparison_operator": operator, "value": value}]);
        json!({"query": "leave", "retrieval_model": {"search_method": "keyword_search", "reranking_enable": false, "top_k": 5,
            "score_threshold_enabled": false,
            "metadata_filtering_conditions": {"logical_operator": "and", "conditions": conditions}}})
    };
    assert_eq!(library.found(&path, search("year", "≥", json!(2022))).await, ["Leave of 2024."]);
    let renamed = library
        .ask(Method::PATCH, &format!("{fields}/{}", text(&field.body["id"])), json!({"name": "since"}))
        .await;
    assert_eq!(renamed.body["name"], "since", "{}", renamed.text);
    assert_eq!(library.found(&path, search("since", "≥", json!(2022))).await, ["Leave of 2024."]);
    assert_eq!(library.get(&format!("{fields}/built-in")).await["fields"].as_array().map(Vec::len), Some(5));
    library.post(&format!("{fields}/built-in/enable"), Json::Null).await;
    assert_eq!(
        library.found(&path, search("document_name", "is", json!("2020.txt"))).await,
        ["Leave of 2020."]
    );
    let shown = library.get(&format!("{path}/documents/{}", documents[0])).await;
    assert_eq!(shown["doc_metadata"].as_array().map(Vec::len), Some(6), "{shown}");
    let removed =
        library.ask(Method::DELETE, &format!("{fields}/{}", text(&field.body["id"])), Json::Null).await;
    assert_eq!(removed.status, 204);
    assert_eq!(library.get(&fields).await["doc_metadata"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_counterpart_is_answered_with_its_reason_and_models_are_listed() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let of_model = json!({"name": "Handbook", "indexing_technique": "high_quality", "embedding_model": "e",
        "embedding_model_provider": "openai"});
    let path = library.dataset(of_model).await;
    let (document, child) = (format!("{path}/documents/d"), "child_chunks");
    for (method, path, word) in [
        (Method::POST, format!("{document}/segments/s/{child}"), "chunks"),
        (Method::GET, format!("{document}/segments/s/{child}"), "chunks"),
        (Method::PATCH, format!("{document}/segments/s/{child}/c"), "chunks"),
        (Method::DELETE, format!("{document}/segments/s/{child}/c"), "chunks"),
        (Method::GET, format!("{document}/download"), "its file"),
        (Method::POST, format!("{path}/documents/download-zip"), "its file"),
        (Method::POST, "/datasets/pipeline/file-upload".into(), "/v1/workflows/run"),
        (Method::GET, format!("{path}/pipeline/datasource-plugins"), "/v1/workflows/run"),
        (Method::POST, format!("{path}/pipeline/datasource/nodes/n/run"), "/v1/workflows/run"),
        (Method::POST, format!("{path}/pipeline/run"), "/v1/workflows/run"),
        (Method::POST, "/datasets".into(), "settings of the workers"),
    ] {
        let answer = library.ask(method.clone(), &path, json!({"name": "n", "provider": "external"})).await;
        let (status, code, message) = refusal(&answer);
        assert_eq!((status, code), (501, "not_implemented"), "{method} {path}: {}", answer.text);
        assert!(message.contains(word) && answer.body["status"] == 501, "{method} {path}: {}", answer.text);
    }
    let models = library.get("/workspaces/current/models/model-types/text-embedding").await;
    assert_eq!(
        (&models["data"][0]["provider"], &models["data"][0]["models"][0]["model"]),
        (&json!("openai"), &json!("e"))
    );
    let unknown = library.ask(Method::GET, "/workspaces/current/models/model-types/smell", Json::Null).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_of_the_table_is_routed_and_only_absent_ones_are_501() {
    let model = silent().await;
    let library = Library::new(&model).await;
    let page = std::fs::read_to_string(workspace().join("docs/compatibility.md")).expect("the page");
    let table = page.split("### Datasets").nth(1).expect("the section");
    let mut seen = 0;
    for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (operation, rest) = row.split_once('`').expect("an operation");
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let path =
            path.replace("{doc}", "{d}/documents/{document_id}").replace("{d}", "/v1/datasets/{dataset_id}");
        let path = path.replace(['{', '}'], "");
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = library.client.request(method.clone(), &path).json(&json!({}));
        let answer = library.client.send(request).await;
        let is_absent = rest.split('|').nth(1).is_some_and(|word| word.trim() == "absent");
        assert_eq!(answer.status == 501, is_absent, "{method} {path}: {}", answer.text);
        let is_unknown = answer.status == 404 && answer.text.contains("there is no ");
        assert!(answer.status != 405 && !is_unknown, "{method} {path}: {}", answer.text);
        seen += 1;
    }
    assert_eq!(seen, 46);
}
