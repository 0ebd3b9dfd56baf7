//! Files in a bucket, against a server that speaks S3: s3s, which checks every signature, over a folder.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;

use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tidemill_common::config::FilesConfig;
use tidemill_common::files::{self, FilesError};
use tidemill_common::ids::{RunId, ShardId};
use tokio::net::TcpListener;

const ID: &str = "id";
const SECRET: &str = "hush";

/// Serves a folder until the test's runtime ends; a folder in it is a bucket.
async fn serve(root: &Path) -> String {
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    service.set_auth(SimpleAuth::from_single(ID, SECRET));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let serving = Builder::new(TokioExecutor::new());
                // A client that hangs up is no failure of the test.
                let _ = serving.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    endpoint
}

fn config(endpoint: &str, url: &str) -> FilesConfig {
    FilesConfig {
        url: url.into(),
        endpoint: endpoint.into(),
        region: "eu-central-1".into(),
        access_key_id: ID.into(),
        secret_access_key: SECRET.into(),
        path_style: true,
    }
}

fn run() -> RunId {
    RunId::generate(ShardId(1))
}

#[tokio::test]
async fn what_is_kept_in_a_bucket_can_be_read_within_a_bound() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bucket")).unwrap();
    let endpoint = serve(root.path()).await;
    for url in ["s3://bucket", "s3://bucket/a/prefix/"] {
        let files = files::open(&config(&endpoint, url)).unwrap();
        for bytes in [Bytes::new(), Bytes::from_static(b"12345"), vec![7; 3 << 20].into()] {
            let size = bytes.len() as u64;
            let reference = files.keep(&run(), bytes.clone()).await.unwrap();
            assert_eq!(files.read(&reference, size).await.unwrap(), bytes);
            if size > 0 {
                let read = files.read(&reference, size - 1).await;
                assert!(matches!(read, Err(FilesError::TooLarge { .. })), "{read:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_files_of_a_run_are_removed_in_pieces_and_those_of_others_stay() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bucket")).unwrap();
    let files = files::open(&config(&serve(root.path()).await, "s3://bucket/p")).unwrap();
    let (run, other) = (run(), run());
    let stays = files.keep(&other, Bytes::from_static(b"1")).await.unwrap();
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(files.keep(&run, Bytes::from_static(b"1")).await.unwrap());
    }
    for done in [false, true, true] {
        assert_eq!(files.remove(&run, 2).await.unwrap(), done);
    }
    for reference in &kept {
        assert!(matches!(files.read(reference, 1).await, Err(FilesError::Missing(_))));
    }
    assert_eq!(files.read(&stays, 1).await.unwrap(), "1");
}

#[tokio::test]
async fn what_the_service_refuses_is_told_with_what_to_look_at() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bucket")).unwrap();
    let endpoint = serve(root.path()).await;
    let thief = FilesConfig { secret_access_key: "guessed".into(), ..config(&endpoint, "s3://bucket") };
    let error = files::open(&thief).unwrap().keep(&run(), Bytes::from_static(b"1")).await.unwrap_err();
    assert!(matches!(error, FilesError::Service { .. }), "{error:?}");
    assert!(error.to_string().contains("may these credentials"), "{error}");
    let files = files::open(&config(&endpoint, "s3://bucket")).unwrap();
    for reference in ["secret", "runs/../x", &format!("runs/{}/{}", run(), "0".repeat(32))] {
        let read = files.read(reference, 1).await;
        assert!(matches!(read, Err(FilesError::Missing(_))), "{read:?}");
    }
}
