//! Files of requests, with and without an answer of their server.

use tidemill_common::files::Upload;
use tidemill_common::http::Said;

use super::*;

fn made(mapping: Json) -> Result<Json, String> {
    made_with(mapping, &Answers::default())
}

fn made_with(mapping: Json, answers: &Answers) -> Result<Json, String> {
    file(mapping.as_object().unwrap(), answers).map(Json::Object).map_err(|error| error.to_string())
}

fn said(url: &str, name: Option<&str>, content_type: &str, size: u64) -> Answers {
    let said = Said {
        name: name.map(str::to_owned),
        content_type: Some(content_type.to_owned()),
        size: Some(size),
        last_url: url.to_owned(),
    };
    Answers::given([(url.to_owned(), said)])
}

#[test]
fn a_remote_file_is_what_its_server_says() {
    let url = "https://h/get?id=1";
    let mapping = json!({"type": "document", "transfer_method": "remote_url", "url": url});
    for (name, content_type, shown) in [
        (None, "text/plain; charset=utf-8", json!(["get", ".txt", "text/plain", 7, "document"])),
        (
            Some("note.txt"),
            "application/octet-stream",
            json!(["note.txt", ".txt", "text/plain", 7, "document"]),
        ),
        (Some("港.pdf"), "application/pdf", json!(["港.pdf", ".pdf", "application/pdf", 7, "document"])),
    ] {
        let file = made_with(mapping.clone(), &said(url, name, content_type, 7)).unwrap();
        let have =
            json!([file["filename"], file["extension"], file["mime_type"], file["size"], file["type"]]);
        assert_eq!(have, shown, "{name:?} {content_type}");
    }
    let picture = said(url, None, "image/png", 7);
    let refused = made_with(mapping, &picture).unwrap_err();
    assert!(refused.starts_with("Detected file type does not match"), "{refused}");
    let untyped = json!({"transfer_method": "remote_url", "url": url});
    assert_eq!(made_with(untyped, &picture).unwrap()["type"], "image");
}

#[test]
fn what_the_request_says_about_a_file_counts_more_than_its_server() {
    let url = "https://h/a.bin";
    let mapping = json!({"type": "document", "transfer_method": "remote_url", "url": url, "mime_type": "text/csv", "size": 3});
    let file = made_with(mapping.clone(), &said(url, None, "image/png", 7)).unwrap();
    assert_eq!(json!([file["extension"], file["mime_type"], file["size"]]), json!([".csv", "text/csv", 3]));
    let file = made(mapping).unwrap();
    assert_eq!(json!([file["extension"], file["mime_type"]]), json!([".csv", "text/csv"]));
}

#[test]
fn servers_are_asked_about_remote_files_whose_name_or_type_is_not_given() {
    let remote = |extra: Json| {
        let mut mapping = json!({"transfer_method": "remote_url", "url": "https://h/a"});
        mapping.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        mapping
    };
    for (mapping, asked) in [
        (remote(json!({})), true),
        (remote(json!({"filename": "a.txt"})), true),
        (remote(json!({"filename": "a.txt", "mime_type": "text/plain"})), false),
        (remote(json!({"filename": null, "mime_type": "text/plain"})), true),
        (remote(json!({"url": "ftp://h/a"})), false),
        (remote(json!({"transfer_method": "local_file"})), false),
        (json!({"transfer_method": "remote_url"}), false),
    ] {
        assert_eq!(to_ask(mapping.as_object().unwrap()).is_some(), asked, "{mapping}");
    }
}

#[test]
fn a_file_object_gets_only_what_it_lacks() {
    let url = "https://h/a";
    let object = json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY, "id": "1", "transfer_method": "remote_url", "remote_url": url,
        "filename": "b", "extension": null, "mime_type": null, "size": -1,
    });
    let answers = said(url, Some("c.csv"), "text/csv", 7);
    let file = Json::Object(of_answer(object.as_object().unwrap(), &answers).unwrap());
    let have = json!([file["id"], file["filename"], file["extension"], file["mime_type"], file["size"]]);
    assert_eq!(have, json!(["1", "b", ".csv", "text/csv", 7]));
    let unchanged = of_answer(object.as_object().unwrap(), &Answers::default()).unwrap();
    assert_eq!(Json::Object(unchanged), object);
}

#[test]
fn name_and_type_of_a_remote_file_follow_from_its_url() {
    let url = "https://h/a/cat.PNG?x=1";
    let file = made(json!({"type": "image", "transfer_method": "remote_url", "url": url})).unwrap();
    assert_eq!(file["dify_model_identity"], "__dify__file__");
    let part = |key: &str| file[key].as_str().unwrap().to_string();
    assert_eq!((part("filename"), part("extension")), ("cat.PNG".into(), ".png".into()));
    assert_eq!(
        (part("mime_type"), part("remote_url"), part("url")),
        ("image/png".into(), url.into(), url.into())
    );
    assert_eq!(file["size"], -1);
}

#[test]
fn wrong_mappings_are_refused_in_difys_words() {
    for (mapping, said) in [
        (json!({"type": "image", "url": "https://h/x.png"}), "transfer_method is required in file mapping"),
        (json!({"type": "image", "transfer_method": "remote_url"}), "Invalid file url"),
        (
            json!({"type": "image", "transfer_method": "remote_url", "url": "ftp://h/x.png"}),
            "Invalid file url",
        ),
        (
            json!({"type": "image", "transfer_method": "remote_url", "url": "https://h/x.pdf"}),
            "Detected file type does not match the specified type. Please verify the file.",
        ),
    ] {
        assert_eq!(made(mapping), Err(said.to_string()));
    }
    let local = |id: Json| {
        let mapping = json!({"type": "image", "transfer_method": "local_file", "upload_file_id": id});
        made(mapping).unwrap_err()
    };
    assert_eq!(local(json!(null)), "Invalid upload file id");
    assert_eq!(local(json!("x")), "Invalid upload file id format");
    assert!(local(json!(Uuid::nil().to_string())).contains("not supported yet"));
}

#[test]
fn a_file_whose_name_shows_another_kind_than_declared_is_refused() {
    for (kind, name, fits) in [
        ("image", "x.PNG", true),
        ("image", "x.tiff", true),
        ("document", "x.tiff", false),
        ("audio", "x.m4a", true),
        ("document", "x.epub", true),
        ("document", "x.zip", false),
        ("custom", "x.zip", true),
        ("custom", "x.png", true),
        ("document", "x.unheard", true),
        ("video", "x", true),
    ] {
        let url = format!("https://h/{name}");
        let file = made(json!({"type": kind, "transfer_method": "remote_url", "url": url}));
        assert_eq!(file.is_ok(), fits, "{kind} {name}: {file:?}");
    }
}

#[test]
fn an_app_that_trusts_types_takes_a_file_as_what_the_request_says() {
    let mapping = json!({"type": "document", "transfer_method": "remote_url", "url": "https://h/x.png"});
    assert_eq!(made(mapping.clone()), Err(MISTYPED.to_owned()));
    let file = made_with(mapping, &Answers::default().trusting_types(true)).unwrap();
    assert_eq!(json!([file["type"], file["extension"]]), json!(["document", ".png"]));
}

#[test]
fn a_field_accepts_the_types_extensions_and_methods_that_it_lists() {
    let field = |extra: Json| {
        let mut field = json!({"variable": "f", "label": "f", "type": "file"});
        field.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let text = json!({
            "nodes": [{"id": "s", "data": {"type": "start", "variables": [field]}}], "edges": [],
        });
        let graph = tidemill_common::graph::import(text.to_string().as_bytes()).graph.unwrap();
        let tidemill_common::nodes::NodeData::Start(data) = &graph.node(graph.root).data else { panic!() };
        data.variables[0].clone()
    };
    for (extra, kind, name, fits) in [
        (json!({}), "image", "a.png", true),
        (json!({"allowed_file_types": ["image"]}), "image", "a.png", true),
        (json!({"allowed_file_types": ["document"]}), "image", "a.png", false),
        (
            json!({"allowed_file_types": ["custom"], "allowed_file_extensions": [".zip"]}),
            "custom",
            "a.ZIP",
            true,
        ),
        (
            json!({"allowed_file_types": ["custom"], "allowed_file_extensions": ["zip"]}),
            "custom",
            "a.zip",
            true,
        ),
        (
            json!({"allowed_file_types": ["custom"], "allowed_file_extensions": [".zip"]}),
            "custom",
            "a.rar",
            false,
        ),
        (json!({"allowed_file_upload_methods": ["remote_url"]}), "image", "a.png", true),
        (json!({"allowed_file_upload_methods": ["local_file"]}), "image", "a.png", true),
        (json!({"allowed_file_upload_methods": ["local_file"]}), "document", "a.pdf", false),
    ] {
        let mapping =
            json!({"type": kind, "transfer_method": "remote_url", "url": format!("https://h/{name}")});
        let taken = of_field(&field(extra.clone()), mapping.as_object().unwrap(), &Answers::default());
        match taken {
            Ok(_) => assert!(fits, "{extra} {name}"),
            Err(error) => {
                let said = format!("File validation failed for file: {name}: f takes ");
                assert!(!fits && error.to_string().starts_with(&said), "{extra} {name}: {error}");
            }
        }
    }
    // Without a type of its own, a file gets the one that the form has for it.
    let custom =
        field(json!({"allowed_file_types": ["custom", "image"], "allowed_file_extensions": [".pdf"]}));
    for (name, kind) in [("a.pdf", "custom"), ("a.png", "image")] {
        let mapping = json!({"transfer_method": "remote_url", "url": format!("https://h/{name}")});
        let taken = of_field(&custom, mapping.as_object().unwrap(), &Answers::default()).unwrap();
        assert_eq!(taken["type"], kind, "{name}");
    }
}

#[test]
fn an_upload_is_what_its_record_says() {
    let upload = Upload {
        id: UploadId::generate(),
        app: None,
        user: "u".into(),
        name: "tide.pdf".into(),
        extension: ".pdf".into(),
        mime_type: "application/pdf".into(),
        size: 7,
        created_at: 0,
    };
    let id = upload.id;
    let answers = Answers::default().with_uploads([(id, upload)].into());
    let local = |extra: Json| {
        let mut mapping = json!({"transfer_method": "local_file", "upload_file_id": id.to_string()});
        mapping.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        made_with(mapping, &answers)
    };
    let file = local(json!({})).unwrap();
    let have = json!([
        file["filename"],
        file["extension"],
        file["mime_type"],
        file["size"],
        file["type"],
        file["related_id"]
    ]);
    assert_eq!(have, json!(["tide.pdf", ".pdf", "application/pdf", 7, "document", id.to_string()]));
    assert_eq!(local(json!({"type": "document"})).unwrap(), file);
    for (extra, said) in [
        (json!({"type": "image"}), MISTYPED),
        (json!({"upload_file_id": Uuid::new_v4().to_string()}), NO_UPLOAD),
        (json!({"upload_file_id": "1"}), "Invalid upload file id format"),
        (json!({"upload_file_id": null}), "Invalid upload file id"),
    ] {
        assert_eq!(local(extra.clone()), Err(said.to_owned()), "{extra}");
    }
    assert_eq!(
        upload_id(
            json!({"transfer_method": "local_file", "upload_file_id": id.to_string()}).as_object().unwrap()
        ),
        Some(id)
    );
    assert_eq!(
        upload_id(
            json!({"transfer_method": "remote_url", "upload_file_id": id.to_string()}).as_object().unwrap()
        ),
        None
    );
}

#[test]
fn files_of_a_request_are_ignored_unless_the_app_enables_uploads() {
    let image = json!({"type": "image", "transfer_method": "remote_url", "url": "https://h/x.png"});
    let features = |limit: u64| json!({"file_upload": {"enabled": true, "number_limits": limit}});
    let taken = |features: Json, files: &[Json]| {
        of_request(features.as_object().unwrap(), files, &Answers::default())
            .map(|f| f.len())
            .map_err(|e| e.to_string())
    };
    assert_eq!(taken(json!({}), std::slice::from_ref(&image)), Ok(0));
    assert_eq!(taken(features(0), &[image.clone(), json!({"type": "image"})]), Ok(1));
    for (left_out, said) in [
        (json!({}), Ok(1)),
        (json!({"transfer_method": ""}), Ok(1)),
        (json!({"transfer_method": "remote_url"}), Ok(1)),
        (json!({"transfer_method": "remote_url", "url": "", "remote_url": null}), Ok(1)),
        (
            json!({"transfer_method": "by_post", "url": "https://h/x.png"}),
            Err("invalid transfer_method \"by_post\" in file mapping".to_owned()),
        ),
        (json!({"transfer_method": 1}), Err("transfer_method is required in file mapping".to_owned())),
        (json!({"transfer_method": "local_file"}), Err("Invalid upload file id".to_owned())),
    ] {
        assert_eq!(taken(features(0), &[left_out.clone(), image.clone()]), said, "{left_out}");
    }
    let many = taken(features(1), &[image.clone(), image]);
    assert_eq!(many, Err("Number of files exceeds the maximum limit 1".into()));
}
