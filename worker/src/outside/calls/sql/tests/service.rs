//! Tests of a text-to-SQL service: the request, and the handling of its answer.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json as JsonBody, Router};
use serde_json::{Value as Json, json};
use tidemill_common::config::CallsConfig;

use crate::outside::calls::sql::service;
use crate::outside::calls::sql::tests::Bench;

const PASSWORD: &str = "marker-of-a-password";

type Seen = Arc<Mutex<Vec<Json>>>;

async fn answering(answer: Json) -> (String, Seen) {
    let seen = Seen::default();
    let take = |State((seen, answer)): State<(Seen, Json)>, JsonBody(request): JsonBody<Json>| async move {
        seen.lock().expect("no other task has panicked").push(request);
        JsonBody(answer)
    };
    let app = Router::new().route("/sql", post(take)).with_state((seen.clone(), answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/sql", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, seen)
}

async fn request(answer: Json) -> (Result<Json, tidemill_common::nodes::step::CallError>, Seen) {
    let (url, seen) = answering(answer).await;
    let datasource = json!({"database_type": "opengauss", "host": "db", "username": "me", "password": PASSWORD,
                            "database": "d", "table_name_list": ["t"], "service_url": url});
    let bench = Bench::new(datasource, CallsConfig::default());
    let (request, _) = bench.request(json!({"question": "How many?"})).await;
    (service::ask(&bench.calls, &request).await.map(Json::Object), seen)
}

#[tokio::test]
async fn se_a17_a_service_is_told_the_question_and_gives_rows_statement_and_risk() {
    let result = json!({"execute_result": [{"n": 2}], "sql": "select count(*) as n from t", "risk": "low"});
    let (answer, seen) = request(json!({"code": 200, "result": result})).await;
    assert_eq!(
        answer.unwrap(),
        json!({"result": [{"n": 2}], "sql": "select count(*) as n from t", "risk": "low"})
    );
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen[..],
        [json!({"type": "opengauss", "host": "db", "port": 5432, "username": "me", "password": PASSWORD,
                "database": "d", "goal": "How many?", "table_list": ["t"]})]
    );
}

#[tokio::test]
async fn se_a17_a_service_that_fails_is_an_error_of_its_kind_without_the_password() {
    let echo = format!("no such table, tried with {PASSWORD}");
    for (answer, class) in [
        (json!({"code": 500, "result": {"sql": "", "execute_result": null}, "message": echo}), "SqlInvalid"),
        (json!({"code": 500, "result": {"sql": "select 1"}, "message": echo}), "SqlExecutionFailed"),
        (json!({"code": 200, "result": {"sql": "drop table t", "execute_result": []}}), "SqlNotReadOnly"),
        (json!("nothing"), "SqlInvalid"),
    ] {
        let (refused, _) = request(answer.clone()).await;
        let error = refused.unwrap_err();
        assert_eq!((error.error_type.as_str(), error.retryable), (class, false), "{answer}: {error}");
        assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    }
    let datasource = json!({"database_type": "mongodb", "host": "db", "username": "me", "database": "d",
                            "service_url": "http://127.0.0.1:1/"});
    let bench = Bench::new(datasource, CallsConfig::default());
    let (request, _) = bench.request(json!({"question": "q"})).await;
    let error = service::ask(&bench.calls, &request).await.unwrap_err();
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", true), "{error}");
}
