//! An authority of the tests, and certificates that it has signed: one for servers and one for clients.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

/// Certificates and keys in files.
pub struct Certificates {
    folder: TempDir,
    authority: Box<CertifiedIssuer<'static, KeyPair>>,
}

impl Certificates {
    /// Makes an authority, and certificates for the loopback interface and for clients.
    ///
    /// # Panics
    /// When they cannot be made or written.
    pub fn make() -> Self {
        let folder = tempfile::Builder::new().prefix("tidemill-certificates-").tempdir();
        let folder = folder.expect("there is room for a temporary folder");
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of the tests");
        let authority = CertifiedIssuer::self_signed(params, key()).expect("a certificate");
        let made = Self { folder, authority: Box::new(authority) };
        made.write("ca.pem", made.authority.as_ref().pem());
        made.renew();
        made
    }

    /// Replaces the certificates of server and client by new ones with new keys.
    ///
    /// # Panics
    /// When they cannot be made or written.
    pub fn renew(&self) {
        for (name, host) in [("server", "127.0.0.1"), ("client", "client.tidemill.example")] {
            let own = key();
            let mut params = CertificateParams::new([host.to_string()]).expect("parameters");
            params.distinguished_name.push(DnType::CommonName, name);
            let made = params.signed_by(&own, &self.authority).expect("a certificate");
            self.write(&format!("{name}.pem"), made.pem());
            self.write(&format!("{name}.key"), own.serialize_pem());
        }
    }

    /// Writes a file.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: String) {
        std::fs::write(self.folder.path().join(name), text).expect("it can be written");
    }

    /// A file: `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Arguments of a server that speaks TLS at this port and wants a certificate of its clients.
    pub fn arguments(&self, port: u16) -> Vec<String> {
        let pairs = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", self.file("server.pem")),
            ("--tls-key-file", self.file("server.key")),
            ("--tls-ca-cert-file", self.file("ca.pem")),
            ("--tls-auth-clients", "yes".into()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect()
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("folder", &self.folder).finish_non_exhaustive()
    }
}
