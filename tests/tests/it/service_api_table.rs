//! The table of Dify's service API in docs/compatibility.md: a row for each operation that Dify's description has, and a
//! route for each row that is not absent.

use reqwest::Method;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;

/// The number of operations in Dify's description of its service API.
const OPERATIONS: usize = 82;

/// True for a route that needs a key of datasets, and no key of an app.
pub(crate) fn is_of_datasets(path: &str) -> bool {
    path.starts_with("/datasets") || path.starts_with("/workspaces")
}

/// A row: method, path below `/v1`, and what the second column says. The rows of datasets begin with `/v1`, and have short
/// names for the beginnings of long paths.
pub(crate) fn rows() -> Vec<(Method, String, String)> {
    let page = tidemill_tests::workspace().join("docs/compatibility.md");
    let page = std::fs::read_to_string(page).expect("the page can be read");
    let row = |line: &str| {
        let (operation, rest) = line.strip_prefix("| `")?.split_once('`')?;
        // Other spellings of an operation may follow.
        let (_, rest) = rest.split_once("| ")?;
        let (method, path) = operation.split_once(' ')?;
        let path =
            path.replace("{doc}", "{d}/documents/{document_id}").replace("{d}", "/datasets/{dataset_id}");
        let path = path.trim_start_matches("/v1").to_owned();
        let verdict = rest.split(' ').next()?;
        ["same", "different", "absent"].contains(&verdict).then_some(())?;
        Some((method.parse().ok()?, path, verdict.to_owned()))
    };
    page.lines().filter_map(row).collect()
}

/// A path of the table with something in the place of each parameter.
pub(crate) fn concrete(path: &str) -> String {
    format!("/v1{}", path.replace("{action}", "enable").replace(['{', '}'], ""))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_of_difys_service_api_has_a_row_and_a_route() {
    let rows = rows();
    let mut operations: Vec<String> =
        rows.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    operations.sort();
    operations.dedup();
    assert_eq!(operations.len(), OPERATIONS, "{operations:#?}");
    let cluster = Cluster::start(&[("scheduler.wrong_keys_max", "1000")], None).await;
    let scheduler = cluster.scheduler().await;
    let client = Client::new(&scheduler.address, Some("app-none"));
    for (method, path, verdict) in rows {
        let answer = client.send(client.request(method.clone(), &concrete(&path))).await;
        // A route asks for a key before anything else.
        assert_eq!(answer.status, 401, "{method} {path} ({verdict}): {}", answer.text);
    }
}
