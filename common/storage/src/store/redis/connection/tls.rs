//! TLS: the certificates that are trusted, those of a file or of the public authorities, and the certificate that this
//! process shows to servers that ask for one. The client library and lines get the same.

use std::sync::{Arc, OnceLock};

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::store::StoreError;
use crate::store::redis::connection::config::RedisConfig;

/// What TLS connections trust and show.
pub(in crate::store::redis) struct Tls {
    /// The trusted certificates as in the file; `None` for the public authorities.
    trusted: Option<Vec<u8>>,
    roots: RootCertStore,
    own: Option<Own>,
    /// For lines, made with the first one.
    lines: OnceLock<Arc<ClientConfig>>,
}

/// The own certificate and its key: as in the files, and as read.
struct Own {
    files: ClientTlsConfig,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Tls {
    /// Reads the files of the settings.
    ///
    /// # Errors
    /// A file cannot be read or has other contents, or the key is not that of the certificate.
    pub(in crate::store::redis) fn of(config: &RedisConfig) -> Result<Self, StoreError> {
        let (trusted, roots) = trusted(&config.ca_file)?;
        let own = own(&config.certificate_file, &config.key_file)?;
        let tls = Self { trusted, roots, own, lines: OnceLock::new() };
        if tls.own.is_some() {
            let (certificate, key) = (&config.certificate_file, &config.key_file);
            tls.lines().map_err(|error| {
                StoreError::Unusable(format!(
                    "redis.certificate_file {certificate} and redis.key_file {key} cannot be used: {error}"
                ))
            })?;
        }
        Ok(tls)
    }

    /// For the client library; `None` when its defaults are right.
    pub(in crate::store::redis) fn library(&self) -> Option<TlsCertificates> {
        let client_tls = self.own.as_ref().map(|own| own.files.clone());
        let root_cert = self.trusted.clone();
        (client_tls.is_some() || root_cert.is_some()).then_some(TlsCertificates { client_tls, root_cert })
    }

    /// For lines.
    ///
    /// # Errors
    /// The key is not that of the certificate.
    pub(in crate::store::redis) fn lines(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        if let Some(made) = self.lines.get() {
            return Ok(made.clone());
        }
        let config = ClientConfig::builder().with_root_certificates(self.roots.clone());
        let config = match &self.own {
            Some(own) => config.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
            None => config.with_no_client_auth(),
        };
        Ok(self.lines.get_or_init(|| Arc::new(config)).clone())
    }
}

/// The trusted certificates, as in the file and as read; an empty path means the public authorities.
fn trusted(ca_file: &str) -> Result<(Option<Vec<u8>>, RootCertStore), StoreError> {
    if ca_file.is_empty() {
        return Ok((None, RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }));
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
    Ok((Some(pem), store))
}

/// The own certificate; `None` when the settings name none.
fn own(certificate_file: &str, key_file: &str) -> Result<Option<Own>, StoreError> {
    let unusable = |setting: &str, path: &str, reason: String| {
        StoreError::Unusable(format!(
            "redis.{setting} {path}: {reason}; redis.certificate_file and redis.key_file must be PEM files with the \
             certificate that this process shows to Redis, and its private key"
        ))
    };
    match (certificate_file, key_file) {
        ("", "") => return Ok(None),
        (path, "") => {
            return Err(unusable("certificate_file", path, "redis.key_file is not set as well".into()));
        }
        ("", path) => {
            return Err(unusable("key_file", path, "redis.certificate_file is not set as well".into()));
        }
        _ => {}
    }
    let of_certificate = |reason: String| unusable("certificate_file", certificate_file, reason);
    let of_key = |reason: String| unusable("key_file", key_file, reason);
    let client_cert = std::fs::read(certificate_file).map_err(|error| of_certificate(error.to_string()))?;
    let client_key = std::fs::read(key_file).map_err(|error| of_key(error.to_string()))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&client_cert)
        .collect::<Result<_, _>>()
        .map_err(|error| of_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(of_certificate("it holds no certificate".into()));
    }
    // The library's own error would show a part of the file.
    let key = PrivateKeyDer::from_pem_slice(&client_key)
        .map_err(|_| of_key("it holds no private key that can be read".into()))?;
    Ok(Some(Own { files: ClientTlsConfig { client_cert, client_key }, chain, key }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ca: &str, certificate: &str, key: &str) -> String {
        let (ca_file, certificate_file, key_file) = (ca.into(), certificate.into(), key.into());
        let config = RedisConfig { ca_file, certificate_file, key_file, ..RedisConfig::default() };
        Tls::of(&config).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_file_that_cannot_serve_is_named() {
        let other = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(said("/nowhere/ca.pem", "", "").starts_with("redis.ca_file /nowhere/ca.pem: "));
        assert!(said(other, "", "").contains("it holds no certificate"));
        assert!(said("", "/nowhere/c.pem", other).starts_with("redis.certificate_file /nowhere/c.pem: "));
        assert!(said("", other, other).contains("it holds no certificate"));
        assert!(said("", other, "").contains("redis.key_file is not set"));
        assert!(said("", "", other).contains("redis.certificate_file is not set"));
        assert_eq!(said("", "", ""), "");
        let none = Tls::of(&RedisConfig::default()).unwrap();
        assert!(!none.roots.is_empty() && none.library().is_none());
    }
}
