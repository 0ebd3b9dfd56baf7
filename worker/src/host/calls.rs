//! Registers the Calls of a host in the catalog, when its worker starts, so that nodes can name them and schedulers show
//! them like all other Calls.

use tidemill_common::dsl::SealingKey;
use tidemill_common::limits::CATALOG_ENTRIES_MAX;
use tidemill_common::registry::{DraftError, draft};
use tidemill_common::store::{CatalogKind, EntryPut, Expected, Jobs, PutEntry, StoreError};
use tidemill_common::value::JsonMap;

/// Most tries to write an entry that other workers write at the same time.
const TRIES_MAX: usize = 10;

/// The reason why a Call cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum HostedCallError {
    /// The manifest does not meet the standard, or the id is taken by a built-in Call.
    #[error(transparent)]
    Manifest(#[from] DraftError),
    /// The catalog has another Call of this id.
    #[error(
        "the Call {0} is registered with another transport: remove it (`tidemill calls rm {0}`), or choose another id"
    )]
    Taken(String),
    /// The catalog is full.
    #[error(
        "the Call {0} cannot be registered: the catalog has {CATALOG_ENTRIES_MAX} Calls, which is the most; remove one (`tidemill calls rm`)"
    )]
    Full(String),
    /// Other workers change the entry all the time.
    #[error(
        "the Call {0} cannot be registered: other workers change it all the time; start this worker again"
    )]
    Changing(String),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Registers the Calls whose entry is absent or differs.
pub(crate) async fn register(
    jobs: &dyn Jobs,
    manifests: &[(String, JsonMap)],
    key: Option<&SealingKey>,
) -> Result<(), HostedCallError> {
    for (id, manifest) in manifests {
        put(jobs, id, manifest, key).await?;
    }
    Ok(())
}

async fn put(
    jobs: &dyn Jobs,
    id: &str,
    manifest: &JsonMap,
    key: Option<&SealingKey>,
) -> Result<(), HostedCallError> {
    let kind = CatalogKind::Call;
    for _ in 0..TRIES_MAX {
        let catalog = jobs.load_catalog().await?;
        let earlier = catalog.find(kind, id);
        let draft = draft(kind, id, manifest.clone(), (earlier, &catalog), key)?;
        let transport =
            |fields: &std::collections::BTreeMap<String, String>| fields.get("transport").cloned();
        if let Some(earlier) = earlier {
            if transport(&earlier.fields) != transport(&draft.fields) {
                return Err(HostedCallError::Taken(id.to_owned()));
            }
            if earlier.fields == draft.fields {
                return Ok(());
            }
        }
        let expected = earlier.map_or(Expected::Absent, |entry| Expected::Version(entry.version));
        let put = PutEntry { kind, id, fields: &draft.fields, expected, make_default: false };
        match jobs.put_call(put).await? {
            EntryPut::Stored(version) => {
                tracing::info!(call = id, version, "a Call of this program is registered");
                return Ok(());
            }
            EntryPut::Differs => {}
            EntryPut::Full => return Err(HostedCallError::Full(id.to_owned())),
        }
    }
    Err(HostedCallError::Changing(id.to_owned()))
}
