//! TLS of a listener: its certificate and key, read from files. The files are looked at again from time to time, so a
//! renewed certificate is used without a restart; connections that are open keep the one that they began with. Files that
//! cannot be used never replace a certificate that works.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The protocol that is spoken over TLS. HTTP/2 is left to proxies.
const PROTOCOL: &[u8] = b"http/1.1";

/// The reason why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting} {path}: {reason}")]
pub struct TlsError {
    /// The setting that names the file.
    setting: &'static str,
    path: String,
    reason: String,
}

/// The files of a listener's certificate, and the settings that name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// A PEM file with the certificate, and those between it and the authority, in this order.
    pub certificate: (&'static str, String),
    /// A PEM file with its private key.
    pub key: (&'static str, String),
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn wrong(&self, file: &(&'static str, String), reason: impl Into<String>) -> TlsError {
        TlsError { setting: file.0, path: file.1.clone(), reason: reason.into() }
    }

    fn config(&self, contents: &Contents) -> Result<Arc<ServerConfig>, TlsError> {
        let of_certificate = |reason: String| self.wrong(&self.certificate, reason);
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&contents.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| of_certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(of_certificate("it holds no certificate; it must be a PEM file with one".into()));
        }
        // The library's own error would show a part of the file.
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|_| {
            self.wrong(&self.key, "it holds no private key that can be read; it must be a PEM file with one")
        })?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let mut config = config.map_err(|error| {
            of_certificate(format!("it cannot be used with {} {}: {error}", self.key.0, self.key.1))
        })?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }
}

fn read((setting, path): &(&'static str, String)) -> Result<Vec<u8>, TlsError> {
    let wrong = |error: std::io::Error| TlsError { setting, path: path.clone(), reason: error.to_string() };
    std::fs::read(Path::new(path)).map_err(wrong)
}

/// What was in the files.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The certificate of a listener.
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the certificate, and looks at its files again at this interval for as long as it is used.
    ///
    /// # Errors
    /// A file cannot be read or has other contents, or the key is not that of the certificate.
    pub fn start(files: TlsFiles, every: Duration) -> Result<Arc<Self>, TlsError> {
        let contents = files.read()?;
        let tls = Arc::new(Self { config: RwLock::new(files.config(&contents)?), files });
        let watched = Arc::downgrade(&tls);
        tokio::spawn(async move {
            let (mut known, mut last_error) = (contents, String::new());
            loop {
                tokio::time::sleep(every).await;
                let Some(tls) = watched.upgrade() else { return };
                let file = &tls.files.certificate.1;
                match tls.look_again(&mut known).await {
                    Ok(false) => last_error.clear(),
                    Ok(true) => {
                        last_error.clear();
                        tracing::info!(file, "the certificate was renewed");
                    }
                    Err(error) => {
                        let error = error.to_string();
                        if error != last_error {
                            tracing::error!(
                                error,
                                in_use = "the one before it",
                                "the renewed certificate cannot be used"
                            );
                            last_error = error;
                        }
                    }
                }
            }
        });
        Ok(tls)
    }

    /// Takes over what is in the files; returns whether that is something new.
    async fn look_again(&self, known: &mut Contents) -> Result<bool, TlsError> {
        // A file may be on a network that hangs.
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        let contents =
            read.map_err(|error| self.files.wrong(&self.files.certificate, error.to_string()))??;
        if contents == *known {
            return Ok(false);
        }
        let config = self.files.config(&contents)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        *known = contents;
        Ok(true)
    }

    /// The settings for a new connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
