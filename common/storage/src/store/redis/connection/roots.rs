//! The certificates that are trusted for TLS: those of a file, or those of the public authorities.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::store::redis::StoreError;

/// The trusted certificates.
pub(in crate::store::redis) struct Roots {
    /// The file's content, for the client library; `None` for the public authorities.
    pub(in crate::store::redis) pem: Option<Vec<u8>>,
    /// The same certificates, for lines.
    pub(in crate::store::redis) store: RootCertStore,
}

impl Roots {
    /// Reads `ca_file`; an empty path means the public authorities.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate.
    pub(in crate::store::redis) fn of(ca_file: &str) -> Result<Self, StoreError> {
        if ca_file.is_empty() {
            let store = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            return Ok(Self { pem: None, store });
        }
        let unusable = |reason: String| {
            StoreError::Unusable(format!(
                "redis.ca_file {ca_file}: {reason}; it must be a PEM file with the certificates trusted for rediss://"
            ))
        };
        let pem = std::fs::read(ca_file).map_err(|error| unusable(error.to_string()))?;
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            store.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if store.is_empty() {
            return Err(unusable("it holds no certificate".into()));
        }
        Ok(Self { pem: Some(pem), store })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_serve_is_named() {
        let said = |path: &str| Roots::of(path).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said("/nowhere/ca.pem").starts_with("redis.ca_file /nowhere/ca.pem: "));
        assert!(said(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).contains("it holds no certificate"));
        assert!(!Roots::of("").unwrap().store.is_empty());
    }
}
