//! The `message_files` of a message: the files that its user gave, and those of its answer.

use serde_json::{Value as Json, json};
use tidemill_common::files::UploadId;

use crate::runs::file_links::FileLinks;
use crate::runs::projection::files::file_id;

/// Who the files of a turn belong to, and the key under which it has them.
const OWNERS: [(&str, &str); 2] = [("user", "files"), ("assistant", "answer_files")];

/// The files of a message in Dify's form. Front ends look for `belongs_to`.
pub(super) fn of(turn: &Json, links: &FileLinks) -> Vec<Json> {
    let message = turn["id"].as_str().unwrap_or_default();
    let files = OWNERS.into_iter().flat_map(|(belongs_to, key)| {
        let files = turn.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        files.iter().map(move |file| (belongs_to, file))
    });
    files.enumerate().map(|(at, (belongs_to, file))| to_json(message, at, belongs_to, file, links)).collect()
}

fn to_json(message: &str, at: usize, belongs_to: &str, file: &Json, links: &FileLinks) -> Json {
    let part = |key: &str| file.get(key).cloned().unwrap_or_default();
    let given = ["url", "remote_url"]
        .into_iter()
        .find_map(|key| file.get(key)?.as_str().filter(|url| !url.is_empty()));
    let is_upload = file["transfer_method"] == "local_file";
    // The scheduler has made these objects from its record of the upload, which is kept longer than the run's copy.
    let upload = || -> Option<UploadId> { file["related_id"].as_str()?.parse().ok() };
    let upload = if is_upload && belongs_to == "user" { upload() } else { None };
    let link = || upload.map_or_else(|| links.link(file), |id| Some(links.of_upload(id)));
    json!({
        "id": file_id(message, at),
        "filename": part("filename"),
        "type": part("type"),
        "url": given.map(str::to_owned).or_else(link),
        "mime_type": part("mime_type"),
        "size": file.get("size").and_then(Json::as_u64),
        "transfer_method": part("transfer_method"),
        "belongs_to": belongs_to,
        "upload_file_id": if is_upload { part("related_id") } else { Json::Null },
    })
}

#[cfg(test)]
mod tests {
    use tidemill_common::config::UploadsConfig;

    use super::*;
    use crate::runs::forms::FormTokens;

    #[test]
    fn each_file_says_whose_it_is_and_where_it_is_opened() {
        let links = FileLinks::new(FormTokens::of_secret("s"), &UploadsConfig::default());
        let id = tidemill_common::files::UploadId::generate().to_string();
        let turn = json!({
            "id": "m",
            "files": [
                {"transfer_method": "local_file", "type": "document", "filename": "a.pdf", "related_id": id, "size": 3,
                 "mime_type": "application/pdf", "url": null, "remote_url": null},
                {"transfer_method": "remote_url", "type": "image", "filename": "b", "url": "https://h/b", "size": -1},
            ],
            "answer_files": [
                {"transfer_method": "tool_file", "type": "image", "filename": "c", "url": "https://h/c"},
                {"transfer_method": "local_file", "type": "image", "filename": "d", "related_id": id},
            ],
        });
        let files = of(&turn, &links);
        let shown: Vec<Json> = files
            .iter()
            .map(|file| json!([file["filename"], file["belongs_to"], file["upload_file_id"], file["size"]]))
            .collect();
        assert_eq!(
            shown,
            [
                json!(["a.pdf", "user", id, 3]),
                json!(["b", "user", null, null]),
                json!(["c", "assistant", null, null]),
                json!(["d", "assistant", id, null]),
            ]
        );
        assert!(files[0]["url"].as_str().unwrap().starts_with(&format!("/files/{id}/file-preview?")));
        assert_eq!(files[1]["url"], "https://h/b");
        assert_eq!(files[3]["url"], Json::Null, "a node may have written the id into an answer's file");
        let ids: std::collections::BTreeSet<&str> =
            files.iter().filter_map(|file| file["id"].as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert_eq!(of(&turn, &links)[0]["id"], files[0]["id"], "an id stays");
    }
}
