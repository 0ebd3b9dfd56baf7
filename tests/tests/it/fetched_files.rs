//! Files from other servers on real processes: those that a request names by their URL are what their servers say, and
//! those that `http-request` nodes fetched keep name and extension in all nodes after it.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::file_server::FileServer;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{System, system};

const DOCX: &[u8] = include_bytes!("workflows/files/tide.docx");
const TIDE: &str = "The tide\n| harbour | time |\n| --- | --- |\n| Kiel | 7 |";

/// A workflow file, with the address of the server in its requests.
macro_rules! workflow {
    ($name:literal, $server:expr) => {
        include_str!(concat!("workflows/files/", $name, ".yml")).replace("${BASE}", &$server.base_url)
    };
}

async fn fleet() -> System {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    system(&[("http.allow", "127.0.0.1")], &model).await
}

/// Runs a workflow and returns its outputs.
async fn outputs(client: &Client, workflow: &str, request: Json) -> Json {
    let mut body = json!({"workflow": workflow, "user": "u", "inputs": {}});
    for (key, value) in request.as_object().expect("a mapping") {
        body[key] = value.clone();
    }
    let ended = client.ended(&client.submit(&body).await).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    ended["outputs"].clone()
}

/// A file as a request names it.
fn remote(kind: &str, url: String) -> Json {
    json!({"type": kind, "transfer_method": "remote_url", "url": url})
}

/// The part of a text that is JSON, such as what the server received.
fn received(body: &Json) -> Json {
    serde_json::from_str(body.as_str().expect("a text")).expect("what the server received")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetched_file_keeps_its_name_in_filters_forms_and_outputs() {
    let System { client, .. } = &fleet().await;
    for (disposition, name) in [
        ("attachment; filename=tide.docx", "tide.docx"),
        ("attachment; filename=x.docx; filename*=UTF-8''%E6%BD%AE.docx", "潮.docx"),
    ] {
        let server = FileServer::start().await;
        server.serve("/docx", "application/octet-stream", Some(disposition), DOCX);
        let outputs = outputs(client, &workflow!("fetched_file_name", server), json!({})).await;
        assert_eq!(outputs["r"][0]["filename"], name, "{outputs:#}");
        assert_eq!((&outputs["r"][0]["extension"], &outputs["name"]), (&json!(".docx"), &Json::Null));
        let sent = received(&outputs["up"]);
        let part = format!("name=\"doc\"; filename=\"{name}\"\r\n");
        assert!(sent["body"].as_str().is_some_and(|body| body.contains(&part)), "{sent:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_request_is_what_its_server_says() {
    let System { client, .. } = &fleet().await;
    let server = FileServer::start().await;
    server.serve("/plain", "text/plain; charset=utf-8", None, b"hello");
    server.serve("/named", "application/octet-stream", Some("attachment; filename=\"note.txt\""), b"hello");
    server.serve("/%E6%B8%AF.txt", "text/plain", None, b"hello");
    server.serve("/unknown", "application/octet-stream", None, b"hello");
    server.serve("/picture", "image/png", None, b"\x89PNG");
    server.serve("/get-only", "text/plain", None, b"hello");
    let workflow = workflow!("file_by_url", server);
    for (path, extra, name) in [
        ("/plain", json!({}), "plain"),
        ("/get-only", json!({}), "get-only"),
        ("/named", json!({}), "note.txt"),
        ("/%E6%B8%AF.txt", json!({}), "港.txt"),
        ("/unknown", json!({"mime_type": "text/plain"}), "unknown"),
    ] {
        let mut file = remote("document", server.url(path));
        file.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let outputs = outputs(client, &workflow, json!({"inputs": {"doc": file}})).await;
        let expected = json!({"text": "hello", "name": name, "ext": ".txt", "type": "document"});
        assert_eq!(outputs, expected, "{path}");
    }
    let doc = remote("document", server.url("/picture"));
    let refused = client
        .post("/api/v1/runs", &json!({"workflow": workflow, "inputs": {"doc": doc}, "user": "u"}))
        .await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("Detected file type does not match"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_say_what_they_are_and_silent_servers_hold_up_no_request() {
    let System { client, .. } = &fleet().await;
    let server = FileServer::start().await;
    server.serve("/silent.txt", "text/plain", None, b"hello");
    server.be_silent_when_asked("/silent.txt");
    let workflow = workflow!("file_by_url", server);
    let text =
        outputs(client, &workflow, json!({"inputs": {"doc": remote("document", server.url("/silent.txt"))}}))
            .await;
    assert_eq!((&text["text"], &text["ext"]), (&json!("hello"), &json!(".txt")));
    server.serve("/known", "text/plain", None, b"hello");
    let known = json!({"type": "document", "transfer_method": "remote_url", "url": server.url("/known"),
        "filename": "a.txt", "mime_type": "text/plain"});
    let text = outputs(client, &workflow, json!({"inputs": {"doc": known}})).await;
    assert_eq!((&text["text"], &text["name"]), (&json!("hello"), &json!("a.txt")));
    assert_eq!(server.requests("/known"), ["GET"], "only the extractor fetched it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_file_in_a_form_is_what_its_server_says() {
    let System { client, .. } = &fleet().await;
    let server = FileServer::start().await;
    server.serve("/plain", "text/plain", None, b"hello");
    let run = client
        .submit(&json!({"workflow": workflow!("form_select_file", server), "user": "u", "inputs": {}}))
        .await;
    let pause = until("the form", LONG, async || {
        let shown = client.run(&run).await;
        match shown["pauses"][0]["pause_id"].as_str() {
            Some(id) if shown["status"] == "paused" => Ok(id.to_owned()),
            _ => Err(shown.to_string()),
        }
    })
    .await;
    let inputs = json!({"size": "M", "doc": remote("document", server.url("/plain"))});
    let answer = json!({"action": "go", "inputs": inputs});
    let answered = client.post(&format!("/api/v1/runs/{run}/pauses/{pause}/answer"), &answer).await;
    assert!(answered.status < 300, "{}", answered.text);
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"], json!({"s": "M", "x": "hello"}), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_files_are_filtered_iterated_and_sent_by_what_they_are() {
    let System { client, .. } = &fleet().await;
    let server = FileServer::start().await;
    server.serve("/a", "text/plain", Some("inline; filename=a.txt"), b"first");
    server.serve("/b", "text/plain", None, b"second");
    server.serve("/scan", "application/octet-stream", Some("attachment; filename=scan.pdf"), b"%PDF\xff");
    server.serve("/pic", "image/png", None, b"\x89PNG");
    let doc = |path: &str| remote("document", server.url(path));
    let (pdf, none) = (json!([doc("/a"), doc("/scan")]), json!([doc("/a"), doc("/b")]));
    let picture = json!([doc("/a"), remote("image", server.url("/pic"))]);
    for (docs, expected) in [
        (pdf, json!({"y": "has a pdf"})),
        (picture, json!({"z": "has an image"})),
        (none.clone(), json!({"n": "neither"})),
    ] {
        let outputs =
            outputs(client, &workflow!("file_subconditions", server), json!({"inputs": {"docs": docs}}))
                .await;
        let told: Vec<_> = outputs.as_object().unwrap().iter().filter(|(_, text)| !text.is_null()).collect();
        assert_eq!(told, expected.as_object().unwrap().iter().collect::<Vec<_>>());
    }
    let filtered =
        outputs(client, &workflow!("filter_files", server), json!({"inputs": {"docs": none}})).await;
    assert_eq!(filtered, json!({"r": []}));
    for number in 0..15 {
        server.serve(
            &format!("/n{number}"),
            "text/plain",
            Some(&format!("inline; filename=note{number}.txt")),
            b"x",
        );
    }
    let many: Vec<Json> = (0..15).map(|number| doc(&format!("/n{number}"))).collect();
    let counted = outputs(client, &workflow!("many_files", server), json!({"inputs": {"docs": many}})).await;
    assert_eq!(counted, json!({"n": 12}));
    let both = json!({"inputs": {"one": doc("/a"), "many": [doc("/b"), doc("/scan")]}});
    let sent = outputs(client, &workflow!("form_data_files", server), both).await;
    let form = received(&sent["r"])["body"].as_str().unwrap().to_owned();
    for part in [
        "name=\"file1\"; filename=\"a.txt\"",
        "name=\"file2\"; filename=\"b\"",
        "filename=\"scan.pdf\"",
        "name=\"t\"",
    ] {
        assert!(form.contains(part), "{part} in {form}");
    }
    assert_eq!(received(&sent["b"])["body"], "first");
    let object = |path: &str| {
        json!({"dify_model_identity": "__dify__file__", "type": "document",
        "transfer_method": "remote_url", "remote_url": server.url(path), "filename": "a.txt", "extension": ".txt",
        "mime_type": "text/plain", "size": -1})
    };
    let sys = json!({"sys": {"query": "q", "files": [object("/a"), object("/b")]}});
    let iterated = outputs(client, &workflow!("iterate_files", server), sys).await;
    assert_eq!(iterated["answer"], "2: first|second");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_read_by_their_type_and_charset() {
    let System { client, .. } = &fleet().await;
    let server = FileServer::start().await;
    let named = |name: &str| format!("attachment; filename={name}");
    server.serve("/docx", "application/octet-stream", Some(&named("tide.docx")), DOCX);
    server.serve(
        "/docxutf",
        "application/octet-stream",
        Some("attachment; filename*=UTF-8''%E6%BD%AE.docx"),
        DOCX,
    );
    server.serve("/noext", "application/octet-stream", Some(&named("tide.docx")), DOCX);
    let texts = outputs(client, &workflow!("docx_by_disposition", server), json!({})).await;
    for text in ["x", "y", "z"] {
        let read = texts[text][0].as_str().unwrap_or_default();
        assert!(read.contains("The tide") && read.contains("Kiel"), "{TIDE}: {texts:#}");
    }
    assert_eq!((&texts["files"][0]["filename"], &texts["zb"]), (&json!("潮.docx"), &json!("")));

    const GBK: &[u8] = b"\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7";
    server.serve("/xml", "text/xml", None, "<r>潮</r>".as_bytes());
    server.serve("/gbk", "text/plain; charset=gbk", None, GBK);
    server.serve("/gbkplain", "text/html", None, GBK);
    let texts = outputs(client, &workflow!("xml_and_charsets", server), json!({})).await;
    assert_eq!(texts, json!({"xml": "<r>潮</r>", "xmlfiles": [], "gbk": "你好，世界", "html": "你好，世界"}));

    server.serve(
        "/csvgbk",
        "application/octet-stream",
        Some(&named("a.csv")),
        b"\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7,b\n\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7,2\n",
    );
    server.serve("/txt", "text/plain", None, b"hello");
    server.redirect("/redirutf", 302, "/txt?潮");
    server.redirect("/redir/307", 307, "/echo/kept");
    server.redirect("/redir/302", 302, "/echo/dropped");
    let texts = outputs(client, &workflow!("csv_gbk", server), json!({})).await;
    assert!(texts["x"][0].as_str().is_some_and(|table| table.contains("| 你好，世界 | b |")), "{texts:#}");
    assert_eq!(json!([texts["r"], texts["hs"], texts["hb"]]), json!(["hello", 200, ""]));
    let (kept, dropped) = (received(&texts["p"]), received(&texts["q"]));
    assert_eq!(json!([kept["method"], kept["body"]]), json!(["POST", "{\"a\":1}"]));
    assert_eq!(json!([dropped["method"], dropped["body"]]), json!(["GET", ""]));
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_forms_and_json_bodies_are_sent_as_they_are_written() {
    let System { client, .. } = &fleet().await;
    let server = FileServer::start().await;
    let sent = outputs(client, &workflow!("query_without_value", server), json!({})).await;
    let target = |name: &str| received(&sent[name])["target"].as_str().unwrap().to_owned();
    assert_eq!([target("a"), target("b")], ["/echo/do?checkuser", "/echo/do?y=2"]);
    assert_eq!(target("c"), "/echo/%E6%B8%AF%E5%8F%A3?%E5%90%8D=%E6%BD%AE%20%E6%B1%90&a=b%26c");

    let form =
        outputs(client, &workflow!("form_data_no_file", server), json!({"inputs": {"who": "Ann"}})).await;
    let form = received(&form["a"]);
    assert!(
        form["type"].as_str().is_some_and(|kind| kind.starts_with("multipart/form-data; boundary=")),
        "{form:#}"
    );
    for part in [
        "name=\"name\"\r\n\r\nAnn\r\n",
        "name=\"json\"\r\n\r\n{\"a\": \"b: c\"}\r\n",
        "name=\"empty\"\r\n\r\n\r\n",
    ] {
        assert!(form["body"].as_str().is_some_and(|body| body.contains(part)), "{form:#}");
    }

    let text = json!({"inputs": {"text": "two\nlines"}});
    let body = outputs(client, &workflow!("json_body_escapes", server), text).await;
    for (name, expected) in [("a", json!({"msg": "two\nlines", "n": 5})), ("b", json!({"msg": "two\nlines"}))]
    {
        let text = received(&body[name])["body"].as_str().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), expected);
    }

    let body = outputs(client, &workflow!("json_body_types", server), json!({})).await;
    let text = received(&body["a"])["body"].as_str().unwrap().to_owned();
    let expected = json!({"top_k": 8, "score": 0.5, "on": true, "lit": true, "z": null, "five": 5,
        "o": {"k": ["ä"], "b": false, "z": null}, "l": [1, 2], "s": "7", "big": 12345678901234567_u64});
    assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), expected);
}
