//! From JSON to a provider or a profile.

use super::{ProfileConfig, ProviderConfig};
use crate::registry::reading::{camel_case, read};
use tidemill_base::value::JsonMap;

/// Reads a provider.
///
/// # Errors
/// The invalid part.
pub fn provider_of(object: JsonMap) -> Result<ProviderConfig, String> {
    read(object)
}

/// Reads a profile. Its fields may also be written with underscores.
///
/// # Errors
/// The invalid part.
pub fn profile_of(object: JsonMap) -> Result<ProfileConfig, String> {
    read(camel_case(object))
}
