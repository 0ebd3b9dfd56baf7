use std::time::Duration;

use super::fixtures::Server;
use crate::shards::liveness::SILENCE_MAX;
use crate::stopping::Stage;

#[tokio::test]
async fn health_and_metrics_need_no_key() {
    let server = Server::start();
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(server.get("", path).await.status, 200, "{path}");
    }
    server.get("", "/nowhere").await;
    assert!(server.get("", "/metrics").await.text.contains("tidemill_api_requests_total"));
}

#[tokio::test]
async fn a_hanging_loop_fails_livez_and_a_stopping_process_fails_readyz() {
    let server = Server::start();
    server.state.liveness.beat();
    tokio::time::pause();
    tokio::time::advance(SILENCE_MAX + Duration::from_millis(1)).await;
    assert_eq!(server.get("", "/livez").await.status, 503);
    server.state.liveness.beat();
    assert_eq!(server.get("", "/livez").await.status, 200);
    server.shutdown.send(Stage::Leaving).unwrap();
    let refused = server.get("", "/readyz").await;
    assert_eq!((refused.status.as_u16(), &refused.headers["connection"]), (503, &"close".parse().unwrap()));
}
