//! Tests settings, errors and files of a bucket against [`Bucket`], which checks every signature.

use super::bucket::{Bucket, UNFINISHED};
use super::*;
use crate::files;
use futures_util::stream;
use tidemill_base::ids::ShardId;
use tidemill_base::limits::UPLOAD_PART_BYTES;

const ID: &str = "id";
const SECRET: &str = "hush";

fn config(set: impl FnOnce(&mut FilesConfig)) -> FilesConfig {
    let mut config = FilesConfig { url: "s3://b".into(), ..FilesConfig::default() };
    config.access_key_id = "id".into();
    config.secret_access_key = "hush".into();
    set(&mut config);
    config
}

#[test]
fn errors_in_the_settings_are_reported() {
    type Case = (&'static str, fn(&mut FilesConfig), &'static str);
    let cases: [Case; 5] = [
        ("", |_| {}, "name of a bucket"),
        ("user:pw@b", |_| {}, "name of a bucket"),
        ("b", |c| c.secret_access_key.clear(), "belong together"),
        ("b", |c| c.endpoint = "minio:9000".into(), "files.endpoint is not of the form"),
        ("b", |c| c.endpoint = "http://minio/bucket".into(), "files.endpoint is not of the form"),
    ];
    for (place, set, part) in cases {
        let error = S3::at(place, &config(set)).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hush"), "{place}: {error}");
    }
}

#[test]
fn the_bucket_stands_in_the_path_or_in_the_host() {
    for (path_style, address) in [(true, "http://minio:9000"), (false, "http://b.minio:9000")] {
        let config = config(|c| (c.endpoint, c.path_style) = ("http://minio:9000/".into(), path_style));
        assert_eq!(endpoint("b", &config).as_deref(), Ok(address));
    }
}

#[test]
fn errors_of_the_service_say_what_to_check() {
    let not_found = |code: &str| Error::NotFound { path: "b/x".into(), source: code.into() };
    assert!(is_about_the_bucket(&not_found("<Code>NoSuchBucket</Code>")));
    assert!(!is_about_the_bucket(&not_found("<Code>NoSuchKey</Code>")));
    let refused = Error::PermissionDenied { path: "b/x".into(), source: "403".into() };
    for (error, hint) in
        [(not_found("NoSuchBucket"), "is the bucket there"), (refused, "may these credentials")]
    {
        assert!(failed(error).to_string().contains(hint));
    }
}

#[test]
fn a_prefix_comes_before_the_reference_and_secrets_are_not_shown() {
    for (place, path) in [("b", "runs/x"), ("b/", "runs/x"), ("b/a/c/", "a/c/runs/x")] {
        let files = S3::at(place, &config(|_| {})).unwrap();
        assert_eq!(files.path("runs/x").as_ref(), path);
        assert!(!format!("{files:?}").contains("hush"));
    }
}

fn at(endpoint: &str, url: &str) -> FilesConfig {
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
async fn stored_bytes_can_be_read_within_a_limit() {
    let endpoint = Bucket::serve(ID, SECRET).await;
    for url in ["s3://bucket", "s3://bucket/a/prefix/"] {
        let files = files::open(&at(&endpoint, url)).unwrap();
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
    let files = files::open(&at(&Bucket::serve(ID, SECRET).await, "s3://bucket/p")).unwrap();
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
async fn uploads_are_kept_adopted_and_expire() {
    let endpoint = Bucket::serve(ID, SECRET).await;
    for url in ["s3://bucket", "s3://bucket/a/prefix/"] {
        let config = at(&endpoint, url);
        let uploads = files::open_uploads(&config).unwrap();
        files::uploads::tests::contract(&*uploads, &*files::open(&config).unwrap()).await;
        files::uploads::tests::failures(&*uploads).await;
    }
}

/// The number of objects whose parts wait in the bucket.
async fn unfinished(bucket: &S3) -> Bytes {
    bucket.get(UNFINISHED, 99).await.unwrap()
}

#[tokio::test]
async fn a_large_upload_comes_in_parts_and_a_failed_one_leaves_none() {
    let config = at(&Bucket::serve(ID, SECRET).await, "s3://bucket");
    let bucket = S3::at("bucket", &config).unwrap();
    let piece = Bytes::from(vec![7; UPLOAD_PART_BYTES / 2 + 1]);
    let come = |pieces: usize| {
        let piece = piece.clone();
        stream::iter((0..pieces).map(move |_| Ok(piece.clone())))
    };
    let size = 5 * piece.len() as u64;
    let id = UploadId::generate();
    assert_eq!(bucket.receive(id, come(5).boxed(), size).await.unwrap(), size);
    assert_eq!(bucket.content(Place::Upload(id)).await.unwrap().size, size);
    assert_eq!(unfinished(&bucket).await, "0");

    let refused = bucket.receive(UploadId::generate(), come(5).boxed(), size - 1).await;
    assert!(matches!(refused, Err(FilesError::UploadTooLarge { .. })), "{refused:?}");
    assert_eq!(unfinished(&bucket).await, "0");
    let breaks = come(3).chain(stream::iter([Err("gone".into())]));
    let broken = bucket.receive(UploadId::generate(), breaks.boxed(), size).await;
    assert!(matches!(broken, Err(FilesError::Broken(_))), "{broken:?}");
    assert_eq!(unfinished(&bucket).await, "0");

    // A client that is gone: its future is dropped between two pieces.
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let sends_no_more = stream::once(async move {
        let _ = began.send(());
        std::future::pending().await
    });
    let pieces = come(3).chain(sends_no_more).boxed();
    tokio::select! {
        biased;
        _ = bucket.receive(UploadId::generate(), pieces, size) => panic!("it is not complete"),
        _ = has_begun => {}
    }
    let mut left = unfinished(&bucket).await;
    for _ in 0..100 {
        if left == "0" {
            break;
        }
        left = unfinished(&bucket).await;
    }
    assert_eq!(left, "0");
}

#[tokio::test]
async fn refusals_of_the_service_say_what_to_check() {
    let endpoint = Bucket::serve(ID, SECRET).await;
    let thief = FilesConfig { secret_access_key: "guessed".into(), ..at(&endpoint, "s3://bucket") };
    let error = files::open(&thief).unwrap().keep(&run(), Bytes::from_static(b"1")).await.unwrap_err();
    assert!(matches!(error, FilesError::Service { .. }), "{error:?}");
    assert!(error.to_string().contains("may these credentials"), "{error}");
    let files = files::open(&at(&endpoint, "s3://bucket")).unwrap();
    for reference in ["secret", "runs/../x", &format!("runs/{}/{}", run(), "0".repeat(32))] {
        let read = files.read(reference, 1).await;
        assert!(matches!(read, Err(FilesError::Missing(_))), "{read:?}");
    }
}
