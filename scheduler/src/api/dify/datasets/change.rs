//! Changes records of datasets and documents. When another request changes the same record, the change is repeated on
//! what is stored then.

use axum::http::StatusCode;
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord};

use super::dataset;
use crate::api::ApiState;
use crate::api::error::ApiError;

/// The most tries when other requests change the same record.
const TRIES_MAX: usize = 20;

/// Changes a dataset, and returns it as it is then.
///
/// # Errors
/// That of `change`; 404 when the dataset is removed.
pub(super) async fn of_dataset(
    state: &ApiState,
    id: &str,
    change: impl Fn(&mut DatasetRecord) -> Result<(), ApiError>,
) -> Result<DatasetRecord, ApiError> {
    for _ in 0..TRIES_MAX {
        let before = dataset(state, id).await?;
        let mut after = before.clone();
        change(&mut after)?;
        if after == before {
            return Ok(before);
        }
        after.revision = before.revision + 1;
        after.notes.updated_at = state.store.time().await?.millis();
        if state.store.knowledge().replace_dataset(&after).await? {
            return Ok(after);
        }
    }
    Err(contended())
}

/// Changes the record of a searchable document; nothing happens when there is none.
///
/// # Errors
/// That of `change`.
pub(super) async fn of_document(
    state: &ApiState,
    dataset: &str,
    id: &str,
    change: impl Fn(&mut DocumentRecord) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for _ in 0..TRIES_MAX {
        let known = state.store.knowledge().documents(dataset).await?.documents;
        let Some(before) = known.into_iter().find(|it| it.id == id) else { return Ok(()) };
        let mut after = before.clone();
        change(&mut after)?;
        if after == before {
            return Ok(());
        }
        after.revision = before.revision + 1;
        if state.store.knowledge().replace_document(dataset, &after).await? {
            return Ok(());
        }
    }
    Err(contended())
}

fn contended() -> ApiError {
    let message = "other requests change the same record all the time; try again later";
    ApiError::new(StatusCode::CONFLICT, "conflict", message)
}
