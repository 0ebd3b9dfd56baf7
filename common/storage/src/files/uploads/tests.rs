//! The contract of a storage for uploads. The tests of each storage run it.

use futures_util::StreamExt;
use futures_util::stream;

use super::*;
use crate::files::Files;
use tidemill_base::ids::ShardId;

fn pieces(pieces: &[&'static str]) -> Pieces<'static> {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))).collect();
    stream::iter(pieces).boxed()
}

fn record(id: UploadId) -> Upload {
    Upload {
        id,
        app: Some("a".into()),
        user: "u".into(),
        name: "n.txt".into(),
        extension: ".txt".into(),
        mime_type: "text/plain".into(),
        size: 5,
        created_at: 7,
    }
}

/// An id whose day is the first of all.
fn old_id() -> UploadId {
    UploadId(uuid::Builder::from_unix_timestamp_millis(1000, &[7; 10]).into_uuid())
}

async fn content(uploads: &dyn Uploads, place: Place<'_>) -> Result<(u64, Vec<u8>), FilesError> {
    let content = uploads.content(place).await?;
    let pieces: Vec<Bytes> = content.pieces.map(Result::unwrap).collect().await;
    Ok((content.size, pieces.concat()))
}

pub(in crate::files) async fn contract(uploads: &dyn Uploads, files: &dyn Files) {
    let run = RunId::generate(ShardId(1));
    let id = UploadId::generate();
    assert!(matches!(uploads.find(id).await, Err(FilesError::Missing(_))));
    assert_eq!(uploads.receive(id, pieces(&["123", "", "45"]), 5).await.unwrap(), 5);
    // Only the record makes it an upload.
    assert!(matches!(uploads.find(id).await, Err(FilesError::Missing(_))));
    uploads.record(&record(id)).await.unwrap();
    assert_eq!(uploads.find(id).await.unwrap(), record(id));

    assert_eq!(content(uploads, Place::Upload(id)).await.unwrap(), (5, b"12345".to_vec()));

    let reference = uploads.adopt(id, &run).await.unwrap();
    assert_eq!(content(uploads, Place::OfRun(&reference)).await.unwrap(), (5, b"12345".to_vec()));
    let path = id.path().unwrap();
    let nothing = [Place::OfRun("../x"), Place::OfRun(&path), Place::Upload(UploadId::generate())];
    for place in nothing {
        assert!(matches!(content(uploads, place).await, Err(FilesError::Missing(_))), "{place}");
    }
    let twice = uploads.adopt(id, &run).await.unwrap();
    assert_ne!(reference, twice);
    assert_eq!(files.read(&reference, 5).await.unwrap(), "12345");
    uploads.discard(&twice).await.unwrap();
    uploads.discard(&twice).await.unwrap();
    assert!(matches!(files.read(&twice, 5).await, Err(FilesError::Missing(_))));
    // Nothing but a run's file can be read as one.
    assert!(matches!(files.read(&id.path().unwrap(), 5).await, Err(FilesError::Missing(_))));
    let other = UploadId::generate();
    assert!(matches!(uploads.adopt(other, &run).await, Err(FilesError::Missing(_))));
    assert!(matches!(uploads.find(UploadId(Uuid::new_v4())).await, Err(FilesError::Missing(_))));

    let forgotten = UploadId::generate();
    uploads.receive(forgotten, pieces(&["1"]), 1).await.unwrap();
    uploads.record(&record(forgotten)).await.unwrap();
    for _ in 0..2 {
        uploads.forget(forgotten).await.unwrap();
    }
    assert!(matches!(uploads.find(forgotten).await, Err(FilesError::Missing(_))));
    assert!(matches!(content(uploads, Place::Upload(forgotten)).await, Err(FilesError::Missing(_))));

    looks(uploads).await;
    expiry(uploads).await;
    // What the run has adopted stays without the upload.
    while !uploads.expire("9999-01-01", 2).await.unwrap() {}
    assert!(matches!(uploads.find(id).await, Err(FilesError::Missing(_))));
    assert_eq!(files.read(&reference, 5).await.unwrap(), "12345");
    assert!(files.remove(&run, 9).await.unwrap());
    assert!(matches!(files.read(&reference, 5).await, Err(FilesError::Missing(_))));
}

/// All uploads are found once, those of a later day without those before, and also while some are removed.
async fn looks(uploads: &dyn Uploads) {
    let (old, today) = (old_id(), UploadId::generate().day().unwrap());
    let mut young: Vec<UploadId> = (0..20).map(|_| UploadId::generate()).collect();
    for id in young.iter().chain([&old]) {
        uploads.receive(*id, pieces(&["1"]), 1).await.unwrap();
        uploads.record(&record(*id)).await.unwrap();
    }
    let ids = async |from_day: &str| -> Vec<UploadId> {
        let found = uploads.each(from_day).map(|upload| upload.unwrap().id);
        found.filter(|id| std::future::ready(*id == old || young.contains(id))).collect().await
    };
    let all = ids("").await;
    assert_eq!((all.len(), all[0]), (21, old));
    let mut later = ids(&today).await;
    later.sort_unstable();
    assert_eq!(later, young);
    assert!(ids("9999-01-01").await.is_empty());
    let mut each = uploads.each(&today);
    while let Some(upload) = each.next().await {
        let id = upload.unwrap().id;
        if let Some(at) = young.iter().position(|known| *known == id) {
            uploads.forget(id).await.unwrap();
            young.swap_remove(at);
        }
    }
    assert!(young.is_empty(), "{young:?} were not found");
    uploads.forget(old).await.unwrap();
}

async fn expiry(uploads: &dyn Uploads) {
    let (old, young) = (old_id(), UploadId::generate());
    for id in [old, young] {
        uploads.receive(id, pieces(&["1"]), 1).await.unwrap();
        uploads.record(&record(id)).await.unwrap();
    }
    for done in [false, true, true] {
        assert_eq!(uploads.expire("1970-01-02", 1).await.unwrap(), done);
    }
    assert!(matches!(uploads.find(old).await, Err(FilesError::Missing(_))));
    assert_eq!(uploads.find(young).await.unwrap(), record(young));
}

pub(in crate::files) async fn failures(uploads: &dyn Uploads) {
    let id = UploadId::generate();
    let large = uploads.receive(id, pieces(&["123", "456"]), 5).await;
    assert!(matches!(large, Err(FilesError::UploadTooLarge { max: 5 })), "{large:?}");
    let torn = stream::iter([Ok(Bytes::from_static(b"1")), Err("gone".into())]).boxed();
    let torn = uploads.receive(id, torn, 5).await;
    assert!(matches!(torn, Err(FilesError::Broken(_))), "{torn:?}");
    // Nothing is left that a run could adopt.
    let adopted = uploads.adopt(id, &RunId::generate(ShardId(1))).await;
    assert!(matches!(adopted, Err(FilesError::Missing(_))), "{adopted:?}");
}

#[test]
fn days_are_in_the_ids_and_compare_as_texts() {
    assert!(
        old_id().path().unwrap().starts_with("uploads/1970-01-01/0000000003e87"),
        "{:?}",
        old_id().path()
    );
    assert!(UploadId(Uuid::new_v4()).path().is_err());
    assert_eq!(day_of(1_735_689_600).as_deref(), Some("2025-01-01"));
    assert!(day_of(1_735_689_599) < day_of(1_735_689_600));
    assert_eq!(day_in("uploads/2025-01-01/x"), Some("2025-01-01"));
    assert_eq!(day_in("runs/x"), None);
}
